package workspace_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// step is a command line of Git's users. It does the same inside and on the
// host.
type step struct{ name, script string }

// steps follow one another in one repository.
var steps = []step{
	{"status", "git status; git status -s --branch --ignored; git diff; git diff --cached --stat"},
	{"log", "git log --oneline --graph -40; git log --stat -5; git log -p -2; git log -S'line' --oneline -5; git shortlog -sn HEAD; git rev-list --count --all"},
	{"blame", `f=$(git ls-files '*.go' | head -1); git blame "$f"; git log --oneline --follow "$f" | head -20; git annotate lines.txt`},
	{"grep", "git grep -n 'line 1' | head -50; git ls-files -s | tail -20; git ls-tree -r HEAD | head -20; git describe; git show --stat v1"},
	{"edit, add, commit", "echo a >>lines.txt; mkdir -p new/deep; echo n >new/deep/f; git status -s; git add .; git commit -qm edit; git log -1 --stat"},
	{"commit -a", "echo b >>lines.txt; chmod +x lines.txt; git commit -qam mode; git show --stat"},
	{"amend", "echo c >>lines.txt; git commit -q --amend -a -m amended; git log -2 --format='%h %s'"},
	{"partial commit", "echo d >>lines.txt; echo d >>new/deep/f; git commit -qm part lines.txt; git status -s; git commit -qm rest -- new"},
	{"mv, rm", "git mv new/deep/f new/g; git rm -q $(git ls-files '*.md' | head -3); git status -s; git commit -qm moved"},
	{"restore, checkout", "f=$(git ls-files '*.c' | head -1); echo x >>$f; git status -s; git restore $f; echo x >$f; git checkout -q -- $f; rm $f; git checkout -q .; git status -s"},
	{"reset", "echo x >>lines.txt; git add .; git reset -q; git status -s; git reset -q --hard; git reset -q --soft HEAD~1; git commit -qm again; git status -s"},
	{"branch", "git branch b1; git branch b2 HEAD~3; git branch -v | cat; git branch -m b2 b3; git branch -f b1 HEAD~2; git branch -D b1; git branch --list"},
	{"branch of a remote one", "git switch -q -c x origin/elsewhere; git branch -v | cat; git switch -q main; git checkout -q -b y origin/topic; git checkout -q main; git branch -D x y"},
	{"switch", "git switch -q topic; git status -s; git switch -q -; git switch -q --detach HEAD~1; git status; git switch -q main; git checkout -q -B tmp; git checkout -q main; git branch -d tmp"},
	{"merge", "git merge -q --no-edit topic; git log -1 --format='%h %p %s'"},
	{"merge with a conflict", "git merge conflict || :; git status -s; git ls-files -u; git diff; sed -i '/^[<=>]/d' lines.txt; git add lines.txt; git commit -q --no-edit; git log -1 --format=%p"},
	{"merge --abort", "git checkout -q -b m1 HEAD~2; echo other >lines.txt; git commit -qam other; git merge conflict || :; git merge --abort; git status -s; git checkout -q main; git branch -D m1"},
	{"merge --squash", "git checkout -q -b m2 v1; git merge -q --squash topic; git status -s; git commit -qm squashed; git checkout -q main"},
	{"rebase", "git checkout -q -b r1 topic; git rebase -q v1; git log --format='%h %s' -5; git checkout -q main"},
	{"rebase -i", `git checkout -q -b r2 topic
GIT_SEQUENCE_EDITOR="sed -i -e '2s/^pick/squash/' -e '3s/^pick/reword/'" git rebase -q -i HEAD~3; git log --format='%h %s%n%b' -3; git checkout -q main`},
	{"rebase -i with exec and edit", `git checkout -q -b r3 topic
GIT_SEQUENCE_EDITOR="sed -i -e '1s/^pick/edit/' -e '2aexec echo ran >>exec.txt; git add exec.txt; git commit -qm exec'" git rebase -q -i HEAD~3
git status | head -20; echo e >>topic.txt; git commit -q --amend -a --no-edit; git rebase --continue || { git checkout -q --theirs topic.txt; git add .; git rebase --continue; } || git rebase --abort
git log --format='%h %s' -6; git checkout -q main`},
	{"rebase with a conflict", "git checkout -q -b r4 conflict; git rebase v1 || :; git status -s; git rebase --abort; git checkout -q main"},
	{"rebase --apply", "git checkout -q -b r5 topic; git rebase -q --apply v1; git rebase -q --keep-base main; git log --format='%h %s' -5; git checkout -q main"},
	{"rebase --autostash", "git checkout -q -b r6 topic; echo dirty >>topic.txt; git rebase -q --autostash v1; git status -s; git checkout -q .; git checkout -q main"},
	{"cherry-pick", "git cherry-pick r1~1 || git cherry-pick --skip; git checkout -q -b p1 v1; git cherry-pick topic~2 topic~1 topic; git log --format='%h %s' -4; git checkout -q main"},
	{"cherry-pick with a conflict", "git checkout -q -b p2 v1; git cherry-pick conflict || :; git status -s; echo solved >lines.txt; git add .; git cherry-pick --continue; git checkout -q main"},
	{"revert", "git revert --no-edit HEAD~3 || git revert --abort; git log -1 --format='%h %s'; git status -s"},
	{"format-patch, am", "git checkout -q -b am v1; git format-patch -q -o /tmp/patches$$ v1..topic; git am -q /tmp/patches$$/*; git log --format='%h %s' -4; git checkout -q main"},
	{"am with a conflict", "git checkout -q -b am2 topic; git format-patch -q --stdout -1 conflict >/tmp/p$$; echo z >lines.txt; git commit -qam z; git am -q /tmp/p$$ || :; git am --abort; git status -s; git checkout -q main"},
	{"apply", "git diff HEAD~1 HEAD >/tmp/d$$; git apply -R --index /tmp/d$$; git status -s; git reset -q --hard"},
	{"stash", "echo s >>lines.txt; echo u >untracked; git stash -q; git stash list; git stash -q -u; git status -s; git stash pop -q; git stash pop -q; git status -s; git stash push -q -m named lines.txt; git stash show -p; git stash drop -q; rm untracked; git reset -q --hard"},
	{"stash of the index", "echo i >>lines.txt; git add .; echo w >>lines.txt; git stash -q --keep-index; git status -s; git reset -q --hard; git stash apply -q --index; git status -s; git stash clear; git reset -q --hard"},
	{"tag", "git tag t1; git tag -a -m annotated t2; git tag -f t1 HEAD~1; git tag -n | cat; git tag -d t1; git describe --tags"},
	{"notes", "git notes add -m noted; git notes append -m more; git log -1; git notes show; git notes remove"},
	{"replace", "git replace HEAD~1 HEAD~2; git log --oneline -3; git replace -d $(git replace -l)"},
	{"bisect", `git bisect start HEAD HEAD~40; git bisect run sh -c 'test $(git rev-list --count HEAD) -lt 100'; git bisect log | wc -l; git bisect reset; git status -s`},
	{"bisect by hand", "git bisect start; git bisect bad; git bisect good HEAD~16; git bisect good; git bisect skip; git bisect visualize --oneline | wc -l; git bisect reset"},
	{"reflog", "git reflog -20; git reset -q --hard HEAD@{1}; git reset -q --hard HEAD@{1}; git rev-parse main@{1}; git log -g --oneline -5"},
	{"fetch, pull", "git init -q --bare /tmp/box.git; git push -q box main~3:refs/heads/main; git fetch -q box; git log -1 --format=%h box/main; git checkout -q -b pull main~5; git pull -q --ff-only box main; git pull -q --rebase box main; git checkout -q main"},
	{"push", "git push -q box main; git push -q box main:refs/heads/other; git push -q --tags box; git ls-remote box | wc -l; git push -q box :other; git fetch -q --prune box; git branch -r; rm -rf /tmp/box.git"},
	{"submodule", "git submodule status; git submodule update; git submodule foreach -q 'git log --oneline -1'; git -C sub checkout -q HEAD~1; git status -s; git diff --submodule; git submodule update; git status -s"},
	{"commit in a submodule", "cd sub; git checkout -q -b own; echo s >>m.txt; git commit -qam own; cd ..; git add sub; git commit -qm 'sub moved'; git submodule status; git submodule summary HEAD~1"},
	{"worktree of the host", "git worktree list | wc -l; git worktree prune"},
	{"gc", "git gc -q; git count-objects -v | grep -v size; git status -s; git gc -q --prune=now; git log --oneline -3"},
	{"repack", "git repack -qad; git pack-refs --all; git prune; git multi-pack-index write; git commit-graph write --reachable; git multi-pack-index verify 2>/dev/null; git commit-graph verify 2>/dev/null; git log --oneline | wc -l"},
	{"maintenance", "git maintenance run --task=gc --task=commit-graph --task=loose-objects --task=incremental-repack 2>/dev/null; git fsck --no-dangling 2>&1"},
	{"index formats", "git update-index --index-version 4; git status -s; git update-index --index-version 2; git update-index --assume-unchanged lines.txt; echo hid >>lines.txt; git status -s; git update-index --no-assume-unchanged lines.txt; git checkout -q lines.txt"},
	{"intent to add", "echo n >intent; git add -N intent; git status -s; git diff --stat; git rm -q --cached intent; rm intent"},
	{"clean", "mkdir -p junk/d; echo j >junk/d/f; git clean -n; git clean -fdq; git status -s"},
	{"archive", "git archive HEAD | tar -t | wc -l; git archive --format=zip HEAD | wc -c; git bundle create -q /tmp/b$$ main; git bundle verify -q /tmp/b$$; git ls-remote /tmp/b$$ | wc -l"},
	{"fast-export, fast-import", "git fast-export --all 2>/dev/null | wc -l; git fast-export main~3..main | sed 's,refs/heads/main,refs/heads/imported,' | git fast-import --quiet --force; git log --format=%s -1 imported"},
	{"filter-branch", "git branch filtered main; FILTER_BRANCH_SQUELCH_WARNING=1 git filter-branch -f --msg-filter 'cat; echo filtered' filtered~3..filtered >/dev/null; git log -1 --format=%b%s filtered"},
	{"plumbing", "t=$(git write-tree); c=$(echo plumbed | git commit-tree -p HEAD $t); git update-ref refs/heads/plumbed $c; git symbolic-ref HEAD refs/heads/plumbed; git status -s; git symbolic-ref HEAD refs/heads/main; git read-tree -m HEAD; git status -s; git cat-file -p $c; git update-ref -d refs/heads/plumbed"},
	{"orphan", "git checkout -q --orphan o; git rm -rqf --cached . ; git add lines.txt; git commit -qm orphan; git checkout -qf main; git status -s | head -3; git branch -D o"},
	{"hooks are private", "mkdir -p .git/hooks; git status -s"},
	{"fsck", "git fsck --full --no-dangling 2>&1"},
}

