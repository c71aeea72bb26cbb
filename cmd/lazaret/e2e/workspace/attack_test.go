package workspace_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// guardedFiles must not be changed, nor appear, on the host.
var guardedFiles = []string{
	".git/config", ".git/config.worktree", ".git/hooks/pre-commit", ".git/hooks/post-checkout", ".git/info/exclude", ".git/info/attributes", ".git/info/grafts",
	".git/commondir", ".git/gitdir", ".git/objects/info/alternates", ".git/objects/info/http-alternates", ".git/remotes/origin", ".git/branches/main", ".git/unknown", ".git/description",
	".git/worktrees/wt/commondir", ".git/worktrees/wt/gitdir", ".git/worktrees/wt/config.worktree", ".git/modules/sub/config", ".git/modules/sub/hooks/post-checkout",
	".git/modules/sub/commondir", ".git/rebase-merge/git-rebase-todo", ".git/rr-cache/x", ".git/MERGE_RR", ".git/worktrees/new/HEAD", ".git/modules/new/HEAD",
	"sub/.git", "nest/.git/config", "nest/.git/hooks/pre-commit", "nest/.git/commondir", "fixture.git/config", "fixture.git/hooks/update",
	"hooks.d/pre-push", "included.cfg", "absent.cfg", "tools/filter", "dir/.git", "nest/.GIT", ".git/refs/.git", "fixture.git/commondir",
}

// existing are those of them that are there.
var existing = []string{
	".git/config", ".git/hooks/pre-commit", ".git/info/exclude", ".git/worktrees/wt/commondir", ".git/worktrees/wt/gitdir", ".git/modules/sub/config", "sub/.git",
	"nest/.git/config", "fixture.git/config", "hooks.d/pre-commit", "tools/filter", "included.cfg",
}

// guardedDirectories must stay what and where they are.
var guardedDirectories = []string{
	".git", ".git/objects", ".git/refs", ".git/info", ".git/logs", ".git/modules", ".git/worktrees", ".git/worktrees/wt", ".git/modules/sub", ".git/hooks",
	".git/objects/info", ".git/objects/pack", ".git/refs/heads", "nest", "nest/.git", "sub", "fixture.git", "fixture.git/objects", "hooks.d", "deep", "deep/er",
}

// target makes the project a repository with everything that the guard knows.
func (w *world) target() {
	w.t.Helper()
	w.history(dice(w.t), 20, 20)
	w.host(`git worktree add -q ../wt -b wtb
git init -q nest; cd nest; echo n >n; git add n; git commit -qm n; cd ..
git init -q deep/er/nest2; cp -r nest/. deep/er/nest2
git clone -q --bare nest fixture.git; git add fixture.git 2>/dev/null || :
mkdir hooks.d tools; printf '#!/bin/sh\n' >hooks.d/pre-commit; printf '#!/bin/sh\ncat\n' >tools/filter; chmod +x hooks.d/pre-commit tools/filter; echo '[a]' >included.cfg
printf '#!/bin/sh\nexit 0\n' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit
git config core.hooksPath hooks.d; git config include.path ../included.cfg; git config --add include.path ../absent.cfg; git config filter.t.clean ./tools/filter
git add hooks.d tools included.cfg; git commit -qm targets; git gc -q; git status >/dev/null; git -C nest status >/dev/null; git -C sub status >/dev/null`)
}

// live are the parts of a gitdir that both sides change.
var live = regexp.MustCompile(`^"(?:[^"]*/)?(?:\.git|fixture\.git|\.git/modules/sub|\.git/worktrees/wt)/(?:objects/(?:[0-9a-f]{2}|pack)(?:/|")|objects/info/(?:commit-graph|packs)|info/refs|refs/|logs/|index|HEAD"|packed-refs|sequencer|shallow|lfs|[A-Z][A-Z_]*")`)

