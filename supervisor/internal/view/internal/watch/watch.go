// Package watch is inotify: it tells of changes of directories that somebody
// else makes.
//
// It knows nothing of what the directories are, and loses nothing silently: an
// overflow is an event of its own. It runs in the Runtime Supervisor.
package watch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Mask is what is watched: everything but mere reading.
const Mask = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
	unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_CLOSE_WRITE

// Event is one change.
type Event struct {
	Watch int    // -1 when events were lost
	Mask  uint32 // unix.IN_…
	Name  string // the entry, or "" for the directory itself
}

// Watcher is an inotify instance.
type Watcher struct {
	f   *os.File
	buf []byte
}

// New makes an instance.
func New() (*Watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	return &Watcher{f: os.NewFile(uintptr(fd), "inotify"), buf: make([]byte, 64<<10)}, nil
}

// Add watches the directory dir, a path that names a descriptor and perhaps
// one entry below it, and returns the watch. A directory that is watched
// already keeps its watch.
func (w *Watcher) Add(dir string) (int, error) {
	wd := -1
	err := w.control(func(fd int) (err error) {
		wd, err = unix.InotifyAddWatch(fd, dir, Mask|unix.IN_ONLYDIR|unix.IN_EXCL_UNLINK)
		return err
	})
	return wd, os.NewSyscallError("inotify_add_watch", err)
}

// Remove ends a watch. One that is gone already is no error.
func (w *Watcher) Remove(wd int) error {
	err := w.control(func(fd int) error {
		_, err := unix.InotifyRmWatch(fd, uint32(wd))
		return err
	})
	if errors.Is(err, unix.EINVAL) {
		return nil
	}
	return os.NewSyscallError("inotify_rm_watch", err)
}

func (w *Watcher) control(f func(fd int) error) error {
	conn, err := w.f.SyscallConn()
	if err != nil {
		return err
	}
	var ferr error
	if err := conn.Control(func(fd uintptr) { ferr = f(int(fd)) }); err != nil {
		return err
	}
	return ferr
}

// Read waits for events. It returns os.ErrClosed after Close. Only one
// goroutine may call it.
func (w *Watcher) Read() ([]Event, error) {
	n, err := w.f.Read(w.buf)
	if err != nil {
		return nil, err
	}
	return parse(w.buf[:n])
}

// parse decodes what the kernel has written.
func parse(b []byte) ([]Event, error) {
	var out []Event
	for len(b) > 0 {
		if len(b) < unix.SizeofInotifyEvent {
			return nil, fmt.Errorf("inotify: %d bytes left over", len(b))
		}
		n := int(binary.NativeEndian.Uint32(b[12:]))
		if len(b)-unix.SizeofInotifyEvent < n {
			return nil, fmt.Errorf("inotify: a name of %d bytes, but %d are there", n, len(b)-unix.SizeofInotifyEvent)
		}
		name, _, _ := bytes.Cut(b[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+n], []byte{0})
		out = append(out, Event{
			Watch: int(int32(binary.NativeEndian.Uint32(b))),
			Mask:  binary.NativeEndian.Uint32(b[4:]),
			Name:  string(name),
		})
		b = b[unix.SizeofInotifyEvent+n:]
	}
	return out, nil
}

// Close ends every watch.
func (w *Watcher) Close() error { return w.f.Close() }
