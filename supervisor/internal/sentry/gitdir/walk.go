package gitdir

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

// Type says in what a path lies.
type Type uint8

// The types of locations.
const (
	None    Type = iota // no gitdir
	Full                // a gitdir: by its name, by a host's pointer, a module's, a worktree's
	Look                // a directory with no such name that Git would accept for one
	Pointer             // a .git that is no directory
	Zone                // in a gitdir's modules or worktrees, above the gitdirs there
	Birth               // a name that would be a gitdir, and that the host does not have
)

// Location is where a path lies. Gitdir is the innermost gitdir; the pointer;
// the gitdir above the zone; or the topmost name that the host does not have.
// Inner is the path below it.
type Location struct {
	Type     Type
	Gitdir   string
	Inner    string
	Worktree bool // the registration of a linked worktree
}

// cacheLimit bounds the walker's memory; a full cache begins anew.
const cacheLimit = 1 << 16

// A Walker locates paths. It is safe for concurrent use. What it remembers is
// right as long as Changed and Forget are called.
type Walker struct {
	host   Host
	gitdir bool
	root   string

	declared atomic.Pointer[map[string]struct{}]

	mu    sync.RWMutex
	gen   uint64
	kinds map[string]Kind
	looks map[string]bool
}

// NewWalker returns a Walker of the tree; gitdir says that its root is one, and
// root is its absolute path on the host, clean, or "".
func NewWalker(host Host, gitdir bool, root string) *Walker {
	return &Walker{host: host, gitdir: gitdir, root: root, kinds: map[string]Kind{}, looks: map[string]bool{}}
}

// Declare replaces the set of directories that are gitdirs because a pointer
// of the host says so.
func (w *Walker) Declare(dirs map[string]struct{}) { w.declared.Store(&dirs) }

// Declared tells whether a pointer of the host leads to dir.
func (w *Walker) Declared(dir string) bool {
	set := w.declared.Load()
	if set == nil {
		return false
	}
	_, ok := (*set)[dir]
	return ok
}

// Locate walks path. With live it asks the host at every step; else it may
// use what it remembers. With entry, path itself is looked at as a directory
// that Git might accept.
func (w *Walker) Locate(path string, live, entry bool) (Location, error) {
	var loc Location
	if w.gitdir {
		loc.Type = Full
	} else if path != "" || entry {
		look, err := w.look("", live)
		if err != nil {
			return Location{}, err
		}
		if look {
			loc.Type = Look
		}
	}
	for start := 0; start < len(path); {
		end := len(path)
		if i := strings.IndexByte(path[start:], '/'); i >= 0 {
			end = start + i
		}
		next, err := w.step(loc, path, start, end, live, entry)
		if err != nil {
			return Location{}, err
		}
		loc = next
		if loc.Type == Birth || loc.Type == Pointer {
			break
		}
		start = end + 1
	}
	loc.Inner = strings.TrimPrefix(path[len(loc.Gitdir):], "/")
	return loc, nil
}

// step adds the component path[start:end].
func (w *Walker) step(loc Location, path string, start, end int, live, entry bool) (Location, error) {
	name, full := path[start:end], path[:end]
	switch {
	case IsDotGit(name):
		kind, err := w.kind(full, live)
		switch {
		case err != nil:
			return Location{}, err
		case kind == Absent:
			return Location{Type: Birth, Gitdir: full}, nil
		case kind == Dir:
			return Location{Type: Full, Gitdir: full}, nil
		}
		return Location{Type: Pointer, Gitdir: full}, nil
	case w.Declared(full):
		return Location{Type: Full, Gitdir: full}, nil
	case loc.Type == Zone:
		return w.zone(loc, full, live)
	case loc.Type == Full || loc.Type == Look:
		switch inner := strings.TrimPrefix(full[len(loc.Gitdir):], "/"); {
		case inner == "modules" || inner == "worktrees":
			kind, err := w.kind(full, live)
			if err != nil {
				return Location{}, err
			}
			if kind == Absent {
				return Location{Type: Birth, Gitdir: full}, nil
			}
			return Location{Type: Zone, Gitdir: loc.Gitdir}, nil
		case loc.Type == Full && (inner == "objects" || strings.HasPrefix(inner, "objects/")):
			return loc, nil // nothing becomes a look-alike in there from inside
		}
	}
	if end == len(path) && !entry {
		return loc, nil
	}
	look, err := w.look(full, live)
	if err != nil {
		return Location{}, err
	}
	if look {
		return Location{Type: Look, Gitdir: full}, nil
	}
	return loc, nil
}

