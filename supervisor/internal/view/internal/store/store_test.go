package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/view/internal/fdcache"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/object"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/store"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/tree"
)

// world is a store on disk, with the nodes d, d/f and d/g.
type world struct {
	t       *testing.T
	dir     string
	s       *store.Stores
	d, f, g *tree.Node
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	w.do(os.Mkdir(w.at("d"), 0o755), os.WriteFile(w.at("d/f"), []byte("mine"), 0o644), os.WriteFile(w.at("d/g"), nil, 0o644))
	fd, err := unix.Open(w.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	w.do(err)
	info, err := object.StatFD(fd)
	w.do(err)
	tr, cache := tree.New(store.Host, &info), fdcache.New(100, 10)
	roots := [tree.Stores]store.Root{store.Host: {FD: fd}, store.Domain: {FD: -1}, store.Private: {FD: -1}, store.Transient: {FD: -1}}
	w.s = store.New(tr, cache, roots, time.Hour)
	t.Cleanup(func() {
		w.s.Close()
		cache.Close()
		_ = unix.Close(fd)
	})
	w.d = w.enter(tr.Get(tree.Root), "d")
	w.f, w.g = w.enter(w.d, "f"), w.enter(w.d, "g")
	return w
}

func (w *world) at(name string) string { return filepath.Join(w.dir, name) }

func (w *world) do(errs ...error) {
	w.t.Helper()
	if err := errors.Join(errs...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) enter(parent *tree.Node, name string) *tree.Node {
	w.t.Helper()
	path, ok := w.s.Tree.Path(parent)
	if !ok {
		w.t.Fatal("no path")
	}
	dir, err := unix.Open(filepath.Join(w.dir, path), unix.O_PATH, 0)
	w.do(err)
	defer func() { _ = unix.Close(dir) }()
	info, err := object.Stat(dir, name)
	w.do(err)
	return w.s.Tree.Enter(parent, name, store.Host, &info)
}

// reach tries everything by which an object is reached.
func (w *world) reach(n *tree.Node) map[string]error {
	out := map[string]error{}
	_, out["stat"] = w.s.Stat(n)
	for name, f := range map[string]func() (*fdcache.Desc, error){
		"path": func() (*fdcache.Desc, error) { return w.s.Path(n) },
		"read": func() (*fdcache.Desc, error) { return w.s.Content(n, false) },
	} {
		if name == "read" && n.Dir != nil {
			continue
		}
		d, err := f()
		if err == nil {
			w.s.Release(d)
		}
		out[name] = err
	}
	return out
}

func (w *world) want(what string, n *tree.Node, want error) {
	w.t.Helper()
	for how, err := range w.reach(n) {
		if !errors.Is(err, want) {
			w.t.Errorf("%s: %s: %v, want %v", what, how, err, want)
		}
	}
	w.s.Drop(n)
}

// Nothing but the very object is reached, whatever has its name by now, and no
// link is followed.
func TestIdentity(t *testing.T) {
	for what, replace := range map[string]func(w *world){
		"a file replaced": func(w *world) {
			w.do(os.WriteFile(w.at("new"), []byte("other"), 0o644), os.Rename(w.at("new"), w.at("d/f")))
		},
		"a file replaced by a link": func(w *world) {
			w.do(os.Rename(w.at("d/f"), w.at("f")), os.Symlink("../f", w.at("d/f")))
		},
		"its directory replaced": func(w *world) {
			w.do(os.Rename(w.at("d"), w.at("e")), os.Mkdir(w.at("d"), 0o755), os.WriteFile(w.at("d/f"), nil, 0o644))
		},
		"its directory replaced by a link to it": func(w *world) {
			w.do(os.Rename(w.at("d"), w.at("e")), os.Symlink("e", w.at("d")))
		},
		"its directory removed": func(w *world) { w.do(os.Rename(w.at("d"), w.at("e"))) },
	} {
		w := newWorld(t)
		w.want(what+", before", w.f, nil)
		w.s.Drop(w.d)
		replace(w)
		w.want(what, w.f, unix.ESTALE)
	}
}

// A file is found by any of its names, and a special one is never opened.
func TestNames(t *testing.T) {
	w := newWorld(t)
	w.do(os.Link(w.at("d/f"), w.at("other")))
	if n := w.enter(w.s.Tree.Get(tree.Root), "other"); n != w.f {
		t.Error("the other name is another node")
	}
	w.do(os.Remove(w.at("d/f")))
	w.want("one name gone", w.f, nil)
	w.do(os.Remove(w.at("d/g")), unix.Mkfifo(w.at("d/fifo"), 0o666))
	if _, err := w.s.Content(w.enter(w.d, "fifo"), false); !errors.Is(err, unix.EACCES) {
		t.Errorf("a FIFO opens: %v", err)
	}
}

// What is kept is reached without a name, and a copy replaces at once.
func TestKeepAndCopy(t *testing.T) {
	w := newWorld(t)
	w.s.Keep(w.f)
	w.do(os.Remove(w.at("d/f")))
	w.s.Tree.Remove(w.d, "f", true)
	for how, err := range w.reach(w.f) {
		if err != nil {
			t.Errorf("kept: %s: %v", how, err)
		}
	}
	d, err := w.s.Path(w.f)
	w.do(err)
	defer w.s.Release(d)
	dir, err := w.s.Dir(w.d, store.Host)
	w.do(err)
	defer w.s.Release(dir)
	w.do(store.Copy(d.FD, dir.FD, "g"))
	if b, err := os.ReadFile(w.at("d/g")); err != nil || string(b) != "mine" {
		t.Errorf("the copy holds %q, %v", b, err)
	}
	if entries, err := os.ReadDir(w.at("d")); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

// Descriptors for writing are closed soon, and whoever waits for that is told.
func TestLinger(t *testing.T) {
	w := newWorld(t)
	s := store.New(w.s.Tree, w.s.Cache, [tree.Stores]store.Root{}, time.Millisecond)
	defer s.Close()
	d, err := w.s.Content(w.f, true)
	w.do(err)
	fd := d.FD
	w.s.Release(d)
	told := make(chan bool)
	refused := false
	s.WhenIdle(&w.f.Write, func() bool {
		if !refused {
			refused = true
			return false
		}
		s.NoLonger(&w.f.Write)
		close(told)
		return true
	})
	<-told
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
		t.Error("it is still open")
	}
	if s.Waits(&w.f.Write) {
		t.Error("it still waits")
	}
}
