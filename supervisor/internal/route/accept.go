package route

import (
	"errors"
	"slices"
	"strings"
)

// Relaxed is what Accept would share, as far as rules can say it.
func (r *Router) Relaxed() []Relaxation {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all []Relaxation
	for path, f := range r.files {
		lines := f.relaxed()
		if len(lines) == 0 {
			continue
		}
		if root, ok := strings.CutSuffix(path, excludeMark); ok {
			path = join(root, ".git/info/exclude")
		}
		all = append(all, Relaxation{File: path, Lines: lines})
	}
	for path := range r.moved {
		all = append(all, Relaxation{Path: path})
	}
	for dir, root := range r.roots {
		if root.doubted {
			if dir == "" {
				dir = "."
			}
			all = append(all, Relaxation{Repo: dir})
		}
	}
	slices.SortFunc(all, func(a, b Relaxation) int {
		return strings.Compare(a.File+"\x00"+a.Path+"\x00"+a.Repo, b.File+"\x00"+b.Path+"\x00"+b.Repo)
	})
	return all
}

// Candidate is the state of the workspace at one moment, judged as at the first
// start: what the developer may take for trusted.
type Candidate struct{ r *Router }

// unwritten is the record of a candidate.
type unwritten struct{}

func (unwritten) Load() ([]byte, error) { return nil, nil }
func (unwritten) Save([]byte) error     { return nil }

// Candidate reads the workspace. The caller closes it.
func (r *Router) Candidate() (*Candidate, error) {
	c, err := Open(r.tree, r.repos, unwritten{}, r.opt)
	if err != nil {
		if c != nil {
			c.Close()
		}
		return nil, err
	}
	return &Candidate{c}, nil
}

// Close ends the candidate, unless it was accepted.
func (c *Candidate) Close() {
	if c.r != nil {
		c.r.Close()
	}
}

// Shares lists what the host has at paths that are isolated now, and would be
// shared: a directory stands for all that is in it. Beyond limit they are
// counted alone.
func (r *Router) Shares(c *Candidate, limit int) (paths []string, more int, err error) {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	listed := map[string]bool{}
	err = c.r.walk("", func(path string, e Entry) error {
		d, err := c.r.directory(parent(path))
		if err != nil || c.r.place(d, path, e.Kind == Directory) != Shared || r.Place(path, e.Kind == Directory) != Isolated {
			return err
		}
		for dir := range above(path) {
			if listed[dir] {
				return nil
			}
		}
		switch {
		case len(paths) < limit:
			paths = append(paths, path)
			listed[path] = e.Kind == Directory
		default:
			more++
		}
		return nil
	})
	slices.Sort(paths)
	return paths, more, err
}

// Accept takes the candidate for trusted: it is for the developer alone to ask
// for. What has changed since the candidate was read counts as the sandbox's
// doing.
func (r *Router) Accept(c *Candidate) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closeRepositories()
	old, from := r.files, c.r
	c.r = nil
	r.files, r.roots, r.kept, r.keptIn = from.files, from.roots, from.kept, from.keptIn
	r.moved, r.plain, r.guessed, r.cache = from.moved, map[string]bool{}, from.guessed, map[string]*directory{}
	for path, f := range old {
		if f.Open > 0 || f.Aliased {
			now := r.known(path)
			now.Open, now.Aliased = f.Open, f.Aliased
		}
	}
	for _, root := range r.roots {
		root.stale = true
	}
	return errors.Join(r.settle(), r.save())
}

// Close ends the router, which must not be used any more.
func (r *Router) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closeRepositories()
}

func (r *Router) closeRepositories() {
	for _, root := range r.roots {
		root.repo.close()
		root.repo = nil
	}
}
