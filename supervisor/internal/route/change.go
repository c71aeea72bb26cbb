package route

import (
	"errors"
	"slices"
	"strings"
)

// Watches tells whether a change of path is the router's business: an ignore
// file or an attributes file, by its name, or another name of one. e is what
// the host has there, the zero Entry for nothing.
func (r *Router) Watches(path string, e Entry) bool {
	if r.isRules(path) || baseName(path) == attributesName {
		return true
	}
	if e.Nlink < 2 || e.Kind != Regular {
		return false
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, f := range r.files {
		if f.stat.Ino == e.Ino && f.stat.Dev == e.Dev {
			return true
		}
	}
	return false
}

func baseName(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

func (r *Router) isRules(path string) bool {
	return baseName(path) == ignoreName || path == r.opt.ExcludesPath && path != ""
}

// targets are the rule files that a write to path changes.
func (r *Router) targets(path string) []string {
	if r.isRules(path) {
		return []string{path}
	}
	e, err := r.tree.Lstat(path)
	if err != nil || e.Nlink < 2 {
		return nil
	}
	var paths []string
	for p, f := range r.files {
		if f.stat.Ino == e.Ino && f.stat.Dev == e.Dev {
			paths = append(paths, p)
		}
	}
	return paths
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
	w := &Write{r: r, paths: r.targets(path)}
	for _, p := range w.paths {
		r.known(p).Open++
	}
	if len(w.paths) == 0 {
		return w, nil
	}
	if err := r.save(); err != nil {
		for _, p := range w.paths {
			r.files[p].Open--
		}
		return nil, err
	}
	return w, nil
}

// known is what is known of a file, which may be nothing.
func (r *Router) known(path string) *file {
	f := r.files[path]
	if f == nil {
		f = &file{Current: absent}
		r.files[path] = f
	}
	return f
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
			affected = append(affected, scope(p))
		}
		r.files[p].Open--
		err = errors.Join(err, e)
	}
	w.paths = nil
	if err != nil {
		return affected, err
	}
	return affected, r.save()
}

