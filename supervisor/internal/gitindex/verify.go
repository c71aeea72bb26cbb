package gitindex

import (
	"io"
	"sort"
	"strings"
)

// Facts are what the host has, against which a file from inside is verified.
type Facts struct {
	HashSize int // 20 or 32
	// Shared opens the host's file sharedindex.<id>. It is set if the host's
	// own index is split; otherwise this one may not be.
	Shared func(id string) (io.ReaderAt, int64, error)
}

// Verify decides whether an index that was made inside may become the host's:
// index, index.stash.N or sharedindex.X. A nil error means that Git reads it
// as entries that lie in the working tree, outside of every gitdir, none
// within another. Nothing may be able to write the file any more.
//
// An error that is no [RefusedError] is the reader's.
func Verify(r io.ReaderAt, size int64, f Facts) error {
	c := checker{}
	s, err := scan(r, size, f.HashSize, c.entry)
	if err != nil {
		return err
	}
	if s.link == nil {
		return c.nested()
	}
	if f.Shared == nil {
		return refused("the index is split, and the host's is not")
	}
	x, err := Parse(r, size, Options(f))
	if err != nil {
		return err
	}
	whole := checker{}
	for e := range x.All() {
		if err := whole.entry(&e); err != nil {
			return err
		}
	}
	return whole.nested()
}

type checker struct {
	names int
	// merged are the paths of stage 0, in order; none may be a directory of
	// another.
	merged []string
}

func (c *checker) entry(e *Entry) error {
	switch e.Mode {
	case ModeFile, ModeExec, ModeSymlink, ModeGitlink, ModeDir:
	default:
		return &RefusedError{"an entry has a mode that is not known", e.Path}
	}
	if e.Path == "" {
		return nil // a replacement of a split index; scan has seen to it
	}
	path, slash := strings.CutSuffix(e.Path, "/")
	if slash != (e.Mode == ModeDir) {
		return &RefusedError{"an entry's path and mode do not fit", e.Path}
	}
	if why := badPath(path, e.Mode == ModeSymlink); why != "" {
		return &RefusedError{why, e.Path}
	}
	if c.names += len(e.Path); c.names > MaxSize {
		return refused("the paths of the index are too long together")
	}
	if e.Stage == 0 {
		c.merged = append(c.merged, path)
	}
	return nil
}

// nested refuses a file, link or submodule that has entries below it: Git
// writes no such index, and through a link they would lie elsewhere.
func (c *checker) nested() error {
	if !sort.StringsAreSorted(c.merged) {
		sort.Strings(c.merged)
	}
	var dir string // the last one that was looked up
	for _, p := range c.merged {
		for i := strings.LastIndexByte(p, '/'); i > 0; i = strings.LastIndexByte(p[:i], '/') {
			if p[:i] == dir {
				break
			}
			if at := sort.SearchStrings(c.merged, p[:i]); at < len(c.merged) && c.merged[at] == p[:i] {
				return &RefusedError{"an entry lies below another", p}
			}
		}
		if i := strings.LastIndexByte(p, '/'); i > 0 {
			dir = p[:i]
		}
	}
	return nil
}

// badPath says what is wrong with an entry's path; "" when it is good. It is
// Git's own rule with all protections on.
func badPath(path string, symlink bool) string {
	for part := range strings.SplitSeq(path, "/") {
		switch part {
		case "", ".", "..":
			return "an entry's path leads elsewhere"
		}
		// To Windows, a backslash is a slash.
		for p := range strings.SplitSeq(part, `\`) {
			if DotGit(p) {
				return "an entry lies in a gitdir"
			}
			if symlink && fold(p) == ".gitmodules" {
				return "an entry makes .gitmodules a link"
			}
		}
	}
	return ""
}

// DotGit tells whether some file system takes a name for `.git`.
func DotGit(name string) bool {
	f := fold(name)
	return f == ".git" || f == "git~1"
}

// fold is a name as a file system may see it that folds case, and drops what
// NTFS and HFS+ do not keep.
func fold(name string) string {
	if i := strings.IndexByte(name, ':'); i >= 0 {
		name = name[:i]
	}
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
			return -1
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return r
	}, name)
	return strings.TrimRight(name, ". ")
}
