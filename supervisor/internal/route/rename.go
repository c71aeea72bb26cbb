package route

import (
	"maps"

	"lazaret.dev/lazaret/supervisor/internal/route/internal/paths"
	"lazaret.dev/lazaret/supervisor/internal/route/internal/places"
	"lazaret.dev/lazaret/supervisor/internal/route/internal/record"
)

// maxMoved bounds how many paths are on record.
const maxMoved = 100_000

// Rename is an inside rename of a directory of the host's, while it lasts.
type Rename struct {
	r        *Router
	old, new string
	open     []string // rule files that the rename may change
	added    []string // to the paths on record
	// What comes to the new name with the directory.
	files map[string]*places.File
	roots map[string]*places.Root
	kept  []string
}

// Renaming announces the rename of a shared directory from inside. It must
// come before, and an error forbids it: what is isolated below the old name
// stays so below the new one, where no rule may be about it. The directory's
// own rules go along. For an exchange it is called for both directions before
// either is done.
func (r *Router) Renaming(old, new string) (*Rename, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.settle(); err != nil {
		return nil, err
	}
	m := &Rename{r: r, old: old, new: new, files: map[string]*places.File{}, roots: map[string]*places.Root{}}
	add := func(path string) {
		if to := m.to(path); !r.s.Moved[to] {
			m.added = append(m.added, to)
		}
	}
	err := r.s.Walk(old, func(path string, e Entry) error {
		d, err := r.s.Dir(paths.Parent(path))
		// Of a directory in which something is kept, the rest is recorded.
		if err == nil && r.s.Isolated(d, path, e.Kind == Directory) && !r.s.Kept.HasBelow(path) {
			add(path)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for path := range r.s.Moved {
		if paths.Below(path, old) {
			add(path)
		}
	}
	if len(r.s.Moved)+len(m.added) > maxMoved {
		return nil, record.ErrFull
	}
	m.carry()
	for _, path := range m.added {
		r.s.Moved[path] = true
	}
	r.s.Unread(new)
	if err := r.s.Save(); err != nil {
		m.undo()
		return nil, err
	}
	return m, nil
}

// to is the new name of a path in the directory.
func (m *Rename) to(path string) string { return m.new + path[len(m.old):] }

// carry notes what the directory brings along.
func (m *Rename) carry() {
	for path, f := range m.r.s.Files {
		s := places.Scope(path)
		if paths.Within(s, m.old) {
			m.files[m.to(path)] = &places.File{File: f.Carry()}
		}
		if paths.Within(s, m.old) || paths.Within(s, m.new) {
			m.open = append(m.open, path)
			f.Open++
		}
	}
	for dir, root := range m.r.s.Roots {
		if paths.Within(dir, m.old) {
			m.roots[m.to(dir)] = &places.Root{Doubted: root.Doubted}
		}
	}
	for path := range m.r.s.Kept.All() {
		if paths.Below(path, m.old) {
			m.kept = append(m.kept, m.to(path))
		}
	}
}

func (m *Rename) undo() {
	for _, path := range m.added {
		delete(m.r.s.Moved, path)
	}
	for _, path := range m.open {
		m.r.s.Files[path].Open--
	}
	m.open, m.added = nil, nil
	m.r.s.Unread(m.new)
}

// Done says how the rename ended. It returns the directories below which
// places may have changed.
func (m *Rename) Done(renamed bool) (affected []string, err error) {
	r := m.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if !renamed {
		m.undo()
		return nil, r.s.Save()
	}
	for path, f := range m.files {
		if was := r.s.Files[path]; was != nil {
			// An earlier directory of that name; its rules count on.
			f.Open, f.Stat = was.Open, was.Stat
			for _, t := range append(was.Earlier, was.Current) {
				f.Keep(t)
			}
		}
		r.s.Files[path] = f
	}
	maps.Copy(r.s.Roots, m.roots)
	for dir, root := range r.s.Roots {
		if paths.Within(dir, m.old) {
			root.Looked = false
		}
	}
	r.s.Unread(m.old)
	r.s.Unread(m.new)
	for _, path := range m.kept {
		r.s.KeepTracked(path)
	}
	for _, path := range m.open {
		if _, err := r.update(path, false); err != nil {
			return nil, err
		}
		r.s.Files[path].Open--
	}
	for path := range m.files {
		if _, err := r.update(path, false); err != nil {
			return nil, err
		}
	}
	m.open, m.added = nil, nil
	return []string{m.old, m.new}, r.s.Save()
}
