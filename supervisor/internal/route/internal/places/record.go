package places

import (
	"fmt"

	"lazaret.dev/lazaret/supervisor/internal/route/internal/record"
)

// Save saves the record.
func (r *State) Save() error {
	m := &record.Memory{}
	for path, f := range r.Files {
		if !f.Nothing() {
			m.Files = append(m.Files, record.File{Path: []byte(path), File: f.File})
		}
	}
	for dir, root := range r.Roots {
		m.Roots = append(m.Roots, record.Root{Dir: []byte(dir), Doubted: root.Doubted})
	}
	for path := range r.Kept.All() {
		m.Kept = append(m.Kept, []byte(path))
	}
	for path := range r.Moved {
		m.Moved = append(m.Moved, []byte(path))
	}
	b, err := m.Encode()
	if err != nil {
		return err
	}
	if err := r.record.Save(b); err != nil {
		return fmt.Errorf("save the record of ignored paths: %w", err)
	}
	return nil
}

// Load takes what an earlier generation saved; first is true if there was
// none.
func (r *State) Load() (first bool, err error) {
	b, err := r.record.Load()
	if err != nil {
		return false, fmt.Errorf("load the record of ignored paths: %w", err)
	}
	if b == nil {
		return true, nil
	}
	m, err := record.Decode(b)
	if err != nil {
		return false, err
	}
	for _, f := range m.Files {
		r.Files[string(f.Path)] = &File{File: f.File}
	}
	for _, root := range m.Roots {
		r.Roots[string(root.Dir)] = &Root{Doubted: root.Doubted}
	}
	for _, path := range m.Kept {
		r.Kept.Add(string(path))
	}
	for _, path := range m.Moved {
		r.Moved[string(path)] = true
	}
	return false, nil
}
