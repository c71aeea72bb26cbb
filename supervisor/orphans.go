package supervisor

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/proc"
)

// adoptOrphans makes the process the reaper of its descendants: a sentry or
// gofer whose runsc is gone becomes its child, so that the end of all of them
// can be waited for instead of hoped for.
func adoptOrphans() error {
	return os.NewSyscallError("prctl PR_SET_CHILD_SUBREAPER", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

// reapOrphans ends and reaps every child but keep. A runsc that was killed
// takes its sentry and gofer along; this waits until that has happened.
func reapOrphans(keep int) error {
	deadline := time.Now().Add(2 * time.Second)
	for {
		children, err := proc.Children()
		if err != nil {
			return fmt.Errorf("list children: %w", err)
		}
		left := 0
		for _, pid := range children {
			if pid == keep {
				continue
			}
			_ = unix.Kill(pid, unix.SIGKILL)
			var ws unix.WaitStatus
			if got, err := unix.Wait4(pid, &ws, unix.WNOHANG, nil); got != pid && !errors.Is(err, unix.ECHILD) {
				left++
			}
		}
		if left == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d processes of the sandbox do not end", left)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
