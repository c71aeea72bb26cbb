package paths

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/launch"
)

var component = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)

// checkName refuses what must not become a path component.
func checkName(what, name string) error {
	if !component.MatchString(name) {
		return refuse(KindName, "", "cannot use %q as a %s", name, what)
	}
	return nil
}

// Resolve returns path with every symbolic link resolved. Components that do
// not exist yet are kept as they are, so that a directory that is still to be
// made can be compared with others. It is an error if path is not absolute.
func Resolve(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("resolve %q: not an absolute path", path)
	}
	path = filepath.Clean(path)
	rest := ""
	for p := path; ; p = filepath.Dir(p) {
		real, err := filepath.EvalSymlinks(p)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if !errors.Is(err, fs.ErrNotExist) || p == "/" {
			return "", fmt.Errorf("resolve %q: %w", path, err)
		}
		// A link that leads nowhere has a name but no place: nothing can be
		// made behind it without following it.
		if _, err := os.Lstat(p); err == nil {
			return "", fmt.Errorf("resolve %q: %q is a symbolic link to a place that does not exist", path, p)
		}
		rest = filepath.Join(filepath.Base(p), rest)
	}
}

// Within reports whether path is dir or lies beneath it. Both are canonical.
func Within(dir, path string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// Identify opens path without following a link in its last component and
// returns it with the identity found there.
func Identify(path string) (launch.Ref, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return launch.Ref{}, fmt.Errorf("open %q: %w", path, err)
	}
	defer unix.Close(fd)
	return identify(fd, path)
}

func identify(fd int, path string) (launch.Ref, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return launch.Ref{}, fmt.Errorf("stat %q: %w", path, err)
	}
	return launch.Ref{Path: path, Dev: st.Dev, Ino: st.Ino}, nil
}

// privacy is what a directory's mode has to say to others.
type privacy uint32

const (
	anyMode privacy = 0    // somebody else's directory on the way
	noWrite privacy = 0o22 // nobody else may change it
	noEntry privacy = 0o77 // nobody else may do anything
)

// checkDir refuses a directory that is not uid's, or whose mode has one of the
// bits in p.
func checkDir(fd int, path string, uid int, p privacy) error {
	if p == anyMode {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("stat %q: %w", path, err)
	}
	if int(st.Uid) != uid {
		return refuse(KindUnsafe, fmt.Sprintf("look at who made it: ls -ld %s", quote(path)),
			"cannot use %q: it belongs to uid %d, not to you (uid %d)", path, st.Uid, uid)
	}
	if st.Mode&uint32(p) != 0 {
		return refuse(KindUnsafe, fmt.Sprintf("if its content is yours: chmod %s %s", chmodArg(p), quote(path)),
			"cannot use %q: its mode %#o lets others in", path, st.Mode&0o777)
	}
	return nil
}

func chmodArg(p privacy) string {
	if p == noEntry {
		return "700"
	}
	return "go-w"
}

// quote renders a path as one word of a POSIX shell.
func quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// openBelow opens name in the directory at without following a link. With
// create it makes a missing directory, 0700. path is for messages.
func openBelow(at int, name, path string, create bool) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	if create {
		if err := unix.Mkdirat(at, name, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
			return -1, fmt.Errorf("create %q: %w", path, err)
		}
	}
	fd, err := unix.Openat(at, name, flags, 0)
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
		return -1, &Error{Kind: KindUnsafe, Msg: fmt.Sprintf("cannot use %q: it is not a directory, or a symbolic link", path),
			Fix: fmt.Sprintf("look at it: ls -ld %s", quote(path)), Err: err}
	case err != nil:
		return -1, fmt.Errorf("open %q: %w", path, err)
	}
	return fd, nil
}

// openRoot opens a canonical absolute directory, walking from "/" without
// following links, and makes what is missing if create is set. The last
// directory must be uid's and p's.
func openRoot(path string, uid int, p privacy, create bool) (int, error) {
	at, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open %q: %w", "/", err)
	}
	names := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	if len(names) == 0 {
		unix.Close(at)
		return -1, refuse(KindUnsafe, "", "cannot use %q as a directory of Lazaret's", path)
	}
	walked := ""
	for i, name := range names {
		walked += "/" + name
		next, err := -1, error(nil)
		if i < len(names)-1 {
			// Only the right to pass is needed on the way.
			next, err = unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		}
		if i == len(names)-1 || (create && errors.Is(err, unix.ENOENT)) {
			next, err = openBelow(at, name, walked, create)
		}
		unix.Close(at)
		if err != nil {
			return -1, fmt.Errorf("open %q: %w", walked, err)
		}
		at = next
	}
	if err := checkDir(at, path, uid, p); err != nil {
		unix.Close(at)
		return -1, err
	}
	return at, nil
}

// walk opens the directory names below root, one after the other; each must be
// uid's and p's. It returns the last one's descriptor, which the caller closes.
func walk(root string, names []string, uid int, p privacy, create bool) (int, error) {
	at, err := openRoot(root, uid, p&noWrite, create)
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

// maxLinks is how many symbolic links one path may lead through, as in the
// kernel.
const maxLinks = 40

// ResolveTrusted is [Resolve] for a path that may lead through directories in
// which a sandbox can write: it refuses each symbolic link that lies in or
// beneath one of untrusted (canonical). Otherwise a link that an agent left
// there would choose what the next sandbox sees.
func ResolveTrusted(path string, untrusted []string) (string, error) {
	split := func(s string) []string {
		return strings.FieldsFunc(s, func(r rune) bool { return r == '/' })
	}
	cur, todo := "/", split(filepath.Clean(path))
	for links := 0; len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		switch name {
		case ".":
			continue
		case "..":
			cur = filepath.Dir(cur)
			continue
		}
		next := filepath.Join(cur, name)
		fi, err := os.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) && links == 0 {
			return filepath.Join(append([]string{next}, todo...)...), nil
		}
		if err != nil {
			return "", fmt.Errorf("resolve %q: %w", path, err)
		}
		if fi.Mode()&fs.ModeSymlink == 0 {
			cur = next
			continue
		}
		for _, u := range untrusted {
			if Within(u, cur) {
				return "", refuse(KindUnsafe, "remove the link, or name the directory that it leads to",
					"cannot use %q: %q is a symbolic link in a place where an agent can write", path, next)
			}
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("resolve %q: %w", path, unix.ELOOP)
		}
		to, err := os.Readlink(next)
		if err != nil {
			return "", fmt.Errorf("resolve %q: %w", path, err)
		}
		if filepath.IsAbs(to) {
			cur = "/"
		}
		todo = append(split(to), todo...)
	}
	return cur, nil
}
