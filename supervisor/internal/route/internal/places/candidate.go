package places

// unwritten is the record of a candidate.
type unwritten struct{}

func (unwritten) Load() ([]byte, error) { return nil, nil }
func (unwritten) Save([]byte) error     { return nil }

// Candidate is the workspace as it is now, as at a first start: what may be
// taken for trusted. It is on no record. The caller closes it, also after an
// error.
func (r *State) Candidate() (*State, error) {
	c, _, err := New(r.Tree, r.repos, unwritten{}, r.Opt)
	if err != nil {
		return c, err
	}
	return c, c.Snapshot()
}

// Adopt takes a candidate's state over, which must not be used any more. What
// the sandbox holds open or has given another name stays its own to change.
func (r *State) Adopt(from *State) {
	r.Close()
	old := r.Files
	r.Files, r.Roots, r.Kept, r.Moved, r.Guessed = from.Files, from.Roots, from.Kept, from.Moved, from.Guessed
	r.cache, r.plain = map[string]*Dir{}, map[string]bool{}
	for path, f := range old {
		if f.Open > 0 || f.Aliased {
			now := r.Known(path)
			now.Open, now.Aliased = f.Open, f.Aliased
		}
	}
	for _, root := range r.Roots {
		if root.Reader != nil {
			root.Reader.Stale()
		}
	}
}

// Close closes the repositories.
func (r *State) Close() {
	for _, root := range r.Roots {
		root.Reader.Close()
		root.Reader = nil
	}
}
