package paths

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/paths/internal/dirfd"
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
	return dirfd.Identify(fd, path)
}

// maxLinks is how many symbolic links one path may lead through, as in the
// kernel.
const maxLinks = 40

// ResolveTrusted is [Resolve] for a path that may lead through directories in
// which a sandbox can write: it refuses each symbolic link that lies in or
// beneath one of untrusted (canonical). Otherwise a link that an agent left
// there would choose what the next sandbox sees. What does not exist yet is
// kept as it is.
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
		if errors.Is(err, fs.ErrNotExist) && !slices.Contains(todo, "..") {
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
