package config_test

import (
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lazaret.dev/lazaret/host/internal/config"
	"lazaret.dev/lazaret/host/internal/paths"
)

// world is a host of its own: a home with a project, below a temporary directory.
type world struct {
	t    *testing.T
	base string // canonical
	host paths.Host
}

func newWorld(t *testing.T) *world {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"HOME": base + "/home", "XDG_RUNTIME_DIR": base + "/run"}
	w := &world{t: t, base: base, host: paths.Host{Getenv: func(k string) string { return env[k] }, UID: os.Getuid(), TempDir: base + "/tmp"}}
	for _, d := range []string{"home/proj/sub", "home/.config/lazaret", "home/.ssh", "run", "tmp", "cache"} {
		w.mkdir(d)
	}
	return w
}

func (w *world) mkdir(rel string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Join(w.base, rel), 0o700); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) link(to, at string) {
	w.t.Helper()
	if err := os.Symlink(filepath.Join(w.base, to), filepath.Join(w.base, at)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) proj() string { return w.base + "/home/proj" }

// write puts the configuration into its default place; {BASE} is the world's.
func (w *world) write(text string) string {
	w.t.Helper()
	file := w.base + "/home/.config/lazaret/config.toml"
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "{BASE}", w.base)), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return file
}

func (w *world) load(text string) (*config.Config, error) {
	w.t.Helper()
	w.write(text)
	return config.Load(config.Options{Host: w.host, Image: "oci:/p/image:base"})
}

func (w *world) resolve(text string) (*config.Domain, error) {
	w.t.Helper()
	c, err := w.load(text)
	if err != nil {
		return nil, err
	}
	return c.Resolve("claude", w.proj())
}

