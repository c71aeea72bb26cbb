// Package gitdirtest holds a host's tree in memory, for tests of what decides
// about one.
//
// It is for tests alone.
package gitdirtest

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"

	"lazaret.dev/lazaret/supervisor/internal/sentry/gitdir"
)

// File is an entry of a Tree: its kind, and its content or where it leads.
type File struct {
	Kind gitdir.Kind
	Data string
}

// Tree is a host's tree. Its zero value is empty. It is safe for concurrent
// use.
type Tree struct {
	mu      sync.Mutex
	files   map[string]File
	fail    map[string]error
	Lookups int // how often Lookup was asked
}

// New returns a Tree with entries written as "path/" for a directory, "path -> to"
// for a link, "path | fifo" for something else, "path = text" and "path" for files.
// Parents come into being.
func New(entries ...string) *Tree {
	t := &Tree{}
	for _, e := range entries {
		t.Add(e)
	}
	return t
}

// Add adds an entry as New does.
func (t *Tree) Add(entry string) {
	if p, to, ok := strings.Cut(entry, " -> "); ok {
		t.Put(p, gitdir.Symlink, to)
	} else if p, _, ok := strings.Cut(entry, " | "); ok {
		t.Put(p, gitdir.Other, "")
	} else if p, data, ok := strings.Cut(entry, " = "); ok {
		t.Put(p, gitdir.File, data)
	} else if p, ok := strings.CutSuffix(entry, "/"); ok {
		t.Put(p, gitdir.Dir, "")
	} else {
		t.Put(entry, gitdir.File, "")
	}
}

// Put makes an entry, and its parents.
func (t *Tree) Put(p string, kind gitdir.Kind, data string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.files == nil {
		t.files = map[string]File{}
	}
	for dir, _ := gitdir.Split(p); dir != ""; dir, _ = gitdir.Split(dir) {
		if _, ok := t.files[dir]; !ok {
			t.files[dir] = File{Kind: gitdir.Dir}
		}
	}
	t.files[p] = File{kind, data}
}

// Remove removes an entry with all below.
func (t *Tree) Remove(p string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.files, func(name string, _ File) bool { return gitdir.Below(name, p) })
}

// Move renames an entry with all below.
func (t *Tree) Move(from, to string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	moved := map[string]File{}
	for name, f := range t.files {
		if gitdir.Below(name, from) {
			moved[to+strings.TrimPrefix(name, from)] = f
		}
	}
	maps.DeleteFunc(t.files, func(name string, _ File) bool {
		return gitdir.Below(name, from) || gitdir.Below(name, to)
	})
	maps.Copy(t.files, moved)
}

// Fail makes every question about an entry fail.
func (t *Tree) Fail(p string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fail == nil {
		t.fail = map[string]error{}
	}
	t.fail[p] = err
}

// Get is an entry; its kind is Absent if there is none.
func (t *Tree) Get(p string) File {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.files[p]
}

// Text lists all entries, sorted, one a line.
func (t *Tree) Text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(t.files)) {
		fmt.Fprintf(&b, "%s %d %q\n", name, t.files[name].Kind, t.files[name].Data)
	}
	return b.String()
}

// Lookup implements gitdir.Host.
func (t *Tree) Lookup(dir, name string) (gitdir.Kind, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Lookups++
	p := gitdir.Join(dir, name)
	if err := t.fail[p]; err != nil {
		return gitdir.Absent, err
	}
	return t.files[p].Kind, nil
}

// ReadDir implements gitdir.Host.
func (t *Tree) ReadDir(dir string) ([]gitdir.Entry, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.fail[dir]; err != nil {
		return nil, err
	}
	if dir != "" && t.files[dir].Kind != gitdir.Dir {
		return nil, &fs.PathError{Op: "readdir", Path: dir, Err: fs.ErrNotExist}
	}
	var entries []gitdir.Entry
	for _, name := range slices.Sorted(maps.Keys(t.files)) {
		if d, base := gitdir.Split(name); d == dir {
			entries = append(entries, gitdir.Entry{Name: base, Kind: t.files[name].Kind})
		}
	}
	return entries, nil
}

// ReadFile implements gitdir.Host.
func (t *Tree) ReadFile(p string, limit int64) ([]byte, error) {
	f := t.Get(p)
	switch {
	case f.Kind != gitdir.File:
		return nil, &fs.PathError{Op: "open", Path: p, Err: fs.ErrNotExist}
	case int64(len(f.Data)) > limit:
		return nil, errors.New("too long")
	}
	return []byte(f.Data), nil
}

// ReadLink implements gitdir.Host.
func (t *Tree) ReadLink(p string) (string, error) {
	if f := t.Get(p); f.Kind == gitdir.Symlink {
		return f.Data, nil
	}
	return "", &fs.PathError{Op: "readlink", Path: p, Err: syscall.EINVAL}
}
