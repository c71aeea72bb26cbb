package gitaware_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/gitaware"
	"lazaret.dev/lazaret/supervisor/internal/view/viewtest"
)

func TestHelperMapping(*testing.T) { viewtest.HelpMapping() }

// SR-4, DX-3: Git works inside, the host sees its results, and what the host's
// Git obeys stays as it is.
func TestGitInside(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	w := newWorld(t, nil, nil)
	config, err := os.ReadFile(w.host(".git/config"))
	if err != nil {
		t.Fatal(err)
	}
	hooks := w.tree(w.host(".git/hooks"))
	w.sh(`echo more >>src/main.c; git commit -qam second; git commit -q --amend -m amended; git branch b; git switch -qc c; echo c >c; git add c; git commit -qm c
		git switch -q main; git merge -q --no-ff -m merged c; git stash list; echo dirty >>src/main.c; git stash -q; git stash pop -q; git commit -qam popped
		git tag v1; git branch -D b 2>/dev/null; git gc -q; git fsck; git rebase -q --exec true HEAD~1; git log --oneline >/dev/null; git blame src/main.c >/dev/null; git worktree list`)
	if inside, outside := w.git(w.Mount, "log", "--oneline", "--all"), w.git(w.Host, "log", "--oneline", "--all"); inside != outside {
		t.Errorf("inside:\n%s\non the host:\n%s", inside, outside)
	}
	if out := w.git(w.Host, "status", "--porcelain"); out != "" {
		t.Errorf("on the host: %q", out)
	}
	w.git(w.Host, "fsck")
	for _, script := range []string{
		"git config user.name other", "echo x >>.git/config", "rm .git/config", "mv .git/config x", "chmod 600 .git/config", "ln .git/config x",
		"git remote add o x", "mv .git .git2", "mv .git/objects x", "ln -s x .git/objects/l", "echo x >.git/commondir", ": >.git/info/exclude",
		"cp .git/HEAD x; mv x .git/HEAD", "printf forged >.git/index.lock && mv .git/index.lock .git/index", "echo x >.git/index", "rm .git/HEAD",
	} {
		if out, err := w.run(w.Mount, "sh", "-ec", script); err == nil {
			t.Errorf("%s: it works: %s", script, out)
		}
		_, _ = w.run(w.Mount, "sh", "-c", "rm -f x .git/*.lock")
	}
	if now, err := os.ReadFile(w.host(".git/config")); err != nil || string(now) != string(config) {
		t.Errorf("the configuration is now %q, %v", now, err)
	}
	// A hook that is made inside works inside, and is not the host's.
	w.sh(`mkdir -p .git/hooks; printf '#!/bin/sh\necho ran >../../ran 2>/dev/null; echo ran >ran\n' >.git/hooks/post-commit; chmod +x .git/hooks/post-commit; git commit -q --allow-empty -m x`)
	w.holds(w.host("ran"), "ran\n")
	if now := w.tree(w.host(".git/hooks")); now != hooks {
		t.Errorf("the host's hooks have changed:\n%s", now)
	}
	for _, name := range []string{"config.lock", "index.lock", "HEAD.lock"} {
		w.absent(w.host(".git/" + name))
	}
	w.git(w.Host, "status")
}

// R2: what would change nothing succeeds, and leaves no lock.
func TestEqualBytes(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	w := newWorld(t, nil, nil)
	before := w.tree(w.host(".git"))
	w.sh("cp .git/config .git/config.lock; mv .git/config.lock .git/config; cat .git/config >/dev/null")
	w.absent(w.in(".git/config.lock"))
	if after := w.tree(w.host(".git")); after != before {
		t.Errorf("the host has changed:\n%s\nbefore:\n%s", after, before)
	}
	if out, err := w.run(w.Mount, "sh", "-ec", "echo x >.git/config.lock; mv .git/config.lock .git/config"); err == nil {
		t.Errorf("other bytes: %s", out)
	}
	w.absent(w.in(".git/config.lock"), w.host(".git/config.lock"))
	w.sh("git status --porcelain")
}

// The config gate lets a branch's upstream through, and nothing else.
func TestConfigGate(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	w := newWorld(t, func(o *gitaware.Options) { o.ConfigGate = true }, func(w *world) {
		w.git(w.Host, "remote", "add", "origin", w.t.TempDir())
		w.git(w.Host, "update-ref", "refs/remotes/origin/main", "HEAD")
	})
	w.git(w.Mount, "branch", "-q", "--set-upstream-to=origin/main")
	if out := w.git(w.Host, "config", "branch.main.merge"); out != "refs/heads/main\n" {
		t.Errorf("on the host: %q", out)
	}
	if out, err := w.run(w.Mount, "git", "config", "core.pager", "x"); err == nil {
		t.Errorf("core.pager: %s", out)
	}
	w.absent(w.host(".git/config.lock"), w.in(".git/config.lock"))
	w.git(w.Mount, "status")
}

