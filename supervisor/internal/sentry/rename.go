package sentry

import (
	"errors"
	"strings"
	"syscall"

	"lazaret.dev/lazaret/supervisor/internal/sentry/gitdir"
)

func (s *Sentry) rename(op Op) (Action, error) {
	from, to := s.place(op.Path, true, true), s.place(op.To, true, true)
	if from.class == Scratch && to.class == ReadOnly && to.rule == R2 && op.Path == op.To+".lock" {
		return Publish, nil
	}
	kind, err := s.walk.Kind(op.Path)
	if err != nil {
		return 0, s.refuse(syscall.EROFS, R6, op.Kind, op.Path, err)
	}
	switch {
	case from.class == ReadOnly, from.class == Gated:
		return 0, s.refuse(syscall.EROFS, from.rule, op.Kind, op.Path, nil)
	case to.class == ReadOnly && (!to.file || kind != gitdir.Dir):
		return 0, s.refuse(syscall.EROFS, to.rule, op.Kind, op.To, nil)
	case from.fixed, from.registration():
		return 0, s.refuse(syscall.EROFS, R6, op.Kind, op.Path, nil)
	case to.fixed && to.class == Shared:
		return 0, s.refuse(syscall.EROFS, R6, op.Kind, op.To, nil)
	case from.class.Domain() && to.class.Domain():
		s.born(to)
		return Perform, nil
	case to.class == Gated:
		return s.gated(op, from, to, kind)
	case from.class.Domain() || to.class.Domain():
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
	if !proper || fromDir != toDir || from.class != Shared || kind != gitdir.File || !op.Made || op.Links != 1 {
		return 0, s.refuse(syscall.EROFS, to.rule, op.Kind, op.To, nil)
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
	if from.class == Shared || to.class == Shared {
		crosses := from.class != to.class || from.loc.Gitdir != to.loc.Gitdir
		switch {
		case kind != gitdir.File && kind != gitdir.Dir:
			return s.refuse(syscall.EPERM, R5, op.Kind, op.To, nil)
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
		if p.class == ReadOnly || p.class == Gated || p.class == Shared {
			return s.refuse(syscall.EROFS, p.rule, op.Kind, p.path, nil)
		}
	}
	switch {
	case from.class.Domain() && to.class.Domain():
		return nil
	case from.class.Domain() || to.class.Domain():
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
// where the sandbox can see them, and where it cannot, or there is too much to
// look through.
func (s *Sentry) encloses(dir string) (visible, hidden bool, err error) {
	seen := 0
	err = s.descend(dir, nil, func(path string, entries []gitdir.Entry, isolated bool) error {
		found := path != dir && looksLike(entries)
		for _, e := range entries {
			found = found || gitdir.IsDotGit(e.Name) || s.walk.Declared(gitdir.Join(path, e.Name))
		}
		visible = visible || found && !isolated
		hidden = hidden || found && isolated
		if seen += len(entries); seen > enclosesLimit {
			hidden = true
		}
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

// descend calls visit with every directory from dir down; isolated tells that
// the sandbox cannot see it. It does not enter those that skip names.
func (s *Sentry) descend(dir string, skip func(path string, isolated bool) bool, visit func(path string, entries []gitdir.Entry, isolated bool) error) error {
	type node struct {
		path     string
		isolated bool
	}
	stack := []node{{path: dir}}
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		entries, err := s.host.ReadDir(n.path)
		if err != nil {
			return err
		}
		if err := visit(n.path, entries, n.isolated); err != nil {
			return err
		}
		for _, e := range entries {
			if e.Kind != gitdir.Dir {
				continue
			}
			path := gitdir.Join(n.path, e.Name)
			isolated := n.isolated || s.o.Isolated(path)
			if skip == nil || !skip(path, isolated) {
				stack = append(stack, node{path, isolated})
			}
		}
	}
	return nil
}

// looksLike is the walker's test on a directory's entries.
func looksLike(entries []gitdir.Entry) bool {
	has := map[string]bool{}
	for _, e := range entries {
		switch e.Name {
		case "HEAD", "commondir", "objects", "refs":
			has[e.Name] = true
		}
	}
	return has["HEAD"] && (has["commondir"] || has["objects"] && has["refs"])
}
