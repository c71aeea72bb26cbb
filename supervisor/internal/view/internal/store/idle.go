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
	timer  *time.Timer // nil while nothing is open
	closed bool
	sweeps sync.WaitGroup
}

func newIdle(c *fdcache.Cache, linger time.Duration) *idle {
	return &idle{cache: c, linger: linger, used: map[*fdcache.Slot]time.Time{}}
}

// touch notes a use of the slot.
func (i *idle) touch(s *fdcache.Slot) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.used[s] = time.Now()
	if i.timer == nil && !i.closed {
		i.sweeps.Add(1)
		i.timer = time.AfterFunc(i.linger, i.sweep)
	}
}

// sweep drops what was not used since linger, and comes again while there is
// something left.
func (i *idle) sweep() {
	defer i.sweeps.Done()
	i.mu.Lock()
	var old []*fdcache.Slot
	for s, t := range i.used {
		if i.closed || time.Since(t) >= i.linger {
			old = append(old, s)
			delete(i.used, s)
		}
	}
	i.timer = nil
	if len(i.used) > 0 && !i.closed {
		i.sweeps.Add(1)
		i.timer = time.AfterFunc(i.linger/2, i.sweep)
	}
	i.mu.Unlock()
	for _, s := range old {
		i.cache.Drop(s)
	}
}

// close drops everything and waits for a sweep under way.
func (i *idle) close() {
	i.mu.Lock()
	i.closed = true
	if i.timer != nil && i.timer.Stop() {
		i.sweeps.Done()
	}
	slots := i.used
	i.used = map[*fdcache.Slot]time.Time{}
	i.mu.Unlock()
	for s := range slots {
		i.cache.Drop(s)
	}
	i.sweeps.Wait()
}
