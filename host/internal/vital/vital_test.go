package vital_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"lazaret.dev/lazaret/host/internal/recovery"
	"lazaret.dev/lazaret/host/internal/vital"
)

// called starts a process with the name and the arguments that runsc's have.
func called(t *testing.T, argv ...string) (end func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh")
	cmd.Args = append([]string{argv[0], "-c", "read -r _"}, argv[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() {
		_ = in.Close()
		_ = cmd.Wait() // read fails at the end of its input
	}
}

func TestProcess(t *testing.T) {
	var s vital.Signs
	self, err := recovery.ProcOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	s.Process(self)
	if !s.Alive() {
		t.Error("this process is dead")
	}
	self.Start++ // its pid, used by another
	s.Process(self)
	if s.Alive() {
		t.Error("another process is taken for it")
	}
}

// A sandbox is its socket and its processes, which are told from others by
// their state directory.
func TestSandbox(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	look := func() *vital.Signs {
		s := new(vital.Signs)
		if err := s.Sandbox(dir, socket); err != nil {
			t.Fatal(err)
		}
		return s
	}
	other := called(t, "runsc-sandbox", "--root="+dir+"x")
	sentry := called(t, "runsc-sandbox", "--root="+dir)
	before := look()
	other()
	if !before.Alive() {
		t.Error("another sandbox's process is taken for its own")
	}
	sentry()
	if before.Alive() {
		t.Error("a sandbox without its process is alive")
	}
	gofer := called(t, "runsc-gofer", "--root="+dir)
	defer gofer()
	after := look()
	if !after.Alive() {
		t.Error("a sandbox that listens is dead")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if after.Alive() {
		t.Error("a sandbox that does not listen is alive")
	}
}
