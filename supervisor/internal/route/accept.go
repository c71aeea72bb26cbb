package route

import (
	"errors"
	"slices"
	"strings"

	"lazaret.dev/lazaret/supervisor/internal/route/internal/paths"
	"lazaret.dev/lazaret/supervisor/internal/route/internal/places"
)

// Relaxed is what Accept would share, as far as rules can say it.
func (r *Router) Relaxed() []Relaxation {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all []Relaxation
	for path, f := range r.s.Files {
		lines := f.Relaxed()
		if len(lines) == 0 {
			continue
		}
		if root, ok := strings.CutSuffix(path, places.ExcludeMark); ok {
			path = paths.Join(root, ".git/info/exclude")
		}
		all = append(all, Relaxation{File: path, Lines: lines})
	}
	for path := range r.s.Moved {
		all = append(all, Relaxation{Path: path})
	}
	for dir, root := range r.s.Roots {
		if root.Doubted {
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
type Candidate struct{ s *places.State }

// Candidate reads the workspace. The caller closes it.
func (r *Router) Candidate() (*Candidate, error) {
	s, err := r.s.Candidate()
	if err != nil {
		s.Close()
		return nil, err
	}
	return &Candidate{s}, nil
}

// Close ends the candidate, unless it was accepted.
func (c *Candidate) Close() {
	if c.s != nil {
		c.s.Close()
	}
}

// Shares lists what the host has at paths that are isolated now, and would be
// shared: a directory stands for all that is in it. Beyond limit they are
// counted alone.
func (r *Router) Shares(c *Candidate, limit int) (shared []string, more int, err error) {
	listed := map[string]bool{}
	err = c.s.Walk("", func(path string, e Entry) error {
		isDir := e.Kind == Directory
		if c.s.Place(path, isDir) != Shared || r.Place(path, isDir) != Isolated {
			return nil
		}
		for dir := range paths.Above(path) {
			if listed[dir] {
				return nil
			}
		}
		switch {
		case len(shared) < limit:
			shared = append(shared, path)
			listed[path] = isDir
		default:
			more++
		}
		return nil
	})
	slices.Sort(shared)
	return shared, more, err
}

// Accept takes the candidate for trusted: it is for the developer alone to ask
// for. What has changed since the candidate was read counts as the sandbox's
// doing.
func (r *Router) Accept(c *Candidate) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	from := c.s
	c.s = nil
	r.s.Adopt(from)
	return errors.Join(r.settle(), r.s.Save())
}

// Close ends the router, which must not be used any more.
func (r *Router) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.s.Close()
}
