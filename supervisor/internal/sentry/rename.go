package sentry

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"

	"lazaret.dev/lazaret/supervisor/internal/sentry/gitdir"
)

func (s *Sentry) rename(op Op) (Action, error) {
	from, to := s.place(op.Path, true, true), s.place(op.To, true, true)
	if from.Class == Scratch && to.Class == ReadOnly && to.Rule == R2 && op.Path == op.To+".lock" {
		return Publish, nil
	}
	kind, err := s.walk.Kind(op.Path)
	if err != nil {
		return 0, s.refuse(syscall.EROFS, R6, op.Kind, op.Path, err)
	}
	switch {
	case from.Class == ReadOnly, from.Class == Gated:
		return 0, s.refuse(syscall.EROFS, from.Rule, op.Kind, op.Path, nil)
	case to.Class == ReadOnly && (!to.file || kind != gitdir.Dir):
		return 0, s.refuse(syscall.EROFS, to.Rule, op.Kind, op.To, nil)
	case from.Fixed, from.registration():
		return 0, s.refuse(syscall.EROFS, R6, op.Kind, op.Path, nil)
	case to.Fixed && to.Class == Shared:
		return 0, s.refuse(syscall.EROFS, R6, op.Kind, op.To, nil)
	case from.Class.Domain() && to.Class.Domain():
		s.born(to)
		return Perform, nil
	case to.Class == Gated:
		return s.gated(op, from, to, kind)
	case from.Class.Domain() || to.Class.Domain():
		return 0, s.refuse(syscall.EXDEV, R3, op.Kind, op.To, nil)
	}
	return Perform, s.moveOnHost(op, from, to, kind)
}

// gated decides whether a rename may be tried that gives a file new content
// which the host's Git trusts: from the file that Git makes for the purpose,
// made inside, with no other name.
func (s *Sentry) gated(op Op, from, to place, kind gitdir.Kind) (Action, error) {
	fromDir, lock := gitdir.Split(op.Path)
	toDir, name := gitdir.Split(op.To)
	proper := lock == name+".lock"
	switch {
	case to.objects():
		proper = true
	case strings.HasPrefix(name, "index.stash."):
		proper = proper || lock == "index.lock"
	case strings.HasPrefix(name, "sharedindex."):
		proper = proper || strings.HasPrefix(lock, "sharedindex_")
	}
	if !proper || fromDir != toDir || from.Class != Shared || kind != gitdir.File || !op.Made || op.Links != 1 {
		return 0, s.refuse(syscall.EROFS, to.Rule, op.Kind, op.To, nil)
	}
	return Publish, s.appears(op.Kind, to, kind)
}

// moveOnHost decides about a rename of which both ends are the host's.
func (s *Sentry) moveOnHost(op Op, from, to place, kind gitdir.Kind) error {
	if from.foreign(op.Made) {
		return s.refuse(syscall.EROFS, R7, op.Kind, op.Path, nil)
	}
	if to.foreign(op.ToMade) {
		if there, err := s.walk.Kind(op.To); there != gitdir.Absent || err != nil {
			return s.refuse(syscall.EROFS, R7, op.Kind, op.To, err)
		}
	}
	if from.Class == Shared || to.Class == Shared {
		crosses := from.Class != to.Class || from.loc.Gitdir != to.loc.Gitdir
		switch {
		case crosses && (kind == gitdir.Dir || op.Links != 1):
			return s.refuse(syscall.EXDEV, R5, op.Kind, op.To, nil)
		case kind == gitdir.Dir && !movable(from.loc.Inner, to.loc.Inner):
			return s.refuse(syscall.EROFS, R6, op.Kind, op.Path, nil)
		}
	}
	if err := s.leaves(op.Kind, op.Path); err != nil {
		return err
	}
	if err := s.leaves(op.Kind, op.To); err != nil {
		return err
	}
	if err := s.appears(op.Kind, to, kind); err != nil {
		return err
	}
	if kind == gitdir.Dir {
		return s.carries(op.Kind, op.Path, op.To)
	}
	return nil
}

