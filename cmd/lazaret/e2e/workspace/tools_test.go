package workspace_test

import (
	"strings"
	"testing"
	"time"
)

// withDependencies makes a project whose ignored directories hold what the
// host's tools have built.
func (w *world) withDependencies() {
	w.t.Helper()
	w.write(".gitignore", "node_modules/\ntarget/\n.venv/\n*.db*\nclone/\n")
	w.write("package.json", `{"name": "app", "version": "1.0.0", "dependencies": {"dep": "file:./dep"}, "devDependencies": {"tool": "file:./tool"}}`)
	w.write("dep/package.json", `{"name": "dep", "version": "1.0.0", "main": "index.js"}`)
	w.write("dep/index.js", "module.exports = 42\n")
	w.write("tool/package.json", `{"name": "tool", "version": "1.0.0", "bin": {"tool": "tool.js"}}`)
	w.write("tool/tool.js", "#!/usr/bin/env node\nconsole.log('tool')\n")
	w.host(`git init -q; chmod +x tool/tool.js
for d in node_modules/dep node_modules/.bin target/debug/deps .venv/bin .venv/lib; do mkdir -p $d; echo "the host's $d" >$d/host; done; echo x >target/debug/host
ln -s host node_modules/.bin/tool; ln -s /usr/bin/python3 .venv/bin/python; chmod 750 target/debug; chmod 600 .venv/bin/host; ln target/debug/host target/debug/deps/libhost
git add .; git commit -qm first`)
}

// hostBuilds lists the host's ignored directories, with all that a program
// there could depend on.
func (w *world) hostBuilds() []string {
	all := listing(w.t, w.Project, aspects{mtime: true, content: true}, func(rel string) bool {
		top, _, _ := strings.Cut(rel, "/")
		return rel != "." && top != "node_modules" && top != "target" && top != ".venv"
	})
	return all[1:] // without the project's root itself
}

// build is what a compiler's driver does with its directory: locks, temporary
// files renamed into place, hard links, time stamps that decide what is built.
const build = `python3 - "$@" <<'E'
import fcntl, os, sys
root = sys.argv[1]
deps, inc = os.path.join(root, "debug/deps"), os.path.join(root, "debug/incremental")
os.makedirs(deps, exist_ok=True)
os.makedirs(inc, exist_ok=True)
with open(os.path.join(root, "debug/.cargo-lock"), "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    built = 0
    for i in range(60):
        src, obj = "src/m%d.c" % i, os.path.join(deps, "m%d.o" % i)
        if os.path.exists(obj) and os.stat(obj).st_mtime_ns >= os.stat(src).st_mtime_ns:
            continue
        part = os.path.join(inc, "m%d.tmp" % i)
        os.makedirs(part)
        with open(os.path.join(part, "o"), "wb") as f:
            f.write(open(src, "rb").read() * 50)
            f.flush()
            if i % 10 == 0:
                os.fsync(f.fileno())
        final = os.path.join(inc, "m%d" % i)
        if os.path.isdir(final):
            os.unlink(os.path.join(final, "o"))
            os.rmdir(final)
        os.rename(part, final)
        if os.path.exists(obj):
            os.unlink(obj)
        os.link(os.path.join(final, "o"), obj)
        built += 1
    program = os.path.join(root, "debug/app")
    if os.path.exists(program):
        os.unlink(program)
    with open(os.path.join(deps, "app"), "wb") as f:
        f.write(b"#!/bin/sh\necho runs\n")
    os.chmod(os.path.join(deps, "app"), 0o755)
    os.link(os.path.join(deps, "app"), program)
    assert os.stat(program).st_nlink == 2 and os.path.samefile(program, os.path.join(deps, "app"))
print("built", built)
E
`

// database has two connections work on one file, the way of write-ahead logs:
// with a shared mapping and locks.
const database = `python3 - "$@" <<'E'
import sqlite3, sys
a, b = [sqlite3.connect(sys.argv[1], timeout=30, isolation_level=None) for _ in range(2)]
assert a.execute("pragma journal_mode=wal").fetchone() == ("wal",)
a.execute("create table if not exists t (x integer)")
for i in range(100):
    (a if i % 2 else b).execute("insert into t values (?)", (i,))
a.execute("pragma wal_checkpoint(truncate)")
for i in range(100):
    with_b = b.execute("select count(*) from t").fetchone()
    (b if i % 2 else a).execute("insert into t values (?)", (i,))
assert a.execute("pragma integrity_check").fetchone() == ("ok",)
print(b.execute("select count(*) from t").fetchone()[0] % 200)
E
`

