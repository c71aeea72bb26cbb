package gitaware_test

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/launch"
	"lazaret.dev/lazaret/protocol/testgate"
	"lazaret.dev/lazaret/supervisor/internal/gitaware"
	"lazaret.dev/lazaret/supervisor/internal/view"
	"lazaret.dev/lazaret/supervisor/internal/view/viewtest"
)

// world is a workspace with Git, served by a view.
type world struct {
	*viewtest.World
	t      *testing.T
	aware  *gitaware.Aware
	record string
	change func(*gitaware.Options)
}

// newWorld makes a repository on the host, prepares it further, and serves it.
func newWorld(t *testing.T, change func(*gitaware.Options), prepare func(*world)) *world {
	t.Helper()
	testgate.Need(t, testgate.Git)
	w := &world{t: t, record: t.TempDir(), change: change}
	w.World = viewtest.New(t, nil)
	viewtest.Stop(t, w.Mount, w.View)
	t.Setenv("HOME", t.TempDir())
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	for _, args := range [][]string{
		{"config", "--global", "user.name", "n"},
		{"config", "--global", "user.email", "e@x"},
		{"config", "--global", "init.defaultBranch", "main"},
		{"init", "-q"},
	} {
		w.git(w.Host, args...)
	}
	for name, text := range project {
		w.write(w.host(name), text)
	}
	w.git(w.Host, "add", "-A")
	w.git(w.Host, "commit", "-q", "--allow-empty", "-m", "first")
	if prepare != nil {
		prepare(w)
	}
	w.serve()
	return w
}

