package store

import (
	"sync"
	"time"

	"lazaret.dev/lazaret/supervisor/internal/view/internal/fdcache"
)

// idle closes descriptors for writing soon after their last use.
type idle struct {
	cache  *fdcache.Cache
	linger time.Duration

	mu     sync.Mutex
	used   map[*fdcache.Slot]time.Time
	then   map[*fdcache.Slot]func() bool
	timer  *time.Timer // nil while nothing is open
	closed bool
	sweeps sync.WaitGroup
}

func newIdle(c *fdcache.Cache, linger time.Duration) *idle {
	return &idle{cache: c, linger: linger, used: map[*fdcache.Slot]time.Time{}, then: map[*fdcache.Slot]func() bool{}}
}

// touch notes a use of the slot.
func (i *idle) touch(s *fdcache.Slot) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.used[s] = time.Now()
	i.schedule(i.linger)
}

// schedule makes a sweep come, unless one does.
func (i *idle) schedule(d time.Duration) {
	if i.timer == nil && !i.closed {
		i.sweeps.Add(1)
		i.timer = time.AfterFunc(d, i.sweep)
	}
}

// sweep drops what was not used since linger, and comes again while there is
// something left.
func (i *idle) sweep() {
	defer i.sweeps.Done()
	i.mu.Lock()
	old := map[*fdcache.Slot]func() bool{}
	for s, t := range i.used {
		if time.Since(t) >= i.linger {
			old[s] = i.then[s]
			delete(i.used, s)
		}
	}
	i.timer = nil
	if len(i.used) > 0 {
		i.schedule(i.linger / 2)
	}
	i.mu.Unlock()
	for s, f := range old {
		i.cache.Drop(s)
		if f != nil && !f() {
			i.touch(s)
		}
	}
}

// waits tells whether something waits for the slot to be idle.
func (i *idle) waits(s *fdcache.Slot) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.then[s] != nil
}

// when calls f once the slot was dropped for being idle, and again until it
// returns true.
func (i *idle) when(s *fdcache.Slot, f func() bool) {
	i.mu.Lock()
	i.then[s] = f
	i.mu.Unlock()
	i.touch(s)
}

// forget ends when.
func (i *idle) forget(s *fdcache.Slot) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.then, s)
}

// close drops everything and waits for a sweep under way.
func (i *idle) close() {
	i.mu.Lock()
	i.closed = true
	if i.timer != nil && i.timer.Stop() {
		i.sweeps.Done()
	}
	i.mu.Unlock()
	i.sweeps.Wait()
	for s := range i.used {
		i.cache.Drop(s)
	}
	for _, f := range i.then {
		f()
	}
}
