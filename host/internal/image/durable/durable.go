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
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// TempPrefix begins the names of files that are being written.
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
	f, err := os.CreateTemp(filepath.Dir(path), TempPrefix)
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
	return Rename(f.Name(), path)
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
