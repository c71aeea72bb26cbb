package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/cmd/lazaret/e2etest"
)

// SR-1: gVisor's kernel, root inside, and none of the capabilities that reach
// beyond the sandbox, nor a way to them.
func TestKernelAndCapabilities(t *testing.T) {
	h := e2etest.New(t)
	defer h.Hold("")()
	if out := h.Must("dmesg"); !strings.Contains(out, "Starting gVisor") {
		t.Errorf("the kernel inside is not gVisor's: %q", out)
	}
	if out := h.Must("id", "-u"); out != "0\n" {
		t.Errorf("uid inside is %q", out)
	}
	status := h.Must("cat", "/proc/self/status")
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		m := regexp.MustCompile(`(?m)^` + set + `:\s*([0-9a-f]+)$`).FindStringSubmatch(status)
		if m == nil {
			t.Errorf("no %s in %q", set, status)
			continue
		}
		bits, err := strconv.ParseUint(m[1], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		for name, bit := range map[string]int{
			"NET_ADMIN": unix.CAP_NET_ADMIN, "SYS_ADMIN": unix.CAP_SYS_ADMIN, "NET_RAW": unix.CAP_NET_RAW,
			"SYS_MODULE": unix.CAP_SYS_MODULE, "SYS_RAWIO": unix.CAP_SYS_RAWIO,
		} {
			if bits&(1<<bit) != 0 {
				t.Errorf("%s has %s: %#x", set, name, bits)
			}
		}
		if bits == 0 && (set == "CapEff" || set == "CapBnd") {
			t.Errorf("%s is empty: root could not install anything", set)
		}
	}
	// Not only the bits.
	for _, try := range []string{"mount -t tmpfs x /mnt", "ip link add d0 type dummy", "python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)'"} {
		if r := h.Run("sh", "-c", try); r.Status == 0 {
			t.Errorf("%s: it works", try)
		}
	}
}

// The host's processes, home, files and interfaces are not there.
func TestHostIsInvisible(t *testing.T) {
	h := e2etest.New(t)
	marker := exec.Command("sleep", "86399.125")
	if err := marker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = marker.Process.Kill()
		_ = marker.Wait()
	})
	canary := filepath.Join(h.Dir, "canary-4711")
	if err := os.WriteFile(canary, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	h.Setenv("CANARY_VARIABLE", "secret")
	defer h.Hold("sleep 86399.25 &")()

	ps := h.Must("ps", "-eo", "args")
	if !strings.Contains(ps, "86399.25\n") || strings.Contains(ps, "86399.125") || strings.Contains(ps, "lazaret run") {
		t.Errorf("processes inside:\n%s", ps)
	}
	if r := h.Run("sh", "-c", "ls -d "+h.Dir+" "+canary); r.Status == 0 {
		t.Errorf("the host's home is inside: %s", r.Stdout)
	}
	if out := h.Must("sh", "-c", "find / -xdev -maxdepth 3 -name 'canary-4711' 2>/dev/null; ls -A /home /mnt /media"); strings.Contains(out, "canary") || strings.Contains(out, filepath.Base(h.Dir)+"\n") {
		t.Errorf("found inside: %q", out)
	}
	if out := h.Must("env"); strings.Contains(out, "secret") || strings.Contains(out, h.Dir) {
		t.Errorf("environment inside: %q", out)
	}
	if host, err := os.Hostname(); err == nil && host != "lazaret" {
		if out := h.Must("sh", "-c", "hostname; cat /etc/hostname /etc/hosts /proc/sys/kernel/hostname"); strings.Contains(out, host) {
			t.Errorf("the host's name %q is inside: %q", host, out)
		}
	}
	var names []string
	for line := range strings.Lines(h.Must("cat", "/proc/net/dev")) {
		if name, _, ok := strings.Cut(line, ":"); ok {
			names = append(names, strings.TrimSpace(name))
		}
	}
	if slices.Sort(names); !slices.Equal(names, []string{"lo", "tap0"}) {
		t.Errorf("interfaces inside: %q", names)
	}
}

