package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"lazaret.dev/lazaret/cmd/lazaret/e2etest"
)

// DESIGN section 3: the coordinator takes nothing of its starter's along but
// what it needs: no terminal, no directory, no descriptor, no secret.
func TestCoordinatorIsDetached(t *testing.T) {
	h := e2etest.New(t)
	h.Config(fmt.Sprintf("[profiles.small]\nimage = %q\n", e2etest.SmallImage(t)))
	h.Setenv("AWS_SECRET_ACCESS_KEY", "canary")
	h.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/canary")
	h.Setenv("TMUX", "canary")
	term := h.Terminal(24, 80, inside("sh", "-c", "echo ready; exec sleep 999")...)
	term.Expect("ready", starts)
	for _, name := range []string{"lazaret _coordinator", "lazaret-supervisor", "runsc run", "slirp4netns"} {
		pid := h.Find(name).PID
		proc := func(file string) string { return fmt.Sprintf("/proc/%d/%s", pid, file) }
		if cwd, err := os.Readlink(proc("cwd")); err != nil || cwd != "/" {
			t.Errorf("%s: works in %q, %v", name, cwd, err)
		}
		if in, err := os.Readlink(proc("fd/0")); err != nil || in != "/dev/null" {
			t.Errorf("%s: its input is %q, %v", name, in, err)
		}
		fds, err := os.ReadDir(proc("fd"))
		if err != nil {
			t.Fatal(err)
		}
		for _, fd := range fds {
			to, _ := os.Readlink(proc("fd/" + fd.Name()))
			if strings.HasPrefix(to, "/dev/pts/") || strings.HasPrefix(to, h.Project) {
				t.Errorf("%s: holds %s", name, to)
			}
		}
		status, err := os.ReadFile(proc("status"))
		if err != nil {
			t.Fatal(err)
		}
		if name == "lazaret _coordinator" && !strings.Contains(string(status), "\nUmask:\t0077\n") {
			t.Errorf("%s: %s", name, regexp.MustCompile(`Umask.*`).Find(status))
		}
		environ, err := os.ReadFile(proc("environ"))
		if err != nil || strings.Contains(string(environ), "canary") {
			t.Errorf("%s: environment %q, %v", name, environ, err)
		}
		stat, err := os.ReadFile(proc("stat"))
		if err != nil {
			t.Fatal(err)
		}
		// Behind the name: state, parent, group, session, terminal.
		f := strings.Fields(string(stat)[strings.LastIndexByte(string(stat), ')')+1:])
		if f[4] != "0" || name == "lazaret _coordinator" && f[3] != strconv.Itoa(pid) {
			t.Errorf("%s (%d): session %s, terminal %s", name, pid, f[3], f[4])
		}
	}
}

// DESIGN section 7: gVisor holds a descriptor for each cached file and a second
// one for each that was read.
func TestFileLimits(t *testing.T) {
	h := e2etest.New(t)
	h.Config(fmt.Sprintf("[profiles.small]\nimage = %q\n", e2etest.SmallImage(t)))
	// The soft limit of an ordinary login. Set like this, children have it too.
	var own syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &own); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 1024, Max: own.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &own) })
	defer h.Hold("")()
	for _, name := range []string{"runsc-sandbox", "runsc-gofer"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", h.Find(name).PID))
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf(`(?m)^Max open files +%d +%[1]d `, own.Max)
		if !regexp.MustCompile(want).Match(text) {
			t.Errorf("%s: no line %s in\n%s", name, want, text)
		}
	}
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", h.Find("runsc run").PID))
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("\x00--dcache=%d\x00", min(own.Max/4, 16384)); !strings.Contains(string(args), want) {
		t.Errorf("runsc's arguments are %q, want %q among them", args, want)
	}
	if out := h.Must("sh", "-c", "ulimit -Sn; ulimit -Hn"); out != "65536\n65536\n" {
		t.Errorf("inside: %q", out)
	}
}

// A terminal that is asked for and not there is named; pipes can be had on one.
func TestTerminalOnDemand(t *testing.T) {
	h := e2etest.New(t)
	h.Config(fmt.Sprintf("[profiles.small]\nimage = %q\n", e2etest.SmallImage(t)))
	if r := h.Lazaret("", "run", "--tty", "--", "true"); r.Status != 125 || !strings.Contains(r.Stderr, "terminal") || !strings.Contains(r.Stderr, "lazaret: hint: ") {
		t.Errorf("--tty without one: %+v", r)
	}
	if left, err := filepath.Glob(filepath.Join(h.Runtime, "lazaret/*")); err != nil || len(left) != 0 {
		t.Errorf("left: %q, %v", left, err)
	}
	term := h.Terminal(24, 80, "run", "--quiet", "--no-tty", "--", "sh", "-c", "[ -t 0 ] || [ -t 1 ] || echo pipes")
	term.Expect("pipes", starts)
	if s := term.Status(starts); s != 0 {
		t.Errorf("--no-tty: status %d", s)
	}
}
