package mounts

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/launch"
	"lazaret.dev/lazaret/supervisor/internal/fdfs"
)

// lower builds Lazaret's own lower layer, which lies over the prepared one. It
// holds the mount points and the few files that are Lazaret's, so that none of
// them ever lands in an upper layer. Each directory on the way to them is a
// copy of the image's in mode, owner and time, so that stacking it changes
// nothing that can be seen.
type lower struct {
	dir      int // the layer
	prepared int // the image's tree
	times    []timed
}

// timed is a directory whose time is set when everything is in it.
type timed struct {
	fd int
	st unix.Stat_t
}

// linkError reports a symbolic link of the image where a directory is needed.
type linkError struct{ path string }

func (e *linkError) Error() string {
	return fmt.Sprintf("the image has a symbolic link or a file at %s, where a directory is needed", e.path)
}

// at walks to the directory that will hold target's last component, making
// what is missing, and returns it; the caller closes it.
func (l *lower) at(target string) (int, error) {
	fd, err := fdfs.Open(l.dir, ".", unix.O_PATH|unix.O_DIRECTORY, true)
	if err != nil {
		return -1, err
	}
	prefix := "/"
	for name := range strings.SplitSeq(strings.Trim(path.Dir(target), "/"), "/") {
		if name == "" {
			break
		}
		prefix = path.Join(prefix, name)
		next, err := l.descend(fd, prefix, name)
		_ = unix.Close(fd)
		if err != nil {
			return -1, err
		}
		fd = next
	}
	return fd, nil
}

// descend opens the layer's directory name at prefix, below dir, making it as
// the image has it.
func (l *lower) descend(dir int, prefix, name string) (int, error) {
	if fd, err := fdfs.Open(dir, name, unix.O_PATH|unix.O_DIRECTORY, true); !errors.Is(err, os.ErrNotExist) {
		return fd, err
	}
	st, found, err := l.image(prefix)
	if err != nil {
		return -1, err
	}
	if found && !fdfs.IsDir(&st) {
		return -1, &linkError{prefix}
	}
	fd, err := fdfs.Mkdir(dir, name, 0o755)
	if err != nil || !found {
		return fd, err
	}
	if err := l.like(fd, st); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// like makes the layer's directory fd look as the image's.
func (l *lower) like(fd int, st unix.Stat_t) error {
	if err := fdfs.CopyAttributes(fd, &st); err != nil {
		return err
	}
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	l.times = append(l.times, timed{dup, st})
	return nil
}

// image looks up a path in the prepared tree, without following links.
func (l *lower) image(p string) (st unix.Stat_t, found bool, err error) {
	fd, err := fdfs.Open(l.prepared, p, unix.O_PATH|unix.O_NOFOLLOW, true)
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
		return st, false, &linkError{path.Dir(p)}
	case errors.Is(err, os.ErrNotExist):
		return st, false, nil
	case err != nil:
		return st, false, err
	}
	defer func() { _ = unix.Close(fd) }()
	st, err = fdfs.Stat(fd)
	return st, err == nil, err
}

// mkdir makes the directory target: as the image has it, else with mode. What
// else the image has there is hidden.
func (l *lower) mkdir(target string, mode uint32) error {
	parent, err := l.at(target)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(parent) }()
	fd, err := fdfs.Mkdir(parent, path.Base(target), mode)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	st, found, err := l.image(target)
	if err != nil || !found || !fdfs.IsDir(&st) {
		return err
	}
	return l.like(fd, st)
}

// file makes the file target.
func (l *lower) file(target string, text []byte) error {
	parent, err := l.at(target)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(parent) }()
	err = fdfs.WriteFile(parent, path.Base(target), 0o644, text)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

// symlink makes the symbolic link target.
func (l *lower) symlink(target, to string) error {
	parent, err := l.at(target)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(parent) }()
	return os.NewSyscallError("symlink", unix.Symlinkat(to, parent, path.Base(target)))
}

// finish sets the directories' times and closes them. It must be called
// exactly once, whatever failed before.
func (l *lower) finish() error {
	var errs []error
	for _, t := range l.times {
		ts := []unix.Timespec{t.st.Atim, t.st.Mtim}
		if err := unix.UtimesNanoAt(unix.AT_FDCWD, fdfs.Path(t.fd), ts, 0); err != nil {
			errs = append(errs, os.NewSyscallError("utimensat", err))
		}
		_ = unix.Close(t.fd)
	}
	l.times = nil
	return errors.Join(errs...)
}

// optional turns a link of the image on the way into silence: the entry is
// left out.
func optional(err error) error {
	if _, ok := errors.AsType[*linkError](err); ok {
		return nil
	}
	return err
}

// accounts are what an image without any user gets: programs that look up who
// they run as, Git and ssh among them, fail where root has no name (case 96).
var accounts = []ownFile{
	{"/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n"},
	{"/etc/group", "root:x:0:\n"},
}

// fill makes everything that the plan needs in the layer. fileTargets names
// the mounts whose host object is not a directory.
func (l *lower) fill(p *launch.Plan, fileTargets map[string]bool, ca *caFiles) error {
	root, err := fdfs.Stat(l.prepared)
	if err != nil {
		return err
	}
	if err := l.like(l.dir, root); err != nil {
		return err
	}
	for _, d := range []struct {
		path string
		mode uint32
	}{{"/proc", 0o555}, {"/sys", 0o555}, {"/dev", 0o755}, {"/tmp", 0o1777}, {runTarget, 0o755}} {
		if err := l.mkdir(d.path, d.mode); err != nil {
			return err
		}
	}
	for _, a := range p.Rootfs.Anchors {
		if err := l.mkdir(a.Path, 0o755); err != nil {
			return fmt.Errorf("state anchor %s: %w", a.Path, err)
		}
	}
	for _, f := range ownFiles(&p.Files) {
		if err := l.file(f.target, nil); err != nil {
			return err
		}
	}
	for _, m := range p.Mounts {
		if fileTargets[m.Target] {
			err = l.file(m.Target, nil)
		} else {
			err = l.mkdir(m.Target, 0o755)
		}
		if err != nil {
			return fmt.Errorf("mount at %s: %w", m.Target, err)
		}
	}
	if err := optional(l.symlink(escalateLink, escalateTarget)); err != nil {
		return err
	}
	for _, a := range accounts {
		_, found, err := l.image(a.target)
		if err == nil && !found {
			err = l.file(a.target, []byte(a.text))
		}
		if err := optional(err); err != nil {
			return err
		}
	}
	for target, text := range ca.files {
		if err := optional(l.file(target, text)); err != nil {
			return err
		}
	}
	return nil
}
