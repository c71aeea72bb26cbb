package entries

import (
	"sync"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/view/internal/resolve"
)

// lists are the open directories.
type lists struct {
	mu   sync.Mutex
	last uint64
	open map[uint64]*list
}

// list is one open directory: what was in it when it was read from its start.
type list struct {
	mu      sync.Mutex
	read    bool
	entries []resolve.Listed
}

// OpenDir opens a directory and returns its handle.
func (v *Entries) OpenDir(id uint64) (uint64, error) {
	n, err := v.Node(id)
	if err != nil {
		return 0, err
	}
	if n.Dir == nil {
		return 0, unix.ENOTDIR
	}
	v.lists.mu.Lock()
	defer v.lists.mu.Unlock()
	if v.lists.open == nil {
		v.lists.open = map[uint64]*list{}
	}
	v.lists.last++
	v.lists.open[v.lists.last] = &list{}
	return v.lists.last, nil
}

// ReleaseDir closes a directory.
func (v *Entries) ReleaseDir(handle uint64) {
	v.lists.mu.Lock()
	defer v.lists.mu.Unlock()
	delete(v.lists.open, handle)
}

// ReadDir returns the entries of an open directory from the given one on. A
// read from the start looks at the directory anew.
func (v *Entries) ReadDir(id, handle, from uint64) ([]resolve.Listed, error) {
	n, err := v.Node(id)
	if err != nil {
		return nil, err
	}
	v.lists.mu.Lock()
	l := v.lists.open[handle]
	v.lists.mu.Unlock()
	if l == nil {
		return nil, unix.EBADF
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if from == 0 || !l.read {
		v.Topology.RLock()
		l.entries, err = v.List(n)
		v.Topology.RUnlock()
		if err != nil {
			return nil, err
		}
		l.read = true
	}
	if from >= uint64(len(l.entries)) {
		// Read to the end: it is not needed again, unless from the start.
		l.entries, l.read = nil, false
		return nil, nil
	}
	return l.entries[from:], nil
}
