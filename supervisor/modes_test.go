package supervisor_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/testgate"
)

func enter(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	testgate.Need(t, testgate.UserNS, testgate.SubIDs)
	full := append(append([]string{"enter"}, subIDArgs(t)...), "--")
	return exec.Command(binary("lazaret-supervisor"), append(full, args...)...)
}

func TestEnter(t *testing.T) {
	cmd := enter(t, "sh", "-c", "id -u; echo x > "+t.TempDir()+"/f && chown 5:6 $_ ; mount -t tmpfs none /mnt && echo mounted; read line; echo $line; cat <&7; exit 9")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteString("by seven"); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	cmd.ExtraFiles = []*os.File{nil, nil, nil, nil, r} // descriptor 7
	cmd.Stdin = strings.NewReader("by stdin\n")
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != 9 {
		t.Errorf("%v, want status 9", err)
	}
	if got := out.String(); got != "0\nmounted\nby stdin\nby seven" {
		t.Errorf("output %q, %q", got, errOut.String())
	}
	if b, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(b), " /mnt ") {
		t.Errorf("the mount is seen on the host (%v)", err)
	}
}

func TestEnterStatus(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 3": 3, "kill -9 $$": 137} {
		cmd := enter(t, "sh", "-c", script)
		err := cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%s: status %d (%v), want %d", script, got, err, want)
		}
	}
	var errOut bytes.Buffer
	cmd := enter(t, "/nonexistent")
	cmd.Stderr = &errOut
	if err := cmd.Run(); err == nil || !strings.Contains(errOut.String(), "/nonexistent") {
		t.Errorf("missing program: %v, %q", err, errOut.String())
	}
}

// Killing the launcher, or the process that started it, ends the program.
func TestEnterDies(t *testing.T) {
	for name, viaShell := range map[string]bool{"launcher": false, "its parent": true} {
		t.Run(name, func(t *testing.T) {
			// The marker is an argument that no other process has.
			marker := fmt.Sprintf("60.%d", time.Now().UnixNano())
			cmd := enter(t, "sleep", marker)
			if viaShell {
				cmd = exec.Command("/bin/sh", append([]string{"-c", `"$@"; true`, "sh"}, cmd.Args...)...)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Wait() }()
			var fam []process
			for deadline := time.Now().Add(5 * time.Second); len(fam) == 0 && time.Now().Before(deadline); {
				for _, p := range processes(t) {
					if p.comm == "sleep" && strings.Contains(p.cmdline, marker) {
						fam = append(fam, p)
					}
				}
			}
			if len(fam) != 1 {
				t.Fatalf("the program does not run: %v", fam)
			}
			if err := cmd.Process.Signal(unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			gone(t, fam, 5*time.Second)
		})
	}
}

func TestProbe(t *testing.T) {
	testgate.Need(t, testgate.UserNS, testgate.SubIDs)
	for name, args := range map[string][]string{"single": nil, "full": subIDArgs(t)} {
		out, err := exec.Command(binary("lazaret-supervisor"), append([]string{"probe-userns"}, args...)...).CombinedOutput()
		if err != nil || len(out) != 0 {
			t.Errorf("%s: %v, %q", name, err, out)
		}
	}
	// A namespace that may hold no further one: the kernel says ENOSPC.
	cmd := enter(t, "sh", "-c", `echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"`, "sh", binary("lazaret-supervisor"), "probe-userns")
	out, err := cmd.CombinedOutput()
	if err == nil || string(out) != "clone: ENOSPC\n" {
		t.Errorf("without user namespaces: %v, %q", err, out)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"nonsense"}, {"--nonsense"}, {"enter"}, {"enter", "--uid-range", "5", "--", "true"}, {"extra", "--"}} {
		cmd := exec.Command(binary("lazaret-supervisor"), args...)
		if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 2 || len(out) == 0 {
			t.Errorf("%q: %v, %q", args, err, out)
		}
	}
}
