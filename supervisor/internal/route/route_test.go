package route_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"lazaret.dev/lazaret/supervisor/internal/route"
)

func open(t fataler, h *host, o route.Options) *route.Router {
	o.Isolate = true
	r, err := route.Open(h, h, h, o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return r
}

type fataler interface {
	Fatalf(format string, args ...any)
}

// must fails on an error of an operation whose result is of no interest.
func must[T any](t fataler, _ T, err error) {
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// inside performs an inside operation on a watched path.
func inside(t fataler, r *route.Router, path string, op func()) {
	w, err := r.Begin(path)
	if err != nil {
		t.Fatalf("begin %q: %v", path, err)
	}
	op()
	_, err = w.End()
	must(t, 0, err)
}

func project(rules string) *host {
	h := newHost()
	h.repos[""] = newRepo()
	h.write(".gitignore", rules)
	h.write(".env", "secret")
	h.write("src/.env", "secret")
	h.write("src/main.go", "x")
	h.add("", ".gitignore")
	h.add("", "src/main.go")
	return h
}

func want(t *testing.T, r *route.Router, places map[string]route.Place) {
	t.Helper()
	for path, place := range places {
		name, isDir := strings.CutSuffix(path, "/")
		if got := r.Place(name, isDir); got != place {
			t.Errorf("%q is %d, want %d", path, got, place)
		}
	}
}

// TestExposure tries from inside to bring back what is ignored. SR-13.
func TestExposure(t *testing.T) {
	isolated := map[string]route.Place{".env": route.Isolated, "src/.env": route.Isolated, "src/main.go": route.Shared, ".gitignore": route.Shared}
	for name, attack := range map[string]func(h *host, r *route.Router){
		"edit":   func(h *host, r *route.Router) { inside(t, r, ".gitignore", func() { h.write(".gitignore", "") }) },
		"delete": func(h *host, r *route.Router) { inside(t, r, ".gitignore", func() { h.remove(".gitignore") }) },
		"rename": func(h *host, r *route.Router) {
			inside(t, r, ".gitignore", func() { h.move(".gitignore", "x") })
		},
		"negate": func(h *host, r *route.Router) {
			inside(t, r, "src/.gitignore", func() { h.write("src/.gitignore", "!.env\n") })
			inside(t, r, ".gitignore", func() { h.write(".gitignore", ".env\n!.env\n") })
		},
		"add -f": func(h *host, r *route.Router) {
			must(t, 0, r.Settle())
			h.repos[""].tracked[".env"] = tracked{mode: 0o100644}
			h.repos[""].tracked["src/.env"] = tracked{mode: 0o100644}
			_, err := r.RepositoryChanged("")
			must(t, 0, err)
		},
		"no .git": func(h *host, r *route.Router) {
			delete(h.repos, "")
			_, err := r.Changed(".git")
			must(t, 0, err)
		},
		"nested": func(h *host, r *route.Router) {
			h.repos["src"] = newRepo()
			_, err := r.Changed("src/.git")
			must(t, 0, err)
		},
		"commit and checkout": func(h *host, r *route.Router) {
			h.repos[""].blobs[blobName("relaxed\n")] = true
			h.write(".gitignore", "relaxed\n")
			_, err := r.Changed(".gitignore")
			must(t, 0, err)
		},
		"checkout with DOS line ends": func(h *host, r *route.Router) {
			h.repos[""].blobs[blobName("relaxed\n")] = true
			h.write(".gitignore", "relaxed\r\n")
			_, err := r.Changed(".gitignore")
			must(t, 0, err)
		},
		"checkout through a filter": func(h *host, r *route.Router) {
			h.write(".gitattributes", "*.png filter=lfs\n.gitignore filter=lfs\n")
			h.write(".gitignore", "smudged\n")
			_, err := r.Changed(".gitignore")
			must(t, 0, err)
		},
		"checkout through a macro": func(h *host, r *route.Router) {
			h.write(".gitattributes", "[attr]odd working-tree-encoding=UTF-16\n* odd\n")
			h.write(".gitignore", "smudged\n")
			_, err := r.Changed(".gitignore")
			must(t, 0, err)
		},
		"checkout that Git takes for clean": func(h *host, r *route.Router) {
			h.write(".gitignore", "smudged\n")
			h.repos[""].tracked[".gitignore"] = tracked{stamp: h.stamp[".gitignore"], size: len("smudged\n"), mode: 0o100644}
			_, err := r.Changed(".gitignore")
			must(t, 0, err)
		},
		"checkout that is not complete": func(h *host, r *route.Router) {
			h.repos[""].locked = true
			h.write(".gitignore", "smudged\n")
			_, err := r.Changed(".gitignore")
			must(t, 0, err)
			h.repos[""].locked = false
			h.repos[""].tracked[".gitignore"] = tracked{stamp: h.stamp[".gitignore"], size: len("smudged\n"), mode: 0o100644}
			_, err = r.RepositoryChanged("")
			must(t, 0, err)
		},
		"index rewritten behind a checkout": func(h *host, r *route.Router) {
			h.write(".gitignore", "smudged\n")
			h.repos[""].tracked[".gitignore"] = tracked{stamp: h.stamp[".gitignore"], size: len("smudged\n"), mode: 0o100644}
			must(t, 0, r.Settle())
			h.repos[""].tracked[".gitignore"] = tracked{mode: 0o100644}
			_, err := r.RepositoryChanged("")
			must(t, 0, err)
			_, err = r.Changed(".gitignore")
			must(t, 0, err)
		},
		"attributes removed behind a checkout": func(h *host, r *route.Router) {
			h.write(".gitattributes", ".gitignore filter=lfs\n")
			h.write(".gitignore", "smudged\n")
			inside(t, r, ".gitattributes", func() { h.remove(".gitattributes") })
			_, err := r.Changed(".gitignore")
			must(t, 0, err)
		},
		"removed on the host": func(h *host, r *route.Router) {
			h.remove(".gitignore")
			_, err := r.Changed(".gitignore")
			must(t, 0, err)
		},
		"echo of an open file": func(h *host, r *route.Router) {
			w, err := r.Begin(".gitignore")
			must(t, 0, err)
			h.write(".gitignore", "half\n")
			_, err = r.Changed(".gitignore")
			must(t, 0, err)
			h.write(".gitignore", "all\n")
			_, err = w.End()
			must(t, 0, err)
			_, err = r.Changed(".gitignore")
			must(t, 0, err)
		},
		"crash while open": func(h *host, r *route.Router) {
			_, err := r.Begin(".gitignore")
			must(t, 0, err)
			h.write(".gitignore", "half\n")
		},
		"hard link": func(h *host, r *route.Router) {
			must(t, 0, r.Linking(".gitignore"))
			h.files["alias"], h.ino["alias"] = h.files[".gitignore"], h.ino[".gitignore"]
			h.write(".gitignore", "linked\n") // through the other name
			h.remove("alias")
			_, err := r.Changed(".gitignore")
			must(t, 0, err)
		},
		"link that the host made": func(h *host, r *route.Router) {
			h.files["alias"], h.ino["alias"] = h.files[".gitignore"], h.ino[".gitignore"]
			h.write(".gitignore", "through the other name\n")
			_, err := r.Changed(".gitignore")
			must(t, 0, err)
			h.remove("alias")
		},
		"unmerged": func(h *host, r *route.Router) {
			h.write(".gitignore", "<<<<<<<\n")
			delete(h.repos[""].tracked, ".gitignore")
			h.repos[""].blobs[blobName("<<<<<<<\n")] = true
			_, err := r.Changed(".gitignore")
			must(t, 0, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := project(".env\n")
			r := open(t, h, route.Options{})
			want(t, r, isolated)
			attack(h, r)
			want(t, r, isolated)
			// In a later generation too.
			r = open(t, h, route.Options{})
			want(t, r, isolated)
			// A hand edit that builds on what the sandbox left does not expose it.
			h.write(".gitignore", "by hand\n")
			_, err := r.Changed(".gitignore")
			must(t, 0, err)
			if name != "add -f" && name != "nested" && name != "no .git" {
				want(t, r, isolated)
			}
			if name != "nested" && name != "no .git" {
				if name != "add -f" && len(r.Relaxed()) == 0 {
					t.Error("nothing is on record")
				}
				must(t, 0, accept(r))
				want(t, r, map[string]route.Place{".env": route.Shared, "src/.env": route.Shared})
			}
		})
	}
}

// TestRenamedParent: what is isolated below a directory stays so below its new
// name, and later ones.
func TestRenamedParent(t *testing.T) {
	h := project("/src/.env\n/src/out/\n")
	h.write("src/out/a", "secret")
	r := open(t, h, route.Options{})
	for _, step := range [][2]string{{"src", "lib"}, {"lib", "x"}} {
		m, err := r.Renaming(step[0], step[1])
		must(t, 0, err)
		h.move(step[0], step[1])
		_, err = m.Done(true)
		must(t, 0, err)
		for range 2 {
			want(t, r, map[string]route.Place{
				step[1] + "/.env": route.Isolated, step[1] + "/out/": route.Isolated, step[1] + "/out/a": route.Isolated,
				step[1] + "/main.go": route.Shared, step[1] + "/": route.Shared, "src/.env": route.Isolated,
			})
			r = open(t, h, route.Options{})
		}
	}
	// What is on record need not be there.
	h.remove("x/.env")
	m, err := r.Renaming("x", "z")
	must(t, 0, err)
	h.move("x", "z")
	must(t, 0, second(m.Done(true)))
	want(t, r, map[string]route.Place{"z/.env": route.Isolated})
	h.move("z", "x")
	must(t, 0, second(r.Changed("")))
	m, err = r.Renaming("x", "y")
	must(t, 0, err)
	_, err = m.Done(false)
	must(t, 0, err)
	want(t, r, map[string]route.Place{"y/.env": route.Shared, "x/.env": route.Isolated})
}

// TestRulesGoAlong: a directory keeps its own rules under another name, and
// what it has tracked.
func TestRulesGoAlong(t *testing.T) {
	h := project("*.s\n")
	h.write("b/.gitignore", "!a.s\n")
	h.write("b/a.s", "x")
	h.write("b/t.s", "x")
	h.add("", "b/t.s")
	r := open(t, h, route.Options{})
	m, err := r.Renaming("b", "c")
	must(t, 0, err)
	h.move("b", "c")
	must(t, 0, second(m.Done(true)))
	h.add("", "c/t.s")
	delete(h.repos[""].tracked, "b/t.s")
	must(t, 0, second(r.RepositoryChanged("")))
	for range 2 {
		want(t, r, map[string]route.Place{"c/a.s": route.Shared, "c/b.s": route.Isolated, "c/t.s": route.Shared, "b/t.s": route.Isolated})
		r = open(t, h, route.Options{})
	}
}

// TestHandEdit: the developer's own edit counts at once.
func TestHandEdit(t *testing.T) {
	h := project(".env\n*.log\n")
	h.write("a.log", "x")
	h.write(".gitattributes", "*.png filter=lfs\n* text=auto\n")
	r := open(t, h, route.Options{})
	edit := func(text string) []string {
		h.write(".gitignore", text)
		affected, err := r.Changed(".gitignore")
		must(t, 0, err)
		return affected
	}
	if a := edit("*.log\n"); !slices.Equal(a, []string{""}) {
		t.Errorf("affected: %q", a)
	}
	want(t, r, map[string]route.Place{".env": route.Shared, "a.log": route.Isolated})
	edit("")
	want(t, r, map[string]route.Place{".env": route.Shared, "a.log": route.Shared})
	edit("src/\n")
	want(t, r, map[string]route.Place{".env": route.Shared, "src/.env": route.Isolated, "src/main.go": route.Shared, "src/": route.Union})
	// While Git is at work it counts as soon as that shows to be something else.
	h.repos[""].locked = true
	edit("docs/\n")
	want(t, r, map[string]route.Place{"src/.env": route.Isolated, "docs/": route.Isolated})
	h.repos[""].locked = false
	_, err := r.RepositoryChanged("")
	must(t, 0, err)
	want(t, r, map[string]route.Place{"src/.env": route.Shared, "docs/": route.Isolated})
	h.repos[""].exclude = "a.log\n"
	_, err = r.RepositoryChanged("")
	must(t, 0, err)
	want(t, r, map[string]route.Place{"a.log": route.Isolated})
	h.repos[""].exclude = "b.log\n"
	_, err = r.RepositoryChanged("")
	must(t, 0, err)
	want(t, r, map[string]route.Place{"a.log": route.Shared, "b.log": route.Isolated})
	if list := r.Relaxed(); len(list) > 0 {
		t.Errorf("on record: %+v", list)
	}
	if a := edit("docs/\n"); a != nil {
		t.Errorf("nothing has changed, affected: %q", a)
	}
}

// TestTracked: what is tracked stays shared in an ignored directory, until it
// no longer is. [git] case 5.
func TestTracked(t *testing.T) {
	h := project("dist/\n")
	h.write("dist/README", "x")
	h.write("dist/a/b", "x")
	h.write("dist/out.js", "x")
	h.add("", "dist/README")
	h.add("", "dist/a/b")
	open(t, h, route.Options{}).Close()
	r := open(t, h, route.Options{})
	want(t, r, map[string]route.Place{
		"dist/": route.Union, "dist/README": route.Shared, "dist/a/": route.Union, "dist/a/b": route.Shared, "dist/out.js": route.Isolated, "dist/new": route.Isolated,
	})
	delete(h.repos[""].tracked, "dist/README")
	affected, err := r.RepositoryChanged("")
	must(t, 0, err)
	if !slices.Equal(affected, []string{"dist"}) {
		t.Errorf("affected: %q", affected)
	}
	want(t, r, map[string]route.Place{"dist/": route.Union, "dist/README": route.Isolated, "dist/a/b": route.Shared})
	h.add("", "dist/README")
	_, err = r.RepositoryChanged("")
	must(t, 0, err)
	want(t, r, map[string]route.Place{"dist/README": route.Isolated})
	// New rules hide no tracked file.
	inside(t, r, ".gitignore", func() { h.write(".gitignore", "dist/\nsrc/\n") })
	want(t, r, map[string]route.Place{"src/": route.Union, "src/main.go": route.Shared, "src/.env": route.Isolated})
}

// TestOptions: expose, no isolation, and a repository above the workspace.
func TestOptions(t *testing.T) {
	h := project(".env\nout/\n")
	r := open(t, h, route.Options{Expose: []string{".env", "out/a/b", "src/main.go"}})
	want(t, r, map[string]route.Place{
		".env": route.Exposed, "src/.env": route.Isolated, "out/": route.Union, "out/a/": route.Union, "out/a/b": route.Exposed, "out/a/b/c": route.Exposed,
		"out/a/c": route.Isolated, "src/main.go": route.Shared,
	})
	all, err := route.Open(h, h, h, route.Options{})
	must(t, 0, err)
	want(t, all, map[string]route.Place{".env": route.Shared, "out/": route.Shared})

	h = newHost()
	h.write("x/.env", "")
	outer := newRepo()
	outer.exclude = "/pkg/app/private\n"
	outer.tracked["pkg/app/x/kept.env"] = tracked{mode: 0o100644}
	o := route.Options{
		Outer: &route.Repo{GitDir: outer, Common: outer, Objects: objects{outer}, HashSize: 20}, Prefix: "pkg/app",
		Above: []route.Above{{Dir: "", Text: []byte("*.env\n")}, {Dir: "pkg", Text: []byte("/app/top\n")}}, Excludes: []byte("*.swp\n"),
	}
	r = open(t, h, o)
	want(t, r, map[string]route.Place{
		"x/.env": route.Isolated, "x/kept.env": route.Shared, "top": route.Isolated, "x/top": route.Shared, "private": route.Isolated, "x/.a.swp": route.Isolated, "x/": route.Shared,
	})
	h.record = nil
	o.Above = append(o.Above, route.Above{Dir: "pkg", Text: []byte("app/\n")})
	r = open(t, h, o)
	want(t, r, map[string]route.Place{"x/.env": route.Shared})
}

// TestUnreadable: what cannot be read or is too large isolates.
func TestUnreadable(t *testing.T) {
	h := project("nothing\n")
	h.write("big/.gitignore", strings.Repeat("#\n", 1<<20))
	h.write("big/x", "")
	r := open(t, h, route.Options{})
	want(t, r, map[string]route.Place{"big/x": route.Isolated, ".env": route.Shared})
	h.record = []byte("{")
	if _, err := route.Open(h, h, h, route.Options{}); err == nil {
		t.Error("a record that is damaged is no error")
	}
}

// TestManyTexts: the record stays bounded, and what it forgets it takes for
// ignored.
func TestManyTexts(t *testing.T) {
	h := project("first\n")
	r := open(t, h, route.Options{})
	for i := range 200 {
		inside(t, r, ".gitignore", func() { h.write(".gitignore", fmt.Sprintf("n%d\n!x%d\n", i, i)) })
	}
	for i := range 200 {
		want(t, r, map[string]route.Place{fmt.Sprintf("n%d", i): route.Isolated})
	}
	want(t, r, map[string]route.Place{"first": route.Isolated, "other": route.Shared})
	if len(h.record) > 1<<15 {
		t.Errorf("the record has %d bytes", len(h.record))
	}
}
