// Package fdcache keeps a bounded number of descriptors open, closing the one
// that was not used for the longest time.
//
// It opens nothing itself and knows nothing of what the descriptors are. It
// runs in the Runtime Supervisor.
package fdcache

import (
	"sync"

	"golang.org/x/sys/unix"
)

// Slot is a place for one descriptor, part of whatever it belongs to. The zero
// value is empty.
type Slot struct{ d *Desc }

// Desc is an open descriptor, in use until it is released.
type Desc struct {
	FD         int
	slot       *Slot // nil once it was dropped
	uses       int
	pinned     bool
	prev, next *Desc
}

// Cache bounds the descriptors in all slots.
type Cache struct {
	mu     sync.Mutex
	limit  int // of what may be evicted
	pins   int // limit of what may not
	open   int
	pinned int
	list   Desc // ring of the evictable ones; next is the one used last
}

// New makes a cache of at most limit descriptors, and pins more that are
// pinned.
func New(limit, pins int) *Cache {
	c := &Cache{limit: limit, pins: pins}
	c.list.prev, c.list.next = &c.list, &c.list
	return c
}

// Get returns the slot's descriptor for use, or nil.
func (c *Cache) Get(s *Slot) *Desc {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := s.d
	if d == nil {
		return nil
	}
	d.uses++
	if !d.pinned {
		d.unlink()
		c.push(d)
	}
	return d
}

// Put gives fd to the slot and returns it for use. Where the slot has got one
// meanwhile, that one is returned and fd closed.
func (c *Cache) Put(s *Slot, fd int) *Desc {
	c.mu.Lock()
	if d := s.d; d != nil {
		d.uses++
		c.mu.Unlock()
		_ = unix.Close(fd)
		return d
	}
	d := &Desc{FD: fd, slot: s, uses: 1}
	s.d = d
	c.push(d)
	c.open++
	doomed := c.evict()
	c.mu.Unlock()
	closeAll(doomed)
	return d
}

// Once wraps a descriptor that is closed when it is released.
func Once(fd int) *Desc { return &Desc{FD: fd, uses: 1} }

// Borrow wraps a descriptor that somebody else closes.
func Borrow(fd int) *Desc { return &Desc{FD: fd, uses: 2} }

// Release ends one use.
func (c *Cache) Release(d *Desc) {
	c.mu.Lock()
	d.uses--
	gone := d.uses == 0 && d.slot == nil
	c.mu.Unlock()
	if gone {
		_ = unix.Close(d.FD)
	}
}

// Drop empties the slot. Its descriptor is closed when nobody uses it any
// more.
func (c *Cache) Drop(s *Slot) {
	c.mu.Lock()
	d := s.d
	gone := d != nil && c.detach(d)
	c.mu.Unlock()
	if gone {
		_ = unix.Close(d.FD)
	}
}

// Pin keeps the slot's descriptor until it is dropped. It reports whether
// there was one, and room for it.
func (c *Cache) Pin(s *Slot) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := s.d
	if d == nil || d.pinned {
		return d != nil
	}
	if c.pinned >= c.pins {
		return false
	}
	d.pinned = true
	d.unlink()
	c.open--
	c.pinned++
	return true
}

// Open tells how many descriptors are open in slots.
func (c *Cache) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open + c.pinned
}

// Close empties every slot that is not pinned.
func (c *Cache) Close() {
	c.mu.Lock()
	c.limit = 0
	doomed := c.evict()
	c.mu.Unlock()
	closeAll(doomed)
}

func (c *Cache) push(d *Desc) {
	d.prev, d.next = &c.list, c.list.next
	d.prev.next, d.next.prev = d, d
}

func (d *Desc) unlink() {
	if d.next != nil {
		d.prev.next, d.next.prev = d.next, d.prev
		d.prev, d.next = nil, nil
	}
}

// detach takes d out of its slot and tells whether it can be closed.
func (c *Cache) detach(d *Desc) bool {
	if d.pinned {
		c.pinned--
	} else {
		d.unlink()
		c.open--
	}
	d.slot.d, d.slot, d.pinned = nil, nil, false
	return d.uses == 0
}

// evict empties the slots that were not used for the longest time until the
// limit is kept, and returns what is to be closed.
func (c *Cache) evict() []*Desc {
	var doomed []*Desc
	for d := c.list.prev; d != &c.list && c.open > c.limit; {
		prev := d.prev
		if d.uses == 0 {
			c.detach(d)
			doomed = append(doomed, d)
		}
		d = prev
	}
	return doomed
}

func closeAll(ds []*Desc) {
	for _, d := range ds {
		_ = unix.Close(d.FD)
	}
}
