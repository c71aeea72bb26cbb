package places

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"lazaret.dev/lazaret/supervisor/internal/gitignore"
	"lazaret.dev/lazaret/supervisor/internal/route/internal/paths"
	"lazaret.dev/lazaret/supervisor/internal/route/internal/texts"
)

// The names that matter.
const (
	IgnoreName     = ".gitignore"
	AttributesName = ".gitattributes"
	GitName        = ".git"
	// ExcludeMark, behind the root's path, names info/exclude of a repository
	// among the files. No path has a NUL.
	ExcludeMark = "\x00exclude"
	// maxCached bounds how many directories are remembered: names that do not
	// exist can be asked for too.
	maxCached = 1 << 16
)

// State is what is known about one workspace. Only [State.Cached] may be called
// by several at a time.
type State struct {
	Tree   Tree
	repos  Repositories
	record Record
	Opt    Options
	rules  gitignore.Options
	prefix string // the workspace's path in the outer repository, with a slash

	Files  map[string]*File
	Roots  map[string]*Root // by the root of the working tree
	Kept   *paths.Set       // tracked paths that the rules match, and that stay shared
	Moved  map[string]bool  // isolated whatever the rules say
	expose *paths.Set
	cache  map[string]*Dir
	// plain are directories without a repository and an ignore file, which
	// need not be looked at again when rules change.
	plain   map[string]bool
	started bool // the first snapshot is complete
	Guessed bool // some directory's rules depend on a sparse index
}

// Dir is what is known about one directory, to decide on its entries.
type Dir struct {
	ignored bool // by the rules, so that all below is
	moved   bool // on record, or below what is
	exposed bool
	// stacks are the rules; a path is ignored if one of them says so. There is
	// more than one where it is in doubt which repositories count.
	stacks []*gitignore.Stack
	Repo   string // the root of the innermost repository
	InRepo bool
	gitdir bool // in a gitdir, which no rule is about
}

// New is the state that the record has, or with first that of a workspace which
// is not looked at yet.
func New(tree Tree, repos Repositories, rec Record, o Options) (r *State, first bool, err error) {
	r = &State{
		Tree: tree, repos: repos, record: rec, Opt: o, rules: gitignore.Options{Fold: o.IgnoreCase},
		expose: paths.NewSet(o.Expose...),
	}
	r.Reset()
	r.setOuter()
	if first, err = r.Load(); first || err != nil {
		return r, first, err
	}
	r.started = true
	if p := o.ExcludesPath; p != "" {
		r.Known(p)
	}
	return r, false, nil
}

// File is what is known of an ignore file, and its state when it was read.
type File struct {
	*texts.File
	Stat Entry
}

// Judged makes t today's text.
func (f *File) Judged(t texts.Text, v Verdict) { f.Replace(t, v == ByHand, v == Undecided) }

func newFile(t texts.Text) *File { return &File{File: &texts.File{Current: t}} }

// Reset forgets everything.
func (r *State) Reset() {
	r.Files, r.Roots, r.Kept, r.Moved = map[string]*File{}, map[string]*Root{}, paths.NewSet(), map[string]bool{}
	r.cache, r.plain = map[string]*Dir{}, map[string]bool{}
}

// Snapshot takes the present state for trusted: every ignore file below the root,
// and what is tracked.
func (r *State) Snapshot() error {
	r.started = false
	if p := r.Opt.ExcludesPath; p != "" {
		t, stat := r.Read(p, nil)
		r.Files[p] = newFile(t)
		r.Files[p].Stat = stat
	}
	err := r.Walk("", func(string, Entry) error { return nil })
	if err == nil {
		var tracked map[string]bool
		tracked, err = r.trackedPlaces("", true)
		for path := range tracked {
			r.KeepTracked(path)
		}
	}
	r.started = true
	// Until now nothing was kept.
	clear(r.cache)
	return errors.Join(err, r.Save())
}

