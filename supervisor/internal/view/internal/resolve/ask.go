package resolve

import (
	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/view/internal/store"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/tree"
	"lazaret.dev/lazaret/supervisor/internal/view/policy"
)

// MayChange asks whether an object may be changed: by each of its names, since
// each of them is one on the host.
func (v *View) MayChange(n *tree.Node, kind policy.OpKind) error {
	if n.Sealed {
		return unix.EROFS
	}
	st, _ := v.Tree.Identity(n)
	if st != store.Host {
		return nil
	}
	for _, name := range v.Tree.Names(n) {
		dir, ok := v.Tree.Path(name.Parent)
		if !ok {
			continue
		}
		if err := v.mayChangePath(Join(dir, name.Name), n.Dir != nil, kind); err != nil {
			return err
		}
	}
	return nil
}

func (v *View) mayChangePath(path string, isDir bool, kind policy.OpKind) error {
	if v.Guard.Classify(path).Class != policy.Free {
		_, err := v.Guard.Check(policy.Op{Kind: kind, Path: path, Made: v.Made.Has(path)})
		return err
	}
	if v.Router.Place(path, isDir) == policy.Exposed {
		return unix.EROFS
	}
	return nil
}

// Bracket tells the router of a change of one of its rules, which f makes.
func (v *View) Bracket(path string, st tree.Store, f func() error) error {
	if st != store.Host || !v.Router.Watches(path, 0, 0, 0) {
		return f()
	}
	change, err := v.Router.Begin(path)
	if err != nil {
		return unix.EIO
	}
	ferr := f()
	affected, err := change.End(ferr == nil)
	if ferr == nil && err != nil {
		ferr = unix.EIO
	}
	v.Reroute(affected)
	return ferr
}

// Reroute takes back what the kernel knows below directories whose places may
// have changed. It must not be waited for by whoever serves a request.
func (v *View) Reroute(affected []string) {
	if len(affected) > 0 {
		v.Notices.Later(func() { v.resync(affected) })
	}
}

func (v *View) resync(paths []string) {
	for _, p := range paths {
		n := v.Tree.Find(p)
		if n == nil {
			continue
		}
		v.Notices.Resync(append(v.Tree.Below(n), n))
	}
}
