package resolve

import (
	"errors"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/view/internal/object"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/store"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/tree"
	"lazaret.dev/lazaret/supervisor/internal/view/policy"
)

// Listed is one entry of a directory.
type Listed struct {
	Name string
	Ino  uint64
	Mode uint32
}

// List reads a directory, "." and ".." included.
func (v *View) List(n *tree.Node) ([]Listed, error) {
	st, key := v.Tree.Identity(n)
	up := v.Numbers.Of(st, key)
	if name, ok := v.Tree.Name(n); ok {
		pst, pkey := v.Tree.Identity(name.Parent)
		up = v.Numbers.Of(pst, pkey)
	}
	out := []Listed{{".", v.Numbers.Of(st, key), unix.S_IFDIR}, {"..", up, unix.S_IFDIR}}
	path, ok := v.Tree.Path(n)
	if !ok {
		// It was removed; whoever is in it sees that it is empty.
		return out, nil
	}
	if _, whole := v.Inside(n, path); whole {
		return v.add(out, n, st, key, func(*store.Entry) bool { return true })
	}
	v.Watched(n)
	out, err := v.add(out, n, store.Host, key, func(e *store.Entry) bool {
		if path == "" && v.hidden[e.Name] {
			return false
		}
		full := Join(path, e.Name)
		verdict := v.Guard.Classify(full)
		switch {
		case verdict.Class.Domain():
			f, err := v.findPrivate(n, e.Name, verdict)
			return err == nil && f.Store == store.Host
		case verdict.Class != policy.Free:
			return true
		}
		return v.Router.Place(full, e.Type == unix.S_IFDIR) != policy.Isolated
	})
	if err != nil && (st == store.Host || !errors.Is(err, unix.ENOENT)) {
		return nil, err
	}
	for _, other := range []tree.Store{store.Domain, store.Private, store.Transient} {
		if !v.Stores.Has(other) {
			continue
		}
		out, err = v.add(out, n, other, key, func(e *store.Entry) bool {
			f, err := v.Find(n, path, e.Name)
			return err == nil && f.Store == other
		})
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return nil, err
		}
	}
	return out, nil
}

// Add appends those entries of a directory's counterpart that are wanted.
func (v *View) add(out []Listed, n *tree.Node, st tree.Store, key object.Key, want func(*store.Entry) bool) ([]Listed, error) {
	entries, err := v.Stores.Names(n, st)
	if err != nil {
		return out, err
	}
	for i := range entries {
		e := &entries[i]
		if e.Type == 0 || e.Type == unix.S_IFCHR {
			// Filesystems need not say what an entry is, and a removed name is a
			// device.
			info, err := v.look(n, st, e.Name)
			if err != nil {
				continue
			}
			e.Type = info.Type()
		}
		if want(e) {
			out = append(out, Listed{e.Name, v.Numbers.Of(st, object.Key{Dev: key.Dev, Ino: e.Ino}), object.Shown(e.Type)})
		}
	}
	return out, nil
}
