package sentry_test

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lazaret.dev/lazaret/supervisor/internal/sentry"
	"lazaret.dev/lazaret/supervisor/internal/sentry/gitdir"
	"lazaret.dev/lazaret/supervisor/internal/sentry/gitdirtest"
)

func TestScan(t *testing.T) {
	t.Parallel()
	host := gitdirtest.New(
		".git/HEAD", ".git/objects/", ".git/refs/", ".git/config", ".git/modules/a/HEAD", ".git/modules/a/objects/", ".git/modules/a/refs/",
		".git/modules/b/c/HEAD", ".git/modules/b/c/commondir = ../../..", ".git/worktrees/w/HEAD", ".git/worktrees/w/commondir = ../..",
		"a/.git = gitdir: ../.git/modules/a\n", "abs/.git = gitdir: /home/dev/ws/store\n", "store/HEAD", "out/.git = gitdir: /elsewhere/.git\n", "up/.git = gitdir: ../../x\n",
		"link/.git -> ../links/1", "links/1 -> 2", "links/2 -> ../real", "real/x", "gone/.git -> nowhere", "loop/.git -> .git", "bad/.git = x", "bare/HEAD", "bare/objects/", "bare/refs/",
		"far/.git/HEAD", "far/.git/commondir = ../../common", "common/config", "isolated/.git/HEAD", "linkout/.git -> /elsewhere",
	)
	s := sentry.New(host, sentry.Options{Root: "/home/dev/ws", Isolated: func(dir string) bool { return dir == "isolated" }})
	found, err := s.Scan()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range found.Repositories {
		got = append(got, fmt.Sprintf("%s of %s %v", r.Gitdir, r.Top, r.Bare))
	}
	slices.Sort(got)
	want := []string{
		".git of  false", ".git of .git true", ".git/modules/a of .git/modules/a true", ".git/modules/a of a false", ".git/modules/b/c of .git/modules/b/c true", ".git/worktrees/w of .git/worktrees/w true",
		"bare of bare true", "common of common true", "far/.git of far false", "gone/nowhere of gone false", "real of link false", "store of abs false",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("repositories (-want +got):\n%s", diff)
	}
	slices.Sort(found.Outside)
	if diff := cmp.Diff([]string{"linkout/.git", "out/.git", "up/.git"}, found.Outside); diff != "" {
		t.Errorf("pointers that leave the tree (-want +got):\n%s", diff)
	}
	for path, class := range map[string]sentry.Class{
		"store/config": sentry.ReadOnly, "store/foo": sentry.Private, "real/hooks/x": sentry.Private, "common/config": sentry.ReadOnly, "bare/foo": sentry.Free, "links/1": sentry.ReadOnly, "links/2": sentry.ReadOnly, "gone/nowhere/config": sentry.ReadOnly,
	} {
		if got := s.Classify(path).Class; got != class {
			t.Errorf("Classify(%q) = %v, want %v", path, got, class)
		}
	}
	host.Fail("a", syscall.EACCES)
	host.Fail("out", syscall.ENOENT)
	if _, err := s.Scan(); err != nil {
		t.Errorf("with a directory that nobody may read: %v", err)
	}
	host.Fail("a", syscall.EIO)
	if _, err := s.Scan(); err == nil {
		t.Error("a directory that cannot be read is passed over")
	}
}

