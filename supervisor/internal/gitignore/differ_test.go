package gitignore_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lazaret.dev/lazaret/supervisor/internal/gitignore"
)

// defaultPairs is what every run checks; LAZARET_TEST_IGNORE_PAIRS asks for
// another number, LAZARET_TEST_SEED for the random numbers of an earlier run.
const defaultPairs = 6000

// TestAgreesWithGit compares the verdict on every path of random trees under
// random rules with `git check-ignore`. [git] case 42, SR-13.
func TestAgreesWithGit(t *testing.T) {
	pairs := number(t, "LAZARET_TEST_IGNORE_PAIRS", defaultPairs)
	seed := uint64(number(t, "LAZARET_TEST_SEED", int(time.Now().UnixNano()&(1<<53-1))))
	t.Logf("LAZARET_TEST_SEED=%d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	dialect := gitDialect(t)
	began := time.Now()
	var done, asked, ignored, differ int
	for done < pairs {
		// A share of the pairs has a repository of its own, and with it files
		// of every kind; the others lie beside one another in one.
		n := 1
		if r.IntN(64) != 0 {
			n = 400
		}
		w := newWorld(t, r, n)
		for range 6 {
			w.writeRules(r)
			paths := w.paths()
			want := gitSays(t, w, paths)
			for i, p := range paths {
				asked++
				got := w.ignores(p.path, p.isDir, dialect)
				if want[i] {
					ignored++
				}
				if got != want[i] {
					differ++
					if differ <= 10 {
						t.Errorf("%q (directory: %v, fold: %v): ignored %v, git says %v\n%s",
							p.path, p.isDir, w.fold, got, want[i], w.rulesFor(p.path))
					}
				}
			}
			done += n
		}
		w.remove(t)
	}
	t.Logf("%d pairs, %d paths, %d ignored, %d differ, %s", done, asked, ignored, differ, time.Since(began).Round(time.Second))
	if ignored*20 < asked || ignored*20 > asked*19 {
		t.Errorf("%d of %d paths are ignored: the generator is of little use", ignored, asked)
	}
}

func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// world is a repository with n trees, each with rules of its own.
type world struct {
	dir   string
	fold  bool
	trees []*tree
	// rules holds the text of every ignore file by its path in the repository;
	// "exclude" and "global" are the two outside the working tree.
	rules map[string][]byte
}

type entry struct {
	path  string
	isDir bool
}

// tree is one directory with its entries; top is its name and a slash, "" for
// a repository of one tree.
type tree struct {
	top     string
	entries []entry
	dirs    []string // with a slash at the end, the tree's own first
}

func git(t *testing.T, dir string, stdin []byte, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "XDG_CONFIG_HOME=/nonexistent", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_CEILING_DIRECTORIES=" + filepath.Dir(dir),
	}
	cmd.Stdin = bytes.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	// check-ignore exits with 1 when nothing is ignored.
	if err != nil && (cmd.ProcessState.ExitCode() != 1 || args[0] != "check-ignore") {
		t.Fatalf("git %v: %v\n%s", args, err, stderr.String())
	}
	return out
}

