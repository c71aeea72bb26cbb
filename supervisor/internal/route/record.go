package route

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/fdfs"
)

// maxRecord bounds the record. A router that would exceed it refuses what
// would make it grow.
const maxRecord = 64 << 20

// recordVersion is the record's format; another is refused.
const recordVersion = 1

var errFull = errors.New("the record of ignored paths is full: `lazaret ignore accept` empties it")

// memory is the durable part of the router. Paths are bytes, not text.
type memory struct {
	Version int
	Files   []storedFile
	Roots   []storedRoot
	Kept    [][]byte
	Moved   [][]byte
}

type storedFile struct {
	Path []byte
	File *file
}

type storedRoot struct {
	Dir     []byte
	Doubted bool
}

func (r *Router) save() error {
	m := memory{Version: recordVersion}
	for path, f := range r.files {
		if f.Current.Absent && len(f.Earlier) == 0 && f.Open == 0 && !f.Aliased {
			continue // as if it had never been
		}
		m.Files = append(m.Files, storedFile{[]byte(path), f})
	}
	for dir, root := range r.roots {
		m.Roots = append(m.Roots, storedRoot{[]byte(dir), root.doubted})
	}
	for path := range r.kept {
		m.Kept = append(m.Kept, []byte(path))
	}
	for path := range r.moved {
		m.Moved = append(m.Moved, []byte(path))
	}
	b, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode the record of ignored paths: %w", err)
	}
	if len(b) > maxRecord {
		return errFull
	}
	if err := r.record.Save(b); err != nil {
		return fmt.Errorf("save the record of ignored paths: %w", err)
	}
	return nil
}

// load takes what an earlier generation saved; first is true if there was
// none.
func (r *Router) load() (first bool, err error) {
	b, err := r.record.Load()
	if err != nil {
		return false, fmt.Errorf("load the record of ignored paths: %w", err)
	}
	if b == nil {
		return true, nil
	}
	var m memory
	if err := json.Unmarshal(b, &m); err != nil {
		return false, fmt.Errorf("read the record of ignored paths: %w", err)
	}
	if m.Version != recordVersion {
		return false, fmt.Errorf("the record of ignored paths has version %d, not %d", m.Version, recordVersion)
	}
	for _, f := range m.Files {
		if f.File == nil {
			return false, errors.New("the record of ignored paths is malformed")
		}
		r.files[string(f.Path)] = f.File
	}
	for _, root := range m.Roots {
		r.roots[string(root.Dir)] = &repository{doubted: root.Doubted}
	}
	for _, path := range m.Kept {
		r.keepTracked(string(path))
	}
	for _, path := range m.Moved {
		r.moved[string(path)] = true
	}
	return false, nil
}

// NewRecord is a record in a directory that is no sandbox's, by its
// descriptor, which stays the caller's.
func NewRecord(dir int, name string) Record { return &recordFile{dir, name} }

type recordFile struct {
	dir  int
	name string
}

func (f *recordFile) Load() ([]byte, error) {
	b, err := fdfs.ReadRegular(f.dir, f.name, maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

func (f *recordFile) Save(b []byte) error {
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
