package resolve

import (
	"sync"
	"time"

	"lazaret.dev/lazaret/supervisor/internal/view/internal/object"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/store"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/tree"
)

// Attr is what the view shows of an object.
type Attr struct {
	object.Info
	Ino uint64
	TTL time.Duration
}

// attr renders an object's attributes for the kernel, and notes that it was
// told so.
func (v *View) attr(n *tree.Node, st tree.Store, info *object.Info) Attr {
	now := time.Now()
	a := Attr{Info: *info, Ino: v.Numbers.Of(st, info.Key) ^ uint64(v.Tree.Twin(n))<<twinShift, TTL: longTTL}
	a.Mode = object.Shown(info.Mode)
	a.UID, a.GID = v.Owner(st, info)
	if st == store.Host {
		switch {
		case n.Dir != nil:
			a.TTL = v.TTL(n)
		case info.Nlink > 1:
			// Its other names may lie where nobody watches.
			a.TTL = shortTTL
		default:
			if name, ok := v.Tree.Name(n); !ok || !v.Watched(name.Parent) {
				a.TTL = shortTTL
			}
		}
	}
	n.SetSeen(tree.Seen{Version: info.Version(), At: now.UnixNano()})
	return a
}

// Stat describes a node.
func (v *View) Stat(n *tree.Node) (Attr, error) {
	info, err := v.Stores.Stat(n)
	if err != nil {
		return Attr{}, err
	}
	st, _ := v.Tree.Identity(n)
	return v.attr(n, st, &info), nil
}

// Numbers gives each object an inode number that no other has, whatever
// filesystems the stores are on.
type Numbers struct {
	mu    sync.Mutex
	index map[device]uint64
}

type device struct {
	host bool
	dev  uint64
}

// deviceShift leaves the numbers of the workspace's own filesystem as they
// are on the host. So does twinShift, but for an object whose number gVisor knows
// as that of another that is gone: gVisor takes a file for the one that it has
// by this number alone, and would hold on to the dead one.
const (
	deviceShift = 48
	twinShift   = 40
)

func (x *Numbers) first(dev uint64) { x.index = map[device]uint64{{true, dev}: 0} }

// Of returns the number of an object.
func (x *Numbers) Of(st tree.Store, key object.Key) uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	d := device{st == store.Host, key.Dev}
	i, known := x.index[d]
	if !known {
		i = uint64(len(x.index))
		x.index[d] = i
	}
	return key.Ino ^ i<<deviceShift
}

// Owner is somebody that a file was given to inside.
type Owner struct{ UID, GID uint32 }

// maxOwners bounds what is remembered of them.
const maxOwners = 1 << 17

// Owners remembers to whom files of the host were given inside. The host knows
// only the developer, and the next generation too.
type Owners struct {
	mu sync.Mutex
	of map[object.Key]Owner
}

// Get returns to whom an object was given.
func (x *Owners) Get(key object.Key) (Owner, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	o, ok := x.of[key]
	return o, ok
}

// Set remembers an owner. Beyond the limit the change has no effect, which
// whoever unpacks so many files with owners of their own can live with.
func (x *Owners) Set(key object.Key, o Owner) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.of == nil {
		x.of = map[object.Key]Owner{}
	}
	if _, have := x.of[key]; have || len(x.of) < maxOwners {
		x.of[key] = o
	}
}

// Forget forgets to whom an object was given.
func (x *Owners) Forget(key object.Key) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.of, key)
}

// Owner says who owns an object inside.
func (v *View) Owner(_ tree.Store, info *object.Info) (uid, gid uint32) {
	if o, ok := v.Owners.Get(info.Key); ok {
		return o.UID, o.GID
	}
	uid, gid = info.UID, info.GID
	if uid == 0 {
		uid = v.UID
	}
	if gid == 0 {
		gid = v.GID
	}
	return uid, gid
}