// nsTypes are the namespaces of SR-12.
var nsTypes = []string{"user", "pid", "ipc", "uts", "mnt", "net", "cgroup"}

// SR-12: sentry and gofer share no namespace with the host, and their network
// is the supervisor's or one below it.
func TestNamespaces(t *testing.T) {
	h := e2etest.New(t)
	defer h.Hold("")()
	super := h.Find("lazaret-supervisor")
	for _, name := range []string{"runsc-sandbox", "runsc-gofer"} {
		p := h.Find(name)
		for _, ns := range nsTypes {
			mine, err := os.Readlink("/proc/self/ns/" + ns)
			if err != nil {
				t.Fatal(err)
			}
			its, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", p.PID, ns))
			if err != nil {
				t.Fatal(err)
			}
			if its == mine {
				t.Errorf("%s: %s is the host's", name, its)
			}
		}
		if !below(t, nsPath(p.PID, "net"), nsPath(super.PID, "net"), nsPath(super.PID, "user")) {
			t.Errorf("%s: its network namespace is neither the supervisor's nor below it", name)
		}
	}
}

func nsPath(pid int, ns string) string { return fmt.Sprintf("/proc/%d/ns/%s", pid, ns) }

// below reports whether a network namespace is top, or owned by the user
// namespace owner or a descendant of it (ioctl_ns(2)).
func below(t *testing.T, ns, top, owner string) bool {
	t.Helper()
	open := func(path string) int {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatalf("open %s: %v", path, err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		return fd
	}
	ino := func(fd int) uint64 {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			t.Fatal(err)
		}
		return st.Ino
	}
	fd := open(ns)
	if ino(fd) == ino(open(top)) {
		return true
	}
	want := ino(open(owner))
	// NS_GET_USERNS of a network namespace, then NS_GET_PARENT up.
	for request := uint(unix.NS_GET_USERNS); ; request = unix.NS_GET_PARENT {
		next, err := unix.IoctlRetInt(fd, request)
		if err != nil {
			return false // EPERM: the next one is not visible from here
		}
		t.Cleanup(func() { _ = unix.Close(next) })
		if fd = next; ino(fd) == want {
			return true
		}
	}
}

// Case 96: who one is, where home is, and that text is UTF-8.
func TestUserHomeAndLocale(t *testing.T) {
	h := e2etest.New(t)
	defer h.Hold("")()
	for command, want := range map[string]string{
		"id -un; whoami; id -gn":                 "root\nroot\nroot\n",
		`echo "$HOME $USER $LOGNAME $LANG"; pwd`: "/root root root C.UTF-8\n/workspace\n",
		"touch ~/x && echo written":              "written\n",
		`node -p 'const u = require("os").userInfo(); u.username + " " + u.homedir'`: "root /root\n",
		`python3 -c 'print("é")'`: "é\n",
		"git init -q /tmp/r && cd /tmp/r && git -c user.name=n -c user.email=e@x commit -q --allow-empty -m m && git log --format=%s": "m\n",
		"command -v escalate": "/usr/local/bin/escalate\n",
	} {
		if out := h.Must("sh", "-c", command); out != want {
			t.Errorf("%s: %q, want %q", command, out, want)
		}
	}
	h.Setenv("LANG", "de_DE.UTF-8")
	if out := h.Must("sh", "-c", "echo $LANG"); out != "de_DE.UTF-8\n" {
		t.Errorf("the caller's LANG: %q", out)
	}
}