// R4: once an index is the host's, nobody inside can write to it, through
// whatever is still open or mapped.
func TestPublishedIsSealed(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	w := newWorld(t, nil, nil)
	w.sh("cp .git/index .git/index.lock")
	f, err := os.OpenFile(w.in(".git/index.lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	m := viewtest.Map(t, w.in(".git/index.lock"), 64)
	if got := m.At(0); got != 'D' {
		t.Fatalf("the index begins with %q", got)
	}
	if err := os.Rename(w.in(".git/index.lock"), w.in(".git/index")); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(w.host(".git/index"))
	if err != nil {
		t.Fatal(err)
	}
	m.Put("forged")
	for what, err := range map[string]error{
		"write": func() error { _, err := f.WriteAt([]byte("forged"), 0); return err }(), "truncate": f.Truncate(1), "chmod": f.Chmod(0o777),
		"fallocate": unix.Fallocate(int(f.Fd()), 0, 0, 1<<20),
	} {
		if !errors.Is(err, unix.EROFS) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if after, err := os.ReadFile(w.host(".git/index")); err != nil || string(after) != string(before) {
		t.Errorf("the host's index has changed: %.20q, %v", after, err)
	}
	w.git(w.Host, "status")
	w.sh("echo x >new; git add new; git commit -qm new")
}

// R1, R3: a repository that is made inside works there, and is none on the host.
func TestBirths(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	w := newWorld(t, nil, nil)
	w.sh(`git init -q nest; cd nest; echo x >f; git add f; git commit -qm inside; git log --oneline; cd ..
		mkdir look; cd look; mkdir objects refs; ! (echo x >HEAD) 2>/dev/null; ! git --git-dir=. status 2>/dev/null; cd ..
		git init -q nest/sub; mv nest moved; git -C moved log --oneline | grep inside`)
	w.lists(w.host("moved"), "f", "sub")
	w.lists(w.host("look"), "objects", "refs")
	w.restart()
	if out := w.git(w.in("moved"), "log", "--oneline"); !strings.Contains(out, "inside") {
		t.Errorf("in the next generation: %q", out)
	}
	w.absent(w.host("moved/.git"), w.host("moved/sub/.git"))
	w.sh("rm -rf moved/.git; ! [ -e moved/.git ]; rm -rf moved")
	w.absent(w.host("moved"))
}

// R3: a file of the host's that is private has its own copy inside once it is
// written, and stays removed inside when it is removed.
func TestPrivateCopies(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	w := newWorld(t, nil, nil)
	was, err := os.ReadFile(w.host(".git/description"))
	if err != nil {
		t.Fatal(err)
	}
	w.holds(w.in(".git/description"), string(was))
	w.sh("echo mine >>.git/description")
	w.holds(w.in(".git/description"), string(was)+"mine\n")
	w.restart()
	w.holds(w.in(".git/description"), string(was)+"mine\n")
	w.sh("mv .git/description .git/other; ! [ -e .git/description ]; [ -e .git/other ]; rm .git/other")
	w.restart()
	w.absent(w.in(".git/description"), w.in(".git/other"))
	w.sh("echo again >.git/description; cat .git/description")
	w.holds(w.in(".git/description"), "again\n")
	w.holds(w.host(".git/description"), string(was))
}

// R6: a repository without a .git name keeps its mode and attributes too.
func TestLookAlikeIsFixed(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	w := newWorld(t, nil, func(w *world) { w.git(w.Host, "clone", "-q", "--bare", ".", "fixture") })
	before := w.tree(w.host("fixture"))
	for _, name := range []string{"fixture", "fixture/refs", ".git"} {
		for what, err := range map[string]error{
			"chmod": os.Chmod(w.in(name), 0), "setxattr": unix.Setxattr(w.in(name), "user.x", nil, 0),
		} {
			if !errors.Is(err, unix.EROFS) {
				t.Errorf("%s of %s: %v", what, name, err)
			}
		}
	}
	if after := w.tree(w.host("fixture")); after != before {
		t.Errorf("the host has changed:\n%s\nbefore:\n%s", after, before)
	}
	if err := os.Chmod(w.in("src"), 0o700); err != nil {
		t.Error(err)
	}
}

// R2 goes by the file, not by the name: one that the host has linked elsewhere
// is protected there, and stays so when that name is removed while it is open.
func TestProtectedWithoutAName(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	w := newWorld(t, nil, func(w *world) {
		if err := os.Link(w.host(".git/config"), w.host("x")); err != nil {
			t.Fatal(err)
		}
	})
	before, err := os.ReadFile(w.host(".git/config"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(w.in("x"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Remove(w.in("x")); err != nil {
		t.Fatal(err)
	}
	w.absent(w.in("x"))
	for what, err := range map[string]error{
		"write":    second(f.WriteAt([]byte("[alias]\n\tst = !sh\n"), 0)),
		"truncate": f.Truncate(0),
		"link":     unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), unix.AT_FDCWD, w.in("y"), unix.AT_SYMLINK_FOLLOW),
	} {
		if err == nil {
			t.Errorf("%s was not refused", what)
		}
	}
	if after, err := os.ReadFile(w.host(".git/config")); err != nil || string(after) != string(before) {
		t.Errorf("the host's configuration is now %q, %v", after, err)
	}
}

func second(_ int, err error) error { return err }