func TestBuiltIn(t *testing.T) {
	w := newWorld(t)
	c, err := config.Load(config.Options{Host: w.host})
	if err != nil {
		t.Fatal(err)
	}
	name, err := c.Select("")
	if err != nil || name != "shell" || !c.BuiltIn() || c.Path() != "" {
		t.Fatalf("%q, %v", name, err)
	}
	d, err := c.Resolve(name, w.proj())
	if err != nil {
		t.Fatal(err)
	}
	ref, err := paths.Identify(w.proj())
	if err != nil {
		t.Fatal(err)
	}
	id := paths.DomainID("shell", w.proj())
	data := w.base + "/home/.local/share/lazaret"
	want := &config.Domain{
		ID: id, Profile: "shell", Workspace: ref, DataRoot: data, ProfileDir: data + "/profiles/shell", DomainDir: data + "/domains/" + id,
		Image: "docker.io/library/debian:trixie", Command: []string{"bash", "-l"},
		IsolateGitignored: true, HostCA: true, Report: true, User: config.UserRoot, Watch: config.WatchBridge,
		PersistentDirs: []string{"/etc", "/home", "/opt", "/root", "/usr", "/var"},
		ClipboardBytes: 100 << 10, WarnBytes: 10 << 30,
		Network: config.Network{
			DefaultAllow: []netip.Prefix{}, AllowEgress: []netip.Prefix{}, DenyEgress: []netip.Prefix{},
			DefaultDeny: []netip.Prefix{pfx("10.0.0.0/8"), pfx("100.64.0.0/10"), pfx("169.254.0.0/16"), pfx("172.16.0.0/12"), pfx("192.168.0.0/16")},
		},
		Escalation: config.Escalation{Enabled: true, Timeout: 5 * time.Minute, RunTimeout: 30 * time.Minute, MaxOutput: 1 << 20},
		Desktop:    config.Desktop{Approve: config.DesktopShort},
		Images:     config.Images{KeepDays: 30, MaxBytes: 20 << 30},
	}
	if diff := cmp.Diff(want, d, cmpopts.EquateEmpty(), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
}

func pfx(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func TestResolveAll(t *testing.T) {
	w := newWorld(t)
	w.link("home/proj", "link")
	c, err := w.load(`
default_profile = "claude"
[[escalation.auto_approve]]
command = ["notify-send", "done"]
[[escalation.auto_approve]]
command = ["make", "deploy"]
dangerous = true
allow_extra_args = true
[[escalation.deny]]
command = ["sudo"]
reason = "ask me in chat instead"
[desktop]
approve = "never"
[profiles.claude]
image = "oci:~/img"
command = ["claude"]
setup = ["npm i -g x"]
expose = [".env", "./a//b", ".env"]
persistent_dirs = ["/var/", "/root"]
allow_egress = ["10.222.0.0/16", "10.1.1.1/32", "10.1.1.1/32"]
env = { MyVar = "env:Secret", "a.b" = "1" }
volumes = [
  { host = "{profile_dir}/claude", container = "/root/.claude" },
  { host = "{domain_dir}/x", container = "/x/{profile_name}", mode = "rw" },
  { host = "{BASE}/cache", container = "/cache", mode = "ro" },
  { host = "{workspace_dir}/sub", container = "/sub", mode = "ro" },
]
user = "developer"
watch = "poll"
[profiles.other]
`)
	if err != nil {
		t.Fatal(err)
	}
	name, err := c.Select("")
	if err != nil || name != "claude" {
		t.Fatalf("%q, %v", name, err)
	}
	d, err := c.Resolve(name, w.base+"/link")
	if err != nil {
		t.Fatal(err)
	}
	want := *d
	want.Workspace.Path = w.proj()
	want.Image = "oci:" + w.base + "/home/img"
	want.Command, want.Setup, want.Expose = []string{"claude"}, []string{"npm i -g x"}, []string{".env", "a/b"}
	want.PersistentDirs = []string{"/root", "/var"}
	want.Network.AllowEgress = []netip.Prefix{pfx("10.1.1.1/32"), pfx("10.222.0.0/16")}
	want.Env = map[string]string{"MyVar": "env:Secret", "a.b": "1"}
	want.Volumes = []config.Volume{
		{Host: d.ProfileDir + "/claude", Target: "/root/.claude", Mode: config.VolumeRW, Owned: true},
		{Host: d.DomainDir + "/x", Target: "/x/claude", Mode: config.VolumeRW, Owned: true},
		{Host: w.base + "/cache", Target: "/cache", Mode: config.VolumeRO},
		{Host: w.proj() + "/sub", Target: "/sub", Mode: config.VolumeRO},
	}
	want.User, want.Watch, want.Desktop.Approve = config.UserDeveloper, config.WatchPoll, config.DesktopNever
	want.Escalation.AutoApprove = []config.ApproveRule{{Command: []string{"notify-send", "done"}}, {Command: []string{"make", "deploy"}, AllowExtraArgs: true, Dangerous: true}}
	want.Escalation.Deny = []config.DenyRule{{Command: []string{"sudo"}, Reason: "ask me in chat instead"}}
	same := cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
	if diff := cmp.Diff(&want, d, same); diff != "" {
		t.Error(diff)
	}
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var back config.Domain
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, &back, same); diff != "" || back.Fingerprint() != d.Fingerprint() {
		t.Errorf("after JSON: %s", diff)
	}
	for _, bad := range []string{`{"user":"nobody"}`, `{"watch":""}`, `{"volumes":[{"mode":"z"}]}`, `{"desktop":{"approve":"yes"}}`} {
		if err := json.Unmarshal([]byte(bad), &back); err == nil {
			t.Errorf("%s was decoded", bad)
		}
	}
}

func TestSelect(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct{ text, ask, want, says string }{
		{"", "", "shell", ""},
		{"[network]\n", "", "shell", ""},
		{"[profiles.claude]\n", "", "claude", ""},
		{"default_profile = \"codex\"\n[profiles.claude]\n[profiles.codex]\n", "", "codex", ""},
		{"default_profile = \"codex\"\n[profiles.claude]\n[profiles.codex]\n", "claude", "claude", ""},
		{"[profiles.claude]\n[profiles.codex]\n", "", "", "claude, codex"},
		{"[profiles.claude]\n[profiles.codex]\n", "gemini", "", "claude, codex"},
		{"[profiles.claude]\n", "shell", "", "claude"},
	} {
		c, err := w.load(tt.text)
		if err != nil {
			t.Fatalf("%q: %v", tt.text, err)
		}
		got, err := c.Select(tt.ask)
		if got != tt.want || (err != nil) != (tt.says != "") || (err != nil && !strings.Contains(hint(err), tt.says)) {
			t.Errorf("%q, PROFILE %q: got %q, %v (hint %q)", tt.text, tt.ask, got, err, hint(err))
		}
	}
}

func hint(err error) string {
	if h, ok := errors.AsType[interface {
		Hint() string
		error
	}](err); ok {
		return h.Hint()
	}
	return ""
}

// Every refusal of design section 6 that is about values: key, line, words.
func TestRefused(t *testing.T) {
	p := "[profiles.claude]\n"
	v := func(host, container, mode string) string {
		return p + `volumes = [{ host = "` + host + `", container = "` + container + `", mode = "` + mode + `" }]` + "\n"
	}
	rule := func(words string) string {
		return p + "[[escalation.auto_approve]]\ncommand = [" + words + "]\n"
	}
	for _, tt := range []struct {
		name, text string
		line       int
		key        string
		says, hint string
	}{
		{"profile name short", "[profiles.a]\n", 1, "profiles.a", "name of a profile", "2 to 32"},
		{"profile name upper", "[profiles.Claude]\n", 1, "profiles.Claude", "name of a profile", "a-z"},
		{"profile name dot", "\n[profiles.\"a.b\"]\n", 2, "profiles.a.b", "name of a profile", ""},
		{"profile name colon", "profiles.\"a:b\".image = \"x\"\n", 1, "profiles.a:b", "name of a profile", ""},
		{"profile name long", "[profiles." + strings.Repeat("a", 33) + "]\n", 1, "", "name of a profile", ""},
		{"default_profile", "default_profile = \"codex\"\n" + p, 1, "default_profile", `no profile "codex"`, "claude"},

		{"data_root relative", "storage.data_root = \"data\"\n" + p, 1, "storage.data_root", "absolute", "~/"},
		{"data_root ..", "storage.data_root = \"~/../x\"\n" + p, 1, "storage.data_root", `".."`, ""},
		{"data_root placeholder", "storage.data_root = \"/x/{profile_dir}\"\n" + p, 1, "storage.data_root", "{profile_dir}", "only ~"},

		{"host bits", "network.default_allow = [\"10.0.0.1/8\"]\n" + p, 1, "network.default_allow", "address bits", "10.0.0.0/8"},
		{"no length", p + "allow_egress = [\"10.1.1.1\"]\n", 2, "profiles.claude.allow_egress", "no prefix length", "10.1.1.1/32"},
		{"IPv6", p + "deny_egress = [\"fd00::/8\"]\n", 2, "profiles.claude.deny_egress", "IPv6", ""},
		{"equal prefix in one section", "[network]\ndefault_allow = [\"10.0.0.0/8\"]\n" + p, 1, "network.default_deny", "allowed and denied", "longer"},
		{"equal prefix, profile and default", p + "allow_egress = [\"192.168.0.0/16\"]\n", 2, "profiles.claude.allow_egress", "network.default_deny", "longer"},
		{"equal prefix in the profile", p + "allow_egress = [\"9.0.0.0/8\"]\ndeny_egress = [\"9.0.0.0/8\"]\n", 3, "profiles.claude.deny_egress", "allow_egress", ""},

		{"timeout", "escalation.timeout = \"5\"\n" + p, 1, "escalation.timeout", "time span", "5m"},
		{"run_timeout", "escalation.run_timeout = \"-1m\"\n" + p, 1, "escalation.run_timeout", "time span", ""},
		{"max_output", "escalation.max_output = \"big\"\n" + p, 1, "escalation.max_output", "size", "MiB"},
		{"keep_days", "images.keep_days = -1\n" + p, 1, "images.keep_days", "-1", ""},
		{"max_bytes", "images.max_bytes = \"0\"\n" + p, 1, "images.max_bytes", "size", ""},
		{"clipboard_bytes", p + "clipboard_bytes = \"x\"\n", 2, "profiles.claude.clipboard_bytes", "size", ""},
		{"warn_bytes", p + "warn_bytes = \"x\"\n", 2, "profiles.claude.warn_bytes", "size", ""},
		{"user", p + "user = \"dev\"\n", 2, "profiles.claude.user", "developer", ""},
		{"watch", p + "watch = \"on\"\n", 2, "profiles.claude.watch", "bridge", ""},
		{"desktop", "desktop.approve = \"always\"\n" + p, 1, "desktop.approve", "short", ""},
		{"image", p + "image = \"a b\"\n", 2, "profiles.claude.image", "not an image", "oci:DIR"},
		{"image path", p + "image = \"oci:img\"\n", 2, "profiles.claude.image", "absolute", ""},
		{"command empty word", p + "command = [\"\"]\n", 2, "profiles.claude.command", "missing", ""},
		{"command NUL", p + "command = [\"a\\u0000\"]\n", 2, "profiles.claude.command[0]", "NUL", ""},
		{"setup", p + "setup = [\" \"]\n", 2, "profiles.claude.setup[0]", "empty", ""},
		{"expose absolute", p + "expose = [\"/etc\"]\n", 2, "profiles.claude.expose[0]", "workspace", ""},
		{"expose ..", p + "expose = [\"a/../../b\"]\n", 2, "profiles.claude.expose[0]", "workspace", ""},
		{"expose all", p + "expose = [\".\"]\n", 2, "profiles.claude.expose[0]", "workspace", ""},

		{"env LAZARET_", p + "[profiles.claude.env]\nLAZARET_X = \"1\"\n", 3, "profiles.claude.env.LAZARET_X", "Lazaret's own", ""},
		{"env LD_", p + "env = { LD_PRELOAD = \"1\" }\n", 2, "profiles.claude.env.LD_PRELOAD", "LD_PRELOAD", ""},
		{"env =", p + "env = { \"A=B\" = \"1\" }\n", 2, "", "'='", ""},
		{"env NUL", p + "env = { \"A\\u0000\" = \"1\" }\n", 2, "", "NUL", ""},
		{"env reference", p + "env = { A = \"env:\" }\n", 2, "profiles.claude.env.A", "needs a name", ""},

		{"persistent /", p + "persistent_dirs = [\"/\"]\n", 2, "profiles.claude.persistent_dirs[0]", "not possible", ""},
		{"persistent nested", p + "persistent_dirs = [\"/var/lib\", \"/var\"]\n", 2, "profiles.claude.persistent_dirs[1]", "one another", "outer"},
		{"persistent twice", p + "persistent_dirs = [\"/var\", \"/var/\"]\n", 2, "profiles.claude.persistent_dirs[1]", "one another", ""},
		{"persistent /workspace", p + "persistent_dirs = [\"/workspace/x\"]\n", 2, "profiles.claude.persistent_dirs[0]", "/workspace", ""},
		{"persistent /run", p + "persistent_dirs = [\"/run\"]\n", 2, "profiles.claude.persistent_dirs[0]", "/run/lazaret", ""},
		{"persistent /proc", p + "persistent_dirs = [\"/proc\"]\n", 2, "profiles.claude.persistent_dirs[0]", "/proc", ""},
		{"persistent long", p + "persistent_dirs = [\"/" + strings.Repeat("x", 300) + "\"]\n", 2, "profiles.claude.persistent_dirs[0]", "too long", ""},

		{"volume z", v("{BASE}/cache", "/c", "z"), 2, "profiles.claude.volumes[0].mode", "older version", `"ro"`},
		{"volume rw,Z", v("{BASE}/cache", "/c", "rw,Z"), 2, "profiles.claude.volumes[0].mode", "older version", ""},
		{"volume mode", v("{BASE}/cache", "/c", "wo"), 2, "profiles.claude.volumes[0].mode", "none of", ""},
		{"volume at /", v("{BASE}/cache", "/", "rw"), 2, "profiles.claude.volumes[0].container", "not possible", ""},
		{"volume at /dev/x", v("{BASE}/cache", "/dev/x", "rw"), 2, "profiles.claude.volumes[0].container", "/dev", ""},
		{"volume at /etc", v("{BASE}/cache", "/etc", "rw") + "persistent_dirs = []\n", 2, "profiles.claude.volumes[0].container", "/etc/resolv.conf", ""},
		{"volume hides anchor", v("{BASE}/cache", "/var", "rw"), 2, "profiles.claude.volumes[0].container", "persistent directory", ""},
		{"volumes nested", p + "volumes = [\n{host=\"{BASE}/cache\",container=\"/c\"},\n{host=\"{BASE}/cache\",container=\"/c/d\"}]\n", 4, "profiles.claude.volumes[1].container", "one another", ""},
		{"volume missing", v("{BASE}/none", "/c", "rw"), 2, "profiles.claude.volumes[0].host", "there is no", "make it"},
		{"volume relative", v("cache", "/c", "rw"), 2, "profiles.claude.volumes[0].host", "absolute", ""},
		{"volume ..", v("{BASE}/home/../cache", "/c", "rw"), 2, "profiles.claude.volumes[0].host", `".."`, ""},
		{"volume placeholder", v("{home}/x", "/c", "rw"), 2, "profiles.claude.volumes[0].host", "{home}", "{profile_dir}"},
		{"volume device", v("/dev/null", "/c", "rw"), 2, "profiles.claude.volumes[0].host", "devtmpfs", ""},
		{"volume of processes", v("/proc/1", "/c", "ro"), 2, "profiles.claude.volumes[0].host", "type proc", ""},
		{"volume of devices", v("/sys", "/c", "ro"), 2, "profiles.claude.volumes[0].host", "type sysfs", ""},
		{"volume home", v("~", "/c", "ro"), 2, "profiles.claude.volumes[0].host", "data root", ""},
		{"volume /", v("/", "/c", "ro"), 2, "profiles.claude.volumes[0].host", "data root", ""},
		{"volume data root", v("~/.local/share/lazaret", "/c", "ro"), 2, "profiles.claude.volumes[0].host", "data root", "{profile_dir}"},
		{"volume above data root", v("~/.local", "/c", "ro"), 2, "profiles.claude.volumes[0].host", "data root", ""},
		{"volume prepared", v("~/.local/share/lazaret/prepared", "/c", "ro"), 2, "profiles.claude.volumes[0].host", "data root", ""},
		{"volume other profile", v("~/.local/share/lazaret/profiles/codex/x", "/c", "ro"), 2, "profiles.claude.volumes[0].host", "data root", ""},
		{"volume profile_dir", v("{profile_dir}", "/c", "ro"), 2, "profiles.claude.volumes[0].host", "data root", ""},
		{"volume domain_dir", v("{domain_dir}", "/c", "ro"), 2, "profiles.claude.volumes[0].host", "data root", ""},
		{"volume store", v("{domain_dir}/store.db", "/c", "ro"), 2, "profiles.claude.volumes[0].host", "data root", ""},
		{"volume wal", v("{domain_dir}/store.db-wal", "/c", "ro"), 2, "profiles.claude.volumes[0].host", "data root", ""},
		{"volume anchors", v("{domain_dir}/anchors/root", "/c", "ro"), 2, "profiles.claude.volumes[0].host", "data root", ""},
		{"volume config", v("~/.config", "/c", "ro"), 2, "profiles.claude.volumes[0].host", "configuration", ""},
		{"volume config file", v("~/.config/lazaret/config.toml", "/c", "ro"), 2, "profiles.claude.volumes[0].host", "configuration", ""},
		{"volume runtime", v("{BASE}/run", "/c", "ro"), 2, "profiles.claude.volumes[0].host", "runtime", ""},
		{"volume fallback runtime", v("{BASE}/tmp", "/c", "ro"), 2, "profiles.claude.volumes[0].host", "runtime", ""},

		{"rule empty", rule(""), 3, "escalation.auto_approve[0].command", "missing", ""},
		{"rule shell", rule(`"bash"`), 3, "escalation.auto_approve[0].command", "amounts to a shell", "dangerous"},
		{"rule git", rule(`"git", "status"`), 3, "escalation.auto_approve[0].command", "Git", "dangerous"},
		{"rule in workspace", rule(`"{BASE}/home/proj/x.sh"`), 3, "escalation.auto_approve[0].command", "in the workspace", ""},
		{"rule link to workspace", rule(`"{BASE}/tool"`), 3, "escalation.auto_approve[0].command", "in the workspace", ""},
		{"deny empty", p + "[[escalation.deny]]\nreason = \"x\"\n", 2, "escalation.deny[0].command", "missing", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			if err := os.WriteFile(w.proj()+"/x.sh", nil, 0o700); err != nil {
				t.Fatal(err)
			}
			w.link("home/proj/x.sh", "tool")
			_, err := w.resolve(tt.text)
			var e *config.Error
			if !errors.As(err, &e) {
				t.Fatalf("error %v, want a *config.Error", err)
			}
			if e.Line != tt.line || (tt.key != "" && e.Key != tt.key) {
				t.Errorf("line %d, key %q; want %d, %q", e.Line, e.Key, tt.line, tt.key)
			}
			if !strings.Contains(err.Error(), "config.toml") || !strings.Contains(err.Error(), tt.says) || !strings.Contains(hint(err), tt.hint) {
				t.Errorf("error %q, hint %q; want %q, %q", err, hint(err), tt.says, tt.hint)
			}
		})
	}
}

