// Package sentry is the Git Sentry: it decides which changes to a tree may
// reach the host, so that nothing which the host's Git runs, obeys or follows
// comes from the sandbox (rules R1 to R9).
//
// It decides and does not act: it reads names, and a few files, of the host's
// tree through an interface, and whoever serves the tree asks before each
// change and performs the answer. Whatever it cannot find out, it refuses. It
// runs in the Runtime Supervisor.
package sentry

import (
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"lazaret.dev/lazaret/supervisor/internal/sentry/gitdir"
	"lazaret.dev/lazaret/supervisor/internal/sentry/rules"
	"lazaret.dev/lazaret/supervisor/internal/sentry/survey"
	"lazaret.dev/lazaret/supervisor/internal/sentry/targets"
)

// Content is a file to be read, of a size that does not change meanwhile.
type Content struct {
	io.ReaderAt
	Size int64
}

// What the answers are made of, as the packages have it that decide.
type (
	// Class is what a path is to the host's Git.
	Class = rules.Class
	// Rule names a rule.
	Rule = rules.Rule
	// Found is what a scan tells.
	Found = survey.Found
	// Repository is one that the host has in the tree.
	Repository = survey.Repository
)

// The classes.
const (
	Free     = rules.Free
	Shared   = rules.Shared
	ReadOnly = rules.ReadOnly
	Gated    = rules.Gated
	Private  = rules.Private
	Born     = rules.Born
	Scratch  = rules.Scratch
)

// The rules.
const (
	R1 = rules.R1
	R2 = rules.R2
	R3 = rules.R3
	R4 = rules.R4
	R5 = rules.R5
	R6 = rules.R6
	R7 = rules.R7
	R8 = rules.R8
)

// Index is an index file on its way from inside. Shared says that it is to be
// the base of a split one; Gitdir has the host's present index, which tells
// whether the host splits its own.
type Index struct {
	Content
	Path     string
	Gitdir   string
	Shared   bool
	HashSize int // of the repository's object ids, in bytes
}

// VerifyIndex says why an index must not become the host's.
type VerifyIndex func(Index) error

// Options are what a Sentry needs to know of its tree.
type Options struct {
	// Gitdir says that the tree's root is a gitdir: the common directory of a
	// linked worktree, served at its own place. Such a tree has a Sentry of its own.
	Gitdir bool
	// Root is the tree's absolute path on the host, clean: absolute pointers
	// into the tree are recognised by it.
	Root string
	// ConfigGate lets changes of a gitdir's configuration through that only
	// concern branches' upstreams, submodules in use and sparse checkout.
	ConfigGate bool
	// VerifyIndex is the index's gate; nil lets no index through.
	VerifyIndex VerifyIndex
	// Isolated tells of a directory that nothing inside can see. Scan passes it by.
	Isolated func(dir string) bool
	// Live keeps Classify from remembering, where no change is reported.
	Live bool
}

// A Sentry guards one tree. It is safe for concurrent use; Check says which
// locks its answers need.
type Sentry struct {
	host gitdir.Host
	o    Options
	walk *gitdir.Walker

	mu      sync.Mutex // serialises Scan and SetTargets
	known   survey.Result
	named   []targets.Target // by the host's configuration
	targets atomic.Pointer[targetSet]
	log     journal
}

// New returns a Sentry that knows no pointers and no targets yet: Scan and
// SetTargets tell it.
func New(host gitdir.Host, o Options) *Sentry {
	if o.Isolated == nil {
		o.Isolated = func(string) bool { return false }
	}
	s := &Sentry{host: host, o: o, walk: gitdir.NewWalker(host, o.Gitdir, o.Root)}
	s.targets.Store(&targetSet{})
	return s
}

// Verdict is what a path is. Gitdir is the one that it lies in, or the birth or
// pointer; Below says that a private file which the Domain does not have yet
// shows the host's.
type Verdict struct {
	Class  Class
	Rule   Rule
	Gitdir string
	Below  bool
}

// Classify says what path is, for reading: it may answer from memory, which
// Changed and Forget keep right. What cannot be found out is ReadOnly.
func (s *Sentry) Classify(path string) Verdict {
	p := s.place(path, s.o.Live, false)
	return Verdict{Class: p.Class, Rule: p.Rule, Gitdir: p.loc.Gitdir, Below: p.Below}
}

// place is a path with all that the rules say about the name.
type place struct {
	rules.Part
	path string
	loc  gitdir.Location
	file bool // a target (R8) that is a file and that the host does not have: a directory may be made there
}

// place classifies path; entry also looks whether path itself is a look-alike.
func (s *Sentry) place(path string, live, entry bool) place {
	loc, err := s.walk.Locate(path, live, entry)
	if err != nil {
		return place{Part: rules.Part{Class: ReadOnly, Rule: R2}, path: path, loc: loc}
	}
	p := place{path: path, loc: loc}
	switch loc.Type {
	case gitdir.None:
		p.Part = rules.Part{}
	case gitdir.Full, gitdir.Look:
		p.Part = rules.Of(loc.Inner, loc.Type == gitdir.Look)
	case gitdir.Pointer:
		p.Part = rules.Part{Class: ReadOnly, Rule: R2}
	case gitdir.Zone:
		p.Part = rules.Part{Class: ReadOnly, Rule: R6}
	case gitdir.Birth:
		p.Part = rules.Part{Class: Born, Rule: R1}
		return p
	}
	switch {
	case p.Operation:
		p.Part, err = s.operation(p, live)
	case p.Class == Private && p.Below:
		var kind gitdir.Kind
		kind, err = s.kind(path, live)
		p.Below = kind == gitdir.File
	case p.Class == Free || p.Class == Shared:
		err = s.target(&p, live)
	}
	if err != nil {
		p.Part = rules.Part{Class: ReadOnly, Rule: R2}
	}
	return p
}

