package sentry

import (
	"errors"
	"io/fs"

	"lazaret.dev/lazaret/supervisor/internal/sentry/gitdir"
	"lazaret.dev/lazaret/supervisor/internal/sentry/survey"
)

// Scan walks the host's tree, but for isolated directories, and learns where
// its repositories are, where its pointers lead, and where links in its gitdirs
// do. It replaces what an earlier scan learnt. Until the first one, and for what
// the host adds meanwhile, gitdirs are recognised by name and content alone.
func (s *Sentry) Scan() (Found, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, err := survey.Take(s.host, s.walk, survey.Options{
		Gitdir:   s.o.Gitdir,
		Isolated: s.o.Isolated,
		Guarded:  func(path string) bool { return s.place(path, true, true).Class != Free },
	})
	if err != nil {
		return Found{}, err
	}
	s.known = known
	s.walk.Declare(known.Declared)
	s.publishTargets()
	return known.Found, nil
}

// Protected yields the host's files that are protected under every name they
// may have: their inodes are to be kept, and a change of a file that is one of
// them, under a name that Check would let pass, to be refused (Alias).
func (s *Sentry) Protected(yield func(path string) bool) error {
	s.mu.Lock()
	known := s.known
	s.mu.Unlock()
	stop := errors.New("enough")
	give := func(path string) error {
		if !yield(path) {
			return stop
		}
		return nil
	}
	err := s.protected(known, give)
	if errors.Is(err, stop) {
		return nil
	}
	return err
}

func (s *Sentry) protected(known survey.Result, give func(string) error) error {
	for _, path := range known.Pointers {
		if err := give(path); err != nil {
			return err
		}
	}
	for _, dir := range known.Gitdirs {
		for _, sub := range [...]string{"", "hooks", "info", "remotes", "branches", "objects/info", "objects/pack", "rebase-merge", "rebase-apply", "rr-cache"} {
			if err := s.files(gitdir.Join(dir, sub), true, func(path string) error {
				if class := s.place(path, true, false).Class; class == Free || class == Shared {
					return nil
				}
				return give(path)
			}); err != nil {
				return err
			}
		}
	}
	for path, t := range s.targets.Load().exact {
		kind, err := s.walk.Kind(path)
		switch {
		case err != nil:
			return err
		case kind == gitdir.File:
			err = give(path)
		case kind == gitdir.Dir && t.Dir:
			err = s.files(path, false, give)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// files calls give with the files in dir, and below it unless flat.
func (s *Sentry) files(dir string, flat bool, give func(string) error) error {
	if kind, err := s.walk.Kind(dir); kind != gitdir.Dir || err != nil {
		return err
	}
	skip := func(string, bool) bool { return flat }
	return gitdir.Descend(s.host, dir, s.o.Isolated, skip, func(d gitdir.Directory) error {
		for _, e := range d.Entries {
			if e.Kind != gitdir.File {
				continue
			}
			if err := give(gitdir.Join(d.Path, e.Name)); err != nil {
				return err
			}
		}
		if errors.Is(d.Err, fs.ErrPermission) {
			return nil // nor can the sandbox
		}
		return d.Err
	})
}
