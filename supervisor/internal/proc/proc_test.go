package proc_test

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/proc"
)

func TestIdentify(t *testing.T) {
	a, err := proc.Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	b, err := proc.Identify(os.Getpid())
	if err != nil || a != b {
		t.Errorf("%+v, then %+v (%v)", a, b, err)
	}
	if a.PID != os.Getpid() || a.Start == 0 || len(a.BootID) != 36 {
		t.Errorf("identity %+v", a)
	}
	// Two processes differ even under one name with blanks and parentheses.
	name := t.TempDir() + "/a ) b ("
	if err := os.Symlink("/bin/sleep", name); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name, "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	c, err := proc.Identify(cmd.Process.Pid)
	if err != nil || c.Start < a.Start {
		t.Errorf("child %+v of %+v (%v)", c, a, err)
	}
	if kids, err := proc.Children(); err != nil || !slices.Contains(kids, cmd.Process.Pid) {
		t.Errorf("children %v (%v) lack %d", kids, err, cmd.Process.Pid)
	}
	if _, err := proc.Identify(1 << 22); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a process that cannot be: %v", err)
	}
}

func start(t *testing.T, args ...string) *proc.Child {
	t.Helper()
	p, err := os.StartProcess("/bin/sh", append([]string{"sh"}, args...), &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := proc.Watch(p.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestChild(t *testing.T) {
	c := start(t, "-c", "exit 7")
	if e := c.Exit(); e.Code != 7 || e.String() != "exited with status 7" {
		t.Errorf("exit %+v", e)
	}
	c.Kill(unix.SIGKILL) // gone: nothing happens

	c = start(t, "-c", "exec sleep 60")
	if err := c.Wait(20 * time.Millisecond); !errors.Is(err, proc.ErrTimeout) {
		t.Errorf("wait: %v", err)
	}
	c.Kill(unix.SIGKILL)
	if err := c.Wait(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	if e := c.Exit(); e.Signal != unix.SIGKILL || !strings.Contains(e.String(), "SIGKILL") {
		t.Errorf("exit %+v", e)
	}
}