// zone adds a component below a gitdir's modules or worktrees. Names of modules
// may have slashes; a worktree's registration is a gitdir whatever it holds.
func (w *Walker) zone(loc Location, full string, live bool) (Location, error) {
	kind, err := w.kind(full, live)
	switch {
	case err != nil:
		return Location{}, err
	case kind == Absent:
		return Location{Type: Birth, Gitdir: full}, nil
	case kind != Dir:
		return loc, nil
	case strings.HasPrefix(strings.TrimPrefix(full[len(loc.Gitdir):], "/"), "worktrees/"):
		return Location{Type: Full, Gitdir: full, Worktree: true}, nil
	}
	look, err := w.look(full, live)
	switch {
	case err != nil:
		return Location{}, err
	case look:
		return Location{Type: Full, Gitdir: full}, nil
	}
	return loc, nil
}

// Kind is what the host has at path now.
func (w *Walker) Kind(path string) (Kind, error) { return w.kind(path, true) }

// CachedKind may be what the host had at path, as Locate without live.
func (w *Walker) CachedKind(path string) (Kind, error) { return w.kind(path, false) }

func (w *Walker) kind(path string, live bool) (Kind, error) {
	if path == "" {
		return Dir, nil
	}
	w.mu.RLock()
	kind, ok := w.kinds[path]
	gen := w.gen
	w.mu.RUnlock()
	if ok && !live {
		return kind, nil
	}
	kind, err := w.host.Lookup(Split(path))
	if err != nil {
		return Absent, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if gen == w.gen {
		if len(w.kinds) >= cacheLimit {
			clear(w.kinds)
		}
		w.kinds[strings.Clone(path)] = kind
	}
	return kind, nil
}

// look tells whether Git would accept dir for a gitdir, by existence of names.
func (w *Walker) look(dir string, live bool) (bool, error) {
	w.mu.RLock()
	look, ok := w.looks[dir]
	gen := w.gen
	w.mu.RUnlock()
	if ok && !live {
		return look, nil
	}
	look, err := complete(func(name string) (bool, error) {
		kind, err := w.host.Lookup(dir, name)
		return kind != Absent, err
	})
	if err != nil {
		return false, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if gen == w.gen {
		if len(w.looks) >= cacheLimit {
			clear(w.looks)
		}
		w.looks[strings.Clone(dir)] = look
	}
	return look, nil
}

// complete is Git's own test: HEAD, and commondir or objects and refs.
func complete(has func(name string) (bool, error)) (bool, error) {
	if ok, err := has("HEAD"); !ok || err != nil {
		return false, err
	}
	if ok, err := has("commondir"); ok || err != nil {
		return ok, err
	}
	if ok, err := has("objects"); !ok || err != nil {
		return false, err
	}
	return has("refs")
}

// Accepts tells whether Git would accept dir for a gitdir, now.
func (w *Walker) Accepts(dir string) (bool, error) { return w.look(dir, true) }

// Completes tells whether name, once made in dir, would make dir a gitdir in
// Git's eyes that it is not now.
func (w *Walker) Completes(dir, name string) (bool, error) {
	part := false
	for _, p := range [...]string{"head", "commondir", "objects", "refs"} {
		part = part || Folds(name, p)
	}
	if !part {
		return false, nil
	}
	if look, err := w.look(dir, true); look || err != nil {
		return false, err
	}
	return complete(func(p string) (bool, error) {
		if Folds(name, strings.ToLower(p)) {
			return true, nil
		}
		kind, err := w.host.Lookup(dir, p)
		return kind != Absent, err
	})
}

// Changed forgets what is known of one entry.
func (w *Walker) Changed(path string) {
	dir, _ := Split(path)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gen++
	delete(w.kinds, path)
	delete(w.looks, dir)
	delete(w.looks, path)
}

// Forget forgets what is known of dir and of all below.
func (w *Walker) Forget(dir string) {
	w.Changed(dir)
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.kinds, func(path string, _ Kind) bool { return Below(path, dir) })
	maps.DeleteFunc(w.looks, func(path string, _ bool) bool { return Below(path, dir) })
}

// Split is the directory and the name of path; the root is in itself, as "".
func Split(path string) (dir, name string) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", path
	}
	return path[:i], path[i+1:]
}

// Join is the path of name in dir.
func Join(dir, name string) string {
	switch {
	case dir == "":
		return name
	case name == "":
		return dir
	}
	return dir + "/" + name
}

// Below tells whether path is dir or lies below it.
func Below(path, dir string) bool {
	return dir == "" || strings.HasPrefix(path, dir) && (len(path) == len(dir) || path[len(dir)] == '/')
}
