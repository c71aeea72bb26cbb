package resolve

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/view/internal/object"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/store"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/tree"
	"lazaret.dev/lazaret/supervisor/internal/view/policy"
)

// Found is an entry of the view and the store that it is in.
type Found struct {
	Store tree.Store
	Info  object.Info
}

// Reply is an entry as the kernel is told of it. Node is 0 for a name that
// does not exist.
type Reply struct {
	Node uint64
	Attr Attr
	TTL  time.Duration // of the name
}

// look describes name in a directory's counterpart in a store.
func (v *View) look(dir *tree.Node, st tree.Store, name string) (object.Info, error) {
	d, err := v.Stores.Dir(dir, st)
	if err != nil {
		return object.Info{}, err
	}
	defer v.Stores.Release(d)
	info, err := object.Stat(d.FD, name)
	if err == nil && st != store.Host && info.Whiteout() {
		err = unix.ENOENT
	}
	return info, err
}

// inside tells whether a directory lies in one store wholly, so that nothing
// is asked about what is in it.
func (v *View) inside(dir *tree.Node) (tree.Store, bool) {
	st, _ := v.Tree.Identity(dir)
	return st, st != store.Host
}

// Find finds the entry name of a directory with the given path. What the
// host's directory holds is looked at only once it is watched.
func (v *View) Find(dir *tree.Node, path, name string) (Found, error) {
	if st, ok := v.inside(dir); ok {
		info, err := v.look(dir, st, name)
		return Found{st, info}, err
	}
	if path == "" && v.hidden[name] {
		info, err := v.look(dir, store.Transient, name)
		return Found{store.Transient, info}, err
	}
	v.Watched(dir)
	full := Join(path, name)
	verdict := v.Guard.Classify(full)
	switch {
	case verdict.Class.Domain():
		return v.findPrivate(dir, name, verdict)
	case verdict.Class != policy.Free:
		info, err := v.look(dir, store.Host, name)
		return Found{store.Host, info}, err
	}
	host, err := v.look(dir, store.Host, name)
	if err == nil && v.Router.Place(full, host.IsDir()) != policy.Isolated {
		return Found{store.Host, host}, nil
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return Found{}, err
	}
	hidden := err == nil
	own, derr := v.look(dir, store.Domain, name)
	if derr != nil {
		return Found{}, derr
	}
	// A directory that only leads to something isolated below is none of the
	// view's by itself.
	if hidden || v.Router.Place(full, own.IsDir()) == policy.Isolated {
		return Found{store.Domain, own}, nil
	}
	return Found{}, unix.ENOENT
}

// findPrivate finds an entry whose bytes are the Domain's own, or the host's
// until there are own ones.
func (v *View) findPrivate(dir *tree.Node, name string, verdict policy.Verdict) (Found, error) {
	d, err := v.Stores.Dir(dir, store.Private)
	if err == nil {
		info, serr := object.Stat(d.FD, name)
		v.Stores.Release(d)
		if serr == nil && info.Whiteout() {
			return Found{}, unix.ENOENT
		}
		if serr == nil || !errors.Is(serr, unix.ENOENT) {
			return Found{store.Private, info}, serr
		}
	} else if !errors.Is(err, unix.ENOENT) {
		return Found{}, err
	}
	if !verdict.Below {
		return Found{}, unix.ENOENT
	}
	info, err := v.look(dir, store.Host, name)
	if err == nil && info.IsDir() {
		return Found{}, unix.ENOENT
	}
	return Found{store.Host, info}, err
}

// Enter makes an entry's node known and describes it.
func (v *View) Enter(dir *tree.Node, name string, f *Found) Reply {
	n := v.Tree.Enter(dir, name, f.Store, &f.Info)
	r := Reply{Node: n.ID, TTL: v.TTL(dir)}
	if n.Dir != nil && f.Store == store.Host && v.fresh(n) {
		// It was looked at before it was watched.
		if info, err := v.Stores.Stat(n); err == nil {
			f.Info = info
		}
	}
	r.Attr = v.attr(n, f.Store, &f.Info)
	return r
}

// fresh begins to watch a directory, unless it was tried before.
func (v *View) fresh(n *tree.Node) bool {
	n.Dir.Watch.Lock()
	state := n.Dir.Watch.State
	n.Dir.Watch.Unlock()
	return state == tree.Unwatched && v.Watched(n)
}

// Place decides in which store a new entry is made.
func (v *View) Place(dir *tree.Node, path, name string, kind policy.Kind) (tree.Store, error) {
	if st, ok := v.inside(dir); ok {
		return st, nil
	}
	if path == "" && v.hidden[name] {
		return store.Transient, nil
	}
	full := Join(path, name)
	verdict := v.Guard.Classify(full)
	switch {
	case verdict.Class.Domain():
		return store.Private, nil
	case verdict.Class != policy.Free:
		return store.Host, nil
	}
	where := v.Router.Place(full, kind == policy.Dir)
	if where == policy.Isolated {
		return store.Domain, nil
	}
	host, err := v.look(dir, store.Host, name)
	switch {
	case err == nil && v.Router.Place(full, host.IsDir()) == policy.Isolated:
		// The host has something there that must not be seen.
		return store.Domain, nil
	case err != nil && !errors.Is(err, unix.ENOENT):
		return 0, err
	case where == policy.Exposed:
		return 0, unix.EROFS
	}
	return store.Host, nil
}
