// Package claim makes files at places that anybody can guess, and never touches
// what somebody else has put there.
//
// A file of a generation is made under a name that holds the generation's id,
// which is on the disk before and which nobody else has; its identity goes on
// record; then it is moved to its place, where it replaces nothing. So whatever
// is found at such a place is either exactly what a record says or another's,
// at any instant at which a process can die. It runs in the Host Coordinator,
// and where a client removes what its dead coordinator has left.
package claim

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Staged is the path at which a generation makes what will be dir/name. Names
// in one directory differ in their first letter; sockets' addresses are short.
func Staged(dir, generation, name string) string {
	return filepath.Join(dir, "."+generation+"."+name[:1])
}

// TakenError reports a place at which something is that is not the caller's.
type TakenError struct {
	Path string
	What string // "a directory"
}

// Error implements error.
func (e *TakenError) Error() string {
	return fmt.Sprintf("cannot use %q: %s is there that no generation of this Domain has put on record", e.Path, e.What)
}

// Hint says how to go on without losing what is there.
func (e *TakenError) Hint() string {
	return MoveAway(e.Path)
}

// MoveAway is the hint for a place at which something foreign is.
func MoveAway(path string) string {
	return fmt.Sprintf("look at it, and move it away: mv %s %[1]s.foreign", Quote(path))
}

// Quote quotes a path for a shell.
func Quote(path string) string { return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'" }

// Move moves what was staged to its place. It fails with *TakenError where
// anything is there, and replaces nothing, not even an empty directory.
func Move(staged, place string) error {
	err := unix.Renameat2(unix.AT_FDCWD, staged, unix.AT_FDCWD, place, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EEXIST) {
		return &TakenError{Path: place, What: Kind(place)}
	}
	if err != nil {
		return fmt.Errorf("move %q to %q: %w", staged, place, err)
	}
	return nil
}

// Free refuses the first of the places at which anything is, with *TakenError.
func Free(places ...string) error {
	for _, p := range places {
		switch _, err := os.Lstat(p); {
		case err == nil:
			return &TakenError{Path: p, What: Kind(p)}
		case errors.Is(err, unix.ENOTDIR):
			dir := filepath.Dir(p)
			return &TakenError{Path: dir, What: Kind(dir)}
		case !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("look at a place in the runtime directory: %w", err)
		}
	}
	return nil
}

// Kind says what is at a path, for people.
func Kind(path string) string {
	fi, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return "nothing"
	case err != nil:
		return "something"
	case fi.IsDir():
		return "a directory"
	case fi.Mode()&fs.ModeSymlink != 0:
		return "a symbolic link"
	case fi.Mode()&fs.ModeSocket != 0:
		return "a socket"
	case fi.Mode().IsRegular():
		return "a file"
	default:
		return "a special file"
	}
}

// Identity tells a file from every other, as far as its filesystem can: the
// number of an inode is used again soon after its file is gone, so that type and
// birth count too. What is zero is not known.
type Identity struct {
	Dev  uint64
	Ino  uint64
	Type uint32 // the file type bits of stat's mode
	Born int64  // in nanoseconds; compared, never ordered
}

// File is a file or directory that somebody owns, by where it is looked for.
type File struct {
	Path string
	Identity
}

// Identities are files as they go on record.
func Identities(files []File) map[string]Identity {
	out := make(map[string]Identity, len(files))
	for _, f := range files {
		out[f.Path] = f.Identity
	}
	return out
}

// Identify identifies what is at a path, which may be a symbolic link.
func Identify(path string) (File, error) {
	var st unix.Statx_t
	const mask = unix.STATX_TYPE | unix.STATX_INO | unix.STATX_BTIME
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, mask, &st); err != nil {
		return File{}, &os.PathError{Op: "statx", Path: path, Err: err}
	}
	f := File{Path: path, Identity: Identity{
		Dev: unix.Mkdev(st.Dev_major, st.Dev_minor), Ino: st.Ino, Type: uint32(st.Mode) & unix.S_IFMT,
	}}
	if st.Mask&unix.STATX_BTIME != 0 {
		f.Born = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
	}
	return f, nil
}

// is reports whether what is found now is what was known then.
func (i Identity) is(now Identity, sameBoot bool) bool {
	return i.Ino == now.Ino && (i.Dev == now.Dev || !sameBoot) && (i.Type == 0 || i.Type == now.Type) &&
		(i.Born == 0 || now.Born == 0 || i.Born == now.Born)
}

// Finding is what is at a place.
type Finding string

// The findings.
const (
	Nothing Finding = "nothing"
	Ours    Finding = "ours"    // exactly what the record says
	Foreign Finding = "foreign" // anything else
)

// Look compares what is at a place with its record, and touches nothing. Devices
// are numbered anew at each boot, so that only within one boot their numbers
// tell anything.
func Look(f File, sameBoot bool) (Finding, error) {
	now, err := Identify(f.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return Nothing, nil
	case err != nil:
		return "", err
	case f.is(now.Identity, sameBoot):
		return Ours, nil
	default:
		return Foreign, nil
	}
}

// Remove removes the file or empty directory at a place when it is the one on
// record. Anything else there stays, and is no error.
func Remove(f File, sameBoot bool) error {
	if found, err := Look(f, sameBoot); found != Ours {
		return err
	}
	return Unlink(f.Path)
}

// RemoveTree is Remove for a directory with what is in it.
func RemoveTree(f File, sameBoot bool) error {
	if found, err := Look(f, sameBoot); found != Ours {
		return err
	}
	dir, err := os.OpenRoot(filepath.Dir(f.Path))
	if err != nil {
		return fmt.Errorf("remove %q: %w", f.Path, err)
	}
	defer dir.Close()
	if err := dir.RemoveAll(filepath.Base(f.Path)); err != nil {
		return fmt.Errorf("remove %q: %w", f.Path, err)
	}
	return nil
}

// Unlink removes a file or an empty directory; one that is gone is no error.
func Unlink(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
		return fmt.Errorf("remove: %w", err)
	}
	return nil
}
