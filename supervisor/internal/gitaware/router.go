package gitaware

import (
	"path"
	"strings"

	"lazaret.dev/lazaret/supervisor/internal/route"
	"lazaret.dev/lazaret/supervisor/internal/view/policy"
)

// router is the view's router.
type router struct{ a *Aware }

func (r router) Place(name string, isDir bool) policy.Place {
	switch r.a.router.Place(name, isDir) {
	case route.Shared:
		return policy.Shared
	case route.Union:
		return policy.Union
	case route.Exposed:
		return policy.Exposed
	default:
		return policy.Isolated
	}
}

func routeEntry(e policy.Entry) route.Entry {
	out := route.Entry{Dev: e.Dev, Ino: e.Ino, Nlink: e.Nlink}
	switch {
	case e.Regular:
		out.Kind = route.Regular
	case e.Dir:
		out.Kind = route.Directory
	}
	return out
}

func (r router) Watches(name string, e policy.Entry) bool {
	return r.a.router.Watches(name, routeEntry(e))
}

// change is a change with an end.
type change func(done bool) ([]string, error)

func (c change) End(done bool) ([]string, error) { return c(done) }

func (r router) Begin(name string) (policy.Change, error) {
	w, err := r.a.router.Begin(name)
	if err != nil {
		return nil, err
	}
	return change(func(bool) ([]string, error) { return w.End() }), nil
}

func (r router) Linking(name string) error { return r.a.router.Linking(name) }

func (r router) Publishing(name string) (policy.Change, error) {
	if err := r.a.router.Settle(); err != nil {
		return nil, err
	}
	return change(func(done bool) ([]string, error) {
		root, ok := r.a.root(name)
		if !done || !ok {
			return nil, nil
		}
		return r.a.router.RepositoryChanged(root)
	}), nil
}

func (r router) Renaming(old, new string) (policy.Change, error) {
	m, err := r.a.router.Renaming(old, new)
	if err != nil {
		return nil, err
	}
	return change(m.Done), nil
}

func (r router) Changed(name string, e policy.Entry) ([]string, error) {
	if name == "" {
		return r.a.router.Changed("")
	}
	if root, ok := r.a.root(name); ok {
		return r.a.router.RepositoryChanged(root)
	}
	base := path.Base(name)
	if e.Dir || e == (policy.Entry{}) || base == ".git" || r.Watches(name, e) {
		return r.a.router.Changed(name)
	}
	return nil, nil
}

// root is the root of the working tree whose repository has the file name, one
// that tells what is tracked or ignored there.
func (a *Aware) root(name string) (string, bool) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	for _, r := range a.repos {
		inner, ok := strings.CutPrefix(name, r.Gitdir+"/")
		if r.Gitdir == "" {
			inner, ok = name, true
		}
		if ok && !r.Bare && (inner == "index" || inner == "index.lock" || inner == "info/exclude" || strings.HasPrefix(inner, "sharedindex.")) {
			return r.Top, true
		}
	}
	return "", false
}
