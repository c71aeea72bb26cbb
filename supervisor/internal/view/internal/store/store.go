// Package store reaches the objects of the workspace view's nodes: it opens
// directories and files of the view's stores, relative to descriptors, and
// proves that what it opened is what the node stands for.
//
// A path is never joined: a directory is opened as a name in its parent,
// beneath it, and no link is followed. It decides nothing, and changes only
// what it is asked to. It runs in the Runtime Supervisor.
package store

import (
	"errors"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/fdfs"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/fdcache"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/object"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/tree"
)

// The stores.
const (
	Host      tree.Store = iota // the Agent Workspace
	Domain                      // Ignored Workspace State
	Private                     // the Domain's private Git state
	Transient                   // gone with the generation
)

// Root is one store's root.
type Root struct {
	FD int // of the directory; -1 where there is none

	// Weak says that inode numbers of the filesystem change while nobody looks
	// (FAT, some network filesystems): identity cannot be proven by them.
	Weak bool
}

// Stores reaches the objects of the nodes of one tree.
type Stores struct {
	Tree  *tree.Tree
	Cache *fdcache.Cache
	roots [tree.Stores]Root
	idle  *idle
}

// New makes the access to the given roots, whose descriptors stay the
// caller's. Descriptors for writing are closed when they were idle for the
// given time: until then the host cannot execute the file.
func New(t *tree.Tree, c *fdcache.Cache, roots [tree.Stores]Root, linger time.Duration) *Stores {
	return &Stores{Tree: t, Cache: c, roots: roots, idle: newIdle(c, linger)}
}

// Close closes what is idle. The cache stays the caller's.
func (s *Stores) Close() { s.idle.close() }

// Has tells whether there is such a store.
func (s *Stores) Has(st tree.Store) bool { return s.roots[st].FD >= 0 }

// open opens a name in dir: beneath it, and never a link's target.
func open(dir int, name string, flags int) (int, error) {
	return fdfs.Open(dir, name, flags|unix.O_NOFOLLOW, true)
}

// Dir returns the directory of a node in a store. The error is fs.ErrNotExist
// where the store has no counterpart, and ESTALE where the directory is no
// longer what and where it was. The caller releases the descriptor.
func (s *Stores) Dir(n *tree.Node, st tree.Store) (*fdcache.Desc, error) {
	if n.Dir == nil {
		return nil, unix.ENOTDIR
	}
	if n.ID == tree.Root {
		if !s.Has(st) {
			return nil, unix.ENOENT
		}
		return fdcache.Borrow(s.roots[st].FD), nil
	}
	own, key := s.Tree.Identity(n)
	slot := &n.Dir.Others[st]
	if st == own {
		slot = &n.Path
	}
	if d := s.Cache.Get(slot); d != nil {
		return d, nil
	}
	name, ok := s.Tree.Name(n)
	if !ok {
		return nil, unix.ESTALE
	}
	parent, err := s.Dir(name.Parent, st)
	if err != nil {
		return nil, err
	}
	fd, err := open(parent.FD, name.Name, unix.O_PATH|unix.O_DIRECTORY)
	s.Release(parent)
	if err != nil {
		if st == own && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)) {
			return nil, unix.ESTALE
		}
		return nil, err
	}
	if st == own {
		if err := s.prove(fd, st, key); err != nil {
			_ = unix.Close(fd)
			return nil, err
		}
	}
	return s.Cache.Put(slot, fd), nil
}

// prove tells whether fd is the object that key names.
func (s *Stores) prove(fd int, st tree.Store, key object.Key) error {
	info, err := object.StatFD(fd)
	if err != nil {
		return err
	}
	return s.same(&info, st, key)
}

func (s *Stores) same(info *object.Info, st tree.Store, key object.Key) error {
	if info.Key != key && !s.roots[st].Weak {
		return unix.ESTALE
	}
	return nil
}

// Release ends the use of a descriptor that a method returned.
func (s *Stores) Release(d *fdcache.Desc) { s.Cache.Release(d) }

// MakeDir is Dir that makes the counterpart, and those above it, where there
// is none.
func (s *Stores) MakeDir(n *tree.Node, st tree.Store) (*fdcache.Desc, error) {
	d, err := s.Dir(n, st)
	if !errors.Is(err, unix.ENOENT) || !s.Has(st) {
		return d, err
	}
	name, ok := s.Tree.Name(n)
	if !ok {
		return nil, unix.ESTALE
	}
	parent, err := s.MakeDir(name.Parent, st)
	if err != nil {
		return nil, err
	}
	err = unix.Mkdirat(parent.FD, name.Name, 0o755)
	s.Release(parent)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, err
	}
	return s.Dir(n, st)
}

// Stat describes a node's object.
func (s *Stores) Stat(n *tree.Node) (object.Info, error) {
	st, key := s.Tree.Identity(n)
	if n.Dir != nil {
		d, err := s.Dir(n, st)
		if err != nil {
			return object.Info{}, err
		}
		defer s.Release(d)
		return object.StatFD(d.FD)
	}
	for _, slot := range []*fdcache.Slot{&n.Path, &n.Read, &n.Write} {
		if d := s.Cache.Get(slot); d != nil {
			defer s.Release(d)
			return object.StatFD(d.FD)
		}
	}
	err := error(unix.ESTALE)
	for _, name := range s.Tree.Names(n) {
		var d *fdcache.Desc
		if d, err = s.Dir(name.Parent, st); err != nil {
			continue
		}
		var info object.Info
		info, err = object.Stat(d.FD, name.Name)
		s.Release(d)
		if err == nil {
			err = s.same(&info, st, key)
		}
		if err == nil {
			return info, nil
		}
	}
	return object.Info{}, stale(err)
}

