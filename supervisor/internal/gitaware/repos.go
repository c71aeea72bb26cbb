package gitaware

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/fdfs"
	"lazaret.dev/lazaret/supervisor/internal/gitodb"
	"lazaret.dev/lazaret/supervisor/internal/route"
	"lazaret.dev/lazaret/supervisor/internal/sentry/gitconfig"
)

// pointerLimit bounds a .git file and commondir, in bytes.
const pointerLimit = 64 << 10

// repositories finds the host's repositories for the router. What a pointer of
// the host's says is the host's word: nothing inside can make or change one.
type repositories struct {
	host
	root string // the workspace's absolute path
}

// Repository opens the repository whose working tree has dir for its root.
func (r repositories) Repository(dir string) (*route.Repo, error) {
	name := ".git"
	if dir != "" {
		name = dir + "/.git"
	}
	st, err := r.lstat(name)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		fd, err := fdfs.Open(r.fd, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, true)
		if err != nil {
			return nil, err
		}
		return openRepo(fd, path.Join(r.root, name))
	case unix.S_IFREG:
		b, err := fdfs.ReadRegular(r.fd, name, pointerLimit)
		if err != nil {
			return nil, err
		}
		to, ok := strings.CutPrefix(strings.TrimRight(string(b), "\r\n"), "gitdir: ")
		if !ok {
			return nil, nil // Git does not follow it either
		}
		return openAt(absolute(path.Join(r.root, dir), to))
	case unix.S_IFLNK:
		to, err := guarded{r.host}.ReadLink(name)
		if err != nil {
			return nil, err
		}
		return openAt(absolute(path.Join(r.root, dir), to))
	default:
		return nil, nil
	}
}

func absolute(base, to string) string {
	if path.IsAbs(to) {
		return path.Clean(to)
	}
	return path.Join(base, to)
}

// openAt opens a gitdir of the host by its path. One that is not there is
// none.
func openAt(dir string) (*route.Repo, error) {
	fd, err := fdfs.Open(unix.AT_FDCWD, dir, unix.O_PATH|unix.O_DIRECTORY, false)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return openRepo(fd, dir)
}

// openRepo opens what the router reads of the gitdir fd, which it takes over.
func openRepo(fd int, dir string) (*route.Repo, error) {
	fds := []int{fd}
	closeAll := func() error {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
		return nil
	}
	common := fd
	if b, err := fdfs.ReadRegular(fd, "commondir", pointerLimit); err == nil {
		at := absolute(dir, strings.TrimRight(string(b), "\r\n"))
		if common, err = fdfs.Open(unix.AT_FDCWD, at, unix.O_PATH|unix.O_DIRECTORY, false); err != nil {
			return nil, errors.Join(fmt.Errorf("open the common directory of %q: %w", dir, err), closeAll())
		}
		fds = append(fds, common)
	}
	objects, err := fdfs.Open(common, "objects", unix.O_PATH|unix.O_DIRECTORY, true)
	if gone(err) {
		_ = closeAll()
		return nil, nil // no repository, whatever its name
	}
	if err != nil {
		return nil, errors.Join(err, closeAll())
	}
	fds = append(fds, objects)
	config, err := fdfs.ReadRegular(common, "config", gitconfig.MaxSize)
	if err != nil && !gone(err) {
		return nil, errors.Join(err, closeAll())
	}
	size, err := gitodb.HashSize(config)
	if err != nil {
		return nil, errors.Join(err, closeAll())
	}
	return &route.Repo{
		GitDir: gitodb.At(fd), Common: gitodb.At(common), Objects: gitodb.At(objects), HashSize: size,
		Alternate: alternate, Close: closeAll,
	}, nil
}

// alternate opens an object directory that the host's repository borrows from.
// A relative one is not followed, and its repository's texts count as known.
func alternate(_ gitodb.Dir, name string) (gitodb.Dir, func() error, error) {
	if !path.IsAbs(name) {
		return nil, nil, fmt.Errorf("the object directory %q is relative", name)
	}
	fd, err := fdfs.Open(unix.AT_FDCWD, path.Clean(name), unix.O_PATH|unix.O_DIRECTORY, false)
	if err != nil {
		return nil, nil, err
	}
	return gitodb.At(fd), func() error { return unix.Close(fd) }, nil
}
