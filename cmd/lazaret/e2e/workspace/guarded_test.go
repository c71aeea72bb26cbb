package workspace_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// locks are a gitdir's locks, of which nothing that is over may leave one.
const locks = "find .git -name '*.lock' -o -name '*.new' -o -name 'tmp_*' | sort"

// SR-4: what must write a protected file ends as it does on a disk that cannot
// be written, leaves no lock on either side, and the rest of it is done.
func TestRefusedByGit(t *testing.T) {
	w := newWorld(t)
	w.history(dice(t), 30, 30)
	defer w.Hold("")()
	config := w.read(".git/config")
	for _, tt := range []struct {
		script string
		status int // 0, or any other
		after  string
	}{
		{"git config user.name evil", 1, "git config --local user.name || :"},
		{"git config core.fsmonitor /workspace/x", 1, ""},
		{"git config --unset remote.origin.url", 1, ""},
		{"git remote add other /tmp/x", 1, "git remote | wc -l"},
		{"git remote set-url origin /tmp/x", 1, ""},
		{"git remote rename origin other", 1, "git branch -r | grep -c origin"},
		{"git branch -m main renamed", 1, "git rev-parse --abbrev-ref HEAD"},
		{"git branch -m renamed main; git branch -u origin/main", 0, "git rev-parse --abbrev-ref HEAD"},
		{"GIT_EDITOR='echo x >' git branch --edit-description topic", 1, ""},
		{"git branch -u origin/topic conflict", 0, ""},
		{"git init -q --bare /tmp/box.git; git push -q -u box main:pushed; git ls-remote /tmp/box.git pushed | wc -l", 0, ""},
		{"git sparse-checkout init --cone", 1, "git ls-files -t | grep -c '^S' || :"},
		{"git sparse-checkout set dir1", 1, "git ls-files -t | grep -c '^S' || :"},
		{"git init -q", 1, ""},
		{"git worktree lock ../nothing", 1, ""},
		{"git config --worktree a.b c", 1, ""},
		{"echo x | tee -a .git/info/exclude", 1, ""},
		{"echo x | tee -a .git/info/attributes", 1, ""},
		{"echo /tmp >.git/objects/info/alternates", 1, ""},
		{"echo ../x >.git/commondir", 1, ""},
		{"echo 'gitdir: /tmp' >sub/.git", 1, ""},
	} {
		r := w.inside(tt.script)
		if (r.Status == 0) != (tt.status == 0) {
			t.Errorf("%s: %+v", tt.script, r)
		}
		if !strings.Contains(r.Stderr, "Read-only file system") && !strings.Contains(r.Stderr, "not a working tree") {
			t.Errorf("%s: the reason is not said: %+v", tt.script, r)
		}
		if got := w.read(".git/config"); got != config {
			t.Fatalf("%s: the configuration on the host is now\n%s", tt.script, indent(got))
		}
		for side, got := range map[string]string{"on the host": w.host(locks), "inside": w.must(locks)} {
			if got != "" {
				t.Errorf("%s: left %s: %s", tt.script, side, got)
			}
		}
		if tt.after != "" {
			if host, in := w.host(tt.after), w.must(tt.after); host != in {
				t.Errorf("%s: %s is %q on the host and %q inside", tt.script, tt.after, host, in)
			}
		}
	}
	if got := w.host("git status -s; git fsck --no-dangling 2>&1; git rev-parse --abbrev-ref HEAD"); got != "main\n" {
		t.Errorf("on the host afterwards: %q", got)
	}
}

// A sparse checkout that the host has enabled is changed inside too.
func TestSparseCheckout(t *testing.T) {
	w := newWorld(t)
	w.history(dice(t), 40, 60)
	w.host("git config extensions.worktreeConfig true; git sparse-checkout init --cone; git sparse-checkout set dir1")
	native := filepath.Join(filepath.Dir(w.Project), "native")
	w.host(`cp -a . "$1"; git -C "$1" status >/dev/null; git status >/dev/null`, native)
	defer w.Hold("")()
	for _, script := range []string{
		"git sparse-checkout list; ls", "git sparse-checkout set dir2 dir3; ls", "git sparse-checkout add dir1; ls", "rm -r dir1; git sparse-checkout reapply; git checkout -q dir1; ls",
		"git checkout -q topic; ls; git checkout -q main; git status -s", "echo x >>dir2/$(ls dir2 | head -1)/new; git add --sparse .; git commit -qm x; git status -s",
	} {
		want, got := w.try(native, script), w.inside(script)
		if want.Status != 0 || got.Status != 0 || got.Stdout != want.Stdout {
			t.Errorf("%s: %+v, want %+v", script, got, want)
		}
		const facts = "git ls-files -t; git status --porcelain=v2; cat .git/info/sparse-checkout; ls"
		if d := differences(w.try(native, facts).Stdout, w.try(w.Project, facts).Stdout); d != "" {
			t.Errorf("%s: the host sees:\n%s", script, d)
		}
	}
}