// TestProtected: the inodes to guard are those of everything that no name may
// change (h_cfghard).
func TestProtected(t *testing.T) {
	t.Parallel()
	host := gitdirtest.New(
		".git/HEAD", ".git/objects/pack/multi-pack-index", ".git/objects/pack/pack-1.pack", ".git/refs/heads/x", ".git/config", ".git/index", ".git/hooks/pre-commit", ".git/info/exclude", ".git/info/refs",
		".git/description", ".git/COMMIT_EDITMSG", ".git/rebase-merge/end", ".git/objects/info/alternates", "a/.git = gitdir: ../b", "b/config", "b/foo", ".husky/d/x", ".gitconfig", "dir.cfg/", "x", ".git/annex/objects/x",
	)
	m := newSim(t, host, sentry.Options{})
	m.targets(hooksPath, target(".gitconfig"), target("dir.cfg"), target("absent"))
	var got []string
	if err := m.s.Protected(func(path string) bool { got = append(got, path); return true }); err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	want := []string{
		".git/HEAD", ".git/config", ".git/description", ".git/hooks/pre-commit", ".git/index", ".git/info/exclude", ".git/objects/info/alternates", ".git/objects/pack/multi-pack-index", ".git/rebase-merge/end",
		".gitconfig", ".husky/d/x", "a/.git", "b/config", "b/foo",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("protected (-want +got):\n%s", diff)
	}
	n := 0
	if err := m.s.Protected(func(string) bool { n++; return false }); err != nil || n != 1 {
		t.Errorf("after the first: %d, %v", n, err)
	}
	wantErrno(t, "alias", m.s.Alias(sentry.Write, "gitcfg"), syscall.EROFS)
	host.Fail(".git/info", syscall.EACCES)
	host.Fail(".git/hooks", syscall.ENOENT)
	if err := m.s.Protected(func(string) bool { return true }); err == nil {
		t.Error("a name that cannot be looked up is passed over")
	}
	host.Fail(".git/info", nil)
	host.Fail(".git/hooks", syscall.EIO)
	if err := m.s.Protected(func(string) bool { return true }); err == nil {
		t.Error("a directory that cannot be read is passed over")
	}
}

func TestChanged(t *testing.T) {
	t.Parallel()
	m := newSim(t, hostTree(), sentry.Options{})
	for path, want := range map[string]bool{
		"a.txt": false, ".git/refs/heads/x": false, ".git/objects/ab/cd": false, ".git/config": true, ".git/hooks/x": true, "sub/.git": true, ".git": true, ".git/index": true, ".git/worktrees/wt": true, ".git/modules": true,
	} {
		if got := m.s.Changed(path); got != want {
			t.Errorf("Changed(%q) = %v", path, got)
		}
	}
}

// TestChangedBirth: what was private becomes the host's once the host has it.
func TestChangedBirth(t *testing.T) {
	t.Parallel()
	m := newSim(t, hostTree(), sentry.Options{})
	if c := m.s.Classify("n/.git/config").Class; c != sentry.Born {
		t.Fatal(c)
	}
	m.host.Add("n/.git/HEAD")
	if !m.s.Changed("n/.git") {
		t.Error("a new repository of the host needs no scan")
	}
	if c := m.s.Classify("n/.git/config").Class; c != sentry.ReadOnly {
		t.Error(c)
	}
	live := newSim(t, hostTree(), sentry.Options{Live: true})
	live.s.Classify("n/.git/config")
	live.host.Add("n/.git/HEAD")
	if c := live.s.Classify("n/.git/config").Class; c != sentry.ReadOnly {
		t.Errorf("a live answer is old: %v", c)
	}
}

// TestLinked: where the host's links and alternates lead is protected, and so
// are the links on the way (h_hookslink, h_cfglink, o_alternates).
func TestLinked(t *testing.T) {
	t.Parallel()
	host := hostTree()
	host.Remove(".git/hooks")
	for _, e := range []string{
		".git/hooks -> ../l1", "l1 -> l2", "l2 -> hooks", "hooks/pre-commit", ".git/info/attributes -> ../../at", ".git/objects/pack/p -> x", ".git/objects/cd -> ../../cd", "cd/x", ".git/objects/info/alternates = # x\n../../store/objects\n/elsewhere\n../modules/sub/objects\n", "store/objects/ab/cd",
		".git/modules/sub/hooks/x -> ../../../../gone", ".git/modules/sub2/info/grafts -> ../../../../ORIG", ".git/worktrees/wt/logs/x -> ../../../../loop", "loop -> loop",
	} {
		host.Add(e)
	}
	m := newSim(t, host, sentry.Options{})
	for _, op := range []string{
		"rm l1", "mv l1 x", "rm l2", "create x", "write hooks/pre-commit", "create hooks/x", "mv hooks x", "create at", "create store/objects/info/alternates", "mv store s", "rm store/objects/ab/cd", "create gone", "symlink gone a.txt", "mv a.txt at", "create AT", "write cd/x", "create cd/new",
	} {
		errno := syscall.EROFS
		if op == "create x" {
			errno = 0
		}
		wantErrno(t, op, m.do(op), errno)
	}
	host.Put(".git/objects/info/alternates", gitdir.File, strings.Repeat("x", 1<<20+1))
	if _, err := m.s.Scan(); err == nil {
		t.Error("alternates that are not read are passed over")
	}
}

