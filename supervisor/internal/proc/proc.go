// Package proc identifies processes beyond the reuse of their pids and waits
// for them. It starts and ends nothing by itself. It runs in the Runtime
// Supervisor.
package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/handoff"
)

// startField is starttime's place among the fields of /proc/PID/stat that
// follow the command name (proc(5): field 22, and the name is field 2).
const startField = 22 - 3

// ppidField is ppid's place in the same row.
const ppidField = 4 - 3

// Identify returns pid's identity. A process that is gone is an error.
func Identify(pid int) (handoff.Proc, error) {
	fields, err := stat(pid)
	if err != nil {
		return handoff.Proc{}, fmt.Errorf("identify process %d: %w", pid, err)
	}
	start, err := strconv.ParseUint(fields[startField], 10, 64)
	if err != nil {
		return handoff.Proc{}, fmt.Errorf("identify process %d: start time: %w", pid, err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return handoff.Proc{}, fmt.Errorf("identify process %d: %w", pid, err)
	}
	return handoff.Proc{PID: pid, Start: start, BootID: strings.TrimSpace(string(boot))}, nil
}

// stat returns the fields of /proc/PID/stat after the command name, which may
// hold anything, parentheses and blanks included.
func stat(pid int) ([]string, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil, err
	}
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return nil, errors.New("malformed stat")
	}
	fields := strings.Fields(string(b[i+1:]))
	if len(fields) <= startField {
		return nil, errors.New("malformed stat")
	}
	return fields, nil
}

// Children returns the pids of the calling process's children, zombies
// included. It reads all of /proc, since not every kernel lists children.
func Children() ([]int, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	self := strconv.Itoa(os.Getpid())
	var out []int
	for _, n := range names {
		pid, err := strconv.Atoi(n)
		if err != nil {
			continue
		}
		fields, err := stat(pid)
		if err != nil {
			continue // it ended meanwhile
		}
		if fields[ppidField] == self {
			out = append(out, pid)
		}
	}
	return out, nil
}

// ErrTimeout reports that a process did not end in time.
var ErrTimeout = errors.New("it did not end in time")

// Exit says how a process ended.
type Exit struct {
	Code   int         // exit status, when Signal is zero
	Signal unix.Signal // the signal that killed it
}

// String renders the exit as the end of a sentence.
func (e Exit) String() string {
	if e.Signal != 0 {
		return fmt.Sprintf("was killed by signal %d (%s)", int(e.Signal), unix.SignalName(e.Signal))
	}
	return fmt.Sprintf("exited with status %d", e.Code)
}

// Child is a child of the calling process. Its end is reaped exactly once, by
// the goroutine that Watch starts, and then announced to everybody.
type Child struct {
	PID   int
	pidfd int // signals go through it, so that they never meet a reused pid
	done  chan struct{}
	exit  Exit // valid once done is closed
}

// Watch takes over the reaping of the child pid, which must not have been
// waited for. Its goroutine ends with the child.
func Watch(pid int) (*Child, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("watch process %d: %w", pid, os.NewSyscallError("pidfd_open", err))
	}
	c := &Child{PID: pid, pidfd: fd, done: make(chan struct{})}
	go c.reap()
	return c, nil
}

func (c *Child) reap() {
	defer close(c.done)
	var ws unix.WaitStatus
	for {
		_, err := unix.Wait4(c.PID, &ws, 0, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err == nil && ws.Signaled() {
			c.exit = Exit{Signal: ws.Signal()}
		} else if err == nil {
			c.exit = Exit{Code: ws.ExitStatus()}
		}
		return
	}
}

// Done is closed when the child has ended and was reaped.
func (c *Child) Done() <-chan struct{} { return c.done }

// Exit says how the child ended. It blocks until then.
func (c *Child) Exit() Exit {
	<-c.done
	return c.exit
}

// Kill sends sig; a child that is gone gets none.
func (c *Child) Kill(sig unix.Signal) {
	_ = unix.PidfdSendSignal(c.pidfd, sig, nil, 0)
}

// Wait waits for the child's end, at most d.
func (c *Child) Wait(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c.done:
		return nil
	case <-t.C:
		return ErrTimeout
	}
}
