package sentry_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"lazaret.dev/lazaret/supervisor/internal/sentry"
	"lazaret.dev/lazaret/supervisor/internal/sentry/gitdir"
	"lazaret.dev/lazaret/supervisor/internal/sentry/gitdirtest"
	"lazaret.dev/lazaret/supervisor/internal/sentry/targets"
)

// untouchable are the host's files that no sequence of operations may change.
var untouchable = []string{
	".git", ".git/HEAD", ".git/config", ".git/info", ".git/info/exclude", ".git/hooks/pre-commit.sample", ".git/objects", ".git/refs", ".git/logs", ".git/modules/sub/config", ".git/modules/sub/HEAD",
	".git/worktrees/wt/gitdir", ".git/worktrees/wt/commondir", ".git/worktrees/wt/HEAD", ".git/worktrees/wt/index", "sub/.git", "deep/sub2/.git", "tools/f", "fix/bare/config", "fix/bare/HEAD", ".git/description",
}

func propertyTree() *gitdirtest.Tree {
	host := hostTree()
	for _, e := range []string{"tools/f = run", "fix/bare/HEAD", "fix/bare/objects/", "fix/bare/refs/", "fix/bare/config = bare", "store/dir/x", "d/e/f/"} {
		host.Add(e)
	}
	return host
}

// gitdirs are those of the host, and obeyed what its Git would obey in one.
var (
	gitdirs = []string{".git", ".git/modules/sub", ".git/modules/sub2", ".git/worktrees/wt", "fix/bare"}
	obeyed  = []string{
		"commondir", "config.worktree", "gitdir", "hooks/pre-commit", "info/attributes", "info/grafts", "objects/info/alternates", "objects/info/http-alternates", "remotes", "branches", "rebase-merge", "rebase-apply", "rr-cache", "MERGE_RR",
	}
)

// violation is what the host's tree must never come to, or "".
func violation(host, before *gitdirtest.Tree) string {
	has := func(dir, name string) bool { return host.Get(gitdir.Join(dir, name)).Kind != gitdir.Absent }
	for _, path := range untouchable {
		if host.Get(path) != before.Get(path) {
			return path + " changed"
		}
	}
	for line := range strings.Lines(host.Text()) {
		path := line[:strings.LastIndex(line[:strings.Index(line, " \"")], " ")]
		dir, name := gitdir.Split(path)
		old := before.Get(path).Kind
		switch kind := host.Get(path).Kind; {
		case gitdir.IsDotGit(name) && old == gitdir.Absent:
			return "the host has a new " + path
		case has(dir, "HEAD") && (has(dir, "commondir") || has(dir, "objects") && has(dir, "refs")) && before.Get(gitdir.Join(dir, "HEAD")).Kind == gitdir.Absent:
			return "the host has a new gitdir in " + dir
		case strings.HasPrefix(path, ".git/") && kind != gitdir.File && kind != gitdir.Dir:
			return path + " has a type that Git never makes"
		case old == gitdir.Absent && slices.ContainsFunc(gitdirs, func(g string) bool {
			inner, ok := strings.CutPrefix(path, g+"/")
			return ok && slices.Contains(obeyed, inner)
		}):
			return "the host has a " + path
		case slices.Contains([]string{".git/unknown", ".husky", "conf/absent"}, path) && (kind != gitdir.Dir || path != "conf/absent"):
			return "the host has a " + path
		}
	}
	return ""
}

var propertyTargets = []targets.Target{hooksPath, {Path: "tools/f"}, {Path: "conf/absent"}}

