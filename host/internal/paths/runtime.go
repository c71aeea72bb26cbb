package paths

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/paths/internal/dirfd"
)

// Runtime is Lazaret's private runtime directory: sockets, and the empty
// directories over which a generation is assembled. It holds nothing that
// outlives a Domain generation.
type Runtime struct {
	path string
	uid  int
}

// Runtime opens, and if necessary makes, $XDG_RUNTIME_DIR/lazaret. Where
// XDG_RUNTIME_DIR is unset or not a private directory of the user's, it is
// /tmp/lazaret-<uid> instead, and warning says so in one line; printing it is
// the caller's affair. It is an error when that one is not private either.
func (h Host) Runtime() (r Runtime, warning string, err error) {
	base, why := h.xdgRuntime()
	if why == "" {
		r = Runtime{path: filepath.Join(base, "lazaret"), uid: h.UID}
	} else {
		r = Runtime{path: h.fallbackRuntime(), uid: h.UID}
		warning = fmt.Sprintf("%s: using %s", why, r.path)
	}
	fd, err := dirfd.OpenRoot(r.path, h.UID, dirfd.NoEntry, true)
	if err != nil {
		return Runtime{}, "", err
	}
	unix.Close(fd)
	return r, warning, nil
}

// RuntimePaths returns where runtime directories of this user may be, whether
// or not they exist: the one in XDG_RUNTIME_DIR where that is usable, and the
// fallback. A Domain that was started without XDG_RUNTIME_DIR (from cron, or
// after su) lives in the second one. No sandbox may see either.
func (h Host) RuntimePaths() []string {
	var out []string
	if base, why := h.xdgRuntime(); why == "" {
		out = append(out, filepath.Join(base, "lazaret"))
	}
	return append(out, h.fallbackRuntime())
}

// Runtimes returns the runtime directories that exist and are private.
func (h Host) Runtimes() []Runtime {
	var out []Runtime
	for _, p := range h.RuntimePaths() {
		if fd, err := dirfd.OpenRoot(p, h.UID, dirfd.NoEntry, false); err == nil {
			unix.Close(fd)
			out = append(out, Runtime{path: p, uid: h.UID})
		}
	}
	return out
}

func (h Host) fallbackRuntime() string {
	return filepath.Join(h.TempDir, fmt.Sprintf("lazaret-%d", h.UID))
}

// patternChars mean something in a glob pattern. runsc finds its state, which
// lies in the runtime directory, by such a pattern.
const patternChars = `*?[\`

// xdgRuntime returns the canonical XDG_RUNTIME_DIR, or why it is not used.
func (h Host) xdgRuntime() (dir, why string) {
	v := h.Getenv("XDG_RUNTIME_DIR")
	if v == "" {
		return "", "XDG_RUNTIME_DIR is not set"
	}
	if !filepath.IsAbs(v) {
		return "", fmt.Sprintf("XDG_RUNTIME_DIR=%q is not an absolute path", v)
	}
	fi, err := os.Lstat(filepath.Clean(v))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Sprintf("XDG_RUNTIME_DIR=%q does not exist", v)
	case err != nil:
		return "", fmt.Sprintf("XDG_RUNTIME_DIR=%q cannot be used (%v)", v, errors.Unwrap(err))
	case !fi.IsDir():
		return "", fmt.Sprintf("XDG_RUNTIME_DIR=%q is not a directory", v)
	}
	real, err := Resolve(v)
	if err != nil {
		return "", fmt.Sprintf("XDG_RUNTIME_DIR=%q cannot be resolved", v)
	}
	if strings.ContainsAny(real, patternChars) {
		return "", fmt.Sprintf("XDG_RUNTIME_DIR=%q has one of the characters %s, which runsc takes for a pattern", v, patternChars)
	}
	fd, err := dirfd.OpenRoot(real, h.UID, dirfd.NoEntry, false)
	if err != nil {
		return "", fmt.Sprintf("XDG_RUNTIME_DIR=%q is not yours alone", v)
	}
	unix.Close(fd)
	return real, ""
}

// Path returns the directory's path.
func (r Runtime) Path() string { return r.path }

// Domain opens, and if necessary makes, the Domain's directory and returns its
// path. It is 0700 and the user's.
func (r Runtime) Domain(id string) (string, error) {
	return r.dir(id)
}

// DomainDir is [Runtime.Domain] for a directory within the Domain's: names
// are made one below the other.
func (r Runtime) DomainDir(id string, names ...string) (string, error) {
	return r.dir(append([]string{id}, names...)...)
}

func (r Runtime) dir(names ...string) (string, error) {
	for _, n := range names {
		if err := checkName("runtime directory", n); err != nil {
			return "", err
		}
	}
	fd, err := dirfd.Walk(r.path, names, r.uid, dirfd.NoEntry, true)
	if err != nil {
		return "", err
	}
	unix.Close(fd)
	return filepath.Join(append([]string{r.path}, names...)...), nil
}

// DomainPath returns the path of a Domain's directory and makes nothing.
func (r Runtime) DomainPath(id string) string { return filepath.Join(r.path, id) }

// Domains returns the ids of the Domains that have a directory here, sorted.
func (r Runtime) Domains() ([]string, error) {
	fd, err := dirfd.OpenRoot(r.path, r.uid, dirfd.NoEntry, false)
	if err != nil {
		return nil, err
	}
	d := os.NewFile(uintptr(fd), r.path)
	defer d.Close()
	entries, err := d.ReadDir(-1)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", r.path, err)
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() && IsDomainID(e.Name()) {
			out = append(out, e.Name())
		}
	}
	sort.Strings(out)
	return out, nil
}

// MaxSocketPath is the longest address of a Unix socket: sun_path has 108
// bytes, one of which ends the string.
const MaxSocketPath = 107

// CheckSockets refuses a directory in which one of the sockets named by
// suffixes (relative paths, "r/runsc-….sock") would have an address that is
// too long. It is asked before anything is started, so that nobody has to
// guess what bind's "invalid argument" means.
func CheckSockets(dir string, suffixes ...string) error {
	longest := ""
	for _, s := range suffixes {
		if p := filepath.Join(dir, s); len(p) > len(longest) {
			longest = p
		}
	}
	if len(longest) <= MaxSocketPath {
		return nil
	}
	return refuse(KindSocketPath,
		fmt.Sprintf("set XDG_RUNTIME_DIR to a private directory (mode 0700) with a shorter path (by %d, in bytes), or unset it to use /tmp", len(longest)-MaxSocketPath),
		"cannot use %q: a Unix socket's path is limited to %d bytes, and %q has %d", dir, MaxSocketPath, longest, len(longest))
}
