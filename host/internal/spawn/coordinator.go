package spawn

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/wire"
)

// Descriptors that a Host Coordinator finds open.
const (
	CoordinatorLockFD      = 3 // the held Domain lock
	CoordinatorLogFD       = 4 // its log, append only
	CoordinatorHandshakeFD = 5 // SOCK_SEQPACKET to the CLI that starts it
)

// CoordinatorCommand is the hidden command that lazaret runs as coordinator.
const CoordinatorCommand = "_coordinator"

// Coordinator starts a detached Host Coordinator: its own session, no terminal,
// cwd /, and of the starter's environment nothing but env. The lock stays held
// by the coordinator when the caller closes its own descriptor, since a flock
// belongs to the open file that both share. The caller reaps nothing: the
// coordinator outlives it.
func Coordinator(exe string, lock, log *os.File, env []string) (*wire.Seq, error) {
	seq, peer, err := wire.SeqPair("handshake")
	if err != nil {
		return nil, fmt.Errorf("start coordinator: %w", err)
	}
	defer peer.Close()
	// The starter's own starter may have left it descriptors: a lock, a pipe
	// that somebody reads to its end. A process that outlives its starter must
	// hold none of them, and neither may what carries the sandbox's packets.
	if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		_ = seq.Close()
		return nil, fmt.Errorf("start coordinator: %w", os.NewSyscallError("close_range", err))
	}
	cmd := exec.Command(exe, CoordinatorCommand) //nolint:forbidigo,noctx // it outlives its starter
	cmd.ExtraFiles = []*os.File{lock, log, peer}
	cmd.Env = env
	cmd.Dir = "/"
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		_ = seq.Close()
		return nil, fmt.Errorf("start coordinator: %w", err)
	}
	// Reap it should it end first, so that no zombie of ours stays while this
	// process lives; the goroutine ends with one of the two processes.
	go func() { _ = cmd.Wait() }()
	return seq, nil
}