// Worktrees, repositories and submodules that are made inside work there, also
// at the next start, and leave nothing below the host's gitdir.
func TestBirthsStayInside(t *testing.T) {
	w := newWorld(t)
	w.history(dice(t), 30, 30)
	w.host("git submodule --quiet deinit -f sub; rm -rf .git/modules")
	structure := func() string {
		return w.host("find .git -not -path '*/objects/*' -not -path '*/refs/heads/*' | sort; cat .git/config")
	}
	w.host("git status >/dev/null; mkdir -p .git/logs/refs/heads; git gc -q")
	before := structure()
	release := w.Hold(`git init -q -b main /tmp/module; cd /tmp/module; echo m >m; git add .; git -c user.name=a -c user.email=a@a commit -qm m`)
	if r := w.inside(`git worktree add -q wt -b born; cd wt; echo w >w.txt; git add .; git commit -qm w; git status -s; cd ..; git log -1 --format=%s born; git worktree list | wc -l
git init -q nest; cd nest; echo n >n; git add .; git commit -qm n; git config a.b c; git log --format=%s; cd ..
git clone -q /tmp/module copy; git -C copy pull -q; git -C copy remote -v | wc -l`); r.Status != 0 || r.Stdout != "w\n2\nn\n2\n" {
		t.Errorf("inside: %+v", r)
	}
	// Deinitialised on the host: to initialise it inside writes the configuration.
	r := w.inside("git -c protocol.file.allow=always submodule add -q /tmp/module born-sub; git -C born-sub log --format=%s; git status -s")
	t.Logf("submodule add: %+v", r)
	release()
	for line := range strings.Lines(differences(before, structure())) {
		if !strings.Contains(line, "refs/heads/born") && !strings.HasSuffix(line, "logs/refs\n") {
			t.Errorf("below the host's gitdir: %s", line)
		}
	}
	if got := w.host("find . -name .git -not -path ./.git; git worktree list | wc -l; cat wt/w.txt nest/n; git log -1 --format=%s born"); got != "1\nw\nn\nw\n" {
		t.Errorf("on the host: %q", got)
	}
	if got := w.must("git -C wt status -s; git -C wt log -1 --format=%s; git -C nest config a.b; git -C copy log --format=%s; git worktree list | wc -l"); got != "w\nc\nm\n2\n" {
		t.Errorf("after the next start: %q", got)
	}
	// The host's clean-up does not know of them, and they do not mind.
	w.host("git worktree prune; git gc -q --prune=now")
	if got := w.must("git -C wt fsck --no-dangling 2>&1; git -C wt log --oneline | wc -l"); strings.TrimSpace(got) == "0" || strings.Contains(got, "missing") {
		t.Errorf("after the host's gc: %q", got)
	}
}

// Both sides work in one repository at once, as two developers on one disk:
// nothing that was committed is lost, and fsck finds nothing on either side.
func TestBothSidesInParallel(t *testing.T) {
	w := newWorld(t)
	w.history(dice(t), 40, 60)
	last := 12 * time.Second
	if long() {
		last = 10 * time.Minute
	}
	defer w.Hold("")()
	// Each file is committed when the command says so. Locks are awaited, as
	// people do it. A commit of paths reads the index before it locks it, on any
	// disk, and so drops what another has staged in between: that is staged again,
	// and the index is made anew in the end.
	//
	// That no commit of the sandbox's is ever lost is what the long mode demands;
	// it is a known defect (ARCHITECTURE, Workspace view).
	strict := ""
	if long() {
		strict = "strict=yes; "
	}
	work := strict + fmt.Sprintf(`side=$1; end=$(($(date +%%s) + %d)); n=0; set +e
export GIT_COMMITTER_DATE= GIT_AUTHOR_DATE=
while [ $(date +%%s) -lt $end ]; do
	n=$((n + 1)); mkdir -p made; echo $side $n >made/$side$n
	until git add made/$side$n 2>/dev/null; do sleep 0.0$((n %% 9)); [ $(date +%%s) -lt $((end + 60)) ] || exit 3; done
	until git commit -qm "$side $n" -- made/$side$n 2>/dev/null; do
		git cat-file -e HEAD:made/$side$n 2>/dev/null && break
		sleep 0.0$((n %% 9)); git add made/$side$n 2>/dev/null
		[ $(date +%%s) -lt $((end + 60)) ] || { git commit -qm "$side $n" -- made/$side$n 2>&1; exit 4; }
	done
	git cat-file -e HEAD:made/$side$n || [ -z "$strict" ] || exit 5
	case $((n %% 7)) in
	1) git status >/dev/null ;;
	2) git tag -f $side-$n >/dev/null 2>&1 ;;
	3) git log --stat -3 >/dev/null ;;
	4) git branch -f $side-$((n %% 3)) 2>/dev/null ;;
	5) git stash list >/dev/null; git diff HEAD~1 >/dev/null 2>&1 ;;
	esac
	[ $((n %% 25)) != 0 ] || git gc -q 2>/dev/null
done
echo $n`, int(last.Seconds()))
	var group sync.WaitGroup
	counts := map[string]string{}
	var mu sync.Mutex
	for _, side := range []string{"host", "sandbox"} {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), last+2*time.Minute)
			defer cancel()
			argv := []string{"sh", "-c", identity + work, "sh", side}
			cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
			if side == "sandbox" {
				cmd = w.Command(ctx, append([]string{"run", "--quiet", "--"}, argv...)...)
			} else {
				cmd.Dir, cmd.Env = w.Project, w.hostEnv()
			}
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("%s: %v, %s", side, err, out)
			}
			mu.Lock()
			counts[side] = strings.TrimSpace(string(out))
			mu.Unlock()
		})
	}
	group.Wait()
	t.Logf("commits: %v", counts)
	w.host("git reset -q --hard")
	sides := "host"
	if long() {
		sides += " sandbox"
	}
	verdict := `git fsck --full --no-dangling 2>&1; git status -s; for s in ` + sides + `; do git ls-tree --name-only HEAD:made | grep -c ^$s || :; done`
	want := counts["host"] + "\n"
	if long() {
		want += counts["sandbox"] + "\n"
	}
	for side, got := range map[string]string{"host": w.host(verdict), "sandbox": w.must(verdict)} {
		if got != want {
			t.Errorf("as the %s sees it: %q, want %q", side, got, want)
		}
	}
	if got := w.host(locks); got != "" {
		t.Errorf("left: %s", got)
	}
}
