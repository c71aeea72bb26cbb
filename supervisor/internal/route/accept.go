package route

import (
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

// Accept takes the present state for trusted, as at the first start. It is
// for the developer alone to ask for.
func (r *Router) Accept() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	open := map[string]int{}
	for path, f := range r.files {
		if f.Open > 0 {
			open[path] = f.Open
		}
	}
	r.closeRepositories()
	r.files, r.roots, r.kept, r.keptIn = map[string]*file{}, map[string]*repository{}, map[string]bool{}, map[string]int{}
	r.moved, r.cache, r.plain = map[string]bool{}, map[string]*directory{}, map[string]bool{}
	err := r.begin()
	for path, n := range open {
		r.known(path).Open = n
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
	for _, root := range r.roots {
		root.repo.close()
		root.repo = nil
	}
}
