package route

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"lazaret.dev/lazaret/supervisor/internal/gitignore"
)

const (
	ignoreName     = ".gitignore"
	attributesName = ".gitattributes"
	gitName        = ".git"
	// excludeMark, behind the root's path, names info/exclude of a repository
	// among the files. No path has a NUL.
	excludeMark = "\x00exclude"
	// maxCached bounds how many directories are remembered: names that do not
	// exist can be asked for too.
	maxCached = 1 << 16
)

// Router decides for one workspace. It is safe for concurrent use.
type Router struct {
	tree   Tree
	repos  Repositories
	record Record
	opt    Options
	rules  gitignore.Options
	prefix string // the workspace's path in the outer repository, with a slash

	mu     sync.RWMutex
	files  map[string]*file
	roots  map[string]*repository // by the root of the working tree
	kept   map[string]bool        // tracked paths that the rules match, and that stay shared
	keptIn map[string]int         // the directories above them
	moved  map[string]bool        // isolated whatever the rules say
	expose map[string]bool
	// exposeIn are the directories above exposed paths.
	exposeIn map[string]int
	cache    map[string]*directory
	// plain are directories without a repository and an ignore file, which
	// need not be looked at again when rules change.
	plain   map[string]bool
	started bool // the first snapshot is complete
	guessed bool // some directory's rules depend on a sparse index
}

// directory is what is known about one directory, to decide on its entries.
type directory struct {
	ignored bool // by the rules, so that all below is
	moved   bool // on record, or below what is
	exposed bool
	// stacks are the rules; a path is ignored if one of them says so. There is
	// more than one where it is in doubt which repositories count.
	stacks []*gitignore.Stack
	repo   string // the root of the innermost repository
	inRepo bool
	gitdir bool // in a gitdir, which no rule is about
}

// Open reads the record, or at the first start takes what the workspace is
// like now for trusted.
func Open(tree Tree, repos Repositories, record Record, o Options) (*Router, error) {
	r := &Router{
		tree: tree, repos: repos, record: record, opt: o, rules: gitignore.Options{Fold: o.IgnoreCase},
		files: map[string]*file{}, roots: map[string]*repository{}, kept: map[string]bool{}, keptIn: map[string]int{},
		moved: map[string]bool{}, expose: map[string]bool{}, exposeIn: map[string]int{}, cache: map[string]*directory{}, plain: map[string]bool{},
	}
	for _, p := range o.Expose {
		r.expose[p] = true
		for dir := range above(p) {
			r.exposeIn[dir]++
		}
	}
	r.setOuter()
	first, err := r.load()
	if err != nil {
		return nil, err
	}
	if first {
		return r, r.begin()
	}
	r.started = true
	if p := o.ExcludesPath; p != "" && r.files[p] == nil {
		r.files[p] = &file{Current: absent}
	}
	// What happened since the last generation, happened on the host.
	if _, err := r.reread("", true); err != nil {
		return nil, err
	}
	return r, r.save()
}

// begin takes the present state for trusted: every ignore file below the root,
// and what is tracked.
func (r *Router) begin() error {
	r.started = false
	if p := r.opt.ExcludesPath; p != "" {
		t, stat := r.read(p, nil)
		r.files[p] = &file{Current: t, stat: stat}
	}
	err := r.walk("", func(string, Entry) error { return nil })
	if err == nil {
		var tracked map[string]bool
		tracked, err = r.trackedPlaces("", true)
		for path := range tracked {
			r.keepTracked(path)
		}
	}
	r.started = true
	// Until now nothing was kept.
	clear(r.cache)
	return errors.Join(err, r.save())
}

// setOuter takes the repository that the workspace lies in into account,
// unless it ignores the workspace itself: then it has nothing to say.
func (r *Router) setOuter() {
	if r.opt.Outer == nil {
		return
	}
	s := r.base(0, gitignore.Parse(r.opt.Excludes, r.rules))
	for i := 0; ; {
		for _, a := range r.opt.Above {
			if dir := strings.TrimSuffix(r.opt.Prefix[:i], "/"); a.Dir == dir {
				s = s.Push(i, gitignore.Parse(a.Text, r.rules))
			}
		}
		next := strings.IndexByte(r.opt.Prefix[i:], '/')
		whole := r.opt.Prefix
		if next >= 0 {
			whole = r.opt.Prefix[:i+next]
		}
		if s.Ignores(whole, true) {
			return
		}
		if next < 0 {
			r.prefix = r.opt.Prefix + "/"
			return
		}
		i += next + 1
	}
}

func (r *Router) base(n int, p ...*gitignore.Patterns) *gitignore.Stack {
	var s *gitignore.Stack
	return s.Push(n, p...)
}

// above yields the directories above a path, the workspace's root included.
func above(path string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for path != "" {
			path = parent(path)
			if !yield(path) {
				return
			}
		}
	}
}

func parent(path string) string { return path[:max(strings.LastIndexByte(path, '/'), 0)] }

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// below tells whether path lies below dir, and is not dir.
func below(path, dir string) bool {
	return dir == "" && path != "" || len(path) > len(dir) && path[len(dir)] == '/' && strings.HasPrefix(path, dir)
}

// Place says who serves a path. isDir: what is asked about is a directory.
func (r *Router) Place(path string, isDir bool) Place {
	if !r.opt.Isolate || path == "" {
		return Shared
	}
	r.mu.RLock()
	d, ok := r.cache[parent(path)]
	if ok {
		p := r.place(d, path, isDir)
		r.mu.RUnlock()
		return p
	}
	r.mu.RUnlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	d, err := r.directory(parent(path))
	if err != nil {
		return Isolated
	}
	return r.place(d, path, isDir)
}