// FR-9, case 55: package managers, compilers and data bases work inside on
// directories of their own, where they do what they like, and the host's are
// not touched.
func TestToolsWorkInside(t *testing.T) {
	w := newWorld(t)
	w.withDependencies()
	before := w.hostBuilds()
	release := w.Hold("")
	for _, tt := range []struct{ name, script, want string }{
		{"the host's are not there", "ls -A node_modules target .venv 2>/dev/null | cat", ""},
		{"npm", "npm install --offline --no-audit --no-fund --silent >&2; git status --porcelain; ls node_modules", "?? package-lock.json\ndep\ntool\n"},
		{"npm ci", "npm ci --offline --no-audit --no-fund --silent >&2; node -p 'require(\"dep\")'; npx --offline tool", "42\ntool\n"},
		{"npm ci again", "npm ci --offline --no-audit --no-fund --silent >&2; node -p 'require(\"dep\")'; npx --offline tool", "42\ntool\n"},
		{"removed and made", "rm -rf node_modules && mkdir node_modules && ls -A node_modules; npm ci --offline --no-audit --no-fund --silent >&2; npx --offline tool", "tool\n"},
		{"first build", "mkdir -p src; for i in $(seq 0 59); do echo $i >src/m$i.c; done; git add src\n" + build + "target/debug/app", "built 60\nruns\n"},
		{"nothing to build", build + "target/debug/app", "built 0\nruns\n"},
		{"one changed", "sleep 0.01; echo x >>src/m7.c\n" + build + "target/debug/app", "built 1\nruns\n"},
		{"moved", "mv target target.old; ls -d target* | cat; ls target.old/debug/app; rm -rf target.old\n" + build, "target.old\ntarget.old/debug/app\nbuilt 60\n"},
		{"environment", "python3 -m venv --without-pip .venv; .venv/bin/python -c 'import sys; print(sys.prefix)'", "/workspace/.venv\n"},
		{"environment cleared", "python3 -m venv --without-pip --clear .venv; .venv/bin/python -c 'import sys; print(sys.prefix)'", "/workspace/.venv\n"},
		{"isolated data base", database, "0\n"},
		{"shared data base", database, "0\n"},
		{"clean", "echo x >untracked; git clean -fdxq; ls -A node_modules target .venv untracked 2>/dev/null | cat; git status --porcelain | grep -v '^A[ M] src/' || :", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w.t = t
			args := []string{"target"}
			switch tt.name {
			case "isolated data base":
				args = []string{"x.db"}
			case "shared data base":
				args = []string{"shared.sqlite"}
			}
			if r := w.inside(tt.script, args...); r.Status != 0 || r.Stdout != tt.want {
				t.Errorf("status %d, stdout %q, want %q, stderr:\n%s", r.Status, r.Stdout, tt.want, indent(r.Stderr))
			}
			same(t, "the host's builds", before, w.hostBuilds())
		})
	}
	w.t = t
	w.must("mkdir -p node_modules/own .venv target; echo own >node_modules/own/f; echo own >.venv/f; echo own >target/f")
	release()
	w.NothingLeft(10 * time.Second)
	if got := w.must("cat node_modules/own/f .venv/f target/f; find node_modules .venv target -name host | cat"); got != "own\nown\nown\n" {
		t.Errorf("the next start sees %q", got)
	}
	same(t, "the host's builds", before, w.hostBuilds())
}

// A large clone below the workspace works, and its gitdir does not reach the
// host.
func TestCloneInside(t *testing.T) {
	w := newWorld(t)
	w.host("git init -q; echo clone/ >.gitignore; git add .; git commit -qm first")
	defer w.Hold(`git init -q -b main /tmp/big; cd /tmp/big; for i in $(seq 50); do head -c 1M /dev/urandom >f$i; done
git add .; git -c user.name=a -c user.email=a@a commit -qm big`)()
	for _, dir := range []string{"clone", "shared"} {
		if got := w.must(`git clone -q file:///tmp/big "$1"; cd "$1"; git fsck --full 2>&1; git status --porcelain; cmp f50 /tmp/big/f50; git rev-list --count HEAD`, dir); got != "1\n" {
			t.Errorf("%s: %q", dir, got)
		}
	}
	for line := range strings.Lines(w.host("find . -name .git; ls -d clone shared 2>/dev/null || :; ls shared | wc -l")) {
		if line != "./.git\n" && line != "shared\n" && line != "50\n" {
			t.Errorf("on the host: %q", line)
		}
	}
}
