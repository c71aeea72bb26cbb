package entries

import (
	"errors"

	"golang.org/x/sys/unix"

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
	if e.Store == store.Host {
		if err := v.mayRemove(full, &e, op); err != nil {
			return err
		}
	}
	n := v.Tree.Child(dir, name)
	v.Stores.Keep(n)
	if err := v.Bracket(full, e.Store, func() error { return f(dir, &e) }); err != nil {
		return err
	}
	v.Made.Remove(full)
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

// mayRemove asks whether an entry of the host's may be removed.
func (v *Entries) mayRemove(path string, e *resolve.Found, op policy.OpKind) error {
	if v.Guard.Classify(path).Class == policy.Free && v.Router.Place(path, e.Info.IsDir()) == policy.Exposed {
		return unix.EROFS
	}
	_, err := v.Guard.Check(policy.Op{Kind: op, Path: path, Type: resolve.KindOf(e.Info.Mode), Made: v.Made.Has(path)})
	return err
}

// unlink removes an entry from its store. A name whose bytes are the Domain's
// own hides the host's from then on.
func (v *Entries) unlink(dir *tree.Node, name string, f *resolve.Found, flags int) error {
	d, err := v.Stores.Dir(dir, f.Store)
	if err != nil {
		return err
	}
	defer v.Stores.Release(d)
	if err := unix.Unlinkat(d.FD, name, flags); err != nil {
		return err
	}
	return nil
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
