package gitodb

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/fdfs"
)

// maxNames bounds how many names of a directory are read.
const maxNames = 200_000

// At is the directory behind a descriptor, which stays the caller's.
func At(fd int) Dir { return at(fd) }

type at int

type file struct {
	*os.File
	size int64
}

func (f file) Size() int64 { return f.size }

func (d at) open(name string, flags int) (*os.File, unix.Stat_t, error) {
	fd, err := fdfs.Open(int(d), name, flags|unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, true)
	if errors.Is(err, unix.ENOTDIR) && flags == 0 {
		err = &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	if err != nil {
		return nil, unix.Stat_t{}, err
	}
	f := os.NewFile(uintptr(fd), name)
	st, err := fdfs.Stat(fd)
	if err != nil {
		return nil, st, errors.Join(err, f.Close())
	}
	return f, st, nil
}

func (d at) Open(name string) (File, error) {
	f, st, err := d.open(name, 0)
	if err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, errors.Join(fmt.Errorf("%q is no regular file", name), f.Close())
	}
	return file{f, st.Size}, nil
}

func (d at) ReadDir(name string) ([]string, error) {
	f, _, err := d.open(name, unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(maxNames)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err == nil && len(names) == maxNames {
		err = fmt.Errorf("%q has too many entries", name)
	}
	return names, errors.Join(err, f.Close())
}
