// Package tree is the table of the objects that the kernel knows of the
// workspace view: their identities, their names, and how often the kernel has
// looked each of them up.
//
// It makes no system call and decides nothing. All its methods may be called
// by several goroutines at once. It runs in the Runtime Supervisor.
package tree

import (
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"lazaret.dev/lazaret/supervisor/internal/view/internal/fdcache"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/object"
)

// Stores is how many stores a view can have.
const Stores = 4

// Store is the number of a store, one of the view's trees of files.
type Store uint8

// Root is the node id of the view's root.
const Root = 1

// Name is one name of a node.
type Name struct {
	Parent *Node
	Name   string
}

// Node is one object of the view. A file has one node, however many names.
type Node struct {
	ID  uint64
	Dir *Dir // of a directory; nil of anything else

	// Path holds an O_PATH descriptor: of a directory in its own store, and of a
	// file whose last name is gone. Read and Write hold descriptors of a regular
	// file's content.
	Path, Read, Write fdcache.Slot

	// Writing is held for reading while the content or the attributes are
	// changed. Sealed, changed under it, ends that for good.
	Writing sync.RWMutex
	Sealed  bool

	mu   sync.Mutex // guards seen
	seen Seen

	// The rest is guarded by the tree.
	id       ident
	twin     uint8
	refs     uint64
	names    []Name
	unlinked bool
}

// Dir is what only a directory has.
type Dir struct {
	Mu     sync.Mutex           // held while entries of the directory are changed
	Others [Stores]fdcache.Slot // its counterparts in other stores
	Watch  Watch

	children map[string]*Node // guarded by the tree
}

// Watch says whether the host's changes of a directory are noticed.
type Watch struct {
	sync.Mutex
	State WatchState
	ID    int // the inotify watch descriptor
}

// WatchState is a directory's state of being watched.
type WatchState uint8

// The states. A failed watch is not tried again while the node lives.
const (
	Unwatched WatchState = iota
	Watched
	WatchFailed
)

// Seen is the version of an object that the kernel was told of, or that the
// view's own change has made, and when that was looked at.
type Seen struct {
	object.Version
	At int64 // wall clock, nanoseconds
}

// ident is a node's identity.
type ident struct {
	store Store
	key   object.Key
}

// place is where an object lies, whenever it was born.
type place struct {
	store    Store
	dev, ino uint64
}

func (id ident) place() place { return place{id.store, id.key.Dev, id.key.Ino} }

// Tree is the table.
type Tree struct {
	mu    sync.RWMutex
	nodes map[uint64]*Node
	ids   map[ident]*Node
	twins map[place]map[uint8]bool // of the nodes there are
	last  uint64
	root  *Node
}

// New makes a table that holds the root alone.
func New(store Store, info *object.Info) *Tree {
	t := &Tree{nodes: map[uint64]*Node{}, ids: map[ident]*Node{}, twins: map[place]map[uint8]bool{}, last: Root}
	t.root = &Node{ID: Root, Dir: &Dir{}, id: ident{store, info.Key}, refs: 1}
	t.nodes[Root], t.ids[t.root.id] = t.root, t.root
	t.tell(t.root)
	return t
}

// tell gives a new node the first number that tells it from its twins. Should
// there be none left, it is as one of them.
func (t *Tree) tell(n *Node) {
	at := n.id.place()
	taken := t.twins[at]
	if taken == nil {
		taken = map[uint8]bool{}
		t.twins[at] = taken
	}
	for n.twin = 0; taken[n.twin] && n.twin < math.MaxUint8; n.twin++ {
	}
	taken[n.twin] = true
}

// untell gives that number back.
func (t *Tree) untell(n *Node) {
	at := n.id.place()
	delete(t.twins[at], n.twin)
	if len(t.twins[at]) == 0 {
		delete(t.twins, at)
	}
}

// Twin tells a node from those whose objects had, or have, the same inode
// number: the host gives a number away again while gVisor still holds its last
// owner. It is 0 for the first of them, and stays as long as the object does.
func (t *Tree) Twin(n *Node) uint8 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return n.twin
}

// Get returns the node of an id, or nil.
func (t *Tree) Get(id uint64) *Node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.nodes[id]
}

// Len is the number of nodes.
func (t *Tree) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.nodes)
}

// Enter returns the node of an object that was found, or made, as name in
// parent, and counts one look-up by the kernel. The name belongs to that node
// from now on.
func (t *Tree) Enter(parent *Node, name string, store Store, info *object.Info) *Node {
	t.mu.Lock()
	defer t.mu.Unlock()
	id := ident{store, info.Key}
	n := t.ids[id]
	if n == nil || (n.Dir != nil) != info.IsDir() {
		t.last++
		n = &Node{ID: t.last, id: id}
		if info.IsDir() {
			n.Dir = &Dir{}
		}
		t.nodes[n.ID], t.ids[id] = n, n
		t.tell(n)
	}
	n.refs++
	t.bind(parent, name, n)
	return n
}

// bind gives n the name. A directory loses the one that it had.
func (t *Tree) bind(parent *Node, name string, n *Node) {
	if n == t.root || n == parent || parent.Dir == nil {
		return
	}
	if old := parent.Dir.children[name]; old == n {
		return
	} else if old != nil {
		t.unbind(parent, name, old)
	}
	if n.Dir != nil {
		for _, had := range n.names {
			t.unbind(had.Parent, had.Name, n)
		}
		// The host may have turned a directory and one below it round.
		for p := parent; len(p.names) > 0; p = p.names[0].Parent {
			if up := p.names[0]; up.Parent == n {
				t.unbind(n, up.Name, p)
				break
			}
		}
	}
	if parent.Dir.children == nil {
		parent.Dir.children = map[string]*Node{}
	}
	parent.Dir.children[name] = n
	n.names = append(n.names, Name{parent, name})
	n.unlinked = false
}

