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

// Found is an entry of the view, the store that it is in, and what it is to
// Git.
type Found struct {
	Store   tree.Store
	Info    object.Info
	Verdict policy.Verdict
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

// Inside tells whether a directory with the given path lies in one store
// wholly, so that nothing is asked about what is in it. A directory that the
// host does not have, but that Git tracks something in, is no such one.
func (v *View) Inside(dir *tree.Node, path string) (tree.Store, bool) {
	st, _ := v.Tree.Identity(dir)
	switch st {
	case store.Host:
		return st, false
	case store.Domain:
		return st, v.Router.Place(path, true) == policy.Isolated
	default:
		return st, true
	}
}

// Find finds the entry name of a directory with the given path. What the
// host's directory holds is looked at only once it is watched.
func (v *View) Find(dir *tree.Node, path, name string) (Found, error) {
	if st, ok := v.Inside(dir, path); ok {
		info, err := v.look(dir, st, name)
		return Found{Store: st, Info: info}, err
	}
	if path == "" && v.hidden[name] {
		info, err := v.look(dir, store.Transient, name)
		return Found{Store: store.Transient, Info: info}, err
	}
	v.Watched(dir)
	full := Join(path, name)
	verdict := v.Guard.Classify(full)
	switch {
	case verdict.Class.Domain():
		return v.findPrivate(dir, name, verdict)
	case verdict.Class != policy.Free:
		info, err := v.look(dir, store.Host, name)
		return Found{Store: store.Host, Info: info, Verdict: verdict}, err
	}
	host, err := v.look(dir, store.Host, name)
	if err == nil && v.Router.Place(full, host.IsDir()) != policy.Isolated {
		return Found{Store: store.Host, Info: host}, nil
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return Found{}, err
	}
	hidden := err == nil
	own, err := v.look(dir, store.Domain, name)
	if err != nil {
		return Found{}, err
	}
	// A directory that only leads to something isolated below is none of the
	// view's by itself.
	if place := v.Router.Place(full, own.IsDir()); hidden || place == policy.Isolated || place == policy.Union {
		return Found{Store: store.Domain, Info: own}, nil
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
			return Found{Store: store.Private, Info: info, Verdict: verdict}, serr
		}
	} else if !errors.Is(err, unix.ENOENT) {
		return Found{}, err
	}
	if !verdict.Below {
		return Found{}, unix.ENOENT
	}
	info, err := v.look(dir, store.Host, name)
	if err == nil && !info.IsRegular() {
		return Found{}, unix.ENOENT
	}
	return Found{Store: store.Host, Info: info, Verdict: verdict}, err
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
func (v *View) Place(dir *tree.Node, path, name string, isDir bool) (tree.Store, error) {
	if st, ok := v.Inside(dir, path); ok {
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
	where := v.Router.Place(full, isDir)
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
