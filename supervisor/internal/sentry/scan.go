package sentry

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"lazaret.dev/lazaret/supervisor/internal/sentry/gitdir"
	"lazaret.dev/lazaret/supervisor/internal/sentry/targets"
)

// Repository is one that the host has in the tree. Top is the root of its
// working tree; a bare one has none, and Top is the gitdir.
type Repository struct {
	Gitdir string
	Top    string
	Bare   bool
}

// Found is what a scan tells beside what the Sentry keeps for itself.
type Found struct {
	Repositories []Repository
	// Outside are pointers of the host that leave the tree, by the entry's path.
	Outside []string
}

// facts are what the Sentry keeps of scans and configuration.
type facts struct {
	gitdirs    []string
	pointers   []string
	configured []targets.Target
	linked     []targets.Target // where links in gitdirs lead (R8)
}

// scanLimit bounds a tree: more directories are not guarded, and not served.
const scanLimit = 1 << 22

// Scan walks the host's tree, but for isolated directories, and learns where
// its repositories are, where its pointers lead, and where links in its gitdirs
// do. It replaces what an earlier scan learnt. Until the first one, and for what
// the host adds meanwhile, gitdirs are recognised by name and content alone.
func (s *Sentry) Scan() (Found, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sc := scan{s: s, declared: map[string]struct{}{}, seen: map[string]bool{}}
	if s.o.Gitdir {
		sc.gitdir("", Repository{Bare: true})
	}
	seen := 0
	skip := func(path string, isolated bool) bool {
		_, name := gitdir.Split(path)
		return isolated || gitdir.IsDotGit(name) || s.o.Gitdir && (path == "objects" || path == "modules" || path == "worktrees")
	}
	err := s.descend("", skip, func(path string, entries []gitdir.Entry, _ bool) error {
		if seen += len(entries); seen > scanLimit {
			return errors.New("the workspace has too many files to look for repositories")
		}
		sc.directory(path, entries)
		return sc.err
	})
	if err = errors.Join(err, sc.err); err != nil {
		return Found{}, fmt.Errorf("look for Git repositories: %w", err)
	}
	s.known.gitdirs, s.known.pointers, s.known.linked = sc.gitdirs, sc.pointers, sc.linked
	s.walk.Declare(sc.declared)
	s.publishTargets()
	return sc.found, nil
}

// alternatesLimit bounds objects/info/alternates.
const alternatesLimit = 1 << 20

// scan is one walk.
type scan struct {
	s        *Sentry
	found    Found
	declared map[string]struct{}
	seen     map[string]bool
	gitdirs  []string
	pointers []string
	linked   []targets.Target
	err      error
}

func (sc *scan) directory(dir string, entries []gitdir.Entry) {
	for _, e := range entries {
		if !gitdir.IsDotGit(e.Name) {
			continue
		}
		full := gitdir.Join(dir, e.Name)
		if e.Kind == gitdir.Dir {
			sc.gitdir(full, Repository{Gitdir: full, Top: dir})
			continue
		}
		sc.pointers = append(sc.pointers, full)
		sc.pointer(dir, full, e.Kind)
	}
	if looksLike(entries) {
		sc.gitdir(dir, Repository{Gitdir: dir, Top: dir, Bare: true})
	}
}

// pointer follows a .git file or link. What it says is the host's: nothing
// inside can make or change one.
func (sc *scan) pointer(dir, full string, kind gitdir.Kind) {
	var to string
	switch kind {
	case gitdir.Symlink:
		to = "./" + path.Base(full)
	case gitdir.File:
		b, err := sc.s.host.ReadFile(full, pointerLimit)
		text, ok := strings.CutPrefix(strings.TrimRight(string(b), "\r\n"), "gitdir: ")
		if err != nil || !ok {
			return // Git does not follow it either
		}
		to = text
	default:
		return
	}
	target, inside, err := sc.follow(dir, to)
	switch {
	case err != nil:
		return // a loop, or a way that is barred: barred to Git too
	case !inside:
		sc.found.Outside = append(sc.found.Outside, full)
	default:
		sc.declare(target, Repository{Gitdir: target, Top: dir})
	}
}

// declare takes a directory for a gitdir since the host says so.
func (sc *scan) declare(dir string, r Repository) {
	if loc, err := sc.s.walk.Locate(dir, true, true); err != nil || loc.Type != gitdir.Full || loc.Gitdir != dir {
		sc.declared[dir] = struct{}{}
	}
	sc.gitdir(dir, r)
}

