package entries

import (
	"errors"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/view/internal/resolve"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/store"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/tree"
	"lazaret.dev/lazaret/supervisor/internal/view/policy"
)

// end is one end of a rename.
type end struct {
	dir  *tree.Node
	path string // of the entry
	name string
	e    resolve.Found
	has  bool // there is an entry
}

// Rename gives an entry another name, flags being those of renameat2 but for
// RENAME_WHITEOUT. Between stores, a file is EXDEV when it is large, and a
// directory always.
func (v *Entries) Rename(parent uint64, name string, newParent uint64, newName string, flags uint32) error {
	if flags&^(unix.RENAME_NOREPLACE|unix.RENAME_EXCHANGE) != 0 {
		return unix.EINVAL
	}
	if err := errors.Join(resolve.CheckName(name), resolve.CheckName(newName)); err != nil {
		return unix.EINVAL
	}
	unlock := v.lockFor(parent, name, newParent, newName)
	defer unlock()
	from, to, err := v.ends(parent, name, newParent, newName)
	if err != nil {
		return err
	}
	defer lockPair(from.dir, to.dir)()
	if err := v.fill(from, to); err != nil {
		return err
	}
	switch {
	case !from.has || flags&unix.RENAME_EXCHANGE != 0 && !to.has:
		return unix.ENOENT
	case to.has && flags&unix.RENAME_NOREPLACE != 0:
		return unix.EEXIST
	case to.has && from.e.Store == to.e.Store && from.e.Info.Key == to.e.Info.Key:
		return nil // two names of one file: nothing happens
	}
	return v.rename(from, to, flags)
}

// lockFor holds the topology, exclusively when a directory may move.
func (v *Entries) lockFor(parent uint64, name string, newParent uint64, newName string) (unlock func()) {
	still := func(id uint64, name string) bool {
		dir := v.Tree.Get(id)
		if dir == nil || dir.Dir == nil {
			return false
		}
		n := v.Tree.Child(dir, name)
		return n != nil && n.Dir == nil
	}
	if still(parent, name) && (v.childless(newParent, newName) || still(newParent, newName)) {
		v.Topology.RLock()
		return v.Topology.RUnlock
	}
	v.Topology.Lock()
	return v.Topology.Unlock
}

func (v *Entries) childless(id uint64, name string) bool {
	dir := v.Tree.Get(id)
	return dir != nil && v.Tree.Child(dir, name) == nil
}

func (v *Entries) ends(parent uint64, name string, newParent uint64, newName string) (from, to *end, err error) {
	from, to = &end{name: name}, &end{name: newName}
	var path string
	if from.dir, path, err = v.Dir(parent); err != nil {
		return nil, nil, err
	}
	from.path = resolve.Join(path, name)
	if to.dir, path, err = v.Dir(newParent); err != nil {
		return nil, nil, err
	}
	to.path = resolve.Join(path, newName)
	return from, to, nil
}

// lockPair holds two directories, in an order that everybody keeps.
func lockPair(a, b *tree.Node) (unlock func()) {
	if a.ID > b.ID {
		a, b = b, a
	}
	a.Dir.Mu.Lock()
	if a == b {
		return a.Dir.Mu.Unlock
	}
	b.Dir.Mu.Lock()
	return func() {
		b.Dir.Mu.Unlock()
		a.Dir.Mu.Unlock()
	}
}

// fill finds what the two names are.
func (v *Entries) fill(ends ...*end) error {
	for _, x := range ends {
		dir, _ := v.Tree.Path(x.dir)
		e, err := v.Find(x.dir, dir, x.name)
		switch {
		case err == nil:
			x.e, x.has = e, true
		case !errors.Is(err, unix.ENOENT):
			return err
		}
	}
	return nil
}

// rename carries out a rename of what was found.
func (v *Entries) rename(from, to *end, flags uint32) error {
	dir, _ := v.Tree.Path(to.dir)
	st, err := v.Place(to.dir, dir, to.name, resolve.KindOf(from.e.Info.Mode))
	if err != nil {
		return err
	}
	if flags&unix.RENAME_EXCHANGE != 0 {
		st = to.e.Store
	}
	if st != from.e.Store || to.has && to.e.Store != st {
		return v.across(from, to, st, flags)
	}
	if st == store.Host {
		if _, err := v.mayRename(from, to, flags); err != nil {
			return err
		}
	}
	return v.bracketTwo(from, to, func() error { return v.within(from, to, st, flags) })
}