// TestCarries: a directory takes no gitdir along, and how that is said depends
// on whether the sandbox can see it.
func TestCarries(t *testing.T) {
	t.Parallel()
	host := hostTree()
	host.Add("pkg/node_modules/x/.git/HEAD")
	host.Add("pkg/a")
	host.Add("fix/testdata/bare/HEAD")
	host.Add("fix/testdata/bare/objects/")
	host.Add("fix/testdata/bare/refs/")
	host.Add("decl/x")
	host.Add("store/real/y")
	host.Add("decl/.git -> ../store/real")
	m := newSim(t, host, sentry.Options{Isolated: func(dir string) bool { return dir == "pkg/node_modules" }})
	for op, errno := range map[string]syscall.Errno{"mv pkg p2": syscall.EXDEV, "mv fix f2": syscall.EROFS, "mv store s2": syscall.EROFS, "mv dir d2": 0} {
		wantErrno(t, op, m.do(op), errno)
	}
	host.Add("closed/x/y")
	host.Fail("closed/x", syscall.EACCES)
	wantErrno(t, "mv closed c2", m.do("mv closed c2"), syscall.EXDEV)
	_, err := sentry.New(crowd{gitdirtest.New("big/")}, sentry.Options{}).Check(sentry.Op{Kind: sentry.Rename, Path: "big", To: "b2"})
	wantErrno(t, "a directory of many files", err, syscall.EXDEV)
}

// crowd is a tree with a directory of very many files.
type crowd struct{ *gitdirtest.Tree }

func (c crowd) ReadDir(dir string) ([]gitdir.Entry, error) {
	if dir == "big" {
		return make([]gitdir.Entry, 1<<18+1), nil
	}
	return c.Tree.ReadDir(dir)
}

func TestReport(t *testing.T) {
	t.Parallel()
	m := newSim(t, hostTree(), sentry.Options{})
	_ = m.run("write .git/config = x", "write .git/config = x", "symlink .git/FOO x", "mv dir sub3/.git", "mkdir n/.git", "create n/.git/HEAD", "create m/.git", "mkdir .git/worktrees/w2", "lock .git/index = forged", "mkdir n/.git")
	want := sentry.Report{
		Refused: []sentry.Refused{
			{Rule: sentry.R5, Op: sentry.Symlink, Path: ".git/FOO", Count: 1},
			{Rule: sentry.R2, Op: sentry.Write, Path: ".git/config", Count: 2},
			{Rule: sentry.R4, Op: sentry.Rename, Path: ".git/index", Count: 1},
		},
		Born: []string{".git/worktrees/w2", "m/.git", "n/.git"},
	}
	if diff := cmp.Diff(want, m.s.Report()); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	for i := range 1100 {
		_ = m.run(fmt.Sprintf("symlink .git/refs/x%d y", i), fmt.Sprintf("mkdir x%d/.git", i))
	}
	if r := m.s.Report(); len(r.Refused) != 1000 || len(r.Born) != 1000 || r.Lost != 206 {
		t.Errorf("a flood leaves %d refusals, %d births, %d lost", len(r.Refused), len(r.Born), r.Lost)
	}
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	for _, op := range []string{
		"write .git/config", "mkdir .git/logs/objects", "lock .git/index = forged", "symlink .git/FOO x", "rm .git/HEAD", "write .git/refs/x.lock", "write tools/f", "write .git/rebase-merge/x",
	} {
		host := hostTree()
		host.Add(".git/refs/x.lock")
		host.Add(".git/rebase-merge/x")
		m := newSim(t, host, sentry.Options{}).targets(target("tools/f"))
		err := m.do(op)
		r, ok := err.(*sentry.Refusal) //nolint:errorlint // the type itself is promised
		if !ok || r.Hint() == "" || r.Error() == "" {
			t.Errorf("%s: %v", op, err)
			continue
		}
		t.Logf("%v\n    %s", r, r.Hint())
	}
}
