// Package resolve joins the workspace view's stores into one tree: it finds
// what a name is and where one would be made, as the view's router and guard
// decide, and describes it.
//
// It changes no object, follows no link and never joins a path: see package
// store for how objects are reached. It runs in the Runtime Supervisor.
package resolve

import (
	"errors"
	"log/slog"
	"regexp"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/view/internal/fdcache"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/notice"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/object"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/store"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/tree"
	"lazaret.dev/lazaret/supervisor/internal/view/policy"
)

// How long the kernel may remember an answer: for what is watched or has no
// other writer, and for the rest.
const (
	longTTL  = 10 * time.Minute
	shortTTL = 300 * time.Millisecond
)

// linger is how long a file stays open for writing after a write. The host
// cannot execute it meanwhile.
const linger = 50 * time.Millisecond

// Options describe a view.
type Options struct {
	Roots  [tree.Stores]store.Root // the stores; the descriptors stay the caller's
	Router policy.Router
	Guard  policy.Guard

	// UID and GID are who the developer is inside.
	UID, GID uint32

	// Remote says that others change the workspace without this kernel's
	// knowledge, as on a network filesystem.
	Remote bool

	// Hidden are names in the root that are served from transient storage.
	Hidden []string

	Descriptors, Pinned int // limits of open and of pinned descriptors
	Log                 *slog.Logger
}

// View is the joined tree.
type View struct {
	Options
	Tree    *tree.Tree
	Cache   *fdcache.Cache
	Stores  *store.Stores
	Notices *notice.Notices
	Numbers Numbers
	Owners  Owners
	Made    Made

	// Topology is held while an operation depends on where directories are, and
	// exclusively while one of them is moved.
	Topology sync.RWMutex

	hidden map[string]bool
}

// New makes a view. kernel takes back what the kernel remembers.
func New(o Options, kernel notice.Kernel) (*View, error) {
	root, err := object.StatFD(o.Roots[store.Host].FD)
	if err != nil {
		return nil, err
	}
	v := &View{Options: o, Tree: tree.New(store.Host, &root), Cache: fdcache.New(o.Descriptors, o.Pinned), hidden: map[string]bool{}}
	v.Numbers.first(root.Key.Dev)
	v.Stores = store.New(v.Tree, v.Cache, o.Roots, linger)
	v.Notices = notice.New(v.Stores, kernel, !o.Remote, o.Log)
	v.Notices.OnChange = v.HostChanged
	for _, name := range o.Hidden {
		v.hidden[name] = true
	}
	return v, nil
}

// Close closes what is open. No operation may be under way.
func (v *View) Close() {
	v.Stores.Close()
	v.Cache.Close()
}

// Statistics describe the view's size.
type Statistics struct{ Nodes, Descriptors int }

// Statistics returns the present ones.
func (v *View) Statistics() Statistics { return Statistics{v.Tree.Len(), v.Cache.Open()} }

// Node returns a node by its id.
func (v *View) Node(id uint64) (*tree.Node, error) {
	n := v.Tree.Get(id)
	if n == nil {
		return nil, unix.ESTALE
	}
	return n, nil
}

// Dir returns a directory and its path.
func (v *View) Dir(id uint64) (*tree.Node, string, error) {
	n, err := v.Node(id)
	if err != nil {
		return nil, "", err
	}
	if n.Dir == nil {
		return nil, "", unix.ENOTDIR
	}
	path, ok := v.Tree.Path(n)
	if !ok {
		return nil, "", unix.ENOENT
	}
	return n, path, nil
}

// Join is the path of an entry.
func Join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// CheckName refuses what the kernel does not send as a name.
func CheckName(name string) error {
	if name == "" || name == "." || name == ".." {
		return unix.EINVAL
	}
	for i := range len(name) {
		if name[i] == '/' || name[i] == 0 {
			return unix.EINVAL
		}
	}
	return nil
}

// Watched tells whether changes of a directory of the host are noticed, trying
// to make it so. What is in the directory must be looked at afterwards.
func (v *View) Watched(dir *tree.Node) bool {
	d, err := v.Stores.Dir(dir, store.Host)
	if err != nil {
		return false
	}
	defer v.Stores.Release(d)
	return v.Notices.Ensure(dir, d.FD)
}

// TTL is how long the kernel may remember what is in a directory. What Git
// changes is never remembered: who has taken a lock must see what its last
// holder left, and who finds a new commit must find the pack that it is in, not
// what inotify is about to tell. Loose objects never change once they are there.
func (v *View) TTL(dir *tree.Node) time.Duration {
	st, _ := v.Tree.Identity(dir)
	switch path, ok := v.Tree.Path(dir); {
	case st == store.Host && ok && v.gits(path) && !looseObjects.MatchString(path):
		return 0
	case st == store.Host && v.Watched(dir):
		return longTTL
	case st == store.Domain && (!ok || v.Router.Place(path, true) != policy.Isolated):
		return shortTTL
	case st != store.Host:
		return longTTL
	default:
		return shortTTL
	}
}

// AbsentTTL is how long the kernel may remember that a name is not there.
func (v *View) AbsentTTL(dir *tree.Node) time.Duration {
	if path, ok := v.Tree.Path(dir); ok && v.gits(path) {
		return 0
	}
	return v.TTL(dir)
}

// gits reports whether a directory is Git's own.
func (v *View) gits(path string) bool { return v.Guard.Classify(path).Class != policy.Free }

// looseObjects matches the directories of those.
var looseObjects = regexp.MustCompile(`(^|/)objects/[0-9a-f]{2}$`)

// Changed notes that a directory was changed from inside: the kernel drops
// what it knows of it by itself.
func Changed(dirs ...*tree.Node) {
	for _, d := range dirs {
		d.SetSeen(tree.Seen{})
	}
}

// Retry repeats what a signal has interrupted.
func Retry(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
