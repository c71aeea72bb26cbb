package entries

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/fdfs"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/store"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/tree"
	"lazaret.dev/lazaret/supervisor/internal/view/policy"
)

// publish renames a lock that was made inside over the file that it is for, if
// the guard finds nothing wrong with its content. From before it is looked at,
// and for ever after it has become the host's, nobody inside can write to it,
// whatever they still have open or mapped: the node is sealed, not its inode
// number, which comes back.
func (v *Entries) publish(from, to *end, st tree.Store) error {
	n := v.Tree.Child(from.dir, from.name)
	if n == nil || n.Dir != nil || st != store.Host {
		return unix.EROFS
	}
	seal(n, true)
	err := v.publishSealed(n, from, to)
	switch {
	case err == nil:
	case from.e.Store == store.Host:
		seal(n, false)
	default:
		v.dropLock(n, from)
	}
	return err
}

func seal(n *tree.Node, sealed bool) {
	n.Writing.Lock()
	n.Sealed = sealed
	n.Writing.Unlock()
}

// dropLock removes the Domain's own lock of something that stays as it is. The
// kernel, which has it renamed in vain, must not keep its name.
func (v *Entries) dropLock(n *tree.Node, from *end) {
	v.Stores.Keep(n)
	if err := v.unlink(from.dir, from.name, &from.e, 0); err != nil {
		v.Log.Error("drop a lock", "error", err.Error())
		return
	}
	v.forgetName(from.dir, from.name, &from.e)
	v.Notices.Forgotten(from.dir, from.name)
}

func (v *Entries) publishSealed(n *tree.Node, from, to *end) error {
	host, err := v.Stores.Dir(to.dir, store.Host)
	if err != nil {
		return err
	}
	defer v.Stores.Release(host)
	outcome, err := v.ask(n, from, to, host.FD)
	switch {
	case err != nil:
		return err
	case outcome == policy.Keep:
		return v.keep(n, from, to, host.FD)
	case from.e.Store == store.Host:
		return v.Around(func() (policy.Change, error) { return v.Router.Publishing(to.path) }, func() error {
			return v.within(from, to, store.Host, 0)
		})
	}
	return v.Around(func() (policy.Change, error) { return v.Router.Publishing(to.path) }, func() error {
		return v.hand(n, from, to, host.FD)
	})
}

// ask shows the guard a lock and the host's present file.
func (v *Entries) ask(n *tree.Node, from, to *end, host int) (policy.Outcome, error) {
	d, err := v.Stores.Content(n, false)
	if err != nil {
		return 0, err
	}
	defer v.Stores.Release(d)
	info, err := v.Stores.Stat(n)
	if err != nil {
		return 0, err
	}
	lock := policy.Content{ReaderAt: store.ReaderAt(d.FD), Size: int64(info.Size)}
	fd, err := fdfs.Open(host, to.name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, true)
	if errors.Is(err, os.ErrNotExist) {
		return v.Guard.Publish(from.path, to.path, lock, nil)
	}
	if err != nil {
		return 0, unix.EROFS
	}
	defer func() { _ = unix.Close(fd) }()
	st, err := fdfs.Stat(fd)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0, unix.EROFS
	}
	return v.Guard.Publish(from.path, to.path, lock, &policy.Content{ReaderAt: store.ReaderAt(fd), Size: st.Size})
}

// keep drops a lock whose bytes the host's file has already: it stands for that
// file from now on, and success is what whoever renamed it expects.
func (v *Entries) keep(n *tree.Node, from, to *end, host int) error {
	if err := v.unlink(from.dir, from.name, &from.e, 0); err != nil {
		return err
	}
	v.Tree.Remove(to.dir, to.name, false)
	to.has = false
	v.moved(from, to, 0)
	seal(n, false)
	return v.Content.Rehouse(n, store.Host, host, to.name)
}

// hand hands a lock in the Domain's storage to the host: a copy under the
// lock's name, which keeps the host's Git out meanwhile, is judged again and
// then becomes the file.
func (v *Entries) hand(n *tree.Node, from, to *end, host int) error {
	fd, err := unix.Openat(host, from.name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o666)
	if err != nil {
		return unix.EROFS
	}
	out := os.NewFile(uintptr(fd), from.name)
	defer func() { _ = out.Close() }()
	err = v.fillLock(n, from, to, host, out)
	if err == nil {
		err = unix.Renameat(host, from.name, host, to.name)
	}
	if err != nil {
		_ = unix.Unlinkat(host, from.name, 0)
		return err
	}
	if err := v.unlink(from.dir, from.name, &from.e, 0); err != nil {
		return err
	}
	v.appeared(to.path)
	v.moved(from, to, 0)
	return v.Content.Rehouse(n, store.Host, host, to.name)
}

// fillLock writes the host's lock, once the guard has seen the host's file as
// nobody can change it any more.
func (v *Entries) fillLock(n *tree.Node, from, to *end, host int, out *os.File) error {
	outcome, err := v.ask(n, from, to, host)
	if err != nil {
		return err
	}
	if outcome != policy.Replace {
		return unix.EAGAIN // it was changed to the same meanwhile
	}
	src, err := v.Stores.Content(n, false)
	if err != nil {
		return err
	}
	defer v.Stores.Release(src)
	if err := store.CopyContent(src.FD, out); err != nil {
		return err
	}
	// The mode of the file that it replaces.
	if to.has {
		if err := unix.Fchmod(int(out.Fd()), to.e.Info.Mode&0o777); err != nil {
			return err
		}
	}
	return out.Sync()
}