func (r *Router) place(d *directory, path string, isDir bool) Place {
	switch {
	case !r.isolated(d, path, isDir):
		return Shared
	case d.exposed || r.expose[path]:
		return Exposed
	case isDir && (r.keptIn[path] > 0 || r.exposeIn[path] > 0):
		return Union
	}
	return Isolated
}

// isolated is the rule: on record, or ignored and not kept.
func (r *Router) isolated(d *directory, path string, isDir bool) bool {
	if d.moved || r.moved[path] {
		return true
	}
	if d.gitdir || strings.HasSuffix(path, gitName) && baseName(path) == gitName {
		return false
	}
	return (d.ignored || r.ignores(d, path, isDir)) && !r.kept[path]
}

func (r *Router) ignores(d *directory, path string, isDir bool) bool {
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

// directory is what is known about dir, read if need be.
func (r *Router) directory(dir string) (*directory, error) {
	if d, ok := r.cache[dir]; ok {
		return d, nil
	}
	d := &directory{}
	if dir == "" {
		if r.prefix != "" {
			if _, err := r.repository(""); err != nil {
				return nil, err
			}
			d.stacks, d.inRepo = []*gitignore.Stack{r.outer()}, true
		}
	} else {
		up, err := r.directory(parent(dir))
		if err != nil {
			return nil, err
		}
		*d = *up
		d.moved = up.moved || r.moved[dir]
		d.exposed = up.exposed || r.expose[dir]
		d.ignored = (up.ignored || r.ignores(up, dir, true)) && !r.kept[dir]
		d.gitdir = up.gitdir || baseName(dir) == gitName
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
func (r *Router) outer() *gitignore.Stack {
	s := r.excludes("", 0)
	for _, a := range r.opt.Above {
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
func (r *Router) enter(d *directory, dir string) error {
	n := len(r.prefix)
	if dir != "" {
		n += len(dir) + 1
	}
	root, err := r.repository(dir)
	if err != nil {
		return err
	}
	if root != nil && n > len(r.prefix) || root != nil && r.prefix == "" {
		own := r.excludes(dir, n)
		if root.doubted {
			// With and without the border.
			d.stacks = append(slices.Clone(d.stacks), own)
		} else {
			d.stacks = []*gitignore.Stack{own}
		}
		d.repo, d.inRepo = dir, true
	}
	if !d.inRepo {
		return nil
	}
	f, err := r.file(join(dir, ignoreName), d)
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
		stacks[i] = s.Push(n, f.patterns(r.rules)...)
	}
	d.stacks = stacks
	return nil
}

// excludes are the rules at the bottom of a repository's, which lie outside
// of its working tree; n is where its root ends in a path.
func (r *Router) excludes(root string, n int) *gitignore.Stack {
	s := r.base(n, gitignore.Parse(r.opt.Excludes, r.rules))
	for _, key := range []string{r.opt.ExcludesPath, root + excludeMark} {
		if f := r.files[key]; f != nil && key != "" {
			s = s.Push(n, f.patterns(r.rules)...)
		}
	}
	return s
}

// file is what is known of an ignore file of the workspace, read if it is
// new; nil when there never was one. d is its directory's.
func (r *Router) file(path string, d *directory) (*file, error) {
	f, ok := r.files[path]
	if ok || r.plain[parent(path)] {
		return f, nil
	}
	t, stat := r.read(path, d)
	if t.Absent {
		return nil, nil
	}
	f = &file{Current: t, stat: stat}
	if t.Guess {
		// Not remembered: any name below would do, and there is no file.
		r.guessed = true
		return f, nil
	}
	r.files[path] = f
	if !r.started {
		return f, nil
	}
	// It has come since.
	f.Current = absent
	if err := r.change(parent(path), func() { f.replace(t, r.judge(path, d, t, stat)) }); err != nil {
		return nil, err
	}
	return f, r.save()
}

// read is the text of an ignore file as it is on disk. What cannot be read
// ignores everything.
func (r *Router) read(path string, d *directory) (text, Entry) {
	// Before the text: a change in between shows as another change.
	stat, err := r.tree.Lstat(path)
	if err == nil {
		var b []byte
		if b, err = r.tree.ReadFile(path, maxText); err == nil {
			return text{Bytes: b}, stat
		}
	}
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return text{Bytes: []byte(everything)}, stat
	case d != nil && d.inRepo && r.onlyInIndex(d.repo, path):
		return text{Bytes: []byte(everything), Guess: true}, stat
	}
	return absent, stat
}

// maxWalk bounds how many entries are looked at in one go.
const maxWalk = 4 << 20

// walk visits what the host has below dir and the rules do not isolate, and
// what they isolate without going into it; directories are read on the way.
func (r *Router) walk(dir string, visit func(path string, e Entry) error) error {
	seen := 0
	dirs := []string{dir}
	for len(dirs) > 0 {
		dir := dirs[len(dirs)-1]
		dirs = dirs[:len(dirs)-1]
		d, err := r.directory(dir)
		if err != nil {
			return err
		}
		entries, err := r.tree.ReadDir(dir)
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
			path := join(dir, e.Name)
			if e.Name == gitName {
				continue
			}
			if err := visit(path, e); err != nil {
				return err
			}
			if e.Kind == Directory && (!r.isolated(d, path, true) || r.keptIn[path] > 0) {
				dirs = append(dirs, path)
			}
		}
	}
	return nil
}
