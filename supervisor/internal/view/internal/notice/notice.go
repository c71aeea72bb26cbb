// Package notice keeps what the kernel remembers of the workspace view true
// while the host changes the workspace.
//
// It watches the host's directories that the kernel knows, compares what it is
// told with what the kernel was told, and takes back the difference. It
// changes no file. It runs in the Runtime Supervisor.
package notice

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/view/internal/object"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/store"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/tree"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/watch"
)

const (
	// settle is how long events are collected, so that a burst of them for one
	// name is looked at once.
	settle = 5 * time.Millisecond

	// again is when a difference is looked for a second time: an answer that was
	// on its way to the kernel at the first time may have been older than the
	// change.
	again = 300 * time.Millisecond

	// poll is how often it is assumed that something has changed that nobody
	// watches.
	poll = 800 * time.Millisecond

	// tick is the coarsest time stamp of a filesystem. A version that was looked
	// at within one tick of its own time stamp may have a successor with the
	// same one.
	tick = 20 * time.Millisecond
)

// Kernel takes back what the kernel remembers. Its methods wait for requests
// under way, so that none may be called by whoever serves one.
type Kernel interface {
	Entry(parent uint64, name string)
	Inode(id uint64)
}

// Change is a change of the host's, or one from inside that is noticed as well.
type Change struct {
	Path string      // "" where nobody knows what has changed
	Mask uint32      // unix.IN_…
	Info object.Info // what is there now; the zero Info is nothing
}

// unseen is a change of nobody knows what.
var unseen = Change{Mask: unix.IN_Q_OVERFLOW}

// Notices watches one tree.
type Notices struct {
	stores *store.Stores
	kernel Kernel
	log    *slog.Logger

	// OnChange, when set before Run, is told of each change. Where directories are
	// not watched it is told now and then that there may have been some.
	OnChange func(Change)

	w *watch.Watcher // nil where nothing can be watched

	mu    sync.Mutex
	dirs  map[int][]*tree.Node // by watch; several for a directory bound twice
	also  map[int]also
	full  bool // no further watch is to be had
	count int
	todo  []func()
	blind bool // something that is not watched matters

	wake chan struct{}
}

// New makes the notices of a tree. Where inotify is not to be had, or follow
// is false since the filesystem is somebody else's too, nothing is watched.
func New(s *store.Stores, k Kernel, follow bool, log *slog.Logger) *Notices {
	x := &Notices{stores: s, kernel: k, log: log, dirs: map[int][]*tree.Node{}, also: map[int]also{}, wake: make(chan struct{}, 1)}
	if !follow {
		return x
	}
	w, err := watch.New()
	if err != nil {
		log.Warn("the workspace is not watched", "error", err.Error())
		return x
	}
	x.w = w
	return x
}

