// Package record is the durable form of what routing must not forget, and the
// file that holds it. It runs in the Runtime Supervisor.
package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/fdfs"
	"lazaret.dev/lazaret/supervisor/internal/route/internal/texts"
)

// Max bounds the record. What would make it grow beyond is refused.
const Max = 64 << 20

// version is the record's format; another is refused.
const version = 1

// ErrFull reports a record that would be larger than [Max].
var ErrFull = errors.New("the record of ignored paths is full: `lazaret ignore accept` empties it")

// Memory is what is recorded. Paths are bytes, not text.
type Memory struct {
	Version int
	Files   []File
	Roots   []Root
	Kept    [][]byte
	Moved   [][]byte
}

// File is an ignore file.
type File struct {
	Path []byte
	File *texts.File
}

// Root is the root of a repository's working tree.
type Root struct {
	Dir     []byte
	Doubted bool
}

// Encode is the record's text.
func (m *Memory) Encode() ([]byte, error) {
	m.Version = version
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode the record of ignored paths: %w", err)
	}
	if len(b) > Max {
		return nil, ErrFull
	}
	return b, nil
}

// Decode reads it.
func Decode(b []byte) (*Memory, error) {
	m := &Memory{}
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("read the record of ignored paths: %w", err)
	}
	if m.Version != version {
		return nil, fmt.Errorf("the record of ignored paths has version %d, not %d", m.Version, version)
	}
	for _, f := range m.Files {
		if f.File == nil {
			return nil, errors.New("the record of ignored paths is malformed")
		}
	}
	return m, nil
}

// Store is the file, in a directory that stays the caller's.
type Store struct {
	dir  int
	name string
}

// NewStore is the file of that name in the directory behind a descriptor.
func NewStore(dir int, name string) *Store { return &Store{dir, name} }

// Load reads it, nil when there is none.
func (f *Store) Load() ([]byte, error) {
	b, err := fdfs.ReadRegular(f.dir, f.name, Max)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

// Save replaces it, durably and at once.
func (f *Store) Save(b []byte) error {
	next := f.name + ".next"
	// What a crash left is no one's.
	if err := unix.Unlinkat(f.dir, next, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return &os.PathError{Op: "unlink", Path: next, Err: err}
	}
	fd, err := unix.Openat(f.dir, next, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &os.PathError{Op: "create", Path: next, Err: err}
	}
	w := os.NewFile(uintptr(fd), next)
	_, werr := w.Write(b)
	if err := errors.Join(werr, w.Sync(), w.Close()); err != nil {
		return err
	}
	if err := unix.Renameat(f.dir, next, f.dir, f.name); err != nil {
		return &os.PathError{Op: "rename", Path: next, Err: err}
	}
	d, err := os.Open(fdfs.Path(f.dir))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
