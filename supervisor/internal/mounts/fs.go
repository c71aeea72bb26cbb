package mounts

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/launch"
)

// open is openat2 without symbolic and magic links; with beneath, path may not
// leave dir either. The caller closes the descriptor.
func open(dir int, path string, flags int, beneath bool) (int, error) {
	how := unix.OpenHow{
		Flags:   uint64(flags | unix.O_CLOEXEC),
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	if beneath {
		how.Resolve |= unix.RESOLVE_BENEATH
		path = strings.TrimPrefix(path, "/")
		if path == "" {
			path = "."
		}
	}
	for {
		fd, err := unix.Openat2(dir, path, &how)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			continue
		}
		if err != nil {
			return -1, &os.PathError{Op: "open", Path: path, Err: err}
		}
		return fd, nil
	}
}

// IdentityError reports a host path that is no longer what the Host
// Coordinator saw.
type IdentityError struct{ Path string }

func (e *IdentityError) Error() string {
	return fmt.Sprintf("%q is not the file that was checked: it was replaced meanwhile", e.Path)
}

// openRef opens a host path and proves its identity. The descriptor is O_PATH
// and the caller's.
func openRef(r launch.Ref) (int, error) {
	fd, err := open(unix.AT_FDCWD, r.Path, unix.O_PATH|unix.O_NOFOLLOW, false)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return -1, &os.PathError{Op: "stat", Path: r.Path, Err: err}
	}
	if st.Dev != r.Dev || st.Ino != r.Ino {
		_ = unix.Close(fd)
		return -1, &IdentityError{r.Path}
	}
	return fd, nil
}

// fdPath names a descriptor for the mount options that take only paths.
func fdPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// stat stats a descriptor.
func stat(fd int) (unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return st, os.NewSyscallError("fstat", err)
	}
	return st, nil
}

// isDir tells whether the descriptor is a directory.
func isDir(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFDIR }

// mountID returns the id of the mount that fd lies on.
func mountID(fd int) (uint64, error) {
	var stx unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &stx); err != nil {
		return 0, os.NewSyscallError("statx", err)
	}
	return stx.Mnt_id, nil
}

// copyAttributes gives dst src's owner and mode.
func copyAttributes(dst int, src *unix.Stat_t) error {
	if err := unix.Fchownat(dst, "", int(src.Uid), int(src.Gid), unix.AT_EMPTY_PATH); err != nil {
		return os.NewSyscallError("chown", err)
	}
	// After chown, which clears set-id bits. An O_PATH descriptor takes no
	// fchmod.
	if err := unix.Chmod(fdPath(dst), src.Mode&0o7777); err != nil {
		return os.NewSyscallError("chmod", err)
	}
	return nil
}

// writeFile makes a file of Lazaret's own below dir.
func writeFile(dir int, name string, mode uint32, text []byte) error {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if err != nil {
		return &os.PathError{Op: "create", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	_, werr := f.Write(text)
	// The umask must not matter.
	cerr := f.Chmod(os.FileMode(mode))
	return errors.Join(werr, cerr, f.Close())
}

// mkdir makes a directory below dir and opens it. The caller closes it.
func mkdir(dir int, name string, mode uint32) (int, error) {
	if err := unix.Mkdirat(dir, name, mode); err != nil {
		return -1, &os.PathError{Op: "mkdir", Path: name, Err: err}
	}
	fd, err := open(dir, name, unix.O_PATH|unix.O_DIRECTORY, true)
	if err != nil {
		return -1, err
	}
	if err := unix.Chmod(fdPath(fd), mode); err != nil {
		_ = unix.Close(fd)
		return -1, &os.PathError{Op: "chmod", Path: name, Err: err}
	}
	return fd, nil
}

// empty removes everything in the directory name below dir, whoever owns it
// and whatever it is, without following a link.
func empty(dir int, name string) error {
	root, err := os.OpenRoot(fdPath(dir))
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	d, err := root.Open(name)
	if err != nil {
		return err
	}
	names, err := d.Readdirnames(-1)
	_ = d.Close()
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := root.RemoveAll(name + "/" + n); err != nil {
			return err
		}
	}
	return nil
}
