// Package dirfd opens and makes directories relative to descriptors, one
// component after the other, without following symbolic links, and checks
// owner and mode on the descriptor. It runs wherever package paths does and
// knows no layout.
package dirfd

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/paths/internal/refusal"
	"lazaret.dev/lazaret/protocol/launch"
)

// Privacy is what a directory's mode has to say to others.
type Privacy uint32

// What may be demanded.
const (
	NoWrite Privacy = 0o22 // nobody else may change it
	NoEntry Privacy = 0o77 // nobody else may do anything
)

// checkDir refuses a directory that is not uid's, or whose mode has one of the
// bits in p.
func checkDir(fd int, path string, uid int, p Privacy) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("stat %q: %w", path, err)
	}
	if int(st.Uid) != uid {
		return refusal.New(refusal.Unsafe, fmt.Sprintf("look at who made it: ls -ld %s", Quote(path)),
			"cannot use %q: it belongs to uid %d, not to you (uid %d)", path, st.Uid, uid)
	}
	if st.Mode&uint32(p) != 0 {
		return refusal.New(refusal.Unsafe, fmt.Sprintf("if its content is yours: chmod %s %s", chmodArg(p), Quote(path)),
			"cannot use %q: its mode %#o lets others in", path, st.Mode&0o777)
	}
	return nil
}

func chmodArg(p Privacy) string {
	if p == NoEntry {
		return "700"
	}
	return "go-w"
}

// Quote renders a path as one word of a POSIX shell.
func Quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// createTries bounds how often a directory is made that somebody removes.
const createTries = 100

// openBelow opens name in the directory at without following a link. With
// create it makes a missing directory, 0700. path is for messages.
func openBelow(at int, name, path string, create bool) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(at, name, flags, 0)
	// Another process may make it at the same moment, which is as good, or
	// remove it as long as it is empty, as a generation does with its own.
	for tries := 0; create && errors.Is(err, unix.ENOENT) && tries < createTries; tries++ {
		if err := unix.Mkdirat(at, name, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
			return -1, fmt.Errorf("create %q: %w", path, err)
		}
		fd, err = unix.Openat(at, name, flags, 0)
	}
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
		return -1, &refusal.Error{
			Kind: refusal.Unsafe, Msg: fmt.Sprintf("cannot use %q: it is not a directory, or a symbolic link", path),
			Fix: fmt.Sprintf("look at it: ls -ld %s", Quote(path)), Err: err,
		}
	case err != nil:
		return -1, fmt.Errorf("open %q: %w", path, err)
	}
	return fd, nil
}

// passBelow is [openBelow] for a directory on the way, of which only the right
// to pass is needed.
func passBelow(at int, name, path string, create bool) (int, error) {
	fd, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if create && errors.Is(err, unix.ENOENT) {
		return openBelow(at, name, path, create)
	}
	if err != nil {
		return -1, fmt.Errorf("open %q: %w", path, err)
	}
	return fd, nil
}

// OpenRoot opens a canonical absolute directory, walking from "/" without
// following links, and makes what is missing if create is set. The last
// directory must be uid's and p's.
func OpenRoot(path string, uid int, p Privacy, create bool) (int, error) {
	at, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open %q: %w", "/", err)
	}
	names := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	if len(names) == 0 {
		unix.Close(at)
		return -1, refusal.New(refusal.Unsafe, "", "cannot use %q as a directory of Lazaret's", path)
	}
	var walked strings.Builder
	for i, name := range names {
		walked.WriteString("/" + name)
		var next int
		if i < len(names)-1 {
			next, err = passBelow(at, name, walked.String(), create)
		} else {
			next, err = openBelow(at, name, walked.String(), create)
		}
		unix.Close(at)
		if err != nil {
			return -1, err
		}
		at = next
	}
	if err := checkDir(at, path, uid, p); err != nil {
		unix.Close(at)
		return -1, err
	}
	return at, nil
}

// Walk opens the directory names below root, one after the other; each must be
// uid's and p's. It returns the last one's descriptor, which the caller closes.
func Walk(root string, names []string, uid int, p Privacy, create bool) (int, error) {
	at, err := OpenRoot(root, uid, p&NoWrite, create)
	if err != nil {
		return -1, err
	}
	path := root
	for _, name := range names {
		path = filepath.Join(path, name)
		next, err := openBelow(at, name, path, create)
		unix.Close(at)
		if err != nil {
			return -1, err
		}
		at = next
		if err := checkDir(at, path, uid, p); err != nil {
			unix.Close(at)
			return -1, err
		}
	}
	return at, nil
}

// Identify returns path with the identity of the open file fd.
func Identify(fd int, path string) (launch.Ref, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return launch.Ref{}, fmt.Errorf("stat %q: %w", path, err)
	}
	return launch.Ref{Path: path, Dev: st.Dev, Ino: st.Ino}, nil
}
