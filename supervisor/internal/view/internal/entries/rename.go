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
// RENAME_WHITEOUT. Between stores, a file with several names or of much content
// is EXDEV, and a directory always.
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
	if err := v.ownFirst(from); err != nil {
		return err
	}
	dir, _ := v.Tree.Path(to.dir)
	st, err := v.Place(to.dir, dir, to.name, from.e.Info.IsDir())
	if err != nil {
		return err
	}
	if flags&unix.RENAME_EXCHANGE != 0 {
		st = to.e.Store
	}
	publish, err := v.mayRename(from, to, st, flags)
	if err != nil {
		return err
	}
	switch {
	case publish:
		return v.publish(from, to, st)
	case st != from.e.Store, to.has && to.e.Store != st && st != store.Private:
		return v.across(from, to, st, flags)
	}
	// A private file takes the place of the host's, which is only hidden.
	return v.bracketTwo(from, to, flags&unix.RENAME_EXCHANGE != 0, func() error { return v.within(from, to, st, flags) })
}

// ownFirst gives a private file that is still the host's its own copy, which
// then is renamed.
func (v *Entries) ownFirst(x *end) error {
	n := v.Tree.Child(x.dir, x.name)
	if x.e.Store != store.Host || !x.e.Verdict.Class.Domain() || n == nil {
		return nil
	}
	n.Writing.Lock()
	defer n.Writing.Unlock()
	if err := v.Content.Own(n, tree.Name{Parent: x.dir, Name: x.name}); err != nil {
		return err
	}
	x.e.Store = store.Private
	return nil
}

// mayRename asks about a rename that the host, or the Domain's private Git
// state, has to do with.
func (v *Entries) mayRename(from, to *end, st tree.Store, flags uint32) (publish bool, err error) {
	if from.e.Store != store.Host && st != store.Host && (from.e.Store == st || st != store.Private) {
		return false, nil
	}
	for _, x := range []*end{from, to} {
		if !x.has {
			continue
		}
		if x.e.Verdict.Class == policy.Free && v.Router.Place(x.path, x.e.Info.IsDir()) == policy.Exposed {
			return false, unix.EROFS
		}
		if x.e.Store == store.Host && x.e.Info.IsRegular() && x.e.Info.Nlink > 1 && v.Guard.Protected(x.e.Info.Dev, x.e.Info.Ino) {
			return false, v.Guard.Alias(policy.Rename, x.path)
		}
	}
	op := policy.Op{
		Kind: policy.Rename, Path: from.path, To: to.path, Links: uint64(from.e.Info.Nlink),
		Made: v.Made.Has(from.path), ToMade: v.Made.Has(to.path),
	}
	if flags&unix.RENAME_EXCHANGE != 0 {
		op.Kind = policy.Exchange
	}
	return v.Guard.Check(op)
}

// bracketTwo tells the router of the change of both names, and of directories
// that move. One of which only a part is the host's does not move: tools copy
// it.
func (v *Entries) bracketTwo(from, to *end, exchange bool, f func() error) error {
	type move struct{ from, to string }
	var moves []move
	if from.e.Store == store.Host && from.e.Info.IsDir() {
		moves = append(moves, move{from.path, to.path})
	}
	if from.e.Store == store.Host && exchange && to.e.Info.IsDir() {
		moves = append(moves, move{to.path, from.path})
	}
	for _, m := range moves {
		if v.Router.Place(m.from, true) != policy.Shared || v.Router.Place(m.to, true) != policy.Shared {
			return unix.EXDEV
		}
		g := f
		f = func() error {
			return v.Around(func() (policy.Change, error) { return v.Router.Renaming(m.from, m.to) }, g)
		}
	}
	return v.Bracket(from.path, from.e.Store, from.entry(), func() error {
		return v.Bracket(to.path, from.e.Store, to.entry(), f)
	})
}

// entry describes what is at the end to the router.
func (x *end) entry() policy.Entry {
	if !x.has {
		return policy.Entry{}
	}
	return resolve.EntryOf(&x.e.Info)
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
	if st == store.Private && from.e.Verdict.Below && flags&unix.RENAME_EXCHANGE == 0 {
		if err := v.hide(from.dir, from.name); err != nil {
			v.Log.Error("hide what was renamed", "error", err.Error())
		}
	}
	if st == store.Host {
		v.moveOthers(from, to)
		v.Made.Remove(from.path)
		v.Guard.Changed(from.path)
		if from.e.Info.IsDir() || to.has && to.e.Info.IsDir() {
			v.Guard.Forget(from.path)
			v.Guard.Forget(to.path)
		}
		v.appeared(to.path)
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