// serve begins a generation.
func (w *world) serve() {
	w.t.Helper()
	record, err := unix.Open(w.record, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Serve(w.t, func(c *view.Config) {
		o := gitaware.Options{
			Host: c.Stores.Host, Path: w.Host, Record: record, State: c.Stores.Private, Own: c.Stores.Domain, Git: &launch.HostGit{Home: os.Getenv("HOME")},
			Isolate: true, Log: slog.New(slog.DiscardHandler),
		}
		if w.change != nil {
			w.change(&o)
		}
		if w.aware, err = gitaware.Open(o); err != nil {
			w.t.Fatal(err)
		}
		c.Router, c.Guard = w.aware.Router(), w.aware.Guard()
	})
	w.aware.OnScan(w.View.Follow)
}

// restart ends the generation and begins another.
func (w *world) restart() {
	w.t.Helper()
	viewtest.Stop(w.t, w.Mount, w.View)
	w.aware.Close()
	w.serve()
}

func (w *world) host(name string) string { return filepath.Join(w.Host, name) }

func (w *world) in(name string) string { return filepath.Join(w.Mount, name) }

func (w *world) write(path, text string) {
	w.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) run(dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(w.t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (w *world) git(dir string, args ...string) string {
	w.t.Helper()
	out, err := w.run(dir, "git", args...)
	if err != nil {
		w.t.Fatalf("git %q in %s: %v\n%s", args, dir, err, out)
	}
	return out
}

func (w *world) sh(script string) string {
	w.t.Helper()
	out, err := w.run(w.Mount, "sh", "-ec", script)
	if err != nil {
		w.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return out
}

func (w *world) holds(path, want string) {
	w.t.Helper()
	if b, err := os.ReadFile(path); err != nil || string(b) != want {
		w.t.Errorf("%s: %q, %v; want %q", path, b, err, want)
	}
}

func (w *world) absent(paths ...string) {
	w.t.Helper()
	for _, p := range paths {
		if _, err := os.Lstat(p); !errors.Is(err, fs.ErrNotExist) {
			w.t.Errorf("%s is there: %v", p, err)
		}
	}
}

func (w *world) lists(path string, want ...string) {
	w.t.Helper()
	entries, err := os.ReadDir(path)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	sort.Strings(want)
	if err != nil || strings.Join(got, " ") != strings.Join(want, " ") {
		w.t.Errorf("%s lists %q, %v; want %q", path, got, err, want)
	}
}

// soon waits, at most a second, until f has no complaint.
func (w *world) soon(what string, f func() error) {
	w.t.Helper()
	var err error
	for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	w.t.Errorf("%s: %v", what, err)
}

// tree describes everything below a directory but .git, contents included.
func (w *world) tree(dir string) string {
	w.t.Helper()
	out, err := w.run(dir, "sh", "-ec", `find . -path ./.git -prune -o -print | LC_ALL=C sort | while IFS= read -r f; do stat -c '%n %F %a %Y' "$f"; [ ! -f "$f" ] || sha256sum <"$f"; done`)
	if err != nil {
		w.t.Fatal(err, out)
	}
	return out
}

var project = map[string]string{
	".gitignore":         "node_modules/\n/target\n.env\n*.log\ndist/\nsecret/\n",
	"src/main.c":         "main",
	"packages/a/index":   "a",
	"packages/b/index":   "b",
	"docs/.gitignore":    "/out\n",
	"docs/page":          "page",
	"packages/a/deep/er": "x",
}

// ignored puts something ignored everywhere on the host.
func (w *world) ignored() {
	for _, name := range []string{
		"node_modules/host", "target/host", ".env", "x.log", "docs/out/host", "packages/a/node_modules/host", "packages/a/x.log", "secret/key",
	} {
		w.write(w.host(name), "host's "+name)
	}
}

// SR-13, FR-9, DX-2; cases 55 and 56: what Git ignores is the Domain's own,
// at any depth, and the host's is neither seen nor touched.
func TestIgnoredIsIsolated(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	w := newWorld(t, nil, (*world).ignored)
	before := w.tree(w.Host)
	w.lists(w.Mount, ".git", ".gitignore", "docs", "packages", "src")
	w.lists(w.in("docs"), ".gitignore", "page")
	w.absent(w.in("node_modules"), w.in(".env"), w.in("packages/a/node_modules/host"), w.in("x.log"))

	w.sh("mkdir node_modules && echo own >node_modules/own && echo e >.env && mkdir -p packages/a/node_modules/x packages/b/node_modules && echo l >packages/a/x.log")
	w.sh("rm -rf node_modules && mkdir node_modules && echo again >node_modules/own && mkdir target && echo t >target/t && ln node_modules/own node_modules/hard")
	w.sh("cd docs && mkdir out && echo o >out/o && mv out/o out/p && touch out/q && git -C .. status --porcelain >/dev/null")
	if after := w.tree(w.Host); after != before {
		t.Errorf("the host has changed:\n%s\nbefore:\n%s", after, before)
	}
	w.lists(w.Mount, ".env", ".git", ".gitignore", "docs", "node_modules", "packages", "src", "target")
	w.lists(w.in("packages/a"), "deep", "index", "node_modules", "x.log")
	if out := w.git(w.Mount, "status", "--porcelain"); out != "" {
		t.Errorf("git status inside: %q", out)
	}
	// The next generation sees the same.
	w.restart()
	w.holds(w.in("node_modules/own"), "again\n")
	w.lists(w.in("docs/out"), "p", "q")
	if err := os.Link(w.in("node_modules/own"), w.in("src/own")); !errors.Is(err, unix.EXDEV) {
		t.Errorf("a link out of Ignored Workspace State: %v", err)
	}
	w.sh("git clean -fdxq; ! [ -e node_modules ]")
	// What the host has hidden in a directory keeps that where it is.
	if out, err := w.run(w.Mount, "rm", "-rf", "packages/a"); err == nil || !strings.Contains(out, "not empty") {
		t.Errorf("%v, %s", err, out)
	}
	w.lists(w.in("packages/a"))
	if b, err := os.ReadFile(w.host("node_modules/host")); err != nil || string(b) != "host's node_modules/host" {
		t.Errorf("%q, %v", b, err)
	}
}

// Renames between the stores: a file moves, and a directory is copied by mv.
func TestRenamesBetweenStores(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	w := newWorld(t, nil, nil)
	w.sh("mkdir target; echo t >target/t; chmod 751 target/t; touch -d @1000000000 target/t; mv target target.old")
	w.holds(w.host("target.old/t"), "t\n")
	if fi, err := os.Stat(w.host("target.old/t")); err != nil || fi.Mode() != 0o751 || fi.ModTime().Unix() != 1000000000 {
		t.Errorf("%v, %v", fi, err)
	}
	w.absent(w.in("target"), w.host("target"))
	if err := os.Mkdir(w.in("target"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Rename(w.in("target"), w.in("elsewhere")); !errors.Is(err, unix.EXDEV) {
		t.Errorf("a directory between stores: %v", err)
	}
	// What editors and tools do: a temporary file is renamed over an ignored one.
	w.write(w.in(".env.tmp"), "one")
	for i, text := range []string{"one", "two"} {
		w.write(w.in(".env.tmp"), text)
		f, err := os.Open(w.in(".env.tmp"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(w.in(".env.tmp"), w.in(".env")); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		b := make([]byte, 3)
		if _, err := f.ReadAt(b, 0); err != nil || string(b) != text {
			t.Errorf("through what was open: %q, %v", b, err)
		}
		_ = f.Close()
		w.holds(w.in(".env"), text)
		w.absent(w.in(".env.tmp"), w.host(".env"), w.host(".env.tmp"))
	}
	// And back.
	if err := os.Rename(w.in(".env"), w.in("shared.txt")); err != nil {
		t.Fatal(err)
	}
	w.holds(w.host("shared.txt"), "two")
	w.sh("echo app >app.log; mv app.log app.log.1; echo more >>app.log.1")
	w.holds(w.host("app.log.1"), "app\nmore\n")
	if out := w.tree(w.Host); strings.Contains(out, ".lazaret-") {
		t.Errorf("a temporary file is left:\n%s", out)
	}
}

// A directory that the host shares moves with what the Domain has below it, and
// what the host had hidden stays hidden.
func TestRenamedParents(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	w := newWorld(t, nil, (*world).ignored)
	w.sh("mkdir packages/a/node_modules; echo own >packages/a/node_modules/own; mv packages/a packages/c")
	w.holds(w.in("packages/c/node_modules/own"), "own\n")
	w.lists(w.in("packages/c"), "deep", "index", "node_modules")
	w.holds(w.host("packages/c/node_modules/host"), "host's packages/a/node_modules/host")
	// Where the old name's rule does not hold.
	w.sh("mkdir -p a/b && mv docs a/b/moved")
	w.absent(w.in("a/b/moved/out/host"))
	w.restart()
	w.absent(w.in("a/b/moved/out/host"), w.in("packages/c/node_modules/host"))
	w.holds(w.in("packages/c/node_modules/own"), "own\n")
	if err := unix.Rmdir(w.in("packages/b")); !errors.Is(err, unix.ENOTEMPTY) {
		t.Errorf("rmdir of a directory with files: %v", err)
	}
}

// Tracked files stay shared in an ignored directory, which lists both.
func TestUnion(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	w := newWorld(t, nil, func(w *world) {
		w.write(w.host("dist/tracked"), "tracked")
		w.write(w.host("dist/sub/host"), "hidden")
		w.git(w.Host, "add", "-f", "dist/tracked")
		w.git(w.Host, "commit", "-qm", "tracked")
	})
	w.lists(w.in("dist"), "tracked")
	w.sh("echo own >dist/own; mkdir dist/sub; echo s >dist/sub/own; echo changed >dist/tracked")
	w.lists(w.in("dist"), "own", "sub", "tracked")
	w.lists(w.in("dist/sub"), "own")
	w.holds(w.host("dist/tracked"), "changed\n")
	w.absent(w.host("dist/own"), w.host("dist/sub/own"))
	// Removed, with what is tracked, and made again by Git.
	w.sh("rm -rf dist || true; ! [ -e dist/own ] && ! [ -e dist/tracked ]; git checkout -q -- dist")
	w.holds(w.host("dist/tracked"), "tracked")
	w.holds(w.host("dist/sub/host"), "hidden")
}

// SR-13: nothing done inside shows what was isolated, in this generation or a
// later one; the developer's hand edit does, at once.
func TestOneWay(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	w := newWorld(t, nil, (*world).ignored)
	hidden := func(how string) {
		t.Helper()
		for range 2 {
			for _, name := range []string{".env", "secret/key", "target/host", "packages/a/node_modules/host"} {
				if b, err := os.ReadFile(w.in(name)); err == nil {
					t.Errorf("%s: %s is seen: %q", how, name, b)
				}
			}
			out, err := w.run(w.Mount, "grep", "-rIl", "host's ", ".")
			if err == nil {
				t.Errorf("%s: found: %s", how, out)
			}
			time.Sleep(100 * time.Millisecond)
			w.restart()
		}
	}
	for _, script := range []string{
		"echo >.gitignore", "rm .gitignore", "printf '!.env\\n!secret/\\n' >.gitignore", "mv .gitignore x", "ln x .gitignore; : >x",
		"git add -f . || true", "git rm -rq --cached . || true", "mkdir p; mv packages p/q", "ln -s /proc/self/cwd/.env l; cat l || true",
		"git config core.excludesFile /dev/null || true", "echo '!.env' >.git/info/exclude || true", "cp x .gitignore; git add .gitignore; git commit -qm x || true",
		"mv .git .git2 || true", "rm -rf .git || true",
	} {
		_, _ = w.run(w.Mount, "sh", "-c", script)
		hidden(script)
	}
}

// A hand edit on the host counts within a second, both ways.
func TestHandEdit(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	w := newWorld(t, nil, nil)
	w.write(w.host(".env"), "from the host")
	w.absent(w.in(".env"))
	time.Sleep(30 * time.Millisecond)
	w.write(w.host(".gitignore"), "node_modules/\n")
	w.soon("exposed", func() error {
		if b, err := os.ReadFile(w.in(".env")); err != nil || string(b) != "from the host" {
			return fmt.Errorf("%q, %w", b, err)
		}
		return nil
	})
	w.write(w.host("build/out"), "new")
	w.holds(w.in("build/out"), "new")
	w.write(w.host(".gitignore"), "node_modules/\nbuild/\n.env\n")
	w.soon("isolated", func() error {
		for _, name := range []string{"build/out", ".env"} {
			if _, err := os.Lstat(w.in(name)); !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	})
}
