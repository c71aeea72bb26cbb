package entries

import (
	"errors"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/view/internal/content"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/fdcache"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/object"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/resolve"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/store"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/tree"
	"lazaret.dev/lazaret/supervisor/internal/view/policy"
)

// making is the change of one directory that makes an entry.
type making struct {
	v             *Entries
	dir           *tree.Node
	dirPath, path string // the directory's and the entry's
	name          string
	st            tree.Store
	in            *fdcache.Desc // the directory in that store
}

// make prepares to make an entry, asks whether it may be made, calls f to do
// so, and describes what was made.
func (v *Entries) make(parent uint64, name string, op policy.OpKind, f func(*making) error) (resolve.Reply, error) {
	if err := resolve.CheckName(name); err != nil {
		return resolve.Reply{}, err
	}
	v.Topology.RLock()
	defer v.Topology.RUnlock()
	dir, path, err := v.Dir(parent)
	if err != nil {
		return resolve.Reply{}, err
	}
	dir.Dir.Mu.Lock()
	defer dir.Dir.Mu.Unlock()
	m := &making{v: v, dir: dir, dirPath: path, path: resolve.Join(path, name), name: name}
	if m.st, err = v.Place(dir, path, name, op == policy.Mkdir); err != nil {
		return resolve.Reply{}, err
	}
	if m.st == store.Host {
		v.Watched(dir)
	}
	if err := m.mayMake(op); err != nil {
		return resolve.Reply{}, err
	}
	m.in, err = v.Stores.MakeDir(dir, m.st)
	if err != nil {
		return resolve.Reply{}, err
	}
	defer v.Stores.Release(m.in)
	err = v.Bracket(m.path, m.st, policy.Entry{}, func() error { return m.unwhite(f) })
	if err != nil {
		return resolve.Reply{}, err
	}
	if m.st == store.Host {
		v.appeared(m.path)
	}
	resolve.Changed(dir)
	info, err := object.Stat(m.in.FD, name)
	if err != nil {
		return resolve.Reply{}, err
	}
	return v.Enter(dir, name, &resolve.Found{Store: m.st, Info: info}), nil
}

// mayMake asks whether the entry may be made. Of Ignored Workspace State nobody
// is asked, and a link is asked about with the names of its file.
func (m *making) mayMake(op policy.OpKind) error {
	if m.st == store.Domain || m.st == store.Transient || op == policy.Link {
		return nil
	}
	if _, whole := m.v.Inside(m.dir, m.dirPath); whole {
		return nil
	}
	_, err := m.v.Guard.Check(policy.Op{Kind: op, Path: m.path, Made: m.v.Made.Has(m.path)})
	return err
}

// appeared notes that a name has come into being on the host.
func (v *Entries) appeared(path string) {
	v.Guard.Changed(path)
	if v.Guard.Classify(path).Class != policy.Free {
		v.Made.Add(path)
	}
}

// unwhite calls f, first removing the mark of a removed name.
func (m *making) unwhite(f func(*making) error) error {
	if m.st == store.Private {
		if info, err := object.Stat(m.in.FD, m.name); err == nil && info.Whiteout() {
			if err := unix.Unlinkat(m.in.FD, m.name, 0); err != nil {
				return err
			}
		}
	}
	return f(m)
}

// Create makes a regular file, or finds the one that somebody else has made
// meanwhile.
func (v *Entries) Create(parent uint64, name string, flags, mode uint32) (resolve.Reply, error) {
	made := -1
	r, err := v.make(parent, name, policy.Create, func(m *making) error {
		fd, err := unix.Openat(m.in.FD, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, object.KeepMode(mode))
		made = fd
		return err
	})
	if errors.Is(err, unix.EEXIST) && flags&unix.O_EXCL == 0 {
		return v.openMade(parent, name, flags)
	}
	if made >= 0 {
		v.keepOpen(&r, made)
	}
	return r, err
}

