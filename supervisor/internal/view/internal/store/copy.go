package store

import (
	"crypto/rand"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/view/internal/object"
)

// Copy makes a copy of a regular file or a symbolic link, which from is, as
// name in dir, with its mode and times. What had the name is replaced at once.
func Copy(from, dir int, name string) error {
	info, err := object.StatFD(from)
	if err != nil {
		return err
	}
	temp := ".lazaret-" + rand.Text()
	switch info.Type() {
	case unix.S_IFREG:
		err = copyRegular(from, dir, temp, &info)
	case unix.S_IFLNK:
		target := make([]byte, unix.PathMax)
		var n int
		if n, err = unix.Readlinkat(from, "", target); err == nil {
			err = unix.Symlinkat(string(target[:n]), dir, temp)
		}
	default:
		return unix.EXDEV
	}
	if err == nil {
		err = unix.Renameat(dir, temp, dir, name)
	}
	if err != nil {
		_ = unix.Unlinkat(dir, temp, 0)
	}
	return err
}

func copyRegular(from, dir int, name string, info *object.Info) error {
	fd, err := Reopen(from, false)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	in := fd
	// A file without a name leaves nothing behind if the process dies.
	fd, err = unix.Openat(dir, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	named := errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR)
	if named {
		fd, err = unix.Openat(dir, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	}
	if err != nil {
		return err
	}
	out := os.NewFile(uintptr(fd), "copy")
	defer func() { _ = out.Close() }()
	if err := CopyContent(in, out); err != nil {
		return err
	}
	if err := unix.Fchmod(fd, object.KeepMode(info.Mode)); err != nil {
		return err
	}
	times := []unix.Timespec{unix.NsecToTimespec(info.Atime.Nano()), unix.NsecToTimespec(info.Mtime.Nano())}
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, Proc(fd), times, 0); err != nil {
		return err
	}
	if named {
		return nil
	}
	return unix.Linkat(unix.AT_FDCWD, Proc(fd), dir, name, unix.AT_SYMLINK_FOLLOW)
}

// CopyContent copies what in, a descriptor open for reading, holds.
func CopyContent(in int, out *os.File) error {
	_, err := io.Copy(out, io.NewSectionReader(ReaderAt(in), 0, 1<<62))
	return err
}

// ReaderAt reads a descriptor that somebody else closes.
type ReaderAt int

// ReadAt is pread.
func (r ReaderAt) ReadAt(b []byte, off int64) (int, error) {
	got := 0
	for got < len(b) {
		n, err := unix.Pread(int(r), b[got:], off+int64(got))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return got, err
		case n == 0:
			return got, io.EOF
		default:
			got += n
		}
	}
	return got, nil
}
