package route

import (
	"errors"
	"slices"
	"strings"

	"lazaret.dev/lazaret/supervisor/internal/route/internal/paths"
	"lazaret.dev/lazaret/supervisor/internal/route/internal/places"
	"lazaret.dev/lazaret/supervisor/internal/route/internal/texts"
)

// Watches tells whether a change of path is the router's business: an ignore
// file or an attributes file, by its name, or another name of one. e is what
// the host has there, the zero Entry for nothing.
func (r *Router) Watches(path string, e Entry) bool {
	if r.isRules(path) || paths.Base(path) == places.AttributesName {
		return true
	}
	if e.Nlink < 2 || e.Kind != Regular {
		return false
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, f := range r.s.Files {
		if f.Stat.Ino == e.Ino && f.Stat.Dev == e.Dev {
			return true
		}
	}
	return false
}

// isRules tells whether a path is an ignore file. Where case is ignored, Git
// finds it under any.
func (r *Router) isRules(path string) bool {
	name := paths.Base(path)
	return name == places.IgnoreName || r.s.Opt.IgnoreCase && strings.EqualFold(name, places.IgnoreName) || path == r.s.Opt.ExcludesPath && path != ""
}

// canonical is the name under which an ignore file is known.
func canonical(path string) string {
	if name := paths.Base(path); strings.EqualFold(name, places.IgnoreName) {
		return path[:len(path)-len(name)] + places.IgnoreName
	}
	return path
}

// targets are the rule files that a write to path changes. One in an isolated
// place is none: it is the Domain's, and Git on the host never sees it.
func (r *Router) targets(path string) ([]string, error) {
	if r.isRules(path) {
		path = canonical(path)
		d, err := r.s.Dir(paths.Parent(path))
		if err != nil || r.s.Isolated(d, path, false) && r.s.Opt.Isolate {
			return nil, err
		}
		return []string{path}, nil
	}
	e, err := r.s.Tree.Lstat(path)
	if err != nil || e.Nlink < 2 {
		// Nothing, or no other name of anything.
		return nil, nil //nolint:nilerr // an operation on what is not there changes no rules
	}
	var paths []string
	for p, f := range r.s.Files {
		if f.Stat.Ino == e.Ino && f.Stat.Dev == e.Dev {
			paths = append(paths, p)
		}
	}
	return paths, nil
}

// Write is an inside operation on a watched path, while it lasts.
type Write struct {
	r     *Router
	paths []string
}

// Begin announces an inside operation that may change a watched path: opening
// it for writing, creating, truncating, removing it, renaming it or something
// to it. It must come before the operation, which an error forbids. Until End,
// whatever happens to the path counts as the sandbox's doing.
func (r *Router) Begin(path string) (*Write, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.settle(); err != nil {
		return nil, err
	}
	paths, err := r.targets(path)
	if err != nil {
		return nil, err
	}
	w := &Write{r: r, paths: paths}
	for _, p := range w.paths {
		r.s.Known(p).Open++
	}
	if len(w.paths) == 0 {
		return w, nil
	}
	if err := r.s.Save(); err != nil {
		for _, p := range w.paths {
			r.s.Files[p].Open--
		}
		return nil, err
	}
	return w, nil
}

// End takes what the operation left into account. It returns the directories
// below which places may have changed.
func (w *Write) End() (affected []string, err error) {
	r := w.r
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range w.paths {
		changed, e := r.update(p, false)
		if changed {
			affected = append(affected, places.Scope(p))
		}
		r.s.Files[p].Open--
		err = errors.Join(err, e)
	}
	none := len(w.paths) == 0
	w.paths = nil
	if err != nil || none {
		return affected, err
	}
	return affected, r.s.Save()
}

// Linking announces an inside link(2) to a watched path. From then on every
// change of it counts as the sandbox's, until Accept.
func (r *Router) Linking(path string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.settle(); err != nil {
		return err
	}
	paths, err := r.targets(path)
	if err != nil {
		return err
	}
	for _, p := range paths {
		r.s.Known(p).Aliased = true
	}
	return r.s.Save()
}

// Settle must come before an inside change of a repository's index: what the
// host did until then is judged by the index that the host left. Whatever has
// changed and was not reported yet is no hand edit.
func (r *Router) Settle() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.settle()
}

func (r *Router) settle() error {
	changed := false
	for path, f := range r.s.Files {
		f.Decide(false)
		if strings.HasSuffix(path, places.ExcludeMark) {
			continue
		}
		if e, err := r.s.Tree.Lstat(path); err == nil && sameFile(e, f.Stat) || err != nil && f.Current.Absent {
			continue
		}
		c, err := r.update(path, false)
		if err != nil {
			return err
		}
		changed = changed || c
	}
	if !changed {
		return nil
	}
	return r.s.Save()
}

