package value_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"lazaret.dev/lazaret/host/internal/config/internal/value"
)

func refused(t *testing.T, err error, says string) {
	t.Helper()
	var e *value.Error
	if !errors.As(err, &e) || !strings.Contains(e.Msg+"\n"+e.Fix, says) {
		t.Errorf("error %v, want one that says %q", err, says)
	}
}

func TestPath(t *testing.T) {
	x := value.Expander{Home: "/home/u", Tokens: map[string]string{
		"profile_name": "claude", "profile_dir": "/d/profiles/claude", "workspace_dir": "/w/{profile_name}",
	}}
	for in, want := range map[string]string{
		"~":                       "/home/u",
		"~/x/":                    "/home/u/x",
		"/a/~":                    "/a/~",
		"/a//b/.":                 "/a/b",
		"{profile_dir}/x":         "/d/profiles/claude/x",
		"/x/{profile_name}-y":     "/x/claude-y",
		"{workspace_dir}/x":       "/w/{profile_name}/x", // what a placeholder stands for is not expanded again
		"~/{profile_name}":        "/home/u/claude",
		"/a..b/...":               "/a..b/...",
		"/lonely{brace":           "/lonely{brace",
		"/with space/ünïcode:,\\": "/with space/ünïcode:,\\",
	} {
		if got, err := x.Path(in); err != nil || got != want {
			t.Errorf("%q: got %q, %v; want %q", in, got, err, want)
		}
	}
	for in, says := range map[string]string{
		"":                 "absolute",
		"x":                "absolute",
		"~other/x":         "your own home",
		"/a/../b":          `".."`,
		"..":               `".."`,
		"~/..":             `".."`,
		"{profile_dir}/..": `".."`,
		"/a/{nope}":        "{nope}",
		"/a/{}":            "{}",
		"/a\x00":           "NUL",
	} {
		_, err := x.Path(in)
		refused(t, err, says)
	}
	_, err := value.Expander{Home: "/h"}.Path("/a/{profile_name}")
	refused(t, err, "only ~")
}

func TestTarget(t *testing.T) {
	x := value.Expander{Home: "/home/u", Tokens: map[string]string{"profile_name": "claude"}}
	for in, want := range map[string]string{"/var": "/var", "/root/.{profile_name}/": "/root/.claude", "/tmp": "/tmp", "/workspaces": "/workspaces", "/run/user": "/run/user", "/var/lib": "/var/lib"} {
		if got, err := x.Target(in); err != nil || got != want {
			t.Errorf("%q: got %q, %v", in, got, err)
		}
	}
	for in, says := range map[string]string{
		"/": "not possible", "//": "not possible", "/.": "not possible", "usr": "absolute", "~/x": "absolute", "": "absolute", "/a/../b": `".."`,
		"/workspace": "/workspace", "/workspace/x": "/workspace", "/run": "/run/lazaret", "/run/lazaret": "/run/lazaret", "/run/lazaret/x": "/run/lazaret",
		"/proc": "/proc", "/proc/x": "/proc", "/sys/x": "/sys", "/dev": "/dev", "/dev/shm": "/dev", "/var/run/lazaret": "/run/lazaret", "/var/run": "/run/lazaret",
	} {
		_, err := x.Target(in)
		refused(t, err, says)
	}
	for path, want := range map[string]string{"/etc": "/etc/resolv.conf", "/etc/hosts": "/etc/hosts", "/usr/local": "/usr/local/bin/escalate", "/etc/ssl": "", "/usr/lib": ""} {
		if got := value.Hidden(path); got != want {
			t.Errorf("Hidden(%q) = %q, want %q", path, got, want)
		}
	}
}

func TestSize(t *testing.T) {
	for in, want := range map[string]int64{
		"1": 1, "512": 512, "5B": 5, "100KiB": 100 << 10, "1 MiB": 1 << 20, "20GiB": 20 << 30, "3TiB": 3 << 40, "1kB": 1000, "1KB": 1000, "2MB": 2e6, "2GB": 2e9, "1TB": 1e12,
	} {
		if got, err := value.Size(in); err != nil || got != want {
			t.Errorf("%q: got %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "0", "0KiB", "-1", "+1", "1.5GiB", "GiB", "1gib", "1XB", "1 0", "8388608TiB", "99999999999999999999", "0x10", "1_000", "٣"} {
		_, err := value.Size(in)
		refused(t, err, "not a size")
	}
}

func TestDuration(t *testing.T) {
	if got, err := value.Duration("1h30m"); err != nil || got != 90*time.Minute {
		t.Errorf("%v, %v", got, err)
	}
	for _, in := range []string{"", "5", "0s", "-1m", "5 m", "1d", "forever"} {
		_, err := value.Duration(in)
		refused(t, err, "not a time span")
	}
}

func TestPrefix(t *testing.T) {
	for _, in := range []string{"10.0.0.0/8", "10.1.1.1/32", "0.0.0.0/1", "128.0.0.0/1"} {
		if got, err := value.Prefix(in); err != nil || got.String() != in {
			t.Errorf("%q: got %v, %v", in, got, err)
		}
	}
	for in, says := range map[string]string{
		"10.0.0.1/8":          `write "10.0.0.0/8"`,
		"10.1.1.1":            `write "10.1.1.1/32"`,
		"fd00::/8":            "IPv6",
		"::1":                 "IPv6",
		"::ffff:10.0.0.0/104": "IPv6",
		"10.0.0.0/33":         "not an IPv4 prefix",
		"example.com":         "not an IPv4 prefix",
		"":                    "not an IPv4 prefix",
		"010.0.0.0/8":         "not an IPv4 prefix",
		"0.0.0.0/0":           "0.0.0.0/1",
	} {
		_, err := value.Prefix(in)
		refused(t, err, says)
	}
}