// movable tells whether Git moves directories from one place in a gitdir to
// the other.
func movable(from, to string) bool {
	for _, zone := range [...]string{"refs/", "logs/refs/", "objects/tmp_objdir-"} {
		if strings.HasPrefix(from, zone) {
			return strings.HasPrefix(to, zone)
		}
	}
	return false
}

// exchange allows what has no gitdir on either side. Which names a directory
// holds does not change by it.
func (s *Sentry) exchange(op Op) error {
	from, to := s.place(op.Path, true, true), s.place(op.To, true, true)
	for _, p := range []place{from, to} {
		if p.Class == ReadOnly || p.Class == Gated || p.Class == Shared {
			return s.refuse(syscall.EROFS, p.Rule, op.Kind, p.path, nil)
		}
	}
	switch {
	case from.Class.Domain() && to.Class.Domain():
		return nil
	case from.Class.Domain() || to.Class.Domain():
		return s.refuse(syscall.EXDEV, R3, op.Kind, op.To, nil)
	}
	for _, way := range [][2]string{{op.Path, op.To}, {op.To, op.Path}} {
		kind, err := s.walk.Kind(way[0])
		if err != nil || (kind == gitdir.Symlink && s.targets.Load().ancestors[way[1]]) {
			return s.refuse(syscall.EROFS, R8, op.Kind, way[1], err)
		}
		if err := s.leaves(op.Kind, way[0]); err != nil {
			return err
		}
		if kind == gitdir.Dir {
			if err := s.carries(op.Kind, way[0], way[1]); err != nil {
				return err
			}
		}
	}
	return nil
}

// carries refuses to move a directory that takes along what must stay where it
// is: a gitdir or pointer of the host, whose relative paths would lead
// elsewhere, or a target; and one that would bring a target into being.
func (s *Sentry) carries(op OpKind, from, to string) error {
	switch visible, hidden, err := s.encloses(from); {
	case err != nil, visible:
		return s.refuse(syscall.EROFS, R6, op, from, err)
	case hidden:
		return s.refuse(syscall.EXDEV, R6, op, from, nil)
	}
	set := s.targets.Load()
	for _, t := range set.below(from) {
		if there, err := s.reaches("", t); there || err != nil {
			return s.refuse(syscall.EROFS, R8, op, t, err)
		}
	}
	for _, t := range set.below(to) {
		if there, err := s.reaches(from, strings.TrimPrefix(t, to+"/")); there || err != nil {
			return s.refuse(syscall.EROFS, R8, op, t, err)
		}
	}
	return nil
}

// reaches tells whether rest exists below dir, or could over a link on the way.
func (s *Sentry) reaches(dir, rest string) (bool, error) {
	for part := range strings.SplitSeq(rest, "/") {
		kind, err := s.host.Lookup(dir, part)
		switch {
		case err != nil, kind == gitdir.Symlink:
			return true, err
		case kind == gitdir.Absent:
			return false, nil
		}
		dir = gitdir.Join(dir, part)
	}
	return true, nil
}

// enclosesLimit bounds the look at a directory about to be moved.
const enclosesLimit = 1 << 18

var errEnough = errors.New("seen enough")

// encloses looks for gitdirs and pointers of the host strictly below dir:
// where the sandbox can see them, and where it cannot, or where they cannot be
// looked for.
func (s *Sentry) encloses(dir string) (visible, hidden bool, err error) {
	seen := 0
	all := func(string, bool) bool { return false }
	err = gitdir.Descend(s.host, dir, s.o.Isolated, all, func(d gitdir.Directory) error {
		if d.Err != nil && !errors.Is(d.Err, fs.ErrPermission) {
			return d.Err
		}
		found := d.Path != dir && gitdir.LooksLike(d.Entries)
		for _, e := range d.Entries {
			found = found || gitdir.IsDotGit(e.Name) || s.walk.Declared(gitdir.Join(d.Path, e.Name))
		}
		seen += len(d.Entries)
		visible = visible || found && !d.Hidden
		hidden = hidden || found && d.Hidden || d.Err != nil || seen > enclosesLimit
		if visible || seen > enclosesLimit {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return visible, hidden, err
}