// mayRename asks about a rename on the host.
func (v *Entries) mayRename(from, to *end, flags uint32) (publish bool, err error) {
	for _, x := range []*end{from, to} {
		if v.Guard.Classify(x.path).Class == policy.Free && v.Router.Place(x.path, x.e.Info.IsDir()) == policy.Exposed {
			return false, unix.EROFS
		}
	}
	op := policy.Op{
		Kind: policy.Rename, Path: from.path, To: to.path, Type: resolve.KindOf(from.e.Info.Mode), Links: uint64(from.e.Info.Nlink),
		Made: v.Made.Has(from.path), ToMade: v.Made.Has(to.path),
	}
	if flags&unix.RENAME_EXCHANGE != 0 {
		op.Kind = policy.Exchange
	}
	if to.has {
		op.ToType = resolve.KindOf(to.e.Info.Mode)
	}
	return v.Guard.Check(op)
}

// bracketTwo tells the router of the change of both names, and of a directory
// that moves.
func (v *Entries) bracketTwo(from, to *end, f func() error) error {
	if from.e.Store == store.Host && (from.e.Info.IsDir() || to.has && to.e.Info.IsDir()) {
		change, err := v.Router.Renaming(from.path, to.path)
		if err != nil {
			return unix.EIO
		}
		g := f
		f = func() error {
			err := g()
			affected, eerr := change.End(err == nil)
			if err == nil && eerr != nil {
				err = unix.EIO
			}
			v.Reroute(affected)
			return err
		}
	}
	return v.Bracket(from.path, from.e.Store, func() error { return v.Bracket(to.path, from.e.Store, f) })
}

// within renames in one store.
func (v *Entries) within(from, to *end, st tree.Store, flags uint32) error {
	a, err := v.Stores.Dir(from.dir, st)
	if err != nil {
		return err
	}
	defer v.Stores.Release(a)
	b, err := v.Stores.MakeDir(to.dir, st)
	if err != nil {
		return err
	}
	defer v.Stores.Release(b)
	target := v.Tree.Child(to.dir, to.name)
	if flags&unix.RENAME_EXCHANGE == 0 {
		v.Stores.Keep(target)
	}
	if err := unix.Renameat2(a.FD, from.name, b.FD, to.name, uint(flags)); err != nil {
		return err
	}
	if st == store.Host {
		v.moveOthers(from, to)
		v.Made.Remove(from.path)
		if v.Guard.Classify(to.path).Class != policy.Free {
			v.Made.Add(to.path)
		}
		v.Guard.Forget(from.path)
		v.Guard.Forget(to.path)
	}
	v.moved(from, to, flags)
	return nil
}

// moved brings the tree up to date.
func (v *Entries) moved(from, to *end, flags uint32) {
	for _, n := range []*tree.Node{v.Tree.Child(from.dir, from.name), v.Tree.Child(to.dir, to.name)} {
		if n != nil {
			n.SetSeen(tree.Seen{})
		}
	}
	if flags&unix.RENAME_EXCHANGE != 0 {
		v.Tree.Swap(from.dir, from.name, to.dir, to.name)
	} else {
		if to.has {
			v.forgetName(to.dir, to.name, &to.e)
		}
		v.Tree.Move(from.dir, from.name, to.dir, to.name)
	}
	resolve.Changed(from.dir, to.dir)
}

// moveOthers moves what other stores have below a directory that has moved on
// the host. What they had at the new name, which nobody could see, is left at
// the old one.
func (v *Entries) moveOthers(from, to *end) {
	if !from.e.Info.IsDir() && (!to.has || !to.e.Info.IsDir()) {
		return
	}
	for _, st := range []tree.Store{store.Domain, store.Private} {
		if err := v.moveOther(from, to, st); err != nil && !errors.Is(err, unix.ENOENT) {
			v.Log.Error("move a directory's counterpart", "error", err.Error())
		}
	}
}

func (v *Entries) moveOther(from, to *end, st tree.Store) error {
	a, err := v.Stores.Dir(from.dir, st)
	if err != nil {
		return err
	}
	defer v.Stores.Release(a)
	b, err := v.Stores.MakeDir(to.dir, st)
	if err != nil {
		return err
	}
	defer v.Stores.Release(b)
	err = unix.Renameat2(a.FD, from.name, b.FD, to.name, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.ENOENT) {
		if err = unix.Renameat2(a.FD, from.name, b.FD, to.name, unix.RENAME_NOREPLACE); errors.Is(err, unix.ENOENT) {
			// Nothing of the moved one, but perhaps of what it has replaced.
			err = unix.Renameat2(b.FD, to.name, a.FD, from.name, unix.RENAME_NOREPLACE)
		}
	}
	for _, x := range []*end{from, to} {
		if n := v.Tree.Child(x.dir, x.name); n != nil && n.Dir != nil {
			v.Cache.Drop(&n.Dir.Others[st])
		}
	}
	return err
}

// across renames between stores: the bytes of a file are copied, so that tools
// that write a temporary file and rename it need not know of stores.
func (v *Entries) across(from, to *end, st tree.Store, flags uint32) error {
	return unix.EXDEV
}