// guarded lists what a sandbox may not change, and what it may not make: links
// and special files in gitdirs, entries that are called .git, directories that
// look like a gitdir.
func (w *world) state() []string {
	w.t.Helper()
	var out []string
	for _, line := range listing(w.t, w.Project, aspects{content: true}, nil)[1:] {
		name, err := strconv.Unquote(line[:strings.LastIndex(line, `" `)+1])
		if err != nil {
			w.t.Fatal(err)
		}
		inGitdir := strings.Contains("/"+name, "/.git/") || strings.HasPrefix(name, "fixture.git/")
		base := strings.ToLower(filepath.Base(name))
		target := strings.HasPrefix(name, "hooks.d") || strings.HasPrefix(name, "tools") || strings.HasSuffix(name, ".cfg") || name == "fixture.git" || name == "nest" || name == "sub" || strings.HasPrefix(name, "deep")
		special := strings.Contains(line, `" L`) || strings.Contains(line, `" p`) || strings.Contains(line, `" S`) || strings.Contains(line, `" D`)
		switch {
		case inGitdir && live.MatchString(line) && !special, !inGitdir && !target && !strings.HasPrefix(base, ".git") && !strings.HasPrefix(base, "git~"):
		case base == ".gitmodules" || base == ".gitignore":
		default:
			out = append(out, line)
		}
	}
	looks := w.try(w.Project, `find . -name HEAD -o -name objects -o -name refs -o -name commondir | sed 's,/[^/]*$,,' | sort -u | while read -r d; do
	[ -e "$d/HEAD" ] || continue
	[ -e "$d/commondir" ] || { [ -e "$d/objects" ] && [ -e "$d/refs" ]; } || continue
	echo "$d"
done`)
	for line := range strings.Lines(looks.Stdout) {
		out = append(out, "a gitdir: "+strings.TrimSpace(line))
	}
	return append(out, "HEAD: "+w.try(w.Project, "git rev-parse --symbolic-full-name HEAD; git rev-parse --absolute-git-dir; git -C nest rev-parse HEAD; git -C sub rev-parse HEAD").Stdout)
}

// assault runs the program that tries everything.
func (w *world) assault(args ...string) string {
	w.t.Helper()
	program, err := os.ReadFile("testdata/assault.py")
	if err != nil {
		w.t.Fatal(err)
	}
	r := w.command(append([]string{"python3", "-c", string(program)}, args...)...)
	if r.Status != 0 {
		w.t.Errorf("the program does not get to its end: %+v", r)
	}
	return r.Stdout
}

// harmless fails the test unless the host's state is as it was.
func (w *world) harmless(what string, before []string) {
	w.t.Helper()
	same(w.t, what, before, w.state())
	if w.t.Failed() {
		return // what follows may not work any more
	}
	if got := w.host("grep -rls EVIL .git/config .git/info .git/hooks hooks.d tools *.cfg nest/.git fixture.git sub/.git 2>/dev/null || :"); got != "" {
		w.t.Errorf("%s: on the host there is now what the sandbox has written in %s", what, got)
	}
	if got := w.host("git fsck --full --no-dangling 2>&1; git -C nest fsck 2>&1; git -C ../wt status -s; ls .git/*.lock 2>/dev/null || :"); got != "" {
		w.t.Errorf("%s: the host's Git says %s", what, got)
	}
}

// SR-4: no operation on no name of a protected file or directory reaches the
// host, by whatever way the name is reached.
func TestAttackGitFiles(t *testing.T) {
	for name, config := range map[string]string{"isolated": profile, "shared": profile + "isolate_gitignored = false\n"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.target()
			w.Config(config)
			before := w.state()
			if len(before) < 60 {
				t.Fatalf("only %d protected entries: the test is worth nothing", len(before))
			}
			release := w.Hold("")
			var done string
			defer func() {
				if t.Failed() {
					t.Logf("what went through inside:\n%s", indent(done))
				}
			}()
			done = w.assault(append([]string{"files"}, guardedFiles...)...)
			w.harmless("files", before)
			done += w.assault(append([]string{"directories"}, guardedDirectories...)...)
			w.harmless("directories", before)
			w.inside(`set +e
for d in .git nest deep deep/er sub fixture.git; do mv $d moved; mkdir -p x; mv $d x/; cp -a $d copy; rm -rf copy; done
for n in .GIT .Git git~1 '.git ' .git. $(printf '.g\342\200\214it'); do cp -r nest/.git "$n"; mkdir "dir/$n"; echo gitdir: x >"sub2$n"; ln -s .git "$n"; done
cp -r .git dir/.git; git init -q --bare look; git init -q other; git init -q --separate-git-dir elsewhere third`)
			w.harmless("whole directories", before)
			release()
			w.must("git status >/dev/null")
			w.harmless("the next start", before)

			// Objects and refs are shared: who may commit may also lose them. What
			// the developer's Git would execute is still there.
			protected := w.host("cat $1 2>&1 || :", strings.Join(existing, " "))
			w.inside("rm -rf .git nest/.git sub/.git fixture.git deep hooks.d tools || :; mkdir -p .git/hooks; cp /bin/true .git/hooks/post-checkout || :; git init -q || :")
			if got := w.host("cat $1 2>&1 || :", strings.Join(existing, " ")); got != protected {
				t.Errorf("removed: %s", differences(protected, got))
			}
			if got := w.host("ls .git/hooks/post-checkout 2>/dev/null || :"); got != "" {
				t.Errorf("the host has %s", got)
			}
		})
	}
}

