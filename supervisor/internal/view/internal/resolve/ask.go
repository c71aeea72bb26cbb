package resolve

import (
	"strings"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/view/internal/notice"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/object"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/store"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/tree"
	"lazaret.dev/lazaret/supervisor/internal/view/policy"
)

// MayChange asks whether an object may be changed: by each of its names, since
// each of them is one on the host. What has names elsewhere may be something
// that is protected there.
func (v *View) MayChange(n *tree.Node, kind policy.OpKind) error {
	if n.Sealed {
		return unix.EROFS
	}
	st, key := v.Tree.Identity(n)
	if st != store.Host {
		return nil
	}
	paths := v.Paths(n)
	for _, path := range paths {
		free := v.Guard.Classify(path).Class == policy.Free
		// A directory may be a repository whatever its name, which only Check tells.
		if !free || n.Dir != nil {
			if _, err := v.Guard.Check(policy.Op{Kind: kind, Path: path, Made: v.Made.Has(path)}); err != nil {
				return err
			}
		}
		if free && v.Router.Place(path, n.Dir != nil) == policy.Exposed {
			return unix.EROFS
		} else if kind == policy.Write {
			v.Guard.Writing(path)
		}
	}
	// Also one whose names are gone here while the host has another for it.
	if n.Dir == nil && v.Guard.Protected(key.Dev, key.Ino) {
		return v.Guard.Alias(kind, strings.Join(paths, ", "))
	}
	return nil
}

// Paths are the paths of a node's names.
func (v *View) Paths(n *tree.Node) []string {
	var out []string
	for _, name := range v.Tree.Names(n) {
		if dir, ok := v.Tree.Path(name.Parent); ok {
			out = append(out, Join(dir, name.Name))
		}
	}
	return out
}

// EntryOf describes an object to the router.
func EntryOf(info *object.Info) policy.Entry {
	return policy.Entry{
		Regular: info.IsRegular(), Dir: info.IsDir(), Dev: info.Dev, Ino: info.Ino, Nlink: uint64(info.Nlink),
	}
}

// Bracket tells the router of a change of one of its rules, which f makes. e is
// what the host has at the path.
func (v *View) Bracket(path string, st tree.Store, e policy.Entry, f func() error) error {
	if st != store.Host || !v.Router.Watches(path, e) {
		return f()
	}
	return v.Around(func() (policy.Change, error) { return v.Router.Begin(path) }, f)
}

// Around announces a change, makes it, and takes its effect into account.
func (v *View) Around(begin func() (policy.Change, error), f func() error) error {
	change, err := begin()
	if err != nil {
		v.Log.Error("announce a change", "error", err.Error())
		return unix.EIO
	}
	ferr := f()
	if err := v.End(change, ferr == nil); err != nil && ferr == nil {
		return err
	}
	return ferr
}

// End takes the effect of a change into account.
func (v *View) End(change policy.Change, done bool) error {
	affected, err := change.End(done)
	v.Reroute(affected)
	if err != nil {
		v.Log.Error("take a change into account", "error", err.Error())
		return unix.EIO
	}
	return nil
}

// Reroute takes back what the kernel knows below directories whose places may
// have changed. It does not wait for that, so that it may be called by whoever
// serves a request.
func (v *View) Reroute(affected []string) {
	if len(affected) > 0 {
		v.Notices.Later(func() { v.Resync(affected) })
	}
}

// Resync is Reroute for whoever serves none.
func (v *View) Resync(paths []string) {
	for _, p := range paths {
		if n := v.Tree.Find(p); n != nil {
			v.Notices.Resync(append(v.Tree.Below(n), n))
		}
	}
}

// notable are the events of which those who decide are told: not of a write,
// after which a file is half written, nor of a new file, which is empty.
const notable = unix.IN_CLOSE_WRITE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_DELETE | unix.IN_Q_OVERFLOW

// HostChanged tells those who decide of a change.
func (v *View) HostChanged(c notice.Change) {
	if c.Mask&(notable|unix.IN_CREATE) == 0 {
		return
	}
	v.Guard.Changed(c.Path)
	if c.Mask&notable == 0 && c.Info.IsRegular() {
		return
	}
	affected, err := v.Router.Changed(c.Path, EntryOf(&c.Info))
	if err != nil {
		v.Log.Error("take a change into account", "path", c.Path, "error", err.Error())
	}
	v.Resync(affected)
}
