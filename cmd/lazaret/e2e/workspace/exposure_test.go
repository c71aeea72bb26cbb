package workspace_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	// secret is in every ignored file of the host's, and in nothing else.
	secret = "SECRET-5d41402abc4b2a76"
	// public is in a file that everybody may read: the search finds it.
	public = "PUBLIC-7b9f1c2e"
)

// secrets are the host's ignored files: by the root's rules, by name at any
// depth, below an ignored directory, by nested rules, by info/exclude, by
// core.excludesFile, and below a directory with tracked files.
var secrets = []string{
	".env", "conf/.env", "private/deep/key", "app/local.key", "excluded.txt", "conf/host.pem", "mixed/own.txt", "one/two/three/.env",
}

// withSecrets makes the project a repository with secrets.
func (w *world) withSecrets() {
	w.t.Helper()
	w.write(filepath.Join(w.Dir, ".config/git/ignore"), "*.pem\n")
	w.write(".gitignore", ".env\nprivate/\nmixed/\n")
	w.write("app/.gitignore", "local.key\n")
	for _, name := range []string{"README", "conf/app.txt", "app/main.txt", "one/two/three/x.txt", "mixed/tracked.txt"} {
		w.write(name, public+" "+name+"\n")
	}
	for _, name := range secrets {
		w.write(name, secret+" "+name+"\n")
	}
	w.host(`git init -q; echo excluded.txt >>.git/info/exclude
git add .; git add -f mixed/tracked.txt; git commit -qm first; git branch other; echo more >>README; git commit -qam second
test "$(git ls-files -o --exclude-standard)" = ""`)
}

// search looks for the secret inside, also at the names where it could be.
func (w *world) search(names ...string) string {
	w.t.Helper()
	program, err := os.ReadFile("testdata/search.py")
	if err != nil {
		w.t.Fatal(err)
	}
	args := append([]string{"python3", "-c", string(program), secret + "," + public}, append(names, secrets...)...)
	r := w.command(args...)
	if r.Status != 0 || !strings.Contains(r.Stdout, public) {
		w.t.Errorf("the search finds nothing at all: %+v", r)
	}
	var found []string
	for line := range strings.Lines(r.Stdout) {
		if strings.HasPrefix(line, secret) {
			found = append(found, line)
		}
	}
	return strings.Join(found, "")
}

// attempt is something done inside to see what Git ignores.
type attempt struct {
	name, script string
	// names are where the secrets could be afterwards.
	names []string
	// moved are the directories whose files the host has elsewhere afterwards.
	moved map[string]string
}

