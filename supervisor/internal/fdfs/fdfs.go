// Package fdfs is file access relative to descriptors, for trees that somebody
// else has written: no path string is ever walked twice, and no link followed.
//
// It knows nothing of what the files are for. It runs in the Runtime
// Supervisor.
package fdfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/launch"
)

// Open is openat2 without symbolic and magic links; with beneath, path may not
// leave dir either. The caller closes the descriptor.
func Open(dir int, path string, flags int, beneath bool) (int, error) {
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

// OpenRef opens a host path and proves its identity. The descriptor is O_PATH
// and the caller's.
func OpenRef(r launch.Ref) (int, error) {
	fd, err := Open(unix.AT_FDCWD, r.Path, unix.O_PATH|unix.O_NOFOLLOW, false)
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

// Path names a descriptor for the mount options that take only paths.
func Path(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// Stat stats a descriptor.
func Stat(fd int) (unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return st, os.NewSyscallError("fstat", err)
	}
	return st, nil
}

// IsDir tells whether the descriptor is a directory.
func IsDir(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFDIR }

// MountID returns the id of the mount that fd lies on. It asks no filesystem,
// one that is not served yet the less.
func MountID(fd int) (uint64, error) {
	var stx unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID, &stx); err != nil {
		return 0, os.NewSyscallError("statx", err)
	}
	return stx.Mnt_id, nil
}

// CopyAttributes gives dst src's owner and mode.
func CopyAttributes(dst int, src *unix.Stat_t) error {
	if err := unix.Fchownat(dst, "", int(src.Uid), int(src.Gid), unix.AT_EMPTY_PATH); err != nil {
		return os.NewSyscallError("chown", err)
	}
	// After chown, which clears set-id bits. An O_PATH descriptor takes no
	// fchmod.
	if err := unix.Chmod(Path(dst), src.Mode&0o7777); err != nil {
		return os.NewSyscallError("chmod", err)
	}
	return nil
}

// WriteFile makes a file of Lazaret's own below dir.
func WriteFile(dir int, name string, mode uint32, text []byte) error {
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

// Mkdir makes a directory below dir and opens it. The caller closes it.
func Mkdir(dir int, name string, mode uint32) (int, error) {
	if err := unix.Mkdirat(dir, name, mode); err != nil {
		return -1, &os.PathError{Op: "mkdir", Path: name, Err: err}
	}
	fd, err := Open(dir, name, unix.O_PATH|unix.O_DIRECTORY, true)
	if err != nil {
		return -1, err
	}
	if err := unix.Chmod(Path(fd), mode); err != nil {
		_ = unix.Close(fd)
		return -1, &os.PathError{Op: "chmod", Path: name, Err: err}
	}
	return fd, nil
}

// Empty removes everything in the directory name below dir, whoever owns it
// and whatever it is, without following a link.
func Empty(dir int, name string) error {
	root, err := os.OpenRoot(Path(dir))
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

// ErrTooLarge reports a file beyond the limit of [ReadRegular].
var ErrTooLarge = errors.New("it is too large")

// ReadRegular reads a regular file below dir, at most limit bytes. Links
// are as good as absent: what they lead to is another entry's business.
func ReadRegular(dir int, p string, limit int64) ([]byte, error) {
	fd, err := Open(dir, p, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, true)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		return nil, os.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), p)
	defer func() { _ = f.Close() }()
	st, err := Stat(fd)
	if err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, os.ErrNotExist
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = ErrTooLarge
	}
	return b, err
}