// TestAnything: no sequence of operations brings the host's tree into a state
// that its Git obeys.
// SR-4.
func TestAnything(t *testing.T) {
	t.Parallel()
	names := []string{
		"HEAD", "HEAD", "objects", "refs", "commondir", "config", "config.lock", ".git", ".GIT", "git~1", "hooks", "a", "b", "d", "e", "f", "g", "index", "index.lock", "info", "alternates", "attributes", "config.worktree", "config.worktree.lock", "sub", "deep",
		"modules", "worktrees", "wt", "rebase-merge", "MERGE_RR", "MERGE_HEAD", "packed-refs", "remotes", "unknown", ".husky", "tools", "conf", "absent", "fix", "bare", "logs", "objects.lock", "Refs", "store", "HEAD.lock", "pre-commit.sample", "exclude", "gitdir",
	}
	starts := []string{"", "", "", ".git/", ".git/", ".git/", ".git/modules/", ".git/modules/sub/", ".git/worktrees/wt/", ".git/worktrees/", ".git/info/", ".git/objects/", ".git/objects/info/", ".git/refs/", ".git/logs/", "d/", "d/e/", "d/e/f/", "fix/bare/", "sub/", "conf/", "tools/"}
	verbs := []string{"create", "create", "mkdir", "mkdir", "symlink", "mkfifo", "rm", "rmdir", "write", "chmod", "mv", "mv", "mv", "xchg", "ln"}
	path := rapid.Custom(func(t *rapid.T) string {
		p := rapid.SampledFrom(starts).Draw(t, "start") + rapid.SampledFrom(names).Draw(t, "name")
		if rapid.IntRange(0, 4).Draw(t, "deeper") == 0 {
			p += "/" + rapid.SampledFrom(names).Draw(t, "name")
		}
		return p
	})
	rapid.Check(t, func(t *rapid.T) {
		host, before := propertyTree(), propertyTree()
		m := newSim(t, host, sentry.Options{}).targets(propertyTargets...)
		m.strict = true
		var done []string
		for range rapid.IntRange(1, 40).Draw(t, "operations") {
			op := rapid.SampledFrom(verbs).Draw(t, "verb") + " " + path.Draw(t, "path")
			if verb := op[:2]; verb == "mv" || verb == "xc" || verb == "ln" || verb == "sy" {
				op += " " + path.Draw(t, "to")
			}
			if m.do(op) == nil {
				done = append(done, op)
			}
			if bad := violation(host, before); bad != "" {
				t.Fatalf("%s\nafter %q", bad, done)
			}
		}
	})
}

// TestBirthsRace: with the directory's lock held around Check and operation, of
// many that make the parts of a gitdir one is always refused.
func TestBirthsRace(t *testing.T) {
	t.Parallel()
	for range 50 {
		host := hostTree()
		host.Add("d/x")
		m := newSim(t, host, sentry.Options{})
		var dir sync.Mutex
		var wg sync.WaitGroup
		for _, op := range []string{"create d/HEAD", "mkdir d/objects", "mkdir d/refs", "create d/commondir", "mv d/x d/HEAD"} {
			wg.Go(func() {
				dir.Lock()
				defer dir.Unlock()
				_ = m.do(op)
			})
			wg.Go(func() { m.s.Classify("d/config"); m.s.Report(); m.s.Changed("d/HEAD") })
		}
		wg.Wait()
		if bad := m.look(); bad != "" {
			t.Fatal(bad)
		}
	}
}

func BenchmarkClassify(b *testing.B) {
	m := newSim(b, hostTree(), sentry.Options{}).targets(propertyTargets...)
	for _, path := range []string{"dir/b.txt", "a/b/c/d/e/f.go", ".git/objects/ab/cdef", ".git/refs/heads/main", ".git/config"} {
		b.Run(path, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m.s.Classify(path)
			}
		})
	}
}

// TestClassifyAllocates: the question that every lookup asks costs no memory.
func TestClassifyAllocates(t *testing.T) {
	m := newSim(t, hostTree(), sentry.Options{}).targets(propertyTargets...)
	for _, path := range []string{"dir/b.txt", "a/b/c/d/e/f.go", ".git/objects/ab/cdef", ".git/config", "x/.gitignore"} {
		if n := testing.AllocsPerRun(100, func() { m.s.Classify(path) }); n > 0 {
			t.Errorf("Classify(%q) allocates %v times", path, n)
		}
	}
}
