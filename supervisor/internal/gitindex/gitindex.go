// Package gitindex reads Git's index: which paths are tracked, and whether an
// index, a HEAD or a multi-pack-index that was made inside the sandbox may
// reach the host's Git.
//
// It runs no Git, opens no file and writes nothing. Every byte is hostile: no
// length is believed, what is kept is bounded by [MaxSize], and one strict
// reader serves both purposes, so that what was verified is what Git reads. It
// runs in the Runtime Supervisor.
package gitindex

import (
	"fmt"
	"io"
	"iter"
	"sort"
	"strings"
)

// MaxSize bounds the size of an index, and that of all its paths together
// once the shared beginnings of version 4 are expanded.
const MaxSize = 128 << 20

// maxPath is the longest path that the host's kernel takes.
const maxPath = 4095

// RefusedError says what is wrong with the bytes. It is no I/O error: the same
// bytes are refused again.
type RefusedError struct {
	Reason string
	Path   string // the entry, as the index has it; "" when it is none
}

func (e *RefusedError) Error() string {
	if e.Path == "" {
		return e.Reason
	}
	return fmt.Sprintf("%s: %q", e.Reason, e.Path)
}

func refused(format string, args ...any) error {
	return &RefusedError{Reason: fmt.Sprintf(format, args...)}
}

// The modes of entries.
const (
	ModeFile    = 0o100644
	ModeExec    = 0o100755
	ModeSymlink = 0o120000
	ModeGitlink = 0o160000
	ModeDir     = 0o040000 // a directory of a sparse index; its Path ends with a slash
)

// Entry is one path of an index. The file's state is as it was when Git last
// looked, and its size modulo 2^32.
type Entry struct {
	Path                string
	Mode                uint32
	MtimeSec, MtimeNsec uint32
	Size                uint32
	Stage               uint8 // 0: merged
	SkipWorktree        bool  // not in the working tree, on purpose
	AssumeValid         bool  // Git does not look whether the file has changed
	IntentToAdd         bool
}

// Index is the entries of an index in Git's order. It is never changed and
// safe for concurrent use.
type Index struct {
	entries []Entry
	split   bool
}

// Options tell Parse what the repository's configuration says, and where a
// split index finds its other half.
type Options struct {
	HashSize int // 20 or 32
	// Shared opens the file sharedindex.<id>; the caller of Parse closes it.
	Shared func(id string) (io.ReaderAt, int64, error)
}

// Parse reads an index of version 2, 3 or 4, split and sparse ones included.
func Parse(r io.ReaderAt, size int64, o Options) (*Index, error) {
	x, l, err := parseOne(r, size, o.HashSize)
	if err != nil || l == nil {
		return x, err
	}
	if o.Shared == nil {
		return nil, refused("the index is split, and its other half is not at hand")
	}
	sr, ssize, err := o.Shared(l.base)
	if err != nil {
		return nil, fmt.Errorf("open sharedindex.%s: %w", l.base, err)
	}
	base, nested, err := parseOne(sr, ssize, o.HashSize)
	if err != nil {
		return nil, fmt.Errorf("read sharedindex.%s: %w", l.base, err)
	}
	if nested != nil {
		return nil, refused("a shared index is itself split")
	}
	return l.merge(base, x)
}

func parseOne(r io.ReaderAt, size int64, hashSize int) (*Index, *link, error) {
	x := &Index{}
	var names int
	s, err := scan(r, size, hashSize, func(e *Entry) error {
		if names += len(e.Path); names > MaxSize {
			return refused("the paths of the index are too long together")
		}
		x.entries = append(x.entries, *e)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	x.split = s.link != nil
	return x, s.link, nil
}

// find is the place of the first entry not before path.
func (x *Index) find(path string) int {
	return sort.Search(len(x.entries), func(i int) bool { return x.entries[i].Path >= path })
}

// Lookup is the entry of path; of several stages the first.
func (x *Index) Lookup(path string) (Entry, bool) {
	if i := x.find(path); i < len(x.entries) && x.entries[i].Path == path {
		return x.entries[i], true
	}
	return Entry{}, false
}

// Tracked tells whether path itself is an entry: a file, a link or a gitlink.
// What a sparse index holds only by its directory is not.
func (x *Index) Tracked(path string) bool {
	_, ok := x.Lookup(path)
	return ok
}

// HasBelow tells whether an entry lies below the directory, "" for the root.
func (x *Index) HasBelow(dir string) bool {
	if dir == "" {
		return len(x.entries) > 0
	}
	i := x.find(dir + "/")
	return i < len(x.entries) && strings.HasPrefix(x.entries[i].Path, dir+"/")
}

// All yields the entries in Git's order, that of their bytes.
func (x *Index) All() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for _, e := range x.entries {
			if !yield(e) {
				return
			}
		}
	}
}

// Below yields the entries below a directory, "" for the root.
func (x *Index) Below(dir string) iter.Seq[Entry] {
	if dir == "" {
		return x.All()
	}
	return func(yield func(Entry) bool) {
		for i := x.find(dir + "/"); i < len(x.entries) && strings.HasPrefix(x.entries[i].Path, dir+"/"); i++ {
			if !yield(x.entries[i]) {
				return
			}
		}
	}
}

// Split tells whether a part of the index is in a shared one.
func (x *Index) Split() bool { return x.split }
