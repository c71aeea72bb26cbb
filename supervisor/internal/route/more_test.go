package route_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"lazaret.dev/lazaret/supervisor/internal/route"
)

// TestExchange: what is isolated stays so when two directories change places.
func TestExchange(t *testing.T) {
	h := project("/src/.env\n/lib/key\n")
	h.write("lib/key", "secret")
	h.write("lib/.env", "shared")
	h.write("src/key", "shared")
	h.write("src/.gitignore", "*.tmp\n")
	r := open(t, h, route.Options{})
	there, err := r.Renaming("src", "lib")
	must(t, 0, err)
	back, err := r.Renaming("lib", "src")
	must(t, 0, err)
	h.move("src", "tmp")
	h.move("lib", "src")
	h.move("tmp", "lib")
	must(t, 0, second(there.Done(true)))
	must(t, 0, second(back.Done(true)))
	for range 2 {
		want(t, r, map[string]route.Place{
			"lib/.env": route.Isolated, "src/key": route.Isolated, "lib/main.go": route.Shared, "lib/x.tmp": route.Isolated, "src/x.tmp": route.Isolated,
		})
		r = open(t, h, route.Options{})
	}
}

// TestWatches: rule files, by name or by another name.
func TestWatches(t *testing.T) {
	h := project(".env\n")
	h.files["alias"], h.ino["alias"] = h.files[".gitignore"], h.ino[".gitignore"]
	r := open(t, h, route.Options{ExcludesPath: "etc/ignore"})
	for path, want := range map[string]bool{
		".gitignore": true, "a/b/.gitignore": true, ".gitattributes": true, "etc/ignore": true, "alias": true, "src/main.go": false, ".GITIGNORE": false, "gitignore": false,
	} {
		e, _ := h.Lstat(path)
		if got := r.Watches(path, e); got != want {
			t.Errorf("%q is watched: %v", path, got)
		}
	}
	inside(t, r, "alias", func() {
		h.write("alias", "")
		h.write(".gitignore", "")
	})
	want(t, r, map[string]route.Place{".env": route.Isolated})
	folds := open(t, h, route.Options{IgnoreCase: true})
	if !folds.Watches("a/.GitIgnore", route.Entry{}) {
		t.Error("where case is ignored, .GitIgnore is no ignore file")
	}
}

// TestIsolatedRules: ignore files that are the Domain's own, as a package
// manager unpacks them by the thousand, are no business of the record.
func TestIsolatedRules(t *testing.T) {
	h := project("node_modules/\n")
	r := open(t, h, route.Options{})
	saves := h.saves
	for i := range 100 {
		inside(t, r, fmt.Sprintf("node_modules/p%d/.gitignore", i), func() {})
	}
	if h.saves != saves {
		t.Errorf("the record was saved %d times", h.saves-saves)
	}
}

// TestExcludesFile: core.excludesFile in the workspace is a rule file for
// every repository.
func TestExcludesFile(t *testing.T) {
	h := project("nothing\n")
	h.write("etc/ignore", ".env\n")
	r := open(t, h, route.Options{ExcludesPath: "etc/ignore"})
	want(t, r, map[string]route.Place{".env": route.Isolated, "src/.env": route.Isolated})
	inside(t, r, "etc/ignore", func() { h.remove("etc/ignore") })
	want(t, r, map[string]route.Place{".env": route.Isolated, "src/.env": route.Isolated})
	r = open(t, h, route.Options{ExcludesPath: "etc/ignore"})
	want(t, r, map[string]route.Place{".env": route.Isolated})
}

// failing is a record that cannot be saved.
type failing struct{ *host }

var errDisk = errors.New("no space")

func (failing) Save([]byte) error { return errDisk }

// TestRecordFails: what cannot be recorded is refused.
func TestRecordFails(t *testing.T) {
	h := project("/src/.env\n")
	open(t, h, route.Options{}).Close()
	if _, err := route.Open(h, h, failing{h}, route.Options{Isolate: true}); !errors.Is(err, errDisk) {
		t.Errorf("open: %v", err)
	}
	late := &failLater{host: h}
	r, err := route.Open(h, h, late, route.Options{Isolate: true})
	must(t, 0, err)
	late.fail = true
	if _, err := r.Begin(".gitignore"); !errors.Is(err, errDisk) {
		t.Errorf("begin: %v", err)
	}
	if _, err := r.Renaming("src", "lib"); !errors.Is(err, errDisk) {
		t.Errorf("rename: %v", err)
	}
	if err := r.Linking(".gitignore"); !errors.Is(err, errDisk) {
		t.Errorf("link: %v", err)
	}
}

type failLater struct {
	*host
	fail bool
}

func (f *failLater) Save(b []byte) error {
	if f.fail {
		return errDisk
	}
	return f.host.Save(b)
}

// TestSparse: where the ignore file is in the index alone, everything below is
// isolated until it is there.
func TestSparse(t *testing.T) {
	h := project("nothing\n")
	h.repos[""].tracked["out/.gitignore"] = tracked{mode: 0o100644, skip: true}
	h.write("out/x", "")
	r := open(t, h, route.Options{})
	want(t, r, map[string]route.Place{"out/x": route.Isolated, "out/": route.Shared, "src/.env": route.Shared})
	inside(t, r, "out/.gitignore", func() {
		h.write("out/.gitignore", "y\n")
		h.add("", "out/.gitignore")
	})
	must(t, 0, second(r.RepositoryChanged("")))
	want(t, r, map[string]route.Place{"out/x": route.Shared, "out/y": route.Isolated})
}

// TestConcurrent asks while rules change. It is for the race detector.
func TestConcurrent(t *testing.T) {
	h := project(".env\n")
	r := open(t, h, route.Options{})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := range 500 {
				if p := r.Place(fmt.Sprintf("d%d/e%d/.env", i, n%50), false); p != route.Isolated {
					t.Errorf("it is %d", p)
				}
			}
		})
	}
	for range 50 {
		must(t, 0, second(r.Changed("")))
		must(t, 0, second(r.RepositoryChanged("")))
		r.Relaxed()
	}
	wg.Wait()
}
