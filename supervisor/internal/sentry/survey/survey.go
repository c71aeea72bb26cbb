// Package survey looks through a host's tree for its repositories: where they
// are, and what the host's own pointers, links and alternates lead to.
//
// It reads names and small files through an interface, and changes nothing. It
// runs in the Runtime Supervisor.
package survey

import (
	"errors"
	"fmt"
	"io/fs"
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

// Result is what a look through a tree gives.
type Result struct {
	Found
	Gitdirs  []string
	Pointers []string            // .git files and links
	Declared map[string]struct{} // gitdirs because a pointer says so
	Linked   []targets.Target    // where links and alternates lead, and nothing else protects it
}

// Options are what the look needs to know. Isolated directories are passed by;
// Guarded tells that a path is in a gitdir's care.
type Options struct {
	Gitdir   bool
	Isolated func(dir string) bool
	Guarded  func(path string) bool
}

// scanLimit bounds a tree: more directories are not guarded, and not served.
const scanLimit = 1 << 22

// Take looks through a whole tree.
func Take(host gitdir.Host, walk *gitdir.Walker, o Options) (Result, error) {
	sc := scan{host: host, walk: walk, o: o, seen: map[string]bool{}, out: Result{Declared: map[string]struct{}{}}}
	if o.Gitdir {
		sc.gitdir("", Repository{Bare: true})
	}
	seen := 0
	skip := func(path string, isolated bool) bool {
		_, name := gitdir.Split(path)
		return isolated || gitdir.IsDotGit(name) || o.Gitdir && (path == "objects" || path == "modules" || path == "worktrees")
	}
	err := gitdir.Descend(host, "", o.Isolated, skip, func(d gitdir.Directory) error {
		if d.Err != nil && !errors.Is(d.Err, fs.ErrPermission) {
			return d.Err // but the host's Git, too, finds nothing where its user may not look
		}
		if seen += len(d.Entries); seen > scanLimit {
			return errors.New("the workspace has too many files to look for repositories")
		}
		sc.directory(d.Path, d.Entries)
		return sc.err
	})
	if err = errors.Join(err, sc.err); err != nil {
		return Result{}, fmt.Errorf("look for Git repositories: %w", err)
	}
	return sc.out, nil
}

// alternatesLimit bounds objects/info/alternates.
const alternatesLimit = 1 << 20

// scan is one walk.
type scan struct {
	host gitdir.Host
	walk *gitdir.Walker
	o    Options
	seen map[string]bool
	out  Result
	err  error
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
		sc.out.Pointers = append(sc.out.Pointers, full)
		sc.pointer(dir, full, e.Kind)
	}
	if gitdir.LooksLike(entries) {
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
		b, err := sc.host.ReadFile(full, gitdir.PointerLimit)
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
		sc.out.Found.Outside = append(sc.out.Found.Outside, full)
	default:
		sc.declare(target, Repository{Gitdir: target, Top: dir})
	}
}

// declare takes a directory for a gitdir since the host says so.
func (sc *scan) declare(dir string, r Repository) {
	if loc, err := sc.walk.Locate(dir, true, true); err != nil || loc.Type != gitdir.Full || loc.Gitdir != dir {
		sc.out.Declared[dir] = struct{}{}
	}
	sc.gitdir(dir, r)
}

// gitdir looks into one, and into those in it.
func (sc *scan) gitdir(dir string, r Repository) {
	if r.Gitdir != "" || !sc.o.Gitdir {
		if !slices.Contains(sc.out.Found.Repositories, r) {
			sc.out.Found.Repositories = append(sc.out.Found.Repositories, r)
		}
	}
	if sc.seen[dir] {
		return
	}
	sc.seen[dir] = true
	sc.out.Gitdirs = append(sc.out.Gitdirs, dir)
	for _, sub := range []string{"", "hooks", "info", "objects", "objects/info", "logs", "refs"} {
		sc.links(gitdir.Join(dir, sub), sub)
	}
	if kind, err := sc.walk.Kind(gitdir.Join(dir, "commondir")); kind == gitdir.File && err == nil {
		if common, err := sc.walk.CommonDir(dir); err == nil {
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
		if look, err := sc.walk.Accepts(full); look && err == nil {
			sc.inner(full)
		} else {
			sc.modules(full)
		}
	}
}

// list reads a directory that need not be there.
func (sc *scan) list(dir string) []gitdir.Entry {
	kind, err := sc.walk.Kind(dir)
	if kind != gitdir.Dir || err != nil {
		return nil
	}
	entries, err := sc.host.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
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
	return sc.walk.Follow(dir, to, func(link string) { sc.link(link, false, "a link on the way from "+dir) })
}

// link makes a path a target that no gitdir has in its care. Kept is one that
// is a directory even if it is not there.
func (sc *scan) link(path string, kept bool, key string) {
	if sc.o.Guarded(path) {
		return
	}
	kind, err := sc.walk.Kind(path)
	if err != nil {
		sc.err = errors.Join(sc.err, err)
		return
	}
	sc.out.Linked = append(sc.out.Linked, targets.Target{Path: path, Dir: kept || kind == gitdir.Dir, Key: key})
}

// alternates takes object directories that the host borrows from for targets:
// they can name others in turn.
func (sc *scan) alternates(objects string) {
	file := gitdir.Join(objects, "info/alternates")
	if kind, err := sc.walk.Kind(file); kind != gitdir.File || err != nil {
		return
	}
	b, err := sc.host.ReadFile(file, alternatesLimit)
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
