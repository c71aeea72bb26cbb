package gitaware

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/fdfs"
	"lazaret.dev/lazaret/supervisor/internal/route"
	"lazaret.dev/lazaret/supervisor/internal/sentry/gitdir"
)

// host is the host's workspace, read relative to its root's descriptor. No
// link is followed.
type host struct{ fd int }

// gone tells whether an error says that there is nothing.
func gone(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

func (h host) lstat(path string) (unix.Stat_t, error) {
	fd, err := fdfs.Open(h.fd, path, unix.O_PATH|unix.O_NOFOLLOW, true)
	if err != nil {
		return unix.Stat_t{}, err
	}
	defer func() { _ = unix.Close(fd) }()
	return fdfs.Stat(fd)
}

func (h host) dirents(path string) ([]os.DirEntry, error) {
	fd, err := fdfs.Open(h.fd, path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, true)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	defer func() { _ = f.Close() }()
	return f.ReadDir(-1)
}

// routes is the workspace as the router reads it.
type routes struct{ host }

func (h routes) ReadFile(path string, limit int64) ([]byte, error) {
	return fdfs.ReadRegular(h.fd, path, limit)
}

func (h routes) ReadDir(path string) ([]route.Entry, error) {
	entries, err := h.dirents(path)
	out := make([]route.Entry, 0, len(entries))
	for _, e := range entries {
		out = append(out, route.Entry{Name: e.Name(), Kind: routeKind(e.Type())})
	}
	return out, err
}

func routeKind(m os.FileMode) route.Kind {
	switch m.Type() {
	case 0:
		return route.Regular
	case os.ModeDir:
		return route.Directory
	default:
		return route.Other
	}
}

func (h routes) Lstat(path string) (route.Entry, error) {
	st, err := h.lstat(path)
	e := route.Entry{Dev: st.Dev, Ino: st.Ino, Nlink: st.Nlink, Size: st.Size, Sec: st.Mtim.Sec, Nsec: st.Mtim.Nsec}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		e.Kind = route.Regular
	case unix.S_IFDIR:
		e.Kind = route.Directory
	}
	return e, err
}

// guarded is the workspace as the sentry reads it.
type guarded struct{ host }

func (h guarded) Lookup(dir, name string) (gitdir.Kind, error) {
	st, err := h.lstat(gitdir.Join(dir, name))
	if gone(err) {
		return gitdir.Absent, nil
	}
	if err != nil {
		return gitdir.Absent, err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return gitdir.File, nil
	case unix.S_IFDIR:
		return gitdir.Dir, nil
	case unix.S_IFLNK:
		return gitdir.Symlink, nil
	default:
		return gitdir.Other, nil
	}
}

func (h guarded) ReadDir(path string) ([]gitdir.Entry, error) {
	entries, err := h.dirents(path)
	out := make([]gitdir.Entry, 0, len(entries))
	for _, e := range entries {
		kind := gitdir.Other
		switch {
		case e.Type().IsRegular():
			kind = gitdir.File
		case e.IsDir():
			kind = gitdir.Dir
		case e.Type() == os.ModeSymlink:
			kind = gitdir.Symlink
		}
		out = append(out, gitdir.Entry{Name: e.Name(), Kind: kind})
	}
	return out, err
}

func (h guarded) ReadFile(path string, limit int64) ([]byte, error) {
	return fdfs.ReadRegular(h.fd, path, limit)
}

func (h guarded) ReadLink(path string) (string, error) {
	fd, err := fdfs.Open(h.fd, path, unix.O_PATH|unix.O_NOFOLLOW, true)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", b)
	if err != nil {
		return "", os.NewSyscallError("readlinkat", err)
	}
	return string(b[:n]), nil
}