// Ensure watches a directory of the host, which fd is, and tells whether
// changes in it are noticed. It must come before what is in it is looked at.
func (x *Notices) Ensure(n *tree.Node, fd int) bool {
	if x.w == nil {
		return false
	}
	wt := &n.Dir.Watch
	wt.Lock()
	defer wt.Unlock()
	if wt.State != tree.Unwatched {
		return wt.State == tree.Watched
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	wt.State = tree.WatchFailed
	if x.full {
		return false
	}
	wd, err := x.w.Add(store.Proc(fd))
	if err != nil {
		// Fewer watches than directories: the rest is asked for again soon.
		x.full = errors.Is(err, unix.ENOSPC)
		x.log.Warn("directories are not watched", "watched", x.count, "error", err.Error())
		return false
	}
	wt.State, wt.ID = tree.Watched, wd
	x.dirs[wd] = append(x.dirs[wd], n)
	x.count++
	return true
}

// Forget ends the watch of a directory that is gone from the tree.
func (x *Notices) Forget(n *tree.Node) {
	if n.Dir == nil || x.w == nil {
		return
	}
	wt := &n.Dir.Watch
	wt.Lock()
	defer wt.Unlock()
	if wt.State != tree.Watched {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	wt.State = tree.WatchFailed
	x.count--
	x.full = false
	left := x.dirs[wt.ID]
	for i, d := range left {
		if d == n {
			left = append(left[:i:i], left[i+1:]...)
			break
		}
	}
	if len(left) > 0 {
		x.dirs[wt.ID] = left
		return
	}
	delete(x.dirs, wt.ID)
	if err := x.w.Remove(wt.ID); err != nil {
		x.log.Warn("end a watch", "error", err.Error())
	}
}

// also is a directory that is watched although the kernel need not know it.
type also struct {
	path string
	fd   int
}

// Follow watches a directory of the host for OnChange. It may be one that
// nobody inside has looked at. fd stays the caller's, and open.
func (x *Notices) Follow(path string, fd int) bool {
	if x.w == nil {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	wd, err := x.w.Add(store.Proc(fd))
	if err != nil {
		x.blind = true
		x.log.Warn("a directory is not watched", "path", path, "error", err.Error())
		return false
	}
	x.also[wd] = also{path, fd}
	return true
}

// nodes returns the directories of a watch.
func (x *Notices) nodes(wd int) []*tree.Node {
	x.mu.Lock()
	defer x.mu.Unlock()
	return append([]*tree.Node(nil), x.dirs[wd]...)
}

// all returns every watched directory.
func (x *Notices) all() []*tree.Node {
	x.mu.Lock()
	defer x.mu.Unlock()
	var out []*tree.Node
	for _, ns := range x.dirs {
		out = append(out, ns...)
	}
	return out
}

// entry is what an event is about.
type entry struct {
	dir  *tree.Node
	name string
}

// due is an entry that is to be looked at again.
type due struct {
	entry
	at time.Time
}

// Run follows the host's changes until ctx ends. It returns an error when it
// cannot go on, and what the kernel remembers is not true any more.
func (x *Notices) Run(ctx context.Context) error {
	var batches chan []watch.Event
	if x.w != nil {
		batches = make(chan []watch.Event)
		var reading sync.WaitGroup
		reading.Go(func() { x.read(ctx, batches) })
		defer reading.Wait()
		defer func() { _ = x.w.Close() }()
	}

	var sometimes <-chan time.Time
	if x.OnChange != nil {
		t := time.NewTicker(poll)
		defer t.Stop()
		sometimes = t.C
	}
	pending := map[entry]uint32{}
	var order []entry
	var later []due
	var settled, repeat <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-x.wake:
			x.doLater()
		case <-sometimes:
			if x.sightless() {
				x.tell(unseen)
			}
		case events, ok := <-batches:
			if !ok {
				return errEnded
			}
			for _, e := range events {
				if e.Mask&unix.IN_Q_OVERFLOW != 0 {
					x.log.Warn("events were lost: everything is looked at again")
					x.Resync(x.all())
					x.tell(unseen)
					continue
				}
				x.followed(e)
				for _, n := range x.nodes(e.Watch) {
					k := entry{n, e.Name}
					if _, have := pending[k]; !have {
						order = append(order, k)
					}
					pending[k] |= e.Mask
				}
			}
			if settled == nil && len(order) > 0 {
				settled = time.After(settle)
			}
		case <-settled:
			settled = nil
			for _, k := range order {
				if x.look(k, pending[k]) {
					later = append(later, due{k, time.Now().Add(again)})
				}
			}
			clear(pending)
			order = order[:0]
			if repeat == nil && len(later) > 0 {
				repeat = time.After(again)
			}
		case <-repeat:
			repeat = nil
			now := time.Now()
			for len(later) > 0 && !later[0].at.After(now) {
				x.look(later[0].entry, 0)
				later = later[1:]
			}
			if len(later) > 0 {
				repeat = time.After(later[0].at.Sub(now))
			}
		}
	}
}

var errEnded = errors.New("inotify has ended")

// sightless tells whether something may change unseen.
func (x *Notices) sightless() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.w == nil || x.full || x.blind
}

// read passes events on until the watcher is closed.
func (x *Notices) read(ctx context.Context, out chan<- []watch.Event) {
	defer close(out)
	for {
		events, err := x.w.Read()
		if err != nil {
			if !errors.Is(err, os.ErrClosed) {
				x.log.Error("follow the workspace", "error", err.Error())
			}
			return
		}
		select {
		case out <- events:
		case <-ctx.Done():
			return
		}
	}
}

// lost notes that the kernel has ended a watch: the directory is gone, or its
// filesystem is.
func (x *Notices) lost(dir *tree.Node) {
	wt := &dir.Dir.Watch
	wt.Lock()
	defer wt.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	if wt.State == tree.Watched {
		delete(x.dirs, wt.ID)
		wt.State = tree.WatchFailed
		x.count--
	}
}

// Later runs f, which may call the kernel, after the request that asks for it.
func (x *Notices) Later(f func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.todo = append(x.todo, f)
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// doLater runs what is to be done.
func (x *Notices) doLater() {
	x.mu.Lock()
	todo := x.todo
	x.todo = nil
	x.mu.Unlock()
	for _, f := range todo {
		f()
	}
}

// Forgotten makes the kernel forget a name that is gone, after the request that
// has removed it.
func (x *Notices) Forgotten(dir *tree.Node, name string) {
	x.Later(func() {
		x.kernel.Entry(dir.ID, name)
		x.kernel.Inode(dir.ID)
	})
}