func gitDialect(t *testing.T) gitignore.Dialect {
	t.Helper()
	dir := t.TempDir()
	git(t, dir, nil, "init", "-q")
	write(t, filepath.Join(dir, ".gitignore"), []byte("a**/x\n"))
	if len(git(t, dir, []byte("a/b/x\x00"), "check-ignore", "--stdin", "-z")) > 0 {
		return gitignore.Before252
	}
	return gitignore.Since252
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func newWorld(t *testing.T, r *rand.Rand, n int) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), fold: r.IntN(3) == 0}
	// What `git init` would make, without starting it.
	for _, d := range []string{".git/objects", ".git/refs", ".git/info"} {
		if err := os.MkdirAll(filepath.Join(w.dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(w.dir, ".git/HEAD"), []byte("ref: refs/heads/main\n"))
	write(t, filepath.Join(w.dir, ".git/config"), fmt.Appendf(nil,
		"[core]\n\trepositoryformatversion = 0\n\tignorecase = %v\n\texcludesFile = %q\n", w.fold, filepath.Join(w.dir, ".git/global")))
	for i := range n {
		tr := &tree{}
		if n > 1 {
			tr.top = fmt.Sprintf("t%d/", i)
			tr.dirs = append(tr.dirs, tr.top)
		} else {
			tr.dirs = append(tr.dirs, "")
		}
		tr.grow(t, r, w.dir)
		w.trees = append(w.trees, tr)
	}
	return w
}

func (w *world) remove(t *testing.T) {
	t.Helper()
	if err := os.RemoveAll(w.dir); err != nil {
		t.Fatal(err)
	}
}

// grow makes the tree's entries. Names repeat on purpose, so that rules made
// from other trees' names hit too.
func (tr *tree) grow(t *testing.T, r *rand.Rand, root string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(root, tr.top), 0o700); err != nil {
		t.Fatal(err)
	}
	taken := map[string]bool{}
	for range 3 + r.IntN(9) {
		dir := tr.dirs[r.IntN(len(tr.dirs))]
		path := dir + randomName(r)
		if taken[path] || strings.Count(path, "/") > 5 {
			continue
		}
		taken[path] = true
		full := filepath.Join(root, path)
		var err error
		isDir := false
		switch k := r.IntN(10); {
		case k < 5:
			isDir = true
			err = os.Mkdir(full, 0o700)
			tr.dirs = append(tr.dirs, path+"/")
		case k == 5:
			// A link to a directory is no directory to Git.
			err = os.Symlink(".", full)
		default:
			var f *os.File
			if f, err = os.Create(full); err == nil {
				err = f.Close()
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		tr.entries = append(tr.entries, entry{path, isDir})
	}
}

// writeRules gives every tree new ignore files, and the world new shared ones.
func (w *world) writeRules(r *rand.Rand) {
	for name := range w.rules {
		_ = os.Remove(w.file(name))
	}
	w.rules = map[string][]byte{}
	put := func(name string, text []byte) {
		w.rules[name] = text
		if err := os.WriteFile(w.file(name), text, 0o600); err != nil {
			panic(err)
		}
	}
	shared := len(w.trees) > 1
	for _, tr := range w.trees {
		for i, d := range tr.dirs {
			if i == 0 || r.IntN(4) == 0 {
				put(d+".gitignore", randomRules(r, tr, d, false))
			}
		}
	}
	for _, name := range []string{"exclude", "global"} {
		if r.IntN(2) == 0 {
			put(name, randomRules(r, w.trees[r.IntN(len(w.trees))], "", shared))
		}
	}
	if shared && r.IntN(2) == 0 {
		put(".gitignore", randomRules(r, w.trees[r.IntN(len(w.trees))], "", true))
	}
}

// file is where the rules of that name lie.
func (w *world) file(name string) string {
	switch name {
	case "exclude":
		return filepath.Join(w.dir, ".git/info/exclude")
	case "global":
		return filepath.Join(w.dir, ".git/global")
	}
	return filepath.Join(w.dir, name)
}

func (w *world) paths() []entry {
	var all []entry
	for _, tr := range w.trees {
		all = append(all, tr.entries...)
	}
	return all
}

// gitSays asks Git about every path, in one process.
func gitSays(t *testing.T, w *world, paths []entry) []bool {
	t.Helper()
	var in bytes.Buffer
	for _, p := range paths {
		// The prefix keeps a colon from being read as pathspec magic.
		in.WriteString("./" + p.path)
		in.WriteByte(0)
	}
	f := bytes.Split(git(t, w.dir, in.Bytes(), "check-ignore", "--stdin", "-z", "--verbose", "--non-matching"), []byte{0})
	if len(f) != 4*len(paths)+1 {
		t.Fatalf("git answers %d fields about %d paths", len(f), len(paths))
	}
	said := make([]bool, len(paths))
	for i, p := range paths {
		source, pattern, path := f[4*i], f[4*i+2], f[4*i+3]
		if string(path) != "./"+p.path {
			t.Fatalf("git answers about %q, asked about %q", path, p.path)
		}
		said[i] = len(source) > 0 && !bytes.HasPrefix(pattern, []byte("!"))
	}
	return said
}

// ignores is the matcher's answer: the stack is built from the root down, and
// an ignored directory settles it for all that lies below.
func (w *world) ignores(path string, isDir bool, d gitignore.Dialect) bool {
	o := gitignore.Options{Fold: w.fold, Dialect: d}
	var s *gitignore.Stack
	for _, name := range []string{"global", "exclude"} {
		s = s.Push(0, gitignore.Parse(w.rules[name], o))
	}
	for i := 0; ; {
		s = s.Push(i, gitignore.Parse(w.rules[path[:i]+".gitignore"], o))
		next := strings.IndexByte(path[i:], '/')
		if next < 0 {
			return s.Ignores(path, isDir)
		}
		if s.Ignores(path[:i+next], true) {
			return true
		}
		i += next + 1
	}
}

// rulesFor prints the rules that may have a say about a path.
func (w *world) rulesFor(path string) string {
	var b strings.Builder
	for name, text := range w.rules {
		if dir, ok := strings.CutSuffix(name, ".gitignore"); !ok || strings.HasPrefix(path, dir) {
			fmt.Fprintf(&b, "  %q: %q\n", name, text)
		}
	}
	lines := strings.SplitAfter(b.String(), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "")
}