// setOuter takes the repository that the workspace lies in into account,
// unless it ignores the workspace itself: then it has nothing to say.
func (r *State) setOuter() {
	if r.Opt.Outer == nil {
		return
	}
	s := r.base(0, gitignore.Parse(r.Opt.Excludes, r.rules))
	for i := 0; ; {
		for _, a := range r.Opt.Above {
			if dir := strings.TrimSuffix(r.Opt.Prefix[:i], "/"); a.Dir == dir {
				s = s.Push(i, gitignore.Parse(a.Text, r.rules))
			}
		}
		next := strings.IndexByte(r.Opt.Prefix[i:], '/')
		whole := r.Opt.Prefix
		if next >= 0 {
			whole = r.Opt.Prefix[:i+next]
		}
		if s.Ignores(whole, true) {
			return
		}
		if next < 0 {
			r.prefix = r.Opt.Prefix + "/"
			return
		}
		i += next + 1
	}
}

func (r *State) base(n int, p ...*gitignore.Patterns) *gitignore.Stack {
	var s *gitignore.Stack
	return s.Push(n, p...)
}

// Cached is the place of a path, if its directory is known.
func (r *State) Cached(path string, isDir bool) (p Place, ok bool) {
	d, ok := r.cache[paths.Parent(path)]
	if !ok {
		return Isolated, false
	}
	return r.place(d, path, isDir), true
}

// Place is the place of a path, whose directory is looked at if need be.
func (r *State) Place(path string, isDir bool) Place {
	d, err := r.Dir(paths.Parent(path))
	if err != nil {
		return Isolated
	}
	return r.place(d, path, isDir)
}

func (r *State) place(d *Dir, path string, isDir bool) Place {
	switch {
	case !r.Isolated(d, path, isDir):
		return Shared
	case d.exposed || r.expose.Has(path):
		return Exposed
	case isDir && (r.Kept.HasBelow(path) || r.expose.HasBelow(path)):
		return Union
	}
	return Isolated
}

// Isolated is the rule: on record, or ignored and not kept.
func (r *State) Isolated(d *Dir, path string, isDir bool) bool {
	if d.moved || r.Moved[path] {
		return true
	}
	if d.gitdir || strings.HasSuffix(path, GitName) && paths.Base(path) == GitName {
		return false
	}
	return (d.ignored || r.ignores(d, path, isDir)) && !r.Kept.Has(path)
}

func (r *State) ignores(d *Dir, path string, isDir bool) bool {
	if r.prefix != "" {
		path = r.prefix + path
	}
	for _, s := range d.stacks {
		if s.Ignores(path, isDir) {
			return true
		}
	}
	return false
}

// Dir is what is known about dir, read if need be.
func (r *State) Dir(dir string) (*Dir, error) {
	if d, ok := r.cache[dir]; ok {
		return d, nil
	}
	d := &Dir{}
	if dir == "" {
		if r.prefix != "" {
			if _, err := r.Repository(""); err != nil {
				return nil, err
			}
			d.stacks, d.InRepo = []*gitignore.Stack{r.outer()}, true
		}
	} else {
		up, err := r.Dir(paths.Parent(dir))
		if err != nil {
			return nil, err
		}
		*d = *up
		d.moved = up.moved || r.Moved[dir]
		d.exposed = up.exposed || r.expose.Has(dir)
		d.ignored = (up.ignored || r.ignores(up, dir, true)) && !r.Kept.Has(dir)
		d.gitdir = up.gitdir || paths.Base(dir) == GitName
	}
	if !d.gitdir {
		if err := r.enter(d, dir); err != nil {
			return nil, err
		}
	}
	if len(r.cache) >= maxCached {
		clear(r.cache)
	}
	r.cache[dir] = d
	return d, nil
}

// outer are the rules of the outer repository above the workspace.
func (r *State) outer() *gitignore.Stack {
	s := r.excludes("", 0)
	for _, a := range r.Opt.Above {
		n := 0
		if a.Dir != "" {
			n = len(a.Dir) + 1
		}
		s = s.Push(n, gitignore.Parse(a.Text, r.rules))
	}
	return s
}

