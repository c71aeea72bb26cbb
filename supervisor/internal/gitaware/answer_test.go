package gitaware_test

import (
	"bytes"
	"strings"
	"testing"

	"lazaret.dev/lazaret/protocol/findings"
	"lazaret.dev/lazaret/protocol/isolation"
	"lazaret.dev/lazaret/supervisor/internal/view/viewtest"
)

// What nobody has reviewed is not accepted: neither without a review, nor after
// the sandbox has changed something since. SR-13.
func TestAcceptWantsTheReview(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	w := newWorld(t, nil, func(w *world) {
		w.write(w.host(".gitignore"), "one\ntwo\n")
		w.write(w.host("one"), "secret")
		w.write(w.host("two"), "secret")
	})
	ask := func(r isolation.Request) isolation.Answer { return w.aware.Answer(t.Context(), r) }
	hidden := func(name string, want bool) {
		t.Helper()
		if _, err := w.run(w.Mount, "cat", name); (err != nil) != want {
			t.Errorf("%s is hidden: %v, want %v", name, err != nil, want)
		}
	}
	w.write(w.in(".gitignore"), "two\n")
	seen := ask(isolation.Request{Verb: isolation.Review})
	if seen.Error != "" || len(seen.Shared) != 1 || string(seen.Shared[0]) != "one" {
		t.Fatalf("%+v", seen)
	}
	w.write(w.in(".gitignore"), "")
	for name, digest := range map[string][]byte{"none": nil, "the one before": seen.Digest, "another": bytes.Repeat([]byte{1}, 32)} {
		if a := ask(isolation.Request{Verb: isolation.Accept, Reviewed: digest}); a.Error == "" || a.Hint == "" {
			t.Errorf("digest %s: %+v", name, a)
		}
		hidden("one", true)
		hidden("two", true)
	}
	seen = ask(isolation.Request{Verb: isolation.Review})
	if a := ask(isolation.Request{Verb: isolation.Accept, Reviewed: seen.Digest}); a.Error != "" {
		t.Fatalf("%+v", a)
	}
	w.View.Reroute()
	if a := ask(isolation.Request{Verb: isolation.Review}); len(a.Shared)+len(a.Relaxed)+a.More != 0 {
		t.Errorf("after it was accepted: %+v", a)
	}
}

// The listing shows the Domain's own paths, wherever they lie.
func TestListOwn(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	w := newWorld(t, nil, func(w *world) { w.write(w.host(".gitignore"), "out/\n*.o\n") })
	w.write(w.in("out/deep/a"), "x")
	w.write(w.in("lib/b.o"), "x")
	w.write(w.in("lib/b.c"), "x")
	a := w.aware.Answer(t.Context(), isolation.Request{Verb: isolation.List})
	got := map[string]bool{}
	for _, e := range a.Own {
		got[string(e.Path)] = e.Dir
		if e.Unused {
			t.Errorf("%q is not used", e.Path)
		}
	}
	if dir, ok := got["out"]; len(got) != 2 || !ok || !dir || a.Error != "" {
		t.Errorf("%+v", a)
	}
	if dir, ok := got["lib/b.o"]; !ok || dir {
		t.Errorf("%+v", a)
	}
}

// Files that tools run by themselves are found under the name that they have in
// the end, isolated and removed ones are not, and neither are the host's own.
func TestFindings(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	w := newWorld(t, nil, func(w *world) {
		w.write(w.host(".gitignore"), "out/\n")
		w.write(w.host("host/.envrc"), "host's")
	})
	w.aware.Remembered()
	w.write(w.in("new/.envrc"), "x")
	w.write(w.in("gone/.envrc"), "x")
	w.write(w.in("out/.envrc"), "x")
	w.write(w.in("host/.envrc"), "inside")
	w.write(w.in("late/.envrc"), "x")
	w.write(w.in(".gitignore"), "out/\nlate/\n")
	for _, args := range [][]string{{"mv", "new", "newer"}, {"rm", "-r", "gone"}, {"mkdir", "x"}, {"touch", "x/tasks.json"}, {"mv", "x", ".vscode"}} {
		if out, err := w.run(w.Mount, args[0], args[1:]...); err != nil {
			t.Fatalf("%q: %v %s", args, err, out)
		}
	}
	r, err := w.aware.Findings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range r.Findings {
		if f.Kind == findings.Autorun {
			got = append(got, string(f.Path)+": "+string(f.Note))
		}
	}
	if want := ".vscode: Visual Studio Code host/.envrc: direnv late/.envrc: direnv newer/.envrc: direnv"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := w.aware.Findings(t.Context()); err == nil {
		t.Error("it answers twice")
	}
}