// Case 96, an image that has nothing: root has a name and a home.
func TestImageWithoutAccounts(t *testing.T) {
	h := e2etest.New(t)
	h.Config("[profiles.small]\nimage = \"" + e2etest.SmallImage(t, "PATH=/custom:/bin", "FROM_IMAGE=yes", "LAZARET_SESSION_ID=forged") + "\"\n")
	defer h.Hold("")()
	for command, want := range map[string]string{
		"whoami; id -un; id -gn":                          "root\nroot\nroot\n",
		`echo "$PATH $FROM_IMAGE $HOME"`:                  "/custom:/bin yes /root\n",
		"touch ~/x && echo written":                       "written\n",
		`[ "$LAZARET_SESSION_ID" = forged ] || echo ours`: "ours\n",
		"hostname": "lazaret\n",
	} {
		if out := h.Must("sh", "-c", command); out != want {
			t.Errorf("%s: %q, want %q", command, out, want)
		}
	}
	if r := h.Run("python3"); r.Status != 127 {
		t.Errorf("a program that the image lacks: status %d, stderr %q", r.Status, r.Stderr)
	}
}

// Cases 22 and 51: what a session's environment is made of, and what is refused.
func TestEnvironment(t *testing.T) {
	h := e2etest.New(t)
	h.Config(`
[profiles.some]
env = { MyVar = "1", "dotted.name" = "2", FROM_CALLER = "env:CALLERS", ABSENT = "env:NOT_SET_ANYWHERE", MINE = "profile" }
`)
	h.Setenv("CALLERS", "from the caller")
	h.Setenv("SECRET_TOKEN", "hidden")
	r := h.Lazaret("", "run", "--env", "MINE=flag", "--env", "SPACES=a b=c\td", "--", "env")
	if r.Status != 0 {
		t.Fatalf("status %d, stderr %s", r.Status, r.Stderr)
	}
	got := strings.Split(strings.TrimSpace(r.Stdout), "\n")
	for _, want := range []string{"MyVar=1", "dotted.name=2", "FROM_CALLER=from the caller", "MINE=flag", "SPACES=a b=c\td", "TERM=xterm"} {
		if !slices.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	for _, kv := range got {
		if strings.HasPrefix(kv, "ABSENT=") || strings.Contains(kv, "hidden") || strings.HasPrefix(kv, "LD_") {
			t.Errorf("%q is inside", kv)
		}
	}
	if n := strings.Count(r.Stderr, "NOT_SET_ANYWHERE"); n != 1 {
		t.Errorf("a variable that the caller does not have gets %d lines, want 1: %s", n, r.Stderr)
	}
	for _, name := range []string{"LAZARET_SESSION_ID=x", "LD_PRELOAD=/x.so", "=x", "A"} {
		r := h.Lazaret("", "run", "--env", name, "--", "true")
		if r.Status == 0 || !strings.HasPrefix(r.Stderr, "lazaret: error: ") {
			t.Errorf("--env %q: status %d, stderr %q", name, r.Status, r.Stderr)
		}
	}
}

// Case 22: a configuration that is not exactly right is refused, with the place.
func TestConfigurationIsStrict(t *testing.T) {
	h := e2etest.New(t)
	for text, says := range map[string][]string{
		"[netwrok]\ndefault_deny = []\n":                          {"netwrok", "config.toml", "2"},
		"[profiles.some]\ncomand = [\"x\"]\n":                     {"comand", "3"},
		"[profiles.some\n":                                        {"config.toml", "2"},
		"[profiles.some]\nenv = { LD_PRELOAD = \"x\" }\n":         {"LD_PRELOAD"},
		"[profiles.some]\npersistent_dirs = [\"/workspace/x\"]\n": {"/workspace"},
	} {
		h.Config(text)
		r := h.Lazaret("", "run", "--", "true")
		if r.Status != 125 {
			t.Errorf("%q: status %d, stderr %s", text, r.Status, r.Stderr)
		}
		for _, want := range says {
			if !strings.Contains(r.Stderr, want) {
				t.Errorf("%q: the error does not say %q: %s", text, want, r.Stderr)
			}
		}
	}
	missing := filepath.Join(h.Dir, "nope.toml")
	if r := h.Lazaret("", "--config", missing, "run", "--", "true"); r.Status != 125 || !strings.Contains(r.Stderr, missing) {
		t.Errorf("--config of a missing file: status %d, stderr %s", r.Status, r.Stderr)
	}
	if left := h.Processes(); len(left) != 0 {
		t.Errorf("processes after refusals: %v", left)
	}
}