// gitdir looks into one, and into those in it.
func (sc *scan) gitdir(dir string, r Repository) {
	if r.Gitdir != "" || !sc.s.o.Gitdir {
		if !slices.Contains(sc.found.Repositories, r) {
			sc.found.Repositories = append(sc.found.Repositories, r)
		}
	}
	if sc.seen[dir] {
		return
	}
	sc.seen[dir] = true
	sc.gitdirs = append(sc.gitdirs, dir)
	for _, sub := range []string{"", "hooks", "info", "objects", "objects/info", "logs", "refs"} {
		sc.links(gitdir.Join(dir, sub), sub)
	}
	if kind, err := sc.s.walk.Kind(gitdir.Join(dir, "commondir")); kind == gitdir.File && err == nil {
		if common, err := sc.s.commonDir(dir); err == nil {
			sc.declare(common, Repository{Gitdir: common, Top: common, Bare: true})
		}
	}
	sc.alternates(gitdir.Join(dir, "objects"))
	sc.modules(gitdir.Join(dir, "modules"))
	for _, e := range sc.list(gitdir.Join(dir, "worktrees")) {
		if e.Kind == gitdir.Dir {
			sc.inner(gitdir.Join(dir, "worktrees/"+e.Name))
		}
	}
}

// inner notes a gitdir in another one. Its working tree, if it is here, has a
// pointer to it.
func (sc *scan) inner(dir string) {
	if !sc.seen[dir] {
		sc.gitdir(dir, Repository{Gitdir: dir, Top: dir, Bare: true})
	}
}

// modules looks for gitdirs below modules, whose names may have slashes.
func (sc *scan) modules(dir string) {
	for _, e := range sc.list(dir) {
		if e.Kind != gitdir.Dir {
			continue
		}
		full := gitdir.Join(dir, e.Name)
		if look, err := sc.s.walk.LooksLike(full); look && err == nil {
			sc.inner(full)
		} else {
			sc.modules(full)
		}
	}
}

// list reads a directory that need not be there.
func (sc *scan) list(dir string) []gitdir.Entry {
	kind, err := sc.s.walk.Kind(dir)
	if kind != gitdir.Dir || err != nil {
		return nil
	}
	entries, err := sc.s.host.ReadDir(dir)
	if err != nil {
		sc.err = errors.Join(sc.err, err)
	}
	return entries
}

// links notes where the links in a directory of a gitdir lead, if nothing else
// protects that.
func (sc *scan) links(dir, sub string) {
	for _, e := range sc.list(dir) {
		if e.Kind != gitdir.Symlink {
			continue
		}
		target, inside, err := sc.follow(dir, "./"+e.Name)
		if err == nil && inside {
			sc.link(target, sub == "" && (e.Name == "hooks" || e.Name == "info"), "a link in "+dir)
		}
	}
}

// follow is resolve; the links on the way must stay what they are.
func (sc *scan) follow(dir, to string) (resolved string, ok bool, err error) {
	return sc.s.follow(dir, to, func(link string) { sc.link(link, false, "a link on the way from "+dir) })
}

// link makes a path a target that no gitdir has in its care. Kept is one that
// is a directory even if it is not there.
func (sc *scan) link(path string, kept bool, key string) {
	if sc.s.place(path, true, true).class != Free {
		return
	}
	kind, err := sc.s.walk.Kind(path)
	if err != nil {
		sc.err = errors.Join(sc.err, err)
		return
	}
	sc.linked = append(sc.linked, targets.Target{Path: path, Dir: kept || kind == gitdir.Dir, Key: key})
}

// alternates takes object directories that the host borrows from for targets:
// they can name others in turn.
func (sc *scan) alternates(objects string) {
	file := gitdir.Join(objects, "info/alternates")
	if kind, err := sc.s.walk.Kind(file); kind != gitdir.File || err != nil {
		return
	}
	b, err := sc.s.host.ReadFile(file, alternatesLimit)
	if err != nil {
		sc.err = errors.Join(sc.err, err)
		return
	}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimRight(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		if dir, inside, err := sc.follow(objects, line); err == nil && inside {
			sc.link(dir, true, "an alternate of "+objects)
		}
	}
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

func (s *Sentry) protected(known facts, give func(string) error) error {
	for _, path := range known.pointers {
		if err := give(path); err != nil {
			return err
		}
	}
	for _, dir := range known.gitdirs {
		for _, sub := range [...]string{"", "hooks", "info", "remotes", "branches", "objects/info", "objects/pack", "rebase-merge", "rebase-apply", "rr-cache"} {
			if err := s.files(gitdir.Join(dir, sub), true, func(path string) error {
				if class := s.place(path, true, false).class; class == Free || class == Shared {
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
	return s.descend(dir, skip, func(path string, entries []gitdir.Entry, _ bool) error {
		for _, e := range entries {
			if e.Kind != gitdir.File {
				continue
			}
			if err := give(gitdir.Join(path, e.Name)); err != nil {
				return err
			}
		}
		return nil
	})
}