// Linking announces an inside link(2) to a watched path. From then on every
// change of it counts as the sandbox's, until Accept.
func (r *Router) Linking(path string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.settle(); err != nil {
		return err
	}
	for _, p := range r.targets(path) {
		r.known(p).Aliased = true
	}
	return r.save()
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
	for path, f := range r.files {
		f.pending = nil
		if strings.HasSuffix(path, excludeMark) {
			continue
		}
		if e, err := r.tree.Lstat(path); err == nil && sameFile(e, f.stat) || err != nil && f.Current.Absent {
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
	return r.save()
}

func sameFile(a, b Entry) bool {
	return a.Dev == b.Dev && a.Ino == b.Ino && a.Size == b.Size && a.Sec == b.Sec && a.Nsec == b.Nsec
}

// scope is the directory below which a rule file counts.
func scope(path string) string {
	if root, ok := strings.CutSuffix(path, excludeMark); ok {
		return root
	}
	return parent(path)
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
		changed, err = r.update(path, true)
		affected = []string{scope(path)}
		if path == r.opt.ExcludesPath {
			affected = []string{""}
		}
	case baseName(path) == gitName:
		dir := parent(path)
		if root := r.roots[dir]; root != nil {
			root.looked = false
		}
		changed, affected = true, []string{dir}
		delete(r.plain, dir)
		if err = r.change(dir, func() {}); err == nil {
			_, err = r.repository(dir)
		}
	case baseName(path) == attributesName:
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
	return affected, r.save()
}

// reread compares all that is known below dir with the disk. starting: it is
// what happened while no sandbox ran.
func (r *Router) reread(dir string, starting bool) (changed bool, err error) {
	for d, root := range r.roots {
		if within(d, dir) {
			root.looked = false
			if _, err := r.repository(d); err != nil {
				return changed, err
			}
		}
	}
	changed = len(r.dropUntracked()) > 0
	r.unread(dir)
	var paths []string
	for p := range r.files {
		if within(scope(p), dir) {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	for _, p := range paths {
		c, err := r.update(p, true)
		if err != nil {
			return changed, err
		}
		changed = changed || c
		if starting {
			// Whoever had it open is gone.
			r.files[p].Open = 0
		}
	}
	return changed, nil
}

// update reads a rule file again. host: nobody inside is known to have changed
// it, so that it may have been a hand edit.
func (r *Router) update(path string, host bool) (changed bool, err error) {
	// Known before its directory is, which would read it.
	f := r.known(path)
	d, err := r.directory(scope(path))
	if err != nil {
		return false, err
	}
	var t text
	var stat Entry
	if root, ok := strings.CutSuffix(path, excludeMark); ok {
		t = exclude(r.roots[root])
	} else {
		t, stat = r.read(path, d)
	}
	f.stat = stat
	f.pending = nil
	if t.equal(f.Current) {
		f.Current.Guess = t.Guess
		return false, nil
	}
	v := inside
	if host && f.Open == 0 && !f.Aliased {
		v = r.judge(path, d, t, stat)
	}
	where := scope(path)
	if path == r.opt.ExcludesPath {
		where = ""
	}
	return true, r.change(where, func() { f.replace(t, v) })
}

// change makes a change of the rules for dir and below. What Git tracks there
// and is shared before it, stays so.
func (r *Router) change(dir string, make func()) error {
	shared, err := r.trackedPlaces(dir, false)
	if err != nil {
		return err
	}
	make()
	r.uncache(dir)
	isolated, err := r.trackedPlaces(dir, true)
	if err != nil {
		return err
	}
	for path := range isolated {
		if shared[path] {
			r.keepTracked(path)
		}
	}
	return nil
}

// trackedPlaces are the tracked paths below dir that are isolated, or the ones
// that are not.
func (r *Router) trackedPlaces(dir string, isolated bool) (map[string]bool, error) {
	paths := map[string]bool{}
	for root := range r.roots {
		if !within(root, dir) && !below(dir, root) {
			continue
		}
		err := r.eachTracked(root, func(path string, isDir bool, d *directory) {
			if within(path, dir) && r.isolated(d, path, isDir) == isolated {
				paths[path] = true
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// RepositoryChanged takes into account that the index or info/exclude of the
// repository with this root has changed, or that its index.lock is gone.
func (r *Router) RepositoryChanged(root string) (affected []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	repo := r.roots[root]
	if repo == nil || repo.repo == nil {
		return nil, nil
	}
	repo.stale = true
	changed, err := r.update(root+excludeMark, true)
	if err != nil {
		return nil, err
	}
	if changed || r.guessed {
		r.guessed = false
		r.unread(root)
		affected = append(affected, root)
	}
	dropped := r.dropUntracked()
	affected = append(affected, dropped...)
	for path, f := range r.files {
		if f.pending == nil {
			continue
		}
		d, err := r.directory(scope(path))
		if err != nil {
			return affected, err
		}
		if d.repo != root {
			continue
		}
		v := r.judge(path, d, f.Current, f.stat)
		if v == undecided {
			continue
		}
		if v == byHand {
			f.forget(*f.pending)
			f.compiled = nil
			r.uncache(scope(path))
			affected = append(affected, scope(path))
		}
		f.pending = nil
		changed = true
	}
	if !changed && len(dropped) == 0 {
		return affected, nil
	}
	return affected, r.save()
}

// dropUntracked ends the sharing of paths that are no longer tracked.
func (r *Router) dropUntracked() (affected []string) {
	for path := range r.kept {
		for dir := range above(path) {
			root := r.roots[dir]
			if root == nil {
				continue
			}
			// What was last readable counts: an index that cannot be read is no
			// reason to hide what was tracked.
			if x := root.tracked(); x != nil && !x.Tracked(r.inRepository(dir, path)) {
				r.dropTracked(path)
				affected = append(affected, parent(path))
			}
			break
		}
	}
	return affected
}
