package notice

import (
	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/view/internal/object"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/store"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/tree"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/watch"
)

// look compares an entry with what the kernel knows of it, takes back what
// differs, and tells whether it should be looked at again. mask is 0 at the
// second time.
func (x *Notices) look(e entry, mask uint32) bool {
	if e.name == "" {
		x.lookAt(e.dir, mask)
		return false
	}
	names, child, info, repeat := x.compare(e, mask)
	if names {
		x.kernel.Entry(e.dir.ID, e.name)
		x.kernel.Inode(e.dir.ID)
	}
	if child != nil {
		x.kernel.Inode(child.ID)
	}
	if dir, ok := x.stores.Tree.Path(e.dir); ok && mask != 0 {
		if dir != "" {
			dir += "/"
		}
		x.tell(Change{dir + e.name, mask, info})
	}
	return repeat
}

func (x *Notices) tell(c Change) {
	if x.OnChange != nil {
		x.OnChange(c)
	}
}

// followed tells of a change in a directory that is watched for its own sake.
func (x *Notices) followed(e watch.Event) {
	x.mu.Lock()
	a, ok := x.also[e.Watch]
	x.mu.Unlock()
	if !ok || e.Name == "" {
		return
	}
	info, err := object.Stat(a.fd, e.Name)
	if err != nil {
		info = object.Info{}
	}
	x.tell(Change{a.path + "/" + e.Name, e.Mask, info})
}

// compare tells whether the kernel is wrong about the name, or about the node
// that has it.
func (x *Notices) compare(e entry, mask uint32) (names bool, child *tree.Node, info object.Info, repeat bool) {
	// No change from inside is half done.
	e.dir.Dir.Mu.Lock()
	defer e.dir.Dir.Mu.Unlock()
	d, err := x.stores.Dir(e.dir, store.Host)
	if err != nil {
		return true, nil, info, true
	}
	info, err = object.Stat(d.FD, e.name)
	if err != nil {
		info = object.Info{}
	}
	x.stores.Release(d)
	n := x.stores.Tree.Child(e.dir, e.name)
	var st tree.Store
	var key object.Key
	if n != nil {
		st, key = x.stores.Tree.Identity(n)
	}
	switch {
	case n != nil && st != store.Host:
		// The host's is invisible there.
		return false, nil, info, false
	case err != nil && n == nil:
		// The kernel has no entry, unless one is on its way.
		return false, nil, info, true
	case n == nil:
		return true, nil, info, true
	case err != nil || info.Key != key:
		// Moved or gone: what lies below is not reached by that name any more.
		x.stores.Tree.Remove(e.dir, e.name, false)
		x.stores.Orphan(n)
		return true, n, info, true
	}
	if !differs(n, &info, mask) {
		return false, nil, info, false
	}
	return false, n, info, true
}

// differs tells whether the kernel may hold another version of n's object.
func differs(n *tree.Node, info *object.Info, mask uint32) bool {
	seen := n.Seen()
	switch {
	case seen.At == 0:
		// The kernel knows that its attributes are old, but not that its pages may
		// be: there can be writers on both sides.
		return mask&unix.IN_MODIFY != 0
	case seen.Version != info.Version():
		return true
	default:
		return mask != 0 && seen.At-seen.Ctime.Nano() < int64(tick)
	}
}

// lookAt compares a directory itself.
func (x *Notices) lookAt(dir *tree.Node, mask uint32) {
	if mask&unix.IN_IGNORED != 0 {
		x.lost(dir)
		return
	}
	info, err := x.stores.Stat(dir)
	if err != nil || differs(dir, &info, mask) {
		x.kernel.Inode(dir.ID)
	}
}

// Resync takes back all that the kernel knows of the directories, names that
// it knows to be absent included.
func (x *Notices) Resync(dirs []*tree.Node) {
	for _, dir := range dirs {
		if dir.Dir == nil {
			continue
		}
		x.kernel.Inode(dir.ID)
		known := x.stores.Tree.Children(dir)
		for name, n := range known {
			x.kernel.Entry(dir.ID, name)
			x.kernel.Inode(n.ID)
		}
		for st := range tree.Store(tree.Stores) {
			names, err := x.stores.Names(dir, st)
			if err != nil {
				continue // there is no such directory
			}
			for _, name := range names {
				if known[name.Name] == nil {
					x.kernel.Entry(dir.ID, name.Name)
				}
			}
		}
	}
}
