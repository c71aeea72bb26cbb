package gitdir_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"lazaret.dev/lazaret/supervisor/internal/sentry/gitdir"
	"lazaret.dev/lazaret/supervisor/internal/sentry/gitdirtest"
)

func TestIsDotGit(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		".git", ".GIT", ".Git", ".git.", ".git...", ".git ", ".git . .", ".git::$INDEX_ALLOCATION", ".git:x", ".git\\x",
		"git~1", "GIT~1", "git~1.", ".g\u200cit", "\u200d.git", ".git\ufeff", ".\u202egit", ".gi\u2060t", ".git\u00ad", ".git\u206a. ",
		".git\ufe0f", ".git. :x",
	} {
		if !gitdir.IsDotGit(name) {
			t.Errorf("IsDotGit(%q) is false", name)
		}
	}
	for _, name := range []string{
		"", "git", ".gi", ".gitx", ".gitignore", ".git-x", "x.git", "git~2", "git~11", "..git", ".gít", ".git\xff", "\xe2.git", ".git.x", ".git x", ".github",
	} {
		if gitdir.IsDotGit(name) {
			t.Errorf("IsDotGit(%q) is true", name)
		}
	}
}

func TestFolds(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"HEAD": "head", "Objectſ": "objects", "hooKs": "hooks", "config.": "config", "refs:$DATA": "refs"} {
		if !gitdir.Folds(name, want) {
			t.Errorf("%q does not fold to %q", name, want)
		}
	}
	for name, want := range map[string]string{"HEADS": "head", "confi": "config", "config.x": "config", "config.worktree": "config"} {
		if gitdir.Folds(name, want) {
			t.Errorf("%q folds to %q", name, want)
		}
	}
}

// TestFoldsAliases: whatever is put into a name that file systems drop, and
// whatever case its letters have, the name is found.
func TestFoldsAliases(t *testing.T) {
	t.Parallel()
	ignored := []string{"\u200b"[:0], "\u200c", "\u200d", "\u200e", "\u200f", "\u202a", "\u202e", "\u206a", "\u206f", "\ufeff", "\u00ad", "\u180e"}
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SampledFrom([]string{".git", "git~1", "config", "objects", "head"}).Draw(t, "name")
		var b strings.Builder
		for _, r := range want {
			b.WriteString(rapid.SampledFrom(ignored).Draw(t, "ignored"))
			if rapid.Bool().Draw(t, "upper") {
				r = []rune(strings.ToUpper(string(r)))[0]
			}
			b.WriteRune(r)
		}
		b.WriteString(rapid.SampledFrom([]string{"", ".", " ", ". .", ":", ":x", ".:y", "\u200c. "}).Draw(t, "tail"))
		if name := b.String(); !gitdir.Folds(name, want) {
			t.Fatalf("%q does not fold to %q", name, want)
		}
	})
}

func FuzzIsDotGit(f *testing.F) {
	f.Add(".git")
	f.Add(".g\u200cit. ")
	f.Fuzz(func(t *testing.T, name string) {
		if strings.EqualFold(name, ".git") && !gitdir.IsDotGit(name) {
			t.Errorf("%q is not found", name)
		}
		if gitdir.IsDotGit(name) && !gitdir.IsDotGit(name+".") && !strings.ContainsAny(name, ":\\") {
			t.Errorf("%q is found, with a dot it is not", name)
		}
	})
}