// Case 22: what is asked for by name must be there.
func TestLoadFile(t *testing.T) {
	w := newWorld(t)
	_, err := config.Load(config.Options{Host: w.host, File: w.base + "/nope.toml"})
	var e *config.Error
	if !errors.As(err, &e) || !strings.Contains(err.Error(), "nope.toml") {
		t.Errorf("a missing --config: %v", err)
	}
	w.write("[network\n")
	_, err = config.Load(config.Options{Host: w.host})
	if !errors.As(err, &e) || e.Line != 1 {
		t.Errorf("broken TOML: %v", err)
	}
	if err := os.Remove(w.base + "/home/.config/lazaret/config.toml"); err != nil {
		t.Fatal(err)
	}
	w.mkdir("home/.config/lazaret/config.toml")
	if _, err = config.Load(config.Options{Host: w.host}); !errors.As(err, &e) {
		t.Errorf("a directory: %v", err)
	}
	w.link("nowhere", "dangling.toml")
	if _, err = config.Load(config.Options{Host: w.host, File: w.base + "/dangling.toml"}); !errors.As(err, &e) {
		t.Errorf("a dangling link: %v", err)
	}
}

// SR-2: a configuration beneath a mounted path, by any name.
func TestConfigBeneathMount(t *testing.T) {
	w := newWorld(t)
	inside := w.proj() + "/c.toml"
	if err := os.WriteFile(inside, []byte("[profiles.claude]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.link("home/proj/c.toml", "link.toml")
	w.link("home/proj", "way")
	for _, file := range []string{inside, w.base + "/link.toml", w.base + "/way/c.toml"} {
		c, err := config.Load(config.Options{Host: w.host, File: file})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Resolve("claude", w.proj())
		var e *paths.Error
		if !errors.As(err, &e) || e.Kind != paths.KindWorkspace || !strings.Contains(err.Error(), "configuration file") {
			t.Errorf("--config %s: %v", file, err)
		}
	}
	// A link that lies in the workspace is as bad as a file: the agent can turn it.
	if err := os.WriteFile(w.base+"/real.toml", []byte("[profiles.claude]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.link("real.toml", "home/proj/l.toml")
	c, err := config.Load(config.Options{Host: w.host, File: w.proj() + "/l.toml"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Resolve("claude", w.proj()); err == nil {
		t.Error("a configuration behind a link in the workspace was used")
	}
	// The same file is fine for another workspace.
	w.mkdir("home/other")
	if _, err := c.Resolve("claude", w.base+"/home/other"); err != nil {
		t.Error(err)
	}
	// --config does not make the default configuration visible.
	if _, err := c.Resolve("claude", w.base+"/home/.config"); err == nil {
		t.Error("the default configuration directory was used as a workspace")
	}
}

// Case 104: links that an agent could have left do not become volumes.
func TestVolumeLinks(t *testing.T) {
	w := newWorld(t)
	data := "home/.local/share/lazaret"
	w.mkdir(data + "/profiles/claude/a")
	w.link("home/.ssh", data+"/profiles/claude/a/ssh")
	w.link("home/.ssh", "home/proj/k")
	w.link("home/.ssh", "cache/k")
	w.link("cache", "mine")
	for _, tt := range []struct {
		volumes string
		ok      bool
	}{
		{`{ host = "{profile_dir}/a/ssh", container = "/c" }`, false},
		{`{ host = "{workspace_dir}/k", container = "/c", mode = "ro" }`, false},
		{`{ host = "{BASE}/cache/k", container = "/c", mode = "ro" }, { host = "{BASE}/cache", container = "/d" }`, false},
		{`{ host = "{BASE}/cache/k", container = "/c", mode = "ro" }, { host = "{BASE}/cache", container = "/d", mode = "ro" }`, true},
		{`{ host = "{BASE}/mine", container = "/c" }`, true},
	} {
		d, err := w.resolve("[profiles.claude]\nvolumes = [" + tt.volumes + "]\n")
		if (err == nil) != tt.ok {
			t.Errorf("%s: %+v, %v", tt.volumes, d, err)
		}
		if !tt.ok && err != nil && !strings.Contains(err.Error(), "symbolic link") {
			t.Errorf("%s: %v", tt.volumes, err)
		}
	}
}

func TestDefaultImage(t *testing.T) {
	dir := t.TempDir()
	if got := config.DefaultImage(dir); got != config.FallbackImage {
		t.Errorf("without an image: %q", got)
	}
	for _, rel := range []string{"image", "share/lazaret/image"} {
		p := filepath.Join(dir, rel)
		if err := os.MkdirAll(p, 0o700); err != nil {
			t.Fatal(err)
		}
		if got := config.DefaultImage(dir); strings.Contains(got, rel) && rel == "share/lazaret/image" {
			t.Errorf("an empty directory is the image: %q", got)
		}
		if err := os.WriteFile(p+"/index.json", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := config.DefaultImage(dir); got != "oci:"+p+":base" {
			t.Errorf("with %s: %q", rel, got)
		}
	}
}
