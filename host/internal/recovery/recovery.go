// Package recovery knows processes beyond their pids, and closes the document of
// a generation whose coordinator is dead. It touches a leftover only when it is
// exactly the one on record (FR-7). It runs in the Host Coordinator that holds
// the Domain lock.
package recovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/generation"
	"lazaret.dev/lazaret/host/internal/image"
	"lazaret.dev/lazaret/host/internal/store"
	"lazaret.dev/lazaret/protocol"
	"lazaret.dev/lazaret/protocol/faults"
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

const (
	// orphanGrace is how long the processes of a dead coordinator may take to
	// end by themselves, which their leases make them do.
	orphanGrace = 8 * time.Second
	orphanPoll  = 20 * time.Millisecond
)

// Recover closes the document of a generation whose coordinator is
// dead: this process holds the lock, so that no other can be its coordinator.
// Its processes end by themselves when their lease ends; what does not is
// killed if it is exactly the process on record, and left alone if not.
func Recover(ctx context.Context, st *store.Store, req *generation.Request, log *slog.Logger) error {
	old, err := st.Current(ctx)
	if err != nil || old == nil {
		return err
	}
	faults.Point("recover.hc.found")
	log.Warn("recovering a generation that did not end", "generation", old.ID, "phase", old.Phase)
	if err := st.SetPhase(ctx, old.ID, protocol.Recovering); err != nil {
		return err
	}
	faults.Point("recover.hc.noted")
	for _, p := range old.Participants {
		if p.Role == store.RoleCoordinator || p.State != store.Owned || p.Ownership.Proc == nil {
			continue
		}
		if err := awaitEnd(ctx, *p.Ownership.Proc, log); err != nil {
			return fmt.Errorf("recover generation %s: %s: %w", old.ID, p.Role, err)
		}
	}
	faults.Point("recover.hc.compared")
	for _, p := range old.Participants {
		if p.State == store.Released {
			continue
		}
		if err := st.RecordReleased(ctx, old.ID, p.Role); err != nil {
			return err
		}
	}
	faults.Point("recover.hc.released")
	if old.Publication != nil && !old.Publication.Withdrawn {
		if err := st.Withdraw(ctx, old.ID, protocol.Recovering); err != nil {
			return err
		}
	}
	faults.Point("recover.hc.withdrawn")
	for _, l := range old.Leases {
		if l.Released {
			continue
		}
		if err := image.ReleaseLease(ctx, req.Domain.DataRoot, l.PreparedID, req.Domain.ID, old.ID); err != nil {
			return err
		}
		faults.Point("recover.hc.lease-file")
		if err := st.ReleaseLease(ctx, old.ID, l.PreparedID); err != nil {
			return err
		}
	}
	faults.Point("recover.hc.lease-row")
	return st.EndGeneration(ctx, old.ID, "recovered")
}

// awaitEnd waits for a process's end and, past the grace, kills it through a
// pidfd that was compared after it was opened, so that no reused pid is hit.
func awaitEnd(ctx context.Context, p handoff.Proc, log *slog.Logger) error {
	deadline := time.Now().Add(orphanGrace)
	for alive(p) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			log.Warn("killing a process that outlived its lease", "pid", p.PID)
			return killExactly(p)
		}
		time.Sleep(orphanPoll)
	}
	return nil
}

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
