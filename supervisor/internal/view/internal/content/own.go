package content

import (
	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/view/internal/object"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/resolve"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/store"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/tree"
	"lazaret.dev/lazaret/supervisor/internal/view/policy"
)

// own gives a file that is private, and still the host's, a copy of its own: it
// is about to be changed. The topology is held.
func (v *Content) own(n *tree.Node) error {
	if n.Dir != nil || !v.borrowed(n) {
		return nil
	}
	n.Writing.Lock()
	defer n.Writing.Unlock()
	if !v.borrowed(n) {
		return nil
	}
	names := v.Tree.Names(n)
	if len(names) != 1 {
		return unix.EROFS
	}
	return v.Own(n, names[0])
}

// borrowed tells whether a file is the host's although it is private.
func (v *Content) borrowed(n *tree.Node) bool {
	if st, _ := v.Tree.Identity(n); st != store.Host {
		return false
	}
	for _, path := range v.Paths(n) {
		if v.Guard.Classify(path).Class.Domain() {
			return true
		}
	}
	return false
}

// Own gives the host's private file of the given name its own copy. Nobody
// else may change the file meanwhile.
func (v *Content) Own(n *tree.Node, name tree.Name) error {
	from, err := v.Stores.Path(n)
	if err != nil {
		return err
	}
	defer v.Stores.Release(from)
	dir, err := v.Stores.MakeDir(name.Parent, store.Private)
	if err != nil {
		return err
	}
	defer v.Stores.Release(dir)
	if err := store.Copy(from.FD, dir.FD, name.Name); err != nil {
		return err
	}
	return v.Rehouse(n, store.Private, dir.FD, name.Name)
}

// Rehouse makes a node stand for what is now at a name.
func (v *Content) Rehouse(n *tree.Node, st tree.Store, dir int, name string) error {
	info, err := object.Stat(dir, name)
	if err != nil {
		return err
	}
	v.Stores.Drop(n)
	v.Tree.Rehouse(n, st, &info)
	n.SetSeen(tree.Seen{})
	return nil
}

// announce tells the router of a file with rules that is written to. The change
// lasts until nobody has it open for writing any more. The file's Writing is
// held for reading.
func (v *Content) announce(n *tree.Node) error {
	v.announcing.Lock()
	defer v.announcing.Unlock()
	st, _ := v.Tree.Identity(n)
	if st != store.Host || v.Stores.Waits(&n.Write) {
		return nil
	}
	paths := v.Paths(n)
	if len(paths) == 0 {
		return nil
	}
	info, err := v.Stores.Stat(n)
	if err != nil {
		return err
	}
	var changes []policy.Change
	for _, path := range paths {
		if !v.Router.Watches(path, resolve.EntryOf(&info)) {
			continue
		}
		change, err := v.Router.Begin(path)
		if err != nil {
			v.Log.Error("announce a change", "error", err.Error())
			v.endAll(changes)
			return unix.EIO
		}
		changes = append(changes, change)
	}
	if len(changes) == 0 {
		return nil
	}
	v.Stores.WhenIdle(&n.Write, func() bool {
		if !n.Writing.TryLock() {
			return false
		}
		defer n.Writing.Unlock()
		v.Stores.NoLonger(&n.Write)
		v.endAll(changes)
		return true
	})
	return nil
}

// endAll ends changes. What goes wrong is in the log.
func (v *Content) endAll(changes []policy.Change) {
	for _, c := range changes {
		_ = v.End(c, true)
	}
}
