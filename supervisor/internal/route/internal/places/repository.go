package places

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"

	"lazaret.dev/lazaret/supervisor/internal/gitindex"
	"lazaret.dev/lazaret/supervisor/internal/route/internal/paths"
	"lazaret.dev/lazaret/supervisor/internal/route/internal/repo"
	"lazaret.dev/lazaret/supervisor/internal/route/internal/texts"
)

// Root is a repository whose root is in the workspace, or the outer one under "".
type Root struct {
	Reader *repo.Reader // nil: it is gone, and its border counts all the same
	// Doubted: it has come or gone since the trusted state, so that the rules
	// count both with and without its border.
	Doubted bool
	Looked  bool
}

// Repository is the one whose root is dir, as far as it counts; nil for none.
func (r *State) Repository(dir string) (*Root, error) {
	root := r.Roots[dir]
	if root != nil && root.Looked || root == nil && r.plain[dir] {
		return root, nil
	}
	found, err := r.repos.Repository(dir)
	if err != nil {
		return nil, fmt.Errorf("open the repository of %q: %w", dir, err)
	}
	if found == nil && dir == "" && r.prefix != "" {
		outer := *r.Opt.Outer
		outer.Close = nil // the caller's
		found = &outer
	}
	known := root != nil
	if known {
		root.Reader.Close()
	} else {
		if found == nil {
			return nil, nil
		}
		root = &Root{Doubted: r.started}
		r.Roots[dir] = root
	}
	doubted := root.Doubted || found == nil
	known, root.Doubted = known && doubted == root.Doubted, doubted
	root.Reader, root.Looked = nil, true
	if found != nil {
		root.Reader = repo.NewReader(found, texts.Max)
	}
	r.readExclude(dir, root)
	if !r.started || known {
		return root, nil
	}
	// What another repository tracked below, it tracks no longer.
	r.DropUntracked()
	return root, r.Save()
}

// readExclude reads info/exclude, if it is not known yet.
func (r *State) readExclude(dir string, root *Root) {
	key := dir + ExcludeMark
	if _, ok := r.Files[key]; ok {
		return
	}
	if t := Exclude(root); !t.Absent {
		r.Files[key] = newFile(t)
	}
}

// Exclude is the text of info/exclude.
func Exclude(root *Root) texts.Text {
	if root == nil || root.Reader == nil {
		return texts.Absent()
	}
	b, err := root.Reader.Exclude()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return texts.Absent()
	case err != nil:
		return texts.Everything()
	}
	return texts.Text{Bytes: b}
}

// InRepository is a path as the index of the repository around it has it.
func (r *State) InRepository(root, path string) string {
	if root == "" {
		return r.prefix + path
	}
	return path[len(root)+1:]
}

// OnlyInIndex tells whether a file that is not on disk is in the index alone.
func (r *State) OnlyInIndex(root, path string) bool {
	found := r.Roots[root]
	return found != nil && found.Reader != nil && paths.Below(path, root) && found.Reader.OnlyInIndex(r.InRepository(root, path))
}

// eachTracked yields what a repository tracks in the workspace, outside of
// other repositories in it, with what is known about its directory.
func (r *State) eachTracked(dir string, yield func(path string, isDir bool, d *Dir)) error {
	root := r.Roots[dir]
	if root.Reader == nil {
		return nil
	}
	x := root.Reader.Index()
	if x == nil {
		return nil
	}
	skip := ""
	if dir == "" {
		skip = r.prefix
	}
	var d *Dir
	last := "\x00"
	for e := range x.Below(strings.TrimSuffix(skip, "/")) {
		path := paths.Join(dir, e.Path[len(skip):])
		if e.Mode == gitindex.ModeDir || e.Stage > 1 {
			continue
		}
		if dir := paths.Parent(path); dir != last {
			var err error
			if d, err = r.Dir(dir); err != nil {
				return err
			}
			last = dir
		}
		if d.Repo == dir {
			yield(path, e.Mode == gitindex.ModeGitlink, d)
		}
	}
	return nil
}

// KeepTracked keeps a path shared that the rules match.
func (r *State) KeepTracked(path string) {
	r.Kept.Add(path)
	r.uncacheEntry(path)
}

func (r *State) dropTracked(path string) {
	r.Kept.Remove(path)
	r.uncacheEntry(path)
}

// uncacheEntry forgets what follows from one entry, if it is a submodule.
func (r *State) uncacheEntry(path string) {
	if _, ok := r.cache[path]; ok {
		r.Uncache(path)
	}
}

// Uncache forgets what follows from the rules for a directory and all below.
func (r *State) Uncache(dir string) {
	maps.DeleteFunc(r.cache, func(d string, _ *Dir) bool { return paths.Within(d, dir) })
}

// Unread forgets in addition what there is and is not.
func (r *State) Unread(dir string) {
	r.Uncache(dir)
	maps.DeleteFunc(r.plain, func(d string, _ bool) bool { return paths.Within(d, dir) })
}

// Look forgets that there is nothing of interest in a directory.
func (r *State) Look(dir string) { delete(r.plain, dir) }