func TestLocate(t *testing.T) {
	t.Parallel()
	tree := gitdirtest.New(
		".git/HEAD", ".git/objects/", ".git/refs/heads/", ".git/config",
		".git/modules/a/HEAD", ".git/modules/a/objects/", ".git/modules/a/refs/",
		".git/modules/a/modules/b/HEAD", ".git/modules/a/modules/b/objects/", ".git/modules/a/modules/b/refs/",
		".git/modules/with/slash/HEAD", ".git/modules/with/slash/commondir",
		".git/modules/hooks/HEAD", ".git/modules/hooks/objects/", ".git/modules/hooks/refs/",
		".git/worktrees/wt/gitdir",
		"sub/.git", "link/.git -> ../store", "bare/HEAD", "bare/objects", "bare/refs -> x", "min/HEAD -> y", "min/commondir",
		"half/HEAD", "half/objects/", "fifo/.git | fifo", "declared/x",
	)
	w := gitdir.NewWalker(tree, false, "")
	w.Declare(map[string]struct{}{"declared": {}})
	for _, tc := range []struct {
		path string
		want gitdir.Location
	}{
		{"", gitdir.Location{}},
		{"a/b", gitdir.Location{Inner: "a/b"}},
		{".git", gitdir.Location{Type: gitdir.Full, Gitdir: ".git"}},
		{".git/refs/heads/x", gitdir.Location{Type: gitdir.Full, Gitdir: ".git", Inner: "refs/heads/x"}},
		{".git/refs/.git/HEAD", gitdir.Location{Type: gitdir.Birth, Gitdir: ".git/refs/.git", Inner: "HEAD"}},
		{".GIT/config", gitdir.Location{Type: gitdir.Birth, Gitdir: ".GIT", Inner: "config"}},
		{"x/git~1", gitdir.Location{Type: gitdir.Birth, Gitdir: "x/git~1"}},
		{"sub/.git", gitdir.Location{Type: gitdir.Pointer, Gitdir: "sub/.git"}},
		{"link/.git/x", gitdir.Location{Type: gitdir.Pointer, Gitdir: "link/.git", Inner: "x"}},
		{"fifo/.git", gitdir.Location{Type: gitdir.Pointer, Gitdir: "fifo/.git"}},
		{".git/modules", gitdir.Location{Type: gitdir.Zone, Gitdir: ".git", Inner: "modules"}},
		{".git/modules/a/config", gitdir.Location{Type: gitdir.Full, Gitdir: ".git/modules/a", Inner: "config"}},
		{".git/modules/a/modules/b/index", gitdir.Location{Type: gitdir.Full, Gitdir: ".git/modules/a/modules/b", Inner: "index"}},
		{".git/modules/with", gitdir.Location{Type: gitdir.Zone, Gitdir: ".git", Inner: "modules/with"}},
		{".git/modules/with/slash/hooks/x", gitdir.Location{Type: gitdir.Full, Gitdir: ".git/modules/with/slash", Inner: "hooks/x"}},
		{".git/modules/with/new", gitdir.Location{Type: gitdir.Birth, Gitdir: ".git/modules/with/new"}},
		{".git/modules/hooks/HEAD", gitdir.Location{Type: gitdir.Full, Gitdir: ".git/modules/hooks", Inner: "HEAD"}},
		{".git/modules/new/config", gitdir.Location{Type: gitdir.Birth, Gitdir: ".git/modules/new", Inner: "config"}},
		{".git/worktrees/wt/HEAD", gitdir.Location{Type: gitdir.Full, Gitdir: ".git/worktrees/wt", Inner: "HEAD", Worktree: true}},
		{".git/worktrees/evil/HEAD", gitdir.Location{Type: gitdir.Birth, Gitdir: ".git/worktrees/evil", Inner: "HEAD"}},
		{"bare", gitdir.Location{Type: gitdir.Look, Gitdir: "bare"}},
		{"bare/config", gitdir.Location{Type: gitdir.Look, Gitdir: "bare", Inner: "config"}},
		{"bare/worktrees/x", gitdir.Location{Type: gitdir.Birth, Gitdir: "bare/worktrees"}},
		{"min/config", gitdir.Location{Type: gitdir.Look, Gitdir: "min", Inner: "config"}},
		{"half/config", gitdir.Location{Inner: "half/config"}},
		{"declared/config", gitdir.Location{Type: gitdir.Full, Gitdir: "declared", Inner: "config"}},
	} {
		if tc.path == "bare/worktrees/x" {
			tc.want.Inner = "x"
		}
		for _, live := range []bool{true, false} {
			got, err := w.Locate(tc.path, live, true)
			if err != nil || got != tc.want {
				t.Errorf("Locate(%q, %v) = %+v, %v, want %+v", tc.path, live, got, err, tc.want)
			}
		}
	}
}

func TestLocateRoots(t *testing.T) {
	t.Parallel()
	bare := gitdirtest.New("HEAD", "objects/", "refs/", "config", "worktrees/main/gitdir", "main/.git", "main/a")
	w := gitdir.NewWalker(bare, false, "")
	for path, want := range map[string]gitdir.Location{
		"":                     {Type: gitdir.Look},
		"config":               {Type: gitdir.Look, Inner: "config"},
		"main/a":               {Type: gitdir.Look, Inner: "main/a"},
		"main/.git":            {Type: gitdir.Pointer, Gitdir: "main/.git"},
		"worktrees/main/index": {Type: gitdir.Full, Gitdir: "worktrees/main", Inner: "index", Worktree: true},
	} {
		if got, err := w.Locate(path, true, true); err != nil || got != want {
			t.Errorf("bare root: Locate(%q) = %+v, %v, want %+v", path, got, err, want)
		}
	}
	common := gitdir.NewWalker(gitdirtest.New("HEAD"), true, "")
	if got, _ := common.Locate("config", true, true); got.Type != gitdir.Full || got.Inner != "config" {
		t.Errorf("a root that is a gitdir: %+v", got)
	}
}

// TestLocateFailsClosed: what cannot be looked up is an error, never a "no".
func TestLocateFailsClosed(t *testing.T) {
	t.Parallel()
	for _, fail := range []string{"d/HEAD", "d/.git", "d/e/HEAD", "HEAD"} {
		tree := gitdirtest.New("d/e/")
		tree.Fail(fail, syscall.EIO)
		w := gitdir.NewWalker(tree, false, "")
		path := "d/e/f"
		if strings.HasSuffix(fail, ".git") {
			path = "d/.git/f"
		}
		for range 2 {
			if _, err := w.Locate(path, false, true); !errors.Is(err, syscall.EIO) {
				t.Errorf("Locate(%q) with a failing %q: %v", path, fail, err)
			}
		}
	}
}

