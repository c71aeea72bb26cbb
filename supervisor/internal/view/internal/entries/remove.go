package entries

import (
	"errors"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/view/internal/object"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/resolve"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/store"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/tree"
	"lazaret.dev/lazaret/supervisor/internal/view/policy"
)

// Unlink removes a name that is no directory's.
func (v *Entries) Unlink(parent uint64, name string) error {
	return v.remove(parent, name, policy.Unlink, func(dir *tree.Node, f *resolve.Found) error {
		if f.Info.IsDir() {
			return unix.EISDIR
		}
		return v.unlink(dir, name, f, 0)
	})
}

// Rmdir removes an empty directory. One that only seems empty, since the host
// has something in it that is isolated, is ENOTEMPTY.
func (v *Entries) Rmdir(parent uint64, name string) error {
	return v.remove(parent, name, policy.Rmdir, func(dir *tree.Node, f *resolve.Found) error {
		if !f.Info.IsDir() {
			return unix.ENOTDIR
		}
		if f.Store == store.Host {
			if err := v.emptyOthers(dir, name); err != nil {
				return err
			}
		}
		if err := v.unlink(dir, name, f, unix.AT_REMOVEDIR); err != nil {
			return err
		}
		if f.Store == store.Host {
			v.removeOthers(dir, name)
		}
		return nil
	})
}

// remove finds an entry, asks whether it may go, and calls f to remove it.
func (v *Entries) remove(parent uint64, name string, op policy.OpKind, f func(*tree.Node, *resolve.Found) error) error {
	if err := resolve.CheckName(name); err != nil {
		return err
	}
	v.Topology.RLock()
	defer v.Topology.RUnlock()
	dir, path, err := v.Dir(parent)
	if err != nil {
		return err
	}
	dir.Dir.Mu.Lock()
	defer dir.Dir.Mu.Unlock()
	e, err := v.Find(dir, path, name)
	if err != nil {
		return err
	}
	full := resolve.Join(path, name)
	if err := v.mayRemove(dir, path, name, &e, op); err != nil {
		return err
	}
	v.Stores.Keep(v.Tree.Child(dir, name))
	if err := v.around(full, &e, func() error { return f(dir, &e) }); err != nil {
		return err
	}
	v.Made.Remove(full)
	if e.Store == store.Host {
		v.Guard.Changed(full)
	}
	v.forgetName(dir, name, &e)
	return nil
}

// forgetName takes a name that is gone out of the tree.
func (v *Entries) forgetName(dir *tree.Node, name string, e *resolve.Found) {
	last := e.Info.IsDir() || e.Info.Nlink <= 1
	if n := v.Tree.Child(dir, name); n != nil {
		n.SetSeen(tree.Seen{})
	}
	v.Tree.Remove(dir, name, last)
	if last {
		v.Owners.Forget(e.Info.Key)
	}
	resolve.Changed(dir)
}

// mayRemove asks whether an entry may be removed.
func (v *Entries) mayRemove(dir *tree.Node, path, name string, e *resolve.Found, op policy.OpKind) error {
	if e.Store == store.Domain || e.Store == store.Transient {
		return nil
	}
	if _, whole := v.Inside(dir, path); whole {
		return nil
	}
	full := resolve.Join(path, name)
	if e.Verdict.Class == policy.Free && v.Router.Place(full, e.Info.IsDir()) == policy.Exposed {
		return unix.EROFS
	}
	_, err := v.Guard.Check(policy.Op{Kind: op, Path: full, Made: v.Made.Has(full)})
	return err
}

// around announces the change of an entry to the router, and makes it.
func (v *Entries) around(path string, e *resolve.Found, f func() error) error {
	if e.Store == store.Host && e.Verdict.Class == policy.Gated {
		return v.Around(func() (policy.Change, error) { return v.Router.Publishing(path) }, f)
	}
	return v.Bracket(path, e.Store, resolve.EntryOf(&e.Info), f)
}

// unlink removes an entry from its store. A name whose bytes are the Domain's
// own hides the host's from then on.
func (v *Entries) unlink(dir *tree.Node, name string, f *resolve.Found, flags int) error {
	if f.Store == store.Host && f.Verdict.Class.Domain() {
		return v.hide(dir, name)
	}
	d, err := v.Stores.Dir(dir, f.Store)
	if err != nil {
		return err
	}
	defer v.Stores.Release(d)
	if err := unix.Unlinkat(d.FD, name, flags); err != nil {
		return err
	}
	if f.Store == store.Private && f.Verdict.Below {
		return v.hide(dir, name)
	}
	return nil
}

// hide marks a name as removed for whoever is inside, while the host has it.
func (v *Entries) hide(dir *tree.Node, name string) error {
	h, err := v.Stores.Dir(dir, store.Host)
	if err != nil {
		return err
	}
	_, err = object.Stat(h.FD, name)
	v.Stores.Release(h)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	d, err := v.Stores.MakeDir(dir, store.Private)
	if err != nil {
		return err
	}
	defer v.Stores.Release(d)
	return unix.Mknodat(d.FD, name, unix.S_IFCHR, 0)
}

// emptyOthers is ENOTEMPTY when a directory of the host has entries that are
// in another store.
func (v *Entries) emptyOthers(dir *tree.Node, name string) error {
	n := v.Tree.Child(dir, name)
	if n == nil {
		return nil // the kernel would have looked it up
	}
	entries, err := v.List(n)
	if err != nil {
		return err
	}
	if len(entries) > 2 {
		return unix.ENOTEMPTY
	}
	return nil
}

// removeOthers removes the counterparts of a removed directory, as far as they
// are empty. What is left in one is not seen.
func (v *Entries) removeOthers(dir *tree.Node, name string) {
	for _, st := range []tree.Store{store.Domain, store.Private} {
		d, err := v.Stores.Dir(dir, st)
		if err != nil {
			continue
		}
		if err := unix.Unlinkat(d.FD, name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
			v.Log.Debug("leave a counterpart", "error", err.Error())
		}
		v.Stores.Release(d)
	}
}
