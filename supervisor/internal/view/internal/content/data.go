package content

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/view/internal/fdcache"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/resolve"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/store"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/tree"
	"lazaret.dev/lazaret/supervisor/internal/view/policy"
)

// content opens a file's content for reading. Its descriptor outlives the topology, so
// that no input or output holds up a rename.
func (v *Content) content(id uint64) (*fdcache.Desc, error) {
	n, err := v.Node(id)
	if err != nil {
		return nil, err
	}
	if n.Dir != nil {
		return nil, unix.EISDIR
	}
	v.Topology.RLock()
	defer v.Topology.RUnlock()
	return v.Stores.Content(n, false)
}

// Read reads from a file.
func (v *Content) Read(id uint64, b []byte, off int64) (int, error) {
	d, err := v.content(id)
	if err != nil {
		return 0, err
	}
	defer v.Stores.Release(d)
	got := 0
	for got < len(b) {
		n, err := unix.Pread(d.FD, b[got:], off+int64(got))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.EBADF) && got == 0 {
			// Open for writing alone, since reading is not permitted.
			return 0, unix.EACCES
		}
		if err != nil {
			return got, err
		}
		if n == 0 {
			break
		}
		got += n
	}
	return got, nil
}

// writing opens a file for a change of its content, which ends with the
// returned function.
func (v *Content) writing(id uint64) (*fdcache.Desc, func(), error) {
	n, err := v.Node(id)
	if err != nil {
		return nil, nil, err
	}
	v.Topology.RLock()
	err = v.own(n)
	n.Writing.RLock()
	if err == nil {
		err = v.MayChange(n, policy.Write)
	}
	var d *fdcache.Desc
	if err == nil && n.Dir != nil {
		err = unix.EISDIR
	}
	if err == nil {
		err = v.announce(n)
	}
	if err == nil {
		d, err = v.Stores.Content(n, true)
	}
	v.Topology.RUnlock()
	if err != nil {
		n.Writing.RUnlock()
		return nil, nil, err
	}
	return d, func() {
		// The kernel forgets what it knew of the attributes by itself.
		n.SetSeen(tree.Seen{})
		v.Stores.Release(d)
		n.Writing.RUnlock()
	}, nil
}

// Write writes to a file; appending, wherever the file ends by now.
func (v *Content) Write(id uint64, b []byte, off int64, appending bool) (int, error) {
	d, done, err := v.writing(id)
	if err != nil {
		return 0, err
	}
	defer done()
	flags := 0
	if appending {
		flags = unix.RWF_APPEND
	}
	wrote := 0
	for wrote < len(b) {
		n, err := unix.Pwritev2(d.FD, [][]byte{b[wrote:]}, off+int64(wrote), flags)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			if wrote > 0 {
				break
			}
			return 0, err
		}
		wrote += n
	}
	return wrote, nil
}

// Allocate is fallocate.
func (v *Content) Allocate(id uint64, mode uint32, off, size int64) error {
	d, done, err := v.writing(id)
	if err != nil {
		return err
	}
	defer done()
	return resolve.Retry(func() error { return unix.Fallocate(d.FD, mode, off, size) })
}

// CopyRange copies between two files.
func (v *Content) CopyRange(from, to uint64, fromOff, toOff int64, size int) (int, error) {
	in, err := v.content(from)
	if err != nil {
		return 0, err
	}
	defer v.Stores.Release(in)
	out, done, err := v.writing(to)
	if err != nil {
		return 0, err
	}
	defer done()
	return unix.CopyFileRange(in.FD, &fromOff, out.FD, &toOff, size, 0)
}

// Seek is lseek for the next data or hole.
func (v *Content) Seek(id uint64, off int64, whence int) (int64, error) {
	d, err := v.content(id)
	if err != nil {
		return 0, err
	}
	defer v.Stores.Release(d)
	return unix.Seek(d.FD, off, whence)
}

// Sync makes a file's content, or a directory's entries, durable.
func (v *Content) Sync(id uint64, dataOnly bool) error {
	n, err := v.Node(id)
	if err != nil {
		return err
	}
	fd, err := v.syncFD(n)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if dataOnly {
		return resolve.Retry(func() error { return unix.Fdatasync(fd) })
	}
	return resolve.Retry(func() error { return unix.Fsync(fd) })
}

// syncFD opens what fsync takes.
func (v *Content) syncFD(n *tree.Node) (int, error) {
	v.Topology.RLock()
	defer v.Topology.RUnlock()
	if n.Dir == nil {
		d, err := v.Stores.Content(n, false)
		if err != nil {
			return -1, err
		}
		defer v.Stores.Release(d)
		return unix.FcntlInt(uintptr(d.FD), unix.F_DUPFD_CLOEXEC, 0)
	}
	st, _ := v.Tree.Identity(n)
	d, err := v.Stores.Dir(n, st)
	if err != nil {
		return -1, err
	}
	defer v.Stores.Release(d)
	fd, err := unix.Openat(d.FD, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return fd, os.NewSyscallError("open", err)
}

// ReadLink returns a symbolic link's target.
func (v *Content) ReadLink(id uint64) ([]byte, error) {
	n, err := v.Node(id)
	if err != nil {
		return nil, err
	}
	v.Topology.RLock()
	defer v.Topology.RUnlock()
	d, err := v.Stores.Path(n)
	if err != nil {
		return nil, err
	}
	defer v.Stores.Release(d)
	b := make([]byte, unix.PathMax)
	size, err := unix.Readlinkat(d.FD, "", b)
	if err != nil {
		return nil, err
	}
	return b[:size], nil
}

// StatFS describes the workspace's filesystem.
func (v *Content) StatFS() (unix.Statfs_t, error) {
	var s unix.Statfs_t
	err := resolve.Retry(func() error { return unix.Fstatfs(v.Roots[store.Host].FD, &s) })
	return s, err
}
