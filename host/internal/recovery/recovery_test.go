package recovery_test

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"lazaret.dev/lazaret/host/internal/recovery"
)

// FR-7: a process is more than its pid.
func TestProcessIdentity(t *testing.T) {
	self, err := recovery.ProcOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	again, err := recovery.ProcOf(os.Getpid())
	if err != nil || again != self {
		t.Fatalf("%+v, then %+v, %v", self, again, err)
	}
	if !recovery.Alive(self) {
		t.Error("this process is not alive")
	}
	reused, rebooted := self, self
	reused.Start--
	rebooted.BootID = "00000000-0000-0000-0000-000000000000"
	if recovery.Alive(reused) || recovery.Alive(rebooted) {
		t.Error("another process with this pid counts as this one")
	}

	// A child that nobody has waited for is a zombie, and gone.
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := recovery.ProcOf(cmd.Process.Pid); errors.Is(err, recovery.ErrNoProcess) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a zombie counts as alive")
		}
	}
}

// What outlives its lease is killed only if it is exactly the process on
// record.
func TestKillExactly(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	p, err := recovery.ProcOf(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	other := p
	other.Start++
	if err := recovery.KillExactly(other); err != nil {
		t.Fatal(err)
	}
	if !recovery.Alive(p) {
		t.Fatal("a process with a reused pid was killed")
	}
	if err := recovery.KillExactly(p); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("the process on record lives")
	}
	if err := recovery.KillExactly(p); err != nil {
		t.Errorf("a process that is gone: %v", err)
	}
}