func TestCompletes(t *testing.T) {
	t.Parallel()
	all := []string{"HEAD", "objects", "refs", "commondir"}
	for have := range 16 {
		tree := gitdirtest.New("d/x")
		for i, name := range all {
			if have>>i&1 == 1 {
				tree.Add("d/" + name)
			}
		}
		w := gitdir.NewWalker(tree, false, "")
		is := func(set int) bool { return set&1 != 0 && (set&8 != 0 || set&6 == 6) }
		for i, name := range all {
			want := !is(have) && is(have|1<<i)
			for _, alias := range []string{name, strings.ToLower(name), strings.ToUpper(name), name + ".", name + "\u200c"} {
				got, err := w.Completes("d", alias)
				if err != nil || got != want {
					t.Errorf("with %04b, Completes(%q) = %v, %v", have, alias, got, err)
				}
			}
		}
		if got, _ := w.Completes("d", "other"); got {
			t.Error("another name completes a gitdir")
		}
	}
}

// TestWalkerCache: the walker remembers, and Changed and Forget make it ask
// again.
func TestWalkerCache(t *testing.T) {
	t.Parallel()
	tree := gitdirtest.New("a/b/c")
	w := gitdir.NewWalker(tree, false, "")
	at := func() gitdir.Type {
		loc, err := w.Locate("a/b/config", false, false)
		if err != nil {
			t.Fatal(err)
		}
		return loc.Type
	}
	at()
	before := tree.Lookups
	if at(); tree.Lookups != before {
		t.Error("the walker asks twice")
	}
	tree.Add("a/b/HEAD")
	tree.Add("a/b/commondir")
	if at() != gitdir.None {
		t.Error("the walker asks without need")
	}
	if loc, _ := w.Locate("a/b/config", true, false); loc.Type != gitdir.Look {
		t.Error("a live question is answered from memory")
	}
	tree.Remove("a/b/HEAD")
	w.Changed("a/b/HEAD")
	if at() != gitdir.None {
		t.Error("a change is not noticed")
	}
	tree.Add("a/b/HEAD")
	w.Forget("a")
	if at() != gitdir.Look {
		t.Error("a moved directory is not noticed")
	}
}

func BenchmarkLocate(b *testing.B) {
	w := gitdir.NewWalker(gitdirtest.New(".git/HEAD", "src/a/b/c.go"), false, "")
	for _, path := range []string{"src/a/b/c.go", ".git/objects/ab/cdef"} {
		b.Run(path, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := w.Locate(path, false, false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestLocateAllocates: the question that every lookup asks costs no memory.
func TestLocateAllocates(t *testing.T) {
	w := gitdir.NewWalker(gitdirtest.New(".git/HEAD", "src/a/b/c.go"), false, "")
	for _, path := range []string{"src/a/b/c.go", ".git/objects/ab/cdef", "x/.gitignore"} {
		if n := testing.AllocsPerRun(100, func() {
			if _, err := w.Locate(path, false, false); err != nil {
				t.Fatal(err)
			}
		}); n > 0 {
			t.Errorf("Locate(%q) allocates %v times", path, n)
		}
	}
}

func TestFoldPath(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{"a/b": "a/b", "A/\u200cB": "a/b", ".GitConfig": ".gitconfig", "ÄÖ/ſ": "äö/s", "": ""} {
		if got := gitdir.FoldPath(path); got != want {
			t.Errorf("FoldPath(%q) = %q, want %q", path, got, want)
		}
	}
}

// meanwhile is a tree that changes while it is asked.
type meanwhile struct {
	*gitdirtest.Tree
	change func(path string)
}

func (m meanwhile) Lookup(dir, name string) (gitdir.Kind, error) {
	kind, err := m.Tree.Lookup(dir, name)
	m.change(gitdir.Join(dir, name))
	return kind, err
}

// TestWalkerMeanwhile: an answer that was overtaken by a change is not
// remembered.
func TestWalkerMeanwhile(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"d/HEAD", "d/.git"} {
		tree := gitdirtest.New("d/commondir")
		var w *gitdir.Walker
		w = gitdir.NewWalker(meanwhile{tree, func(asked string) {
			if asked == path && tree.Get(path).Kind == gitdir.Absent {
				tree.Put(path, gitdir.Dir, "")
				w.Changed(path)
			}
		}}, false, "")
		for range 2 {
			if _, err := w.Locate(path+"/x", false, false); err != nil {
				t.Fatal(err)
			}
		}
		loc, err := w.Locate(path+"/x", false, false)
		if err != nil || loc.Type != gitdir.Look && loc.Type != gitdir.Full {
			t.Errorf("%s: %+v, %v", path, loc, err)
		}
	}
}