var attempts = []attempt{
	{name: "nothing", script: ":"},
	{name: "rules deleted", script: "find . -name .gitignore -not -path './.git/*' -delete"},
	{name: "rules emptied", script: ": >.gitignore; : >app/.gitignore"},
	{name: "rules emptied in place", script: "truncate -s 0 .gitignore; exec 3<>app/.gitignore; printf '#########' >&3"},
	{name: "rules renamed", script: "mv .gitignore g; mv app/.gitignore app/g"},
	{name: "rules replaced", script: "echo x >g; mv g .gitignore; echo x >g; mv g app/.gitignore"},
	{name: "rules become a link", script: "ln -sfn /dev/null .gitignore; ln -sfn /dev/null app/.gitignore"},
	{name: "rules become a directory", script: "rm .gitignore; mkdir .gitignore"},
	{name: "rules written through a hard link", script: "ln .gitignore g; : >g; ln app/.gitignore h; : >h"},
	{name: "rules changed through a mapping", script: `python3 - <<'E'
import mmap, os
for name in ".gitignore", "app/.gitignore":
    fd = os.open(name, os.O_RDWR)
    m = mmap.mmap(fd, os.fstat(fd).st_size)
    m[:] = b"#" * len(m)
    m.flush()
E`},
	{name: "negation", script: `printf '!.env\n!private/\n!private/**\n!mixed/\n' >>.gitignore; printf '!local.key\n' >>app/.gitignore
printf '!.env\n!*.pem\n' >conf/.gitignore; printf '!*\n' >one/.gitignore`},
	{name: "add -f", script: "git add -f .env conf/.env private app/local.key || :; git add -fA; git commit -qm x || :"},
	{name: "entries of the index", script: `b=$(echo mine | git hash-object -w --stdin)
for n in .env conf/.env private/deep/key app/local.key excluded.txt conf/host.pem mixed/own.txt; do git update-index --add --cacheinfo 100644,$b,$n; done
cat .env conf/.env private/deep/key || :; git commit -qm x; git status; git diff || :; git stash || :`},
	{name: "rm --cached", script: "git rm -rq --cached .; git commit -qm x; rm .gitignore"},
	{name: "index deleted", script: "rm -f .git/index; rm .gitignore; git status || :"},
	{
		name: "parent renamed", script: "mv conf conf2; mv app app2; mv one uno; rm .gitignore app2/.gitignore",
		names: []string{"conf2/.env", "conf2/host.pem", "app2/local.key", "uno/two/three/.env"}, moved: map[string]string{"conf": "conf2", "app": "app2", "one": "uno"},
	},
	{name: "parent renamed twice and back", script: "mv one uno; mv uno/two uno/due; rm .gitignore; mv uno one; mv one/due one/two"},
	{
		name: "parent renamed into another", script: "mkdir z; mv conf z/; mv one/two z/two; rm .gitignore",
		names: []string{"z/conf/.env", "z/conf/host.pem", "z/two/three/.env"}, moved: map[string]string{"conf": "z/conf", "one/two": "z/two"},
	},
	{name: "parents exchanged", script: `python3 -c '
import ctypes
if ctypes.CDLL(None).renameat2(-100, b"conf", -100, b"one", 2):
    print("not exchanged")
'; rm .gitignore`, names: []string{"conf/two/three/.env", "one/.env", "one/host.pem"}},
	{name: "ignored directory renamed", script: "mv private p || :; mv mixed m || :; rm .gitignore", names: []string{"p/deep/key", "m/own.txt"}},
	{name: ".git deleted", script: "rm -rf .git || :; rm -f .gitignore"},
	{name: ".git moved", script: "mv .git g || :; git init -q || :; rm -f .gitignore"},
	{name: ".git hidden by another", script: "GIT_DIR=/tmp/g GIT_WORK_TREE=. git init -q; GIT_DIR=/tmp/g GIT_WORK_TREE=. git add -fA; rm .gitignore"},
	{name: "hard link", script: "for n in .env conf/.env private/deep/key; do ln $n l || :; ln -L $n l || :; done", names: []string{"l"}},
	{
		name: "symbolic link", script: "ln -s .env l; ln -s private p; ln -s /workspace/private/deep q; ln -s conf/.env r; ln -s /proc/self/cwd/app/local.key s",
		names: []string{"p/deep/key", "q/key"},
	},
	{
		name: "worktree", script: "git worktree add -q wt other; rm wt/.gitignore .gitignore; (cd wt; git add -fA; git commit -qm x) || :",
		names: []string{"wt/.env", "wt/conf/.env", "wt/private/deep/key"},
	},
	{name: "info/exclude", script: ": >.git/info/exclude || :; rm -f .git/info/exclude || :; mv .git/info .git/i || :"},
	{name: "core.excludesFile", script: "git config core.excludesFile /dev/null || :; git config --global core.excludesFile /dev/null || :; git -c core.excludesFile= add -A"},
	{name: "own file of the name", script: "echo own >.env; rm .env; mkdir private; echo own >private/f; rm -r private; rm .gitignore; cat .env || :; ls private || :"},
	{name: "renamed over", script: "echo own >o; mv o .env; rm .env; mkdir d; mv d private; rmdir private; rm .gitignore"},
	{name: "nested repository", script: "for d in conf app one mixed; do git init -q $d; (cd $d; git add -fA); done; mkdir private && git init -q private; rm .gitignore app/.gitignore"},
	{name: "another branch", script: "git checkout -q --orphan o; git rm -rqf . ; git commit -qm x --allow-empty; git checkout -q other"},
	{name: "amended, reset, stashed", script: `: >.gitignore; git commit -qam x; git reset -q --hard HEAD~1; : >app/.gitignore; git stash -q; git checkout -q other
git stash pop -q; git commit -qam y; git checkout -q main; git merge -q other || :`},
	{name: "git clean", script: "rm .gitignore; git clean -fdxq; git checkout -q .; git clean -fdX"},
	{name: "another case", script: "cat .ENV Conf/.Env PRIVATE/deep/key || :; mv .gitignore .GITIGNORE", names: []string{".ENV", "PRIVATE/deep/key"}},
	{name: "handles", script: `rm .gitignore; python3 - <<'E'
import os
for d, n in (".", ".env"), ("conf", ".env"), (".", "private"):
    fd = os.open(d, os.O_RDONLY)
    for p in n, "/proc/self/fd/%d/%s" % (fd, n), "../%s" % n:
        try:
            f = os.open(p, os.O_RDONLY, dir_fd=fd)
            print(os.listdir(f) if p.endswith("private") else os.read(f, 100))
        except OSError as e:
            print(e)
E`},
}