// operation decides about the state of a rebase: the one that the host began is
// the host's.
func (s *Sentry) operation(p place, live bool) (rules.Part, error) {
	top := p.path
	for {
		dir, _ := gitdir.Split(top)
		if dir == p.loc.Gitdir {
			break
		}
		top = dir
	}
	kind, err := s.kind(top, live)
	if kind != gitdir.Absent {
		return rules.Part{Class: ReadOnly, Rule: R3}, err
	}
	return rules.Part{Class: Private, Rule: R3}, err
}

func (s *Sentry) kind(path string, live bool) (gitdir.Kind, error) {
	if live {
		return s.walk.Kind(path)
	}
	return s.walk.CachedKind(path)
}

// targetSet are the paths that the host's configuration leads to (R8).
type targetSet struct {
	exact     map[string]targets.Target
	dirs      []string
	ancestors map[string]bool
	folded    map[string]targets.Target
}

func newTargetSet(list []targets.Target) *targetSet {
	set := &targetSet{exact: map[string]targets.Target{}, ancestors: map[string]bool{}, folded: map[string]targets.Target{}}
	for _, t := range list {
		if old, ok := set.exact[t.Path]; ok && old.Dir {
			continue
		}
		set.exact[t.Path] = t
		set.folded[gitdir.FoldPath(t.Path)] = t
		for dir := t.Path; dir != ""; {
			dir, _ = gitdir.Split(dir)
			set.ancestors[dir] = true
		}
	}
	for path, t := range set.exact {
		if t.Dir {
			set.dirs = append(set.dirs, path)
		}
	}
	slices.Sort(set.dirs)
	return set
}

// at is the target that path is or lies in.
func (set *targetSet) at(path string) (t targets.Target, ok bool) {
	for _, dir := range set.dirs {
		if gitdir.Below(path, dir) {
			return set.exact[dir], true
		}
	}
	t, ok = set.exact[path]
	return t, ok
}

// below are the targets strictly below dir.
func (set *targetSet) below(dir string) []string {
	if !set.ancestors[dir] {
		return nil
	}
	paths := slices.Collect(maps.Keys(set.exact))
	return slices.DeleteFunc(paths, func(path string) bool { return path == dir || !gitdir.Below(path, dir) })
}

// target applies R8 to a place that is the host's and may change otherwise.
func (s *Sentry) target(p *place, live bool) error {
	set := s.targets.Load()
	if len(set.exact) == 0 {
		return nil
	}
	t, ok := set.at(p.path)
	if !ok {
		return s.alias(p, set, live)
	}
	kind, err := s.kind(t.Path, live)
	switch {
	case err != nil:
		return err
	case t.Dir && kind == gitdir.Absent:
		p.Part = rules.Part{Class: Private, Rule: R8}
	case t.Dir || kind != gitdir.Dir:
		p.Part = rules.Part{Class: ReadOnly, Rule: R8}
		p.file = !t.Dir && kind == gitdir.Absent
	}
	return nil
}

// alias refuses another spelling of a target that the host does not have: on a
// host that folds names it would be the target. Of what is there, the inode is
// protected.
func (s *Sentry) alias(p *place, set *targetSet, live bool) error {
	if !live {
		return nil // nothing is there to be read
	}
	folded := gitdir.FoldPath(p.path)
	for path := folded; path != ""; path, _ = gitdir.Split(path) {
		t, ok := set.folded[path]
		if !ok || !t.Dir && path != folded {
			continue
		}
		if kind, err := s.kind(t.Path, live); kind == gitdir.Absent || err != nil {
			p.Part = rules.Part{Class: ReadOnly, Rule: R8}
			return err
		}
	}
	return nil
}

// SetTargets replaces the targets that the host's configuration names. Each is
// given by its lexical path and, where links of the host lead elsewhere in the
// tree, by that path too.
func (s *Sentry) SetTargets(list []targets.Target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.named = slices.Clone(list)
	s.publishTargets()
}

func (s *Sentry) publishTargets() {
	s.targets.Store(newTargetSet(slices.Concat(s.named, s.known.Linked)))
}

// Changed notes that the host's entry at path came, went or changed. rescan
// says that pointers, links or protected files may have changed with it: Scan
// and Protected are to be asked again.
func (s *Sentry) Changed(path string) (rescan bool) {
	s.walk.Changed(path)
	p := s.place(path, false, false)
	return p.loc.Type == gitdir.Pointer || p.Class == ReadOnly || p.Class == Gated || p.Class == Private || p.Class == Shared && p.Fixed
}

// Forget drops what is remembered of dir and all below: it was moved or
// replaced.
func (s *Sentry) Forget(dir string) { s.walk.Forget(dir) }
