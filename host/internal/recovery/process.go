package recovery

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/handoff"
)

// bootID tells this boot from every other (random(4)).
func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// errNoProcess reports a process that is gone, or a zombie, which is gone too.
var errNoProcess = errors.New("no such process")

// ProcOf identifies a living process (proc_pid_stat(5), fields 3 and 22).
func ProcOf(pid int) (handoff.Proc, error) {
	boot, err := bootID()
	if err != nil {
		return handoff.Proc{}, err
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			return handoff.Proc{}, errNoProcess
		}
		return handoff.Proc{}, fmt.Errorf("identify process: %w", err)
	}
	// The name is in parentheses and may hold anything; fields count from its end.
	_, rest, ok := strings.Cut(string(b[strings.LastIndexByte(string(b), ')')+1:]), " ")
	f := strings.Fields(rest)
	if !ok || len(f) < 20 {
		return handoff.Proc{}, fmt.Errorf("identify process %d: malformed stat", pid)
	}
	if f[0] == "Z" || f[0] == "X" {
		return handoff.Proc{}, errNoProcess
	}
	start, err := strconv.ParseUint(f[19], 10, 64)
	if err != nil {
		return handoff.Proc{}, fmt.Errorf("identify process %d: %w", pid, err)
	}
	return handoff.Proc{PID: pid, Start: start, BootID: boot}, nil
}

// alive reports whether exactly that process lives. A reused pid has another
// start time, and after a reboot another boot id.
func alive(p handoff.Proc) bool {
	now, err := ProcOf(p.PID)
	return err == nil && now == p
}

// killExactly kills a process through a pidfd that was compared after it was
// opened, so that no reused pid is hit, and waits for its end.
func killExactly(p handoff.Proc) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return os.NewSyscallError("pidfd_open", err)
	}
	defer unix.Close(fd)
	if !alive(p) {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return os.NewSyscallError("pidfd_send_signal", err)
	}
	for range 100 {
		if !alive(p) {
			return nil
		}
		time.Sleep(orphanPoll)
	}
	return fmt.Errorf("process %d does not end", p.PID)
}