// facts are what the host sees of a repository.
const facts = `git rev-parse --symbolic-full-name HEAD; git for-each-ref; git status --porcelain=v2 --branch; git ls-files -sv; git diff --cached --raw; git stash list --format='%gd %H %s'
git submodule status; git reflog -30; git -C sub for-each-ref; git config -l --local | grep -v '^remote.origin.url'; find . -name .git -prune -o -type f -print | sort; ls .git | grep -v -e '^gc.pid$' -e '^description$' | sort`

// DX-3: Git works inside as on a local disk, and the host sees every result at
// once: each step is also done in a copy of the repository on the host, and
// everything that the host sees is compared.
func TestGitWorksInside(t *testing.T) {
	w := newWorld(t)
	commits, files := 150, 300
	if long() {
		commits, files = 2000, 4000
	}
	w.history(dice(t), commits, files)
	native := filepath.Join(filepath.Dir(w.Project), "native")
	w.host(`cp -a . "$1"; git -C "$1" status >/dev/null; git status >/dev/null`, native)
	defer w.Hold("")()
	look := func(dir string) string { return w.try(dir, facts).Stdout }
	for _, s := range steps {
		t.Run(strings.ReplaceAll(s.name, "/", "_"), func(t *testing.T) {
			w.t = t
			start := time.Now()
			want := w.try(native, s.script)
			took := time.Since(start)
			start = time.Now()
			got := w.inside(s.script)
			t.Logf("%v on the host, %v inside", took, time.Since(start))
			if want.Status != 0 {
				t.Fatalf("the step does not work on the host: %+v", want)
			}
			if got.Status != want.Status || plain(got.Stdout) != plain(want.Stdout) {
				t.Errorf("status %d, want %d, stderr:\n%s\nstdout differs:\n%s", got.Status, want.Status, indent(got.Stderr), differences(want.Stdout, got.Stdout))
			}
			if d := differences(look(native), look(w.Project)); d != "" {
				t.Errorf("the host sees something else than after the same on the host:\n%s\nstdout inside:\n%s\nstderr:\n%s", d, indent(got.Stdout), indent(got.Stderr))
				w.host(`rm -rf "$1"; cp -a . "$1"; git -C "$1" status >/dev/null`, native) // the next step starts even
			}
		})
	}
}
