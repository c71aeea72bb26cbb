package route

import "maps"

// maxMoved bounds how many paths are on record.
const maxMoved = 100_000

// Rename is an inside rename of a directory of the host's, while it lasts.
type Rename struct {
	r        *Router
	old, new string
	open     []string // rule files that the rename may change
	added    []string // to the paths on record
	// What comes to the new name with the directory.
	files map[string]*file
	roots map[string]*repository
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
	m := &Rename{r: r, old: old, new: new, files: map[string]*file{}, roots: map[string]*repository{}}
	add := func(path string) {
		if to := m.to(path); !r.moved[to] {
			m.added = append(m.added, to)
		}
	}
	err := r.walk(old, func(path string, e Entry) error {
		d, err := r.directory(parent(path))
		// Of a directory in which something is kept, the rest is recorded.
		if err == nil && r.isolated(d, path, e.Kind == Directory) && r.keptIn[path] == 0 {
			add(path)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for path := range r.moved {
		if below(path, old) {
			add(path)
		}
	}
	if len(r.moved)+len(m.added) > maxMoved {
		return nil, errFull
	}
	m.carry()
	for _, path := range m.added {
		r.moved[path] = true
	}
	r.unread(new)
	if err := r.save(); err != nil {
		m.undo()
		return nil, err
	}
	return m, nil
}

// to is the new name of a path in the directory.
func (m *Rename) to(path string) string { return m.new + path[len(m.old):] }

// carry notes what the directory brings along.
func (m *Rename) carry() {
	for path, f := range m.r.files {
		s := scope(path)
		if within(s, m.old) {
			c := &file{Current: f.Current, Aliased: f.Aliased}
			c.Earlier = append(c.Earlier, f.Earlier...)
			m.files[m.to(path)] = c
		}
		if within(s, m.old) || within(s, m.new) {
			m.open = append(m.open, path)
			f.Open++
		}
	}
	for dir, root := range m.r.roots {
		if within(dir, m.old) {
			m.roots[m.to(dir)] = &repository{doubted: root.doubted}
		}
	}
	for path := range m.r.kept {
		if below(path, m.old) {
			m.kept = append(m.kept, m.to(path))
		}
	}
}

func (m *Rename) undo() {
	for _, path := range m.added {
		delete(m.r.moved, path)
	}
	for _, path := range m.open {
		m.r.files[path].Open--
	}
	m.open, m.added = nil, nil
	m.r.unread(m.new)
}

// Done says how the rename ended. It returns the directories below which
// places may have changed.
func (m *Rename) Done(renamed bool) (affected []string, err error) {
	r := m.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if !renamed {
		m.undo()
		return nil, r.save()
	}
	for path, f := range m.files {
		if was := r.files[path]; was != nil {
			// An earlier directory of that name; its rules count on.
			f.Open, f.stat = was.Open, was.stat
			for _, t := range append(was.Earlier, was.Current) {
				f.keep(t)
			}
		}
		r.files[path] = f
	}
	maps.Copy(r.roots, m.roots)
	for dir, root := range r.roots {
		if within(dir, m.old) {
			root.looked = false
		}
	}
	r.unread(m.old)
	r.unread(m.new)
	for _, path := range m.kept {
		r.keepTracked(path)
	}
	for _, path := range m.open {
		if _, err := r.update(path, false); err != nil {
			return nil, err
		}
		r.files[path].Open--
	}
	for path := range m.files {
		if _, err := r.update(path, false); err != nil {
			return nil, err
		}
	}
	m.open, m.added = nil, nil
	return []string{m.old, m.new}, r.save()
}
