package durable

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrHeld reports that another process holds the lock.
var ErrHeld = errors.New("lock is held by another process")

// poll is how often a held lock is tried again.
const poll = 50 * time.Millisecond

// Lock opens path, creating it with mode 0600, and takes it exclusively. It
// calls waiting once, when it may be nil, before it starts to wait. The lock is
// released when the file is closed, in this process and in every child that
// inherited it. The file at path is the one that is locked: one that was
// replaced meanwhile is opened again.
func Lock(ctx context.Context, path string, waiting func()) (*os.File, error) {
	for {
		f, err := TryLock(path)
		if !errors.Is(err, ErrHeld) {
			return f, err
		}
		if waiting != nil {
			waiting()
			waiting = nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for lock %s: %w", path, context.Cause(ctx))
		case <-time.After(poll):
		}
	}
}

// TryLock is Lock without waiting: it returns ErrHeld.
func TryLock(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			_ = f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, fmt.Errorf("lock %s: %w", path, ErrHeld)
			}
			if errors.Is(err, unix.EINTR) {
				continue
			}
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		// Whoever held it may have renamed or removed the file.
		if same(f, path) {
			return f, nil
		}
		_ = f.Close()
	}
}

func same(f *os.File, path string) bool {
	a, errA := f.Stat()
	b, errB := os.Lstat(path)
	return errA == nil && errB == nil && os.SameFile(a, b)
}