// keepOpen gives a new file's descriptor to its node: it is written next.
func (v *Entries) keepOpen(r *resolve.Reply, fd int) {
	n := v.Tree.Get(r.Node)
	if n == nil {
		_ = unix.Close(fd)
		return
	}
	v.Stores.Opened(n, fd)
}

// openMade opens what a create has found to be there.
func (v *Entries) openMade(parent uint64, name string, flags uint32) (resolve.Reply, error) {
	r, err := v.Lookup(parent, name)
	if err != nil || r.Node == 0 {
		return r, err
	}
	if flags&unix.O_TRUNC != 0 && r.Attr.IsRegular() {
		zero := uint64(0)
		r.Attr, err = v.Content.SetAttr(r.Node, &content.SetAttr{Size: &zero})
	}
	if err != nil {
		v.Forget(r.Node, 1)
	}
	return r, err
}

// Mknod makes a regular file. Sockets and FIFOs are refused with the error at
// which gVisor makes them in memory, where the host cannot be reached by them;
// devices for good.
func (v *Entries) Mknod(parent uint64, name string, mode uint32) (resolve.Reply, error) {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG, 0:
		return v.Create(parent, name, unix.O_EXCL, mode)
	default:
		return resolve.Reply{}, unix.EPERM
	}
}

// Mkdir makes a directory.
func (v *Entries) Mkdir(parent uint64, name string, mode uint32) (resolve.Reply, error) {
	return v.make(parent, name, policy.Mkdir, func(m *making) error {
		return unix.Mkdirat(m.in.FD, name, object.KeepMode(mode))
	})
}

// Symlink makes a symbolic link.
func (v *Entries) Symlink(parent uint64, name, target string) (resolve.Reply, error) {
	return v.make(parent, name, policy.MakeLink, func(m *making) error {
		return unix.Symlinkat(target, m.in.FD, name)
	})
}

// Link gives a file another name.
func (v *Entries) Link(id, parent uint64, name string) (resolve.Reply, error) {
	n, err := v.Node(id)
	if err != nil {
		return resolve.Reply{}, err
	}
	if n.Dir != nil {
		return resolve.Reply{}, unix.EPERM
	}
	st, _ := v.Tree.Identity(n)
	return v.make(parent, name, policy.Link, func(m *making) error {
		if m.st != st {
			return unix.EXDEV
		}
		if err := v.mayLink(n, m); err != nil {
			return err
		}
		d, err := v.Stores.Path(n)
		if err != nil {
			return err
		}
		defer v.Stores.Release(d)
		if err := unix.Linkat(unix.AT_FDCWD, store.Proc(d.FD), m.in.FD, name, unix.AT_SYMLINK_FOLLOW); err != nil {
			return err
		}
		n.SetSeen(tree.Seen{})
		return nil
	})
}

// mayLink asks about a link from each of the file's names.
func (v *Entries) mayLink(n *tree.Node, m *making) error {
	if n.Sealed {
		return unix.EROFS
	}
	if m.st != store.Host && m.st != store.Private {
		return nil
	}
	info, err := v.Stores.Stat(n)
	if err != nil {
		return err
	}
	paths := v.Paths(n)
	if len(paths) == 0 {
		return unix.ENOENT // nothing is known of it but that it has no name here
	}
	for _, path := range paths {
		if _, err := v.Guard.Check(policy.Op{Kind: policy.Link, Path: path, To: m.path, Made: v.Made.Has(path)}); err != nil {
			return err
		}
		if m.st != store.Host {
			continue
		}
		if v.Guard.Classify(path).Class == policy.Free && v.Router.Place(path, false) == policy.Exposed {
			return unix.EROFS
		}
		if info.Nlink > 1 && v.Guard.Protected(info.Dev, info.Ino) {
			return v.Guard.Alias(policy.Link, path)
		}
		if v.Router.Watches(path, resolve.EntryOf(&info)) {
			if err := v.Router.Linking(path); err != nil {
				v.Log.Error("announce a link", "error", err.Error())
				return unix.EIO
			}
		}
	}
	return nil
}