func sameFile(a, b Entry) bool {
	return a.Dev == b.Dev && a.Ino == b.Ino && a.Size == b.Size && a.Sec == b.Sec && a.Nsec == b.Nsec
}

// Changed takes a change on the host into account: of a rule file, once its
// writer has closed it; of a `.git`; of a directory that has come, gone or
// been renamed. "" reads everything again. It returns the directories below
// which places may have changed.
func (r *Router) Changed(path string) (affected []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := false
	switch {
	case r.isRules(path):
		path = canonical(path)
		changed, err = r.update(path, true)
		affected = []string{places.Scope(path)}
		if path == r.s.Opt.ExcludesPath {
			affected = []string{""}
		}
	case paths.Base(path) == places.GitName:
		dir := paths.Parent(path)
		if root := r.s.Roots[dir]; root != nil {
			root.Looked = false
		}
		changed, affected = true, []string{dir}
		r.s.Look(dir)
		if err = r.s.Change(dir, func() {}); err == nil {
			_, err = r.s.Repository(dir)
		}
	case paths.Base(path) == places.AttributesName:
	default:
		changed, err = r.reread(path, false)
		affected = []string{path}
	}
	if !changed || err != nil {
		if len(affected) > 0 && affected[0] != path {
			affected = nil
		}
		return affected, err
	}
	return affected, r.s.Save()
}

// reread compares all that is known below dir with the disk. starting: it is
// what happened while no sandbox ran.
func (r *Router) reread(dir string, starting bool) (changed bool, err error) {
	for d, root := range r.s.Roots {
		if paths.Within(d, dir) {
			root.Looked = false
			if _, err := r.s.Repository(d); err != nil {
				return changed, err
			}
		}
	}
	changed = len(r.s.DropUntracked()) > 0
	r.s.Unread(dir)
	var known []string
	for p := range r.s.Files {
		if paths.Within(places.Scope(p), dir) {
			known = append(known, p)
		}
	}
	slices.Sort(known)
	for _, p := range known {
		c, err := r.update(p, true)
		if err != nil {
			return changed, err
		}
		changed = changed || c
		if starting {
			// Whoever had it open is gone.
			r.s.Files[p].Open = 0
		}
	}
	return changed, nil
}

// update reads a rule file again. host: nobody inside is known to have changed
// it, so that it may have been a hand edit.
func (r *Router) update(path string, host bool) (changed bool, err error) {
	// Known before its directory is, which would read it.
	f := r.s.Known(path)
	d, err := r.s.Dir(places.Scope(path))
	if err != nil {
		return false, err
	}
	var t texts.Text
	var stat Entry
	if root, ok := strings.CutSuffix(path, places.ExcludeMark); ok {
		t = places.Exclude(r.s.Roots[root])
	} else {
		t, stat = r.s.Read(path, d)
	}
	f.Stat = stat
	f.Decide(false)
	if t.Equal(f.Current) {
		f.Current.Guess = t.Guess
		return false, nil
	}
	v := places.Inside
	if host && f.Open == 0 && !f.Aliased {
		v = r.s.Judge(path, d, t, stat)
	}
	where := places.Scope(path)
	if path == r.s.Opt.ExcludesPath {
		where = ""
	}
	return true, r.s.Change(where, func() { f.Judged(t, v) })
}

// RepositoryChanged takes into account that the index or info/exclude of the
// repository with this root has changed, or that its index.lock is gone.
func (r *Router) RepositoryChanged(root string) (affected []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := r.s.Roots[root]
	if found == nil || found.Reader == nil {
		return nil, nil
	}
	found.Reader.Stale()
	changed, err := r.update(root+places.ExcludeMark, true)
	if err != nil {
		return nil, err
	}
	if changed || r.s.Guessed {
		r.s.Guessed = false
		r.s.Unread(root)
		affected = append(affected, root)
	}
	dropped := r.s.DropUntracked()
	affected = append(affected, dropped...)
	for path, f := range r.s.Files {
		if !f.Pending() {
			continue
		}
		d, err := r.s.Dir(places.Scope(path))
		if err != nil {
			return affected, err
		}
		if d.Repo != root {
			continue
		}
		v := r.s.Judge(path, d, f.Current, f.Stat)
		if v == places.Undecided {
			continue
		}
		f.Decide(v == places.ByHand)
		if v == places.ByHand {
			r.s.Uncache(places.Scope(path))
			affected = append(affected, places.Scope(path))
		}
		changed = true
	}
	if !changed && len(dropped) == 0 {
		return affected, nil
	}
	return affected, r.s.Save()
}