// SR-4: renames that race opens, and births in pieces by several at once.
func TestAttackRaces(t *testing.T) {
	w := newWorld(t)
	w.target()
	before := w.state()
	last := 5 * time.Second
	if long() {
		last = time.Minute
	}
	w.assault("races", strconv.Itoa(int(last.Seconds())))
	w.harmless("races", before)
}

// R7: what the host's Git is writing is not the sandbox's to change: index.lock
// while an editor is open, config.lock in the moment before it is renamed.
func TestAttackForeignLocks(t *testing.T) {
	w := newWorld(t)
	w.history(dice(t), 10, 10)
	defer w.Hold("")()
	editor := filepath.Join(w.Dir, "editor")
	w.write(editor, "#!/bin/sh\ntouch ../editing; while [ ! -e ../edited ]; do sleep 0.02; done; echo message >$1\n")
	if err := os.Chmod(editor, 0o755); err != nil {
		t.Fatal(err)
	}
	commit := exec.Command("sh", "-c", "echo x >>lines.txt; GIT_EDITOR="+editor+" git commit -qa")
	commit.Dir, commit.Env = w.Project, w.hostEnv()
	if err := commit.Start(); err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		if _, err := os.Stat(filepath.Join(w.Project, "../editing")); err == nil {
			break
		}
		if i == 1000 {
			t.Fatal("the editor does not start")
		}
		time.Sleep(10 * time.Millisecond)
	}
	before := w.host("sha256sum .git/index.lock .git/index; stat -c '%a %h %i' .git/index.lock")
	r := w.inside(`set +e
echo EVIL >>.git/index.lock; : >.git/index.lock; truncate -s 5 .git/index.lock; rm -f .git/index.lock; mv .git/index.lock x; ln .git/index.lock y; echo EVIL >z; mv z .git/index.lock
mv .git/index.lock .git/index; chmod 777 .git/index.lock; python3 -c 'import os; os.pwrite(os.open(".git/index.lock", os.O_RDWR), b"EVIL", 0)'; ls -la .git/index.lock`)
	if got := w.host("sha256sum .git/index.lock .git/index; stat -c '%a %h %i' .git/index.lock"); got != before {
		t.Errorf("the host's lock is now\n%swas\n%s%+v", indent(got), indent(before), r)
	}
	w.host("touch ../edited")
	if err := commit.Wait(); err != nil {
		t.Errorf("the host's commit: %v", err)
	}
	if got := w.host("git log -1 --format=%s; git status -s; git fsck --no-dangling 2>&1"); got != "message\n" {
		t.Errorf("afterwards: %q", got)
	}

	racer := w.Command(t.Context(), "run", "--quiet", "--", "python3", "-c", `
import os, time
end = time.time() + 6
held = []
print("up", flush=True)
while time.time() < end:
    try:
        held.append(os.open(".git/config.lock", os.O_RDWR))
    except OSError:
        pass
    for fd in held[-8:]:
        try:
            os.pwrite(fd, b"[core]\n\tfsmonitor = EVIL\n#", 0)
        except OSError:
            pass
    for fd in held[:-8]:
        os.close(fd)
    held = held[-8:]
`)
	out, err := racer.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := racer.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	w.host("for i in $(seq 300); do git config user.x$i y; ! grep -q EVIL .git/config || { echo changed; exit 1; }; done")
	_ = racer.Wait()
	if got := w.host("grep -c '^.x[0-9]* = y' .git/config; grep EVIL .git/config || :"); got != "300\n" {
		t.Errorf("the configuration after the race: %q", got)
	}
}
