package sentry

import (
	"strings"
	"syscall"

	"lazaret.dev/lazaret/supervisor/internal/sentry/gitdir"
	"lazaret.dev/lazaret/supervisor/internal/sentry/rules"
)

// OpKind is what an operation does.
type OpKind uint8

// The operations. Write is any change of content: opening for writing,
// truncating, allocating, copying into. Chmod is any change of mode, owner or
// extended attributes.
const (
	Create OpKind = iota
	Mkdir
	Symlink
	Mknod
	Link
	Unlink
	Rmdir
	Rename
	Exchange
	Write
	Chmod
	Utimes
)

var opNames = [...]string{
	"create", "make directory", "make link", "make special file", "link", "remove", "remove directory", "rename", "exchange",
	"write", "change the mode of", "change the times of",
}

func (k OpKind) String() string { return opNames[k] }

// Op is an operation about to happen.
type Op struct {
	Kind OpKind
	Path string // the entry; of Link, Rename and Exchange the source
	To   string // the target of Link, Rename and Exchange
	// Links is the link count of a file to be renamed; 0, unknown, counts as many.
	Links uint64
	// Made and ToMade tell that this name, of Path and To, came into being
	// through the mount: by creation, link or rename. It is a fact about the
	// name, since that is what makes a file a lock (R7).
	Made, ToMade bool
}

// Action is what is to be done with an operation that is not refused.
type Action uint8

// The actions. Publish comes before a rename that hands new content to the
// host's Git; see the method of that name.
const (
	Perform Action = iota
	Publish
)

// Check decides on the state after op, and asks the host anew for what it needs
// to know. The error is a *Refusal: EROFS and EPERM by a rule; EXDEV where two
// storages meet, or a gitdir's border is crossed, so that tools copy instead
// and every step of that is checked.
//
// The caller holds from before Check until the operation is done: exclusively,
// in an order of its own, the parent directories of the names concerned, so
// that two births in one directory see each other; and a lock of the tree,
// exclusively for a rename or exchange of directories, else shared. It creates
// with O_EXCL, and takes EEXIST for an open: Check(Write).
//
// What stays in the Domain as a whole, below an isolated directory, is not asked.
func (s *Sentry) Check(op Op) (Action, error) {
	var err error
	switch op.Kind {
	case Rename:
		return s.rename(op)
	case Exchange:
		err = s.exchange(op)
	case Link:
		err = s.link(op)
	case Create, Mkdir, Symlink, Mknod:
		err = s.create(op)
	case Unlink, Rmdir, Write, Chmod, Utimes:
		err = s.change(op)
	}
	return Perform, err
}

// kindOf is the kind of file that an operation makes.
func kindOf(k OpKind) gitdir.Kind {
	switch k {
	case Mkdir:
		return gitdir.Dir
	case Symlink:
		return gitdir.Symlink
	case Mknod:
		return gitdir.Other
	default:
		return gitdir.File
	}
}

func (s *Sentry) create(op Op) error {
	p := s.place(op.Path, true, true)
	switch {
	case p.Class == ReadOnly && p.file && op.Kind == Mkdir:
	case p.Class == ReadOnly, p.Class == Gated:
		return s.refuse(syscall.EROFS, p.Rule, op.Kind, op.Path, nil)
	case p.Class.Domain():
		if p.Class == Scratch && op.Kind != Create {
			return s.refuse(syscall.EPERM, R5, op.Kind, op.Path, nil)
		}
		s.born(p)
		return nil
	case p.foreign(op.Made):
		if kind, err := s.walk.Kind(op.Path); kind != gitdir.Absent || err != nil {
			return s.refuse(syscall.EROFS, R7, op.Kind, op.Path, err)
		}
	}
	return s.appears(op.Kind, p, kindOf(op.Kind))
}

// born keeps a birth for the report.
func (s *Sentry) born(p place) {
	if p.Class == Born && p.path == p.loc.Gitdir {
		s.log.birth(p.path)
	}
}

// foreign tells whether a name is a lock that the host holds.
func (p *place) foreign(made bool) bool {
	return (p.Class == Shared || p.Class == Gated) && !made && rules.LockName(p.loc.Inner)
}