func (t *Tree) unbind(parent *Node, name string, n *Node) {
	delete(parent.Dir.children, name)
	for i, had := range n.names {
		if had.Parent == parent && had.Name == name {
			n.names = append(n.names[:i:i], n.names[i+1:]...)
			break
		}
	}
}

// Child returns the node that has the name, or nil.
func (t *Tree) Child(parent *Node, name string) *Node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if parent.Dir == nil {
		return nil
	}
	return parent.Dir.children[name]
}

// Children returns the known entries of a directory.
func (t *Tree) Children(parent *Node) map[string]*Node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := map[string]*Node{}
	if parent.Dir != nil {
		maps.Copy(out, parent.Dir.children)
	}
	return out
}

// Remove takes the name from the node that has it. A node whose object is gone
// with it is no longer found by its identity, which the next object may have.
func (t *Tree) Remove(parent *Node, name string, gone bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := parent.Dir.children[name]
	if n == nil {
		return
	}
	t.unbind(parent, name, n)
	if gone {
		n.unlinked = true
		if t.ids[n.id] == n {
			delete(t.ids, n.id)
		}
	}
}

// Move carries a name over, as rename does; what had the new one has been
// removed.
func (t *Tree) Move(from *Node, old string, to *Node, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := from.Dir.children[old]
	if n == nil {
		return
	}
	t.unbind(from, old, n)
	t.bind(to, name, n)
}

// Swap exchanges two names.
func (t *Tree) Swap(a *Node, an string, b *Node, bn string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x, y := a.Dir.children[an], b.Dir.children[bn]
	if x != nil {
		t.unbind(a, an, x)
	}
	if y != nil {
		t.unbind(b, bn, y)
	}
	if x != nil {
		t.bind(b, bn, x)
	}
	if y != nil {
		t.bind(a, an, y)
	}
}

// Rehouse makes the node stand for another object, which has taken its place.
func (t *Tree) Rehouse(n *Node, store Store, info *object.Info) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ids[n.id] == n {
		delete(t.ids, n.id)
	}
	t.untell(n)
	n.id = ident{store, info.Key}
	t.tell(n)
	if !n.unlinked {
		t.ids[n.id] = n
	}
}

// Forget takes back look-ups and returns the nodes that are gone with them,
// whose descriptors and watches are the caller's to close.
func (t *Tree) Forget(id, lookups uint64) []*Node {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes[id]
	if n == nil || n == t.root {
		return nil
	}
	n.refs -= min(lookups, n.refs)
	return t.drop(n, nil)
}

// drop removes n when nothing holds it any more, and then perhaps what is
// above it.
func (t *Tree) drop(n *Node, gone []*Node) []*Node {
	if n == t.root || n.refs > 0 || n.Dir != nil && len(n.Dir.children) > 0 || t.nodes[n.ID] != n {
		return gone
	}
	delete(t.nodes, n.ID)
	if t.ids[n.id] == n {
		delete(t.ids, n.id)
	}
	t.untell(n)
	gone = append(gone, n)
	names := n.names
	for _, had := range names {
		t.unbind(had.Parent, had.Name, n)
		gone = t.drop(had.Parent, gone)
	}
	return gone
}

// Identity returns the store and the key of the node's object.
func (t *Tree) Identity(n *Node) (Store, object.Key) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return n.id.store, n.id.key
}

// Names returns the node's names.
func (t *Tree) Names(n *Node) []Name {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return append([]Name(nil), n.names...)
}

// Name returns the first of the node's names.
func (t *Tree) Name(n *Node) (Name, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if len(n.names) == 0 {
		return Name{}, false
	}
	return n.names[0], true
}

// Path returns the node's path, one of them if it has several, "" for the root.
// It is false for a node that has none any more.
func (t *Tree) Path(n *Node) (string, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if n == t.root {
		return "", true
	}
	for _, name := range n.names {
		if path, ok := t.path(name); ok {
			return path, true
		}
	}
	return "", false
}

// path is the path of a name. Directories have at most one.
func (t *Tree) path(name Name) (string, bool) {
	parts := []string{name.Name}
	for d := name.Parent; d != t.root; d = d.names[0].Parent {
		if len(d.names) == 0 {
			return "", false
		}
		parts = append(parts, d.names[0].Name)
	}
	slices.Reverse(parts)
	return strings.Join(parts, "/"), true
}

// Find returns the node at a path, or nil.
func (t *Tree) Find(path string) *Node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n := t.root
	for path != "" {
		var name string
		name, path, _ = strings.Cut(path, "/")
		if n.Dir == nil || n.Dir.children[name] == nil {
			return nil
		}
		n = n.Dir.children[name]
	}
	return n
}

// Below returns every node below n.
func (t *Tree) Below(n *Node) []*Node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var out []*Node
	for todo := []*Node{n}; len(todo) > 0; {
		d := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if d.Dir == nil {
			continue
		}
		for _, c := range d.Dir.children {
			out, todo = append(out, c), append(todo, c)
		}
	}
	return out
}

// SetSeen notes a version of the node's object.
func (n *Node) SetSeen(s Seen) {
	n.mu.Lock()
	n.seen = s
	n.mu.Unlock()
}

// Seen returns what was noted last.
func (n *Node) Seen() Seen {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen
}
