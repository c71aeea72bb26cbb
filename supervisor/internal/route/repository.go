package route

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"strings"

	"lazaret.dev/lazaret/supervisor/internal/gitindex"
	"lazaret.dev/lazaret/supervisor/internal/gitodb"
)

// repository is one whose root is in the workspace, or the outer one under "".
type repository struct {
	repo *Repo // nil: it is gone, and its border counts all the same
	// doubted: it has come or gone since the trusted state, so that the rules
	// count both with and without its border.
	doubted bool
	looked  bool
	index   *gitindex.Index // as it was last readable
	stale   bool            // it has to be read again
}

// repository is the one whose root is dir, as far as it counts; nil for none.
func (r *Router) repository(dir string) (*repository, error) {
	root := r.roots[dir]
	if root != nil && root.looked || root == nil && r.plain[dir] {
		return root, nil
	}
	repo, err := r.repos.Repository(dir)
	if err != nil {
		return nil, fmt.Errorf("open the repository of %q: %w", dir, err)
	}
	if repo == nil && dir == "" && r.prefix != "" {
		outer := *r.opt.Outer
		outer.Close = nil // the caller's
		repo = &outer
	}
	known := root != nil
	if known {
		root.repo.close()
	} else {
		if repo == nil {
			return nil, nil
		}
		root = &repository{doubted: r.started}
		r.roots[dir] = root
	}
	doubted := root.doubted || repo == nil
	known, root.doubted = known && doubted == root.doubted, doubted
	root.repo, root.looked, root.stale = repo, true, true
	r.readExclude(dir, root)
	if !r.started || known {
		return root, nil
	}
	// What another repository tracked below, it tracks no longer.
	r.dropUntracked()
	return root, r.save()
}

// readExclude reads info/exclude, if it is not known yet.
func (r *Router) readExclude(dir string, root *repository) {
	key := dir + excludeMark
	if _, ok := r.files[key]; ok {
		return
	}
	if t := exclude(root); !t.Absent {
		r.files[key] = &file{Current: t}
	}
}

// exclude is the text of info/exclude.
func exclude(root *repository) text {
	if root.repo == nil {
		return absent
	}
	b, err := readAll(root.repo.Common, "info/exclude", maxText)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return absent
	case err != nil:
		return text{Bytes: []byte(everything)}
	}
	return text{Bytes: b}
}

func readAll(d gitodb.Dir, name string, limit int64) ([]byte, error) {
	f, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.NewSectionReader(f, 0, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = errors.New("it is too large")
	}
	return b, errors.Join(err, f.Close())
}

// tracked is the repository's index; nil when it cannot be read and never
// could. An index that is not there is empty.
func (root *repository) tracked() *gitindex.Index {
	if root.repo == nil || !root.stale {
		return root.index
	}
	f, err := root.repo.GitDir.Open("index")
	if errors.Is(err, fs.ErrNotExist) {
		root.index, root.stale = &gitindex.Index{}, false
		return root.index
	}
	if err != nil {
		return root.index
	}
	defer func() { _ = f.Close() }()
	var shared gitodb.File
	x, err := gitindex.Parse(f, f.Size(), gitindex.Options{
		HashSize: root.repo.HashSize,
		Shared: func(id string) (io.ReaderAt, int64, error) {
			if shared, err = root.repo.GitDir.Open("sharedindex." + id); err != nil {
				return nil, 0, err
			}
			return shared, shared.Size(), nil
		},
	})
	if shared != nil {
		_ = shared.Close()
	}
	if err == nil {
		root.index, root.stale = x, false
	}
	return root.index
}

// inRepository is a path as the index of the repository around it has it.
func (r *Router) inRepository(root, path string) string {
	if root == "" {
		return r.prefix + path
	}
	return path[len(root)+1:]
}

// onlyInIndex tells whether a file that is not on disk is left out by a sparse
// checkout, so that Git takes its text from the index.
func (r *Router) onlyInIndex(root, path string) bool {
	repo := r.roots[root]
	if repo == nil {
		return false
	}
	x := repo.tracked()
	if x == nil {
		return false
	}
	if !below(path, root) {
		return false
	}
	name := r.inRepository(root, path)
	if e, ok := x.Lookup(name); ok {
		return e.SkipWorktree
	}
	for dir := range above(name) {
		if _, ok := x.Lookup(dir + "/"); ok && dir != "" {
			return true
		}
	}
	return false
}

// eachTracked yields what a repository tracks in the workspace, outside of
// other repositories in it, with what is known about its directory.
func (r *Router) eachTracked(dir string, yield func(path string, isDir bool, d *directory)) error {
	root := r.roots[dir]
	x := root.tracked()
	if root.repo == nil || x == nil {
		return nil
	}
	skip := ""
	if dir == "" {
		skip = r.prefix
	}
	var d *directory
	last := "\x00"
	for e := range x.Below(strings.TrimSuffix(skip, "/")) {
		path := join(dir, e.Path[len(skip):])
		if e.Mode == gitindex.ModeDir || e.Stage > 1 {
			continue
		}
		if dir := parent(path); dir != last {
			var err error
			if d, err = r.directory(dir); err != nil {
				return err
			}
			last = dir
		}
		if d.repo == dir {
			yield(path, e.Mode == gitindex.ModeGitlink, d)
		}
	}
	return nil
}

func (r *Router) keepTracked(path string) {
	if r.kept[path] {
		return
	}
	r.kept[path] = true
	for dir := range above(path) {
		r.keptIn[dir]++
	}
	if _, ok := r.cache[path]; ok {
		r.uncache(path) // a submodule
	}
}

func (r *Router) dropTracked(path string) {
	delete(r.kept, path)
	for dir := range above(path) {
		if r.keptIn[dir]--; r.keptIn[dir] == 0 {
			delete(r.keptIn, dir)
		}
	}
	r.uncache(path)
}

// uncache forgets what follows from the rules for a directory and all below.
func (r *Router) uncache(dir string) {
	maps.DeleteFunc(r.cache, func(d string, _ *directory) bool { return within(d, dir) })
}

// unread forgets in addition what there is and is not.
func (r *Router) unread(dir string) {
	r.uncache(dir)
	maps.DeleteFunc(r.plain, func(d string, _ bool) bool { return within(d, dir) })
}

func within(path, dir string) bool { return path == dir || below(path, dir) }
