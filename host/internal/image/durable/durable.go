// Package durable changes files of the image store so that a crash leaves the
// old state or the new one, and serialises who changes them.
//
// It knows nothing of images. A lock belongs to the open file description: a
// child that inherits it keeps it, which is wanted, since a program that still
// writes must still hold the lock. It runs in the Host Coordinator and in image
// commands.
package durable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/faults"
)

// TempPrefix begins the names of files that are being written. Their writers
// hold their locks: one that nobody holds is a dead writer's, and the next
// writer in that directory removes it.
const TempPrefix = ".tmp-"

const maxFile = 16 << 20 // an image's labels are in such files

// ReadJSON reads what WriteJSON wrote. A file that does not exist gives
// os.ErrNotExist.
func ReadJSON(path string, into any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // read only
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// WriteJSON writes a file whole or not at all, durably.
func WriteJSON(path string, v any) (err error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	f, err := createTemp(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		_ = f.Close()
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	if _, err := f.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	faults.Point("image.hc.half-written")
	return Rename(f.Name(), path)
}

// createTemp makes a locked file with a name of its own, and removes those that
// dead writers have left.
func createTemp(dir string) (*os.File, error) {
	if err := removeDead(dir); err != nil {
		return nil, err
	}
	for {
		f, err := os.CreateTemp(dir, TempPrefix)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
			return nil, errors.Join(os.NewSyscallError("flock", err), f.Close(), os.Remove(f.Name()))
		}
		// Another writer may have taken it for a dead one's before it was locked.
		if same(f, f.Name()) {
			return f, nil
		}
		_ = f.Close()
	}
}

func removeDead(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), TempPrefix) || !e.Type().IsRegular() {
			continue
		}
		path := filepath.Join(dir, e.Name())
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			continue // its writer has just finished
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil && same(f, path) {
			_ = os.Remove(path)
		}
		_ = f.Close()
	}
	return nil
}

// Rename renames within one directory, durably.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(to))
}

// SyncDir makes the entries of a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	defer d.Close() //nolint:errcheck // a directory
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}
