package gitdir

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"syscall"
)

// CommonDir is the gitdir whose configuration counts for dir.
func (w *Walker) CommonDir(dir string) (string, error) {
	kind, err := w.Kind(Join(dir, "commondir"))
	if kind == Absent || err != nil {
		return dir, err
	}
	b, err := w.host.ReadFile(Join(dir, "commondir"), PointerLimit)
	if err != nil {
		return "", fmt.Errorf("read the common directory: %w", err)
	}
	common, ok, err := w.Resolve(dir, strings.TrimRight(string(b), "\r\n"))
	if err == nil && !ok {
		err = errors.New("the common directory lies elsewhere")
	}
	return common, err
}

// PointerLimit bounds .git files and commondir: a path and a word.
const PointerLimit = 8192

// Resolve follows a path that the host wrote down in dir, over the host's
// links; ok is false when it leaves the tree.
func (w *Walker) Resolve(dir, to string) (resolved string, ok bool, err error) {
	return w.Follow(dir, to, func(string) {})
}

// Follow is Resolve, and tells the links on the way.
func (w *Walker) Follow(dir, to string, over func(link string)) (resolved string, ok bool, err error) {
	left := 40 // as many links as Linux follows
	rest, ok := w.relative(dir, to)
	if !ok {
		return "", false, nil
	}
	for rest != "" {
		part, more, _ := strings.Cut(rest, "/")
		full := Join(resolved, part)
		kind, err := w.Kind(full)
		if err != nil {
			return "", false, err
		}
		if kind != Symlink {
			resolved, rest = full, more
			continue
		}
		if left--; left < 0 {
			return "", false, syscall.ELOOP
		}
		link, err := w.host.ReadLink(full)
		if err != nil {
			return "", false, err
		}
		over(full)
		next, ok := w.relative(resolved, link)
		if !ok {
			return "", false, nil
		}
		resolved, rest = "", strings.TrimPrefix(path.Join(next, more), "/")
	}
	return resolved, true, nil
}

// relative is a path of the host as one of the tree.
func (w *Walker) relative(dir, to string) (string, bool) {
	if path.IsAbs(to) {
		to = path.Clean(to)
		if to == w.root {
			return "", true
		}
		rel, ok := strings.CutPrefix(to, strings.TrimSuffix(w.root, "/")+"/")
		return rel, ok && w.root != ""
	}
	joined := path.Join(dir, to)
	switch {
	case joined == ".":
		return "", true
	case joined == "..", strings.HasPrefix(joined, "../"):
		return "", false
	}
	return joined, true
}

// Directory is one that Descend visits. Hidden tells that the caller's test held
// for it or a parent; Err that it could not be read.
type Directory struct {
	Path    string
	Entries []Entry
	Hidden  bool
	Err     error
}

// Descend visits every directory from dir down, but for those that skip names,
// and those that are gone by then. An error of visit ends it.
func Descend(host Host, dir string, hidden func(dir string) bool, skip func(path string, hidden bool) bool, visit func(Directory) error) error {
	stack := []Directory{{Path: dir}}
	for len(stack) > 0 {
		d := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		d.Entries, d.Err = host.ReadDir(d.Path)
		if errors.Is(d.Err, fs.ErrNotExist) {
			continue
		}
		if err := visit(d); err != nil {
			return err
		}
		for _, e := range d.Entries {
			if e.Kind != Dir {
				continue
			}
			path := Join(d.Path, e.Name)
			below := Directory{Path: path, Hidden: d.Hidden || hidden(path)}
			if !skip(path, below.Hidden) {
				stack = append(stack, below)
			}
		}
	}
	return nil
}

// LooksLike is the walker's test on a directory's entries.
func LooksLike(entries []Entry) bool {
	has := map[string]bool{}
	for _, e := range entries {
		switch e.Name {
		case "HEAD", "commondir", "objects", "refs":
			has[e.Name] = true
		}
	}
	return has["HEAD"] && (has["commondir"] || has["objects"] && has["refs"])
}
