package places

import (
	"strings"

	"lazaret.dev/lazaret/supervisor/internal/route/internal/paths"
	"lazaret.dev/lazaret/supervisor/internal/route/internal/texts"
)

// Known is what is known of a file, which may be nothing.
func (r *State) Known(path string) *File {
	f := r.Files[path]
	if f == nil {
		f = newFile(texts.Absent())
		r.Files[path] = f
	}
	return f
}

// Scope is the directory below which a rule file counts.
func Scope(path string) string {
	if root, ok := strings.CutSuffix(path, ExcludeMark); ok {
		return root
	}
	return paths.Parent(path)
}

// Change makes a change of the rules for dir and below. What Git tracks there
// and is shared before it, stays so.
func (r *State) Change(dir string, make func()) error {
	shared, err := r.trackedPlaces(dir, false)
	if err != nil {
		return err
	}
	make()
	r.Uncache(dir)
	isolated, err := r.trackedPlaces(dir, true)
	if err != nil {
		return err
	}
	for path := range isolated {
		if shared[path] {
			r.KeepTracked(path)
		}
	}
	return nil
}

// trackedPlaces are the tracked paths below dir that are isolated, or the ones
// that are not.
func (r *State) trackedPlaces(dir string, isolated bool) (map[string]bool, error) {
	places := map[string]bool{}
	for root := range r.Roots {
		if !paths.Within(root, dir) && !paths.Below(dir, root) {
			continue
		}
		err := r.eachTracked(root, func(path string, isDir bool, d *Dir) {
			if paths.Within(path, dir) && r.Isolated(d, path, isDir) == isolated {
				places[path] = true
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return places, nil
}

// DropUntracked ends the sharing of paths that are no longer tracked.
func (r *State) DropUntracked() (affected []string) {
	for path := range r.Kept.All() {
		for dir := range paths.Above(path) {
			root := r.Roots[dir]
			if root == nil {
				continue
			}
			if root.Reader == nil {
				break // it is gone, and its border counts all the same
			}
			// What was last readable counts: an index that cannot be read is no
			// reason to hide what was tracked.
			if x := root.Reader.Index(); x != nil && !x.Tracked(r.InRepository(dir, path)) {
				r.dropTracked(path)
				affected = append(affected, paths.Parent(path))
			}
			break
		}
	}
	return affected
}