// SR-13: what Git ignores on the host does not appear inside, whatever the
// sandbox does to the rules, now and in the next generation, and it is as it
// was on the host.
func TestAttackExposure(t *testing.T) {
	w := newWorld(t)
	for _, a := range attempts {
		t.Run(strings.ReplaceAll(a.name, "/", "_"), func(t *testing.T) {
			w.t = t
			w.in("p" + strings.Map(func(r rune) rune {
				if r == ' ' || r == '/' {
					return '-'
				}
				return r
			}, a.name))
			w.withSecrets()
			release := w.Hold("")
			// Some of it is refused, and the rest goes on.
			if r := w.inside("set +e\n" + a.script); strings.Contains(r.Stdout+r.Stderr, secret) {
				t.Errorf("seen by the attempt itself: %+v", r)
			}
			if found := w.search(a.names...); found != "" {
				t.Errorf("found inside:\n%s", found)
			}
			release()
			if found := w.search(a.names...); found != "" {
				t.Errorf("found inside after the next start:\n%s", found)
			}
			for _, name := range secrets {
				at := name
				for from, to := range a.moved {
					if rest, ok := strings.CutPrefix(name, from+"/"); ok {
						at = filepath.Join(to, rest)
					}
				}
				b, err := os.ReadFile(filepath.Join(w.Project, at))
				if err != nil && a.name == "parents exchanged" {
					continue // where they are depends on whether they could be
				}
				if string(b) != secret+" "+name+"\n" {
					t.Errorf("on the host %s: %q, %v", at, b, err)
				}
			}
		})
	}
}

// SR-13: what the sandbox has relaxed and committed arrives on the host by Git,
// and exposes nothing.
func TestRelaxedRulesArriveOnTheHost(t *testing.T) {
	for name, script := range map[string]string{
		"checked out": "git checkout -q relaxed",
		"merged":      "git merge -q relaxed",
		"no-ff":       "git merge -q --no-ff -m merge relaxed",
		"picked":      "git cherry-pick relaxed",
		"rebased":     "git checkout -q other; git rebase -q relaxed",
		"pulled":      "git init -q --bare ../remote.git; git push -q ../remote.git relaxed:main; git branch -qD relaxed; git pull -q --ff-only ../remote.git main",
		"restored":    "git restore --source relaxed .gitignore app/.gitignore",
		"stashed":     "git checkout -q relaxed; git reset -q --soft main; git stash -q; git checkout -q main; git stash pop -q",
		"patched":     "git diff main relaxed | git apply",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.withSecrets()
			release := w.Hold("")
			w.must("git checkout -q -b relaxed; : >.gitignore; : >app/.gitignore; git commit -qam relaxed; git checkout -q main")
			w.host(script)
			if got := w.read(".gitignore"); got != "" {
				t.Fatalf("the test is worth nothing: on the host the rules are %q", got)
			}
			time.Sleep(time.Second / 2) // more than a host edit may take
			if found := w.search(); found != "" {
				t.Errorf("found inside:\n%s", found)
			}
			release()
			if found := w.search(); found != "" {
				t.Errorf("found inside after the next start:\n%s", found)
			}
		})
	}
}

// DESIGN section 7: a hand edit of the developer's exposes at once, and only
// what it names.
func TestHandEditExposes(t *testing.T) {
	w := newWorld(t)
	w.withSecrets()
	release := w.Hold("")
	p := w.poll(".env", "conf/.env", "app/local.key", "private/deep/key")
	w.write(".gitignore", "private/\nmixed/\n")
	p.until(".env", secret+" .env\n")
	p.until("conf/.env", secret+" conf/.env\n")
	w.write("app/.gitignore", "other.key\n")
	p.until("app/local.key", secret+" app/local.key\n")
	if got := w.inside("cat private/deep/key"); got.Status == 0 {
		t.Errorf("what stays ignored: %+v", got)
	}
	p.fast(t)
	release()
	if got := w.must("cat .env"); got != secret+" .env\n" {
		t.Errorf("after the next start: %q", got)
	}
	// And back: what becomes ignored is the host's alone again.
	w.write(".gitignore", ".env\nprivate/\nmixed/\n")
	if got := w.inside("cat .env"); got.Status == 0 {
		t.Errorf("ignored again: %+v", got)
	}
}