// appears checks a name of the host that an operation brings about or replaces.
func (s *Sentry) appears(op OpKind, p place, kind gitdir.Kind) error {
	if p.Class == Shared {
		switch {
		case kind != gitdir.File && kind != gitdir.Dir, p.Leaf && kind == gitdir.Dir:
			return s.refuse(syscall.EPERM, R5, op, p.path, nil)
		case p.Dir && kind != gitdir.Dir:
			return s.refuse(syscall.EROFS, R6, op, p.path, nil)
		}
	}
	if kind == gitdir.Symlink && s.targets.Load().ancestors[p.path] {
		return s.refuse(syscall.EROFS, R8, op, p.path, nil)
	}
	dir, name := gitdir.Split(p.path)
	if completes, err := s.walk.Completes(dir, name); completes || err != nil {
		return s.refuse(syscall.EROFS, R1, op, p.path, err)
	}
	return nil
}

// change decides about what is there already.
func (s *Sentry) change(op Op) error {
	p := s.place(op.Path, true, true)
	removes := op.Kind == Unlink || op.Kind == Rmdir
	switch {
	case p.Class.Domain():
		return nil
	case p.Class == ReadOnly:
		return s.refuse(syscall.EROFS, p.Rule, op.Kind, op.Path, nil)
	case p.foreign(op.Made):
		return s.refuse(syscall.EROFS, R7, op.Kind, op.Path, nil)
	case p.Fixed && (removes || op.Kind == Chmod), removes && p.registration(), p.object() && !op.Made && (op.Kind == Write || op.Kind == Chmod):
		return s.refuse(syscall.EROFS, R6, op.Kind, op.Path, nil)
	case p.Class == Gated && op.Kind != Unlink && op.Kind != Utimes:
		return s.refuse(syscall.EROFS, R4, op.Kind, op.Path, nil)
	case removes:
		return s.leaves(op.Kind, op.Path)
	}
	return nil
}

// registration tells whether a file is part of what makes a linked worktree
// the host's: Git inside does not see the worktree, and would prune it, file by
// file until the first refusal.
func (p *place) registration() bool {
	return p.loc.Worktree && (p.loc.Inner == "index" || p.loc.Inner == "logs/HEAD" || p.loc.Inner == "ORIG_HEAD")
}

// leaves refuses to take a link away over which the host's configuration
// reaches a target.
func (s *Sentry) leaves(op OpKind, path string) error {
	if !s.targets.Load().ancestors[path] {
		return nil
	}
	if kind, err := s.walk.Kind(path); kind == gitdir.Symlink || err != nil {
		return s.refuse(syscall.EROFS, R8, op, path, err)
	}
	return nil
}

func (s *Sentry) link(op Op) error {
	from, to := s.place(op.Path, true, true), s.place(op.To, true, true)
	layers := from.Class == Gated && to.Class == Gated && from.objects() && to.objects()
	for _, p := range []place{from, to} {
		if p.Class == ReadOnly || p.Class == Gated && !layers {
			return s.refuse(syscall.EROFS, p.Rule, op.Kind, p.path, nil)
		}
	}
	if from.Class.Domain() && to.Class.Domain() {
		s.born(to)
		return nil
	}
	if from.Class.Domain() || to.Class.Domain() {
		return s.refuse(syscall.EXDEV, R5, op.Kind, op.To, nil)
	}
	kind, err := s.walk.Kind(op.Path)
	if err != nil {
		return s.refuse(syscall.EROFS, R5, op.Kind, op.Path, err)
	}
	if from.Class != Free || to.Class != Free {
		switch {
		case kind != gitdir.File, from.loc.Gitdir != to.loc.Gitdir, !from.objects(), !to.objects():
			return s.refuse(syscall.EPERM, R5, op.Kind, op.To, nil)
		case from.foreign(op.Made):
			return s.refuse(syscall.EROFS, R7, op.Kind, op.Path, nil)
		}
	}
	return s.appears(op.Kind, to, kind)
}

// object tells whether a file is one of Git's or LFS's objects. Nobody writes to
// one that is there, and it may have another name outside the tree: a clone on
// the same file system links them.
func (p *place) object() bool {
	return p.Class == Shared && (strings.HasPrefix(p.loc.Inner, "objects/") || strings.HasPrefix(p.loc.Inner, "lfs/objects/"))
}

// objects tells whether a place lies in a gitdir's object database.
func (p *place) objects() bool { return strings.HasPrefix(p.loc.Inner, "objects/") && p.Class != Free }