// stale makes a vanished name an object that is gone.
func stale(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return unix.ESTALE
	}
	return err
}

// Path opens a node's object without access to its content.
func (s *Stores) Path(n *tree.Node) (*fdcache.Desc, error) {
	if n.Dir != nil {
		st, _ := s.Tree.Identity(n)
		return s.Dir(n, st)
	}
	if d := s.Cache.Get(&n.Path); d != nil {
		return d, nil
	}
	fd, err := s.openFile(n)
	if err != nil {
		return nil, err
	}
	return fdcache.Once(fd), nil
}

// openFile opens what is no directory by one of its names.
func (s *Stores) openFile(n *tree.Node) (int, error) {
	st, key := s.Tree.Identity(n)
	err := error(unix.ESTALE)
	for _, name := range s.Tree.Names(n) {
		var d *fdcache.Desc
		if d, err = s.Dir(name.Parent, st); err != nil {
			continue
		}
		var fd int
		fd, err = open(d.FD, name.Name, unix.O_PATH)
		s.Release(d)
		if err != nil {
			continue
		}
		if err = s.prove(fd, st, key); err == nil {
			return fd, nil
		}
		_ = unix.Close(fd)
	}
	return -1, stale(err)
}

// Content opens a regular file's content. A special file is EACCES, as an
// ordinary device is on a mount without devices.
func (s *Stores) Content(n *tree.Node, write bool) (*fdcache.Desc, error) {
	if write {
		if d := s.Cache.Get(&n.Write); d != nil {
			s.idle.touch(&n.Write)
			return d, nil
		}
	} else {
		for _, slot := range []*fdcache.Slot{&n.Read, &n.Write} {
			if d := s.Cache.Get(slot); d != nil {
				return d, nil
			}
		}
	}
	path, err := s.Path(n)
	if err != nil {
		return nil, err
	}
	defer s.Release(path)
	fd, err := Reopen(path.FD, write)
	if err != nil {
		return nil, err
	}
	if !write {
		return s.Cache.Put(&n.Read, fd), nil
	}
	d := s.Cache.Put(&n.Write, fd)
	s.idle.touch(&n.Write)
	return d, nil
}

// Reopen opens the content of a regular file that is open as a path.
func Reopen(path int, write bool) (int, error) {
	info, err := object.StatFD(path)
	if err != nil {
		return -1, err
	}
	if !info.IsRegular() {
		return -1, unix.EACCES
	}
	flags := unix.O_RDONLY
	if write {
		flags = unix.O_RDWR
	}
	fd, err := unix.Open(Proc(path), flags|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if write && errors.Is(err, unix.EACCES) {
		fd, err = unix.Open(Proc(path), unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	}
	if err != nil {
		return -1, os.NewSyscallError("open", err)
	}
	return fd, nil
}

// Proc names a descriptor for calls that take only paths.
func Proc(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// Keep makes sure that a file stays reachable when its name goes: an open file
// that is unlinked lives on. It must be called before the name goes, with what
// has that name; what the kernel does not know needs nothing.
func (s *Stores) Keep(n *tree.Node) {
	if n == nil {
		return
	}
	d := s.Cache.Get(&n.Path)
	if d == nil && n.Dir != nil {
		var err error
		if d, err = s.Path(n); err != nil {
			return
		}
	} else if d == nil {
		fd, err := s.openFile(n)
		if err != nil {
			return
		}
		d = s.Cache.Put(&n.Path, fd)
	}
	// Without room the file is gone for whoever has it open: so many unlinked
	// files are no ordinary use.
	s.Cache.Pin(&n.Path)
	s.Release(d)
}

// Orphan comes after the host has taken an object's name away. A directory is
// not reached any more, and nothing below it: it may have left the workspace.
// A file whose content is open stays readable.
func (s *Stores) Orphan(n *tree.Node) {
	if n.Dir == nil {
		s.Cache.Pin(&n.Read)
		return
	}
	s.Drop(n)
	for _, b := range s.Tree.Below(n) {
		if b.Dir != nil {
			s.Drop(b)
		}
	}
}

// Drop closes everything that a node holds.
func (s *Stores) Drop(n *tree.Node) {
	s.Cache.Drop(&n.Path)
	s.DropContent(n)
	if n.Dir != nil {
		for i := range n.Dir.Others {
			s.Cache.Drop(&n.Dir.Others[i])
		}
	}
}

// DropContent closes a file's content.
func (s *Stores) DropContent(n *tree.Node) {
	s.Cache.Drop(&n.Read)
	s.Cache.Drop(&n.Write)
}

// Opened gives a descriptor for writing, just made, to its file.
func (s *Stores) Opened(n *tree.Node, fd int) {
	s.Release(s.Cache.Put(&n.Write, fd))
	s.idle.touch(&n.Write)
}

// Waits tells whether something waits for the slot to be idle.
func (s *Stores) Waits(slot *fdcache.Slot) bool { return s.idle.waits(slot) }

// WhenIdle calls f once a descriptor for writing, which is used now, was closed
// for being idle, and again until f returns true. f calls NoLonger before.
func (s *Stores) WhenIdle(slot *fdcache.Slot, f func() bool) { s.idle.when(slot, f) }

// NoLonger ends WhenIdle.
func (s *Stores) NoLonger(slot *fdcache.Slot) { s.idle.forget(slot) }
