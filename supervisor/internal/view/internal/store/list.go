package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/view/internal/tree"
)

// Entry is one entry of a directory.
type Entry struct {
	Name string
	Ino  uint64
	Type uint32 // one of unix.S_IF…, 0 where the filesystem does not say
}

// Names reads a directory of a store, without "." and "..".
func (s *Stores) Names(n *tree.Node, st tree.Store) ([]Entry, error) {
	d, err := s.Dir(n, st)
	if err != nil {
		return nil, err
	}
	defer s.Release(d)
	fd, err := unix.Openat(d.FD, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("open", err)
	}
	f := os.NewFile(uintptr(fd), "directory")
	defer func() { _ = f.Close() }()
	return readAll(fd)
}

// The layout of linux_dirent64.
const (
	direntLen  = 16
	direntType = 18
	direntName = 19
)

// readAll reads an open directory to its end.
func readAll(fd int) ([]Entry, error) {
	var out []Entry
	buf := make([]byte, 32<<10)
	for {
		n, err := unix.Getdents(fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, os.NewSyscallError("getdents64", err)
		}
		if n <= 0 {
			return out, nil
		}
		for b := buf[:n]; len(b) >= direntName; {
			size := int(binary.NativeEndian.Uint16(b[direntLen:]))
			if size < direntName || size > len(b) {
				return nil, unix.EIO
			}
			name, _, _ := bytes.Cut(b[direntName:size], []byte{0})
			if s := string(name); s != "." && s != ".." {
				out = append(out, Entry{Name: s, Ino: binary.NativeEndian.Uint64(b), Type: uint32(b[direntType]) << 12})
			}
			b = b[size:]
		}
	}
}
