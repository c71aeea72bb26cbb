package entries

import (
	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/view/internal/store"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/tree"
)

// maxAcross bounds what a rename between stores copies, in bytes. Beyond it
// tools copy themselves, and can be interrupted.
const maxAcross = 64 << 20

// across renames a file from one store to another by copying it, so that a
// program that writes a temporary file and renames it over another, ignored
// one need not know that the two lie apart.
func (v *Entries) across(from, to *end, st tree.Store, flags uint32) error {
	n := v.Tree.Child(from.dir, from.name)
	info := &from.e.Info
	switch {
	case n == nil, flags&unix.RENAME_EXCHANGE != 0, info.IsDir(), info.Nlink > 1, info.Size > maxAcross:
		return unix.EXDEV
	case to.has && to.e.Info.IsDir():
		return unix.EISDIR
	case to.has && to.e.Store != st:
		return unix.EXDEV
	}
	n.Writing.Lock()
	defer n.Writing.Unlock()
	return v.Bracket(from.path, from.e.Store, from.entry(), func() error {
		return v.Bracket(to.path, st, to.entry(), func() error { return v.carry(n, from, to, st) })
	})
}

// carry copies a file to its new place and removes it from the old one.
func (v *Entries) carry(n *tree.Node, from, to *end, st tree.Store) error {
	src, err := v.Stores.Path(n)
	if err != nil {
		return err
	}
	defer v.Stores.Release(src)
	dir, err := v.Stores.MakeDir(to.dir, st)
	if err != nil {
		return err
	}
	defer v.Stores.Release(dir)
	v.Stores.Keep(v.Tree.Child(to.dir, to.name))
	if err := store.Copy(src.FD, dir.FD, to.name); err != nil {
		return err
	}
	if err := v.unlink(from.dir, from.name, &from.e, 0); err != nil {
		if !to.has {
			_ = unix.Unlinkat(dir.FD, to.name, 0)
		}
		return err
	}
	v.Made.Remove(from.path)
	v.Guard.Changed(from.path)
	v.appeared(to.path)
	v.Owners.Forget(from.e.Info.Key)
	v.moved(from, to, 0)
	return v.Content.Rehouse(n, st, dir.FD, to.name)
}