// enter adds what dir itself says: that a repository begins in it, and its
// ignore file.
func (r *State) enter(d *Dir, dir string) error {
	n := len(r.prefix)
	if dir != "" {
		n += len(dir) + 1
	}
	root, err := r.Repository(dir)
	if err != nil {
		return err
	}
	if root != nil && n > len(r.prefix) || root != nil && r.prefix == "" {
		own := r.excludes(dir, n)
		if root.Doubted {
			// With and without the border.
			d.stacks = append(slices.Clone(d.stacks), own)
		} else {
			d.stacks = []*gitignore.Stack{own}
		}
		d.Repo, d.InRepo = dir, true
	}
	if !d.InRepo {
		return nil
	}
	f, err := r.file(paths.Join(dir, IgnoreName), d)
	if err != nil {
		return err
	}
	if f == nil {
		if root == nil {
			if len(r.plain) >= maxCached {
				clear(r.plain)
			}
			r.plain[dir] = true
		}
		return nil
	}
	stacks := make([]*gitignore.Stack, len(d.stacks))
	for i, s := range d.stacks {
		stacks[i] = s.Push(n, f.Patterns(r.rules)...)
	}
	d.stacks = stacks
	return nil
}

// excludes are the rules at the bottom of a repository's, which lie outside
// of its working tree; n is where its root ends in a path.
func (r *State) excludes(root string, n int) *gitignore.Stack {
	s := r.base(n, gitignore.Parse(r.Opt.Excludes, r.rules))
	for _, key := range []string{r.Opt.ExcludesPath, root + ExcludeMark} {
		if f := r.Files[key]; f != nil && key != "" {
			s = s.Push(n, f.Patterns(r.rules)...)
		}
	}
	return s
}

// file is what is known of an ignore file of the workspace, read if it is
// new; nil when there never was one. d is its directory's.
func (r *State) file(path string, d *Dir) (*File, error) {
	f, ok := r.Files[path]
	if ok || r.plain[paths.Parent(path)] {
		return f, nil
	}
	t, stat := r.Read(path, d)
	if t.Absent {
		return nil, nil
	}
	f = newFile(t)
	f.Stat = stat
	if t.Guess {
		// Not remembered: any name below would do, and there is no file.
		r.Guessed = true
		return f, nil
	}
	r.Files[path] = f
	if !r.started {
		return f, nil
	}
	// It has come since.
	f.Current = texts.Absent()
	if err := r.Change(paths.Parent(path), func() { f.Judged(t, r.Judge(path, d, t, stat)) }); err != nil {
		return nil, err
	}
	return f, r.Save()
}

// Read is the text of an ignore file as it is on disk. What cannot be read
// ignores everything.
func (r *State) Read(path string, d *Dir) (texts.Text, Entry) {
	// Before the text: a change in between shows as another change.
	stat, err := r.Tree.Lstat(path)
	if err == nil {
		var b []byte
		if b, err = r.Tree.ReadFile(path, texts.Max); err == nil {
			return texts.Text{Bytes: b}, stat
		}
	}
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return texts.Everything(), stat
	case d != nil && d.InRepo && r.OnlyInIndex(d.Repo, path):
		t := texts.Everything()
		t.Guess = true
		return t, stat
	}
	return texts.Absent(), stat
}

// maxWalk bounds how many entries are looked at in one go.
const maxWalk = 4 << 20

// Walk visits what the host has below dir and the rules do not isolate, and
// what they isolate without going into it; directories are read on the way.
func (r *State) Walk(dir string, visit func(path string, e Entry) error) error {
	seen := 0
	dirs := []string{dir}
	for len(dirs) > 0 {
		dir := dirs[len(dirs)-1]
		dirs = dirs[:len(dirs)-1]
		d, err := r.Dir(dir)
		if err != nil {
			return err
		}
		entries, err := r.Tree.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue // gone, or nothing that the sandbox can see either
		}
		if err != nil {
			return fmt.Errorf("list %q: %w", dir, err)
		}
		if seen += len(entries); seen > maxWalk {
			return errors.New("the workspace has too many files below one directory")
		}
		for _, e := range entries {
			path := paths.Join(dir, e.Name)
			if e.Name == GitName {
				continue
			}
			if err := visit(path, e); err != nil {
				return err
			}
			if e.Kind == Directory && (!r.Isolated(d, path, true) || r.Kept.HasBelow(path)) {
				dirs = append(dirs, path)
			}
		}
	}
	return nil
}
