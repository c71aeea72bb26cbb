package tidy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of a log file. The processes that write them are many, some of them
// not ours, and what the sandbox does makes them write.
const (
	MaxLog  = 8 << 20 // grown past it, a log is cut
	keepLog = 1 << 20 // of which so much is kept beside it, as <name>.1

	boundPeriod = 2 * time.Second
)

// BoundLogs keeps the logs in dir bounded until ctx ends. All of their
// writers append, so that a file that was cut goes on at its start.
func BoundLogs(ctx context.Context, dir string, log *slog.Logger) {
	tick := time.NewTicker(boundPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := Cut(dir, MaxLog, keepLog); err != nil {
			log.Error("cannot bound the logs", "err", err)
			return
		}
	}
}

// Cut empties each log in dir that is larger than limit. Its last keep bytes
// are put beside it first.
func Cut(dir string, limit, keep int64) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	d, err := root.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	entries, err := d.ReadDir(-1)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if !e.Type().IsRegular() || !strings.HasSuffix(e.Name(), ".log") {
			continue
		}
		if fi, err := e.Info(); err == nil && fi.Size() > limit {
			errs = append(errs, cut(root, e.Name(), fi.Size(), keep))
		}
	}
	return errors.Join(errs...)
}

func cut(root *os.Root, name string, size, keep int64) error {
	f, err := root.OpenFile(name, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("cut log: %w", err)
	}
	defer f.Close()
	// Not written over: a reader of the old one keeps it.
	tail := name + ".1"
	if err := root.Remove(tail); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cut log: %w", err)
	}
	old, err := root.OpenFile(tail, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("cut log: %w", err)
	}
	_, err = io.Copy(old, io.NewSectionReader(f, max(size-keep, 0), keep))
	if err = errors.Join(err, old.Close(), f.Truncate(0)); err != nil {
		return fmt.Errorf("cut log %s: %w", name, err)
	}
	return nil
}
