package route

import (
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

// Accept takes the present state for trusted, as at the first start. It is
// for the developer alone to ask for.
func (r *Router) Accept() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	open := map[string]int{}
	for path, f := range r.s.Files {
		if f.Open > 0 {
			open[path] = f.Open
		}
	}
	r.closeRepositories()
	r.s.Reset()
	err := r.s.Snapshot()
	for path, n := range open {
		r.s.Known(path).Open = n
	}
	return err
}

// Close ends the router, which must not be used any more.
func (r *Router) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closeRepositories()
}

func (r *Router) closeRepositories() {
	for _, root := range r.s.Roots {
		root.Reader.Close()
		root.Reader = nil
	}
}
