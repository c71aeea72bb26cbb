package route_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/fdfs"
	"lazaret.dev/lazaret/supervisor/internal/gitodb"
	"lazaret.dev/lazaret/supervisor/internal/route"
)

// disk is a workspace on disk.
type disk struct {
	fd   int
	path string
}

func newDisk(t testing.TB, path string) *disk {
	t.Helper()
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return &disk{fd, path}
}

func (d *disk) ReadFile(path string, limit int64) ([]byte, error) {
	return fdfs.ReadRegular(d.fd, path, limit)
}

func kind(m uint32) route.Kind {
	switch m & unix.S_IFMT {
	case unix.S_IFREG:
		return route.Regular
	case unix.S_IFDIR:
		return route.Directory
	}
	return route.Other
}

func (d *disk) ReadDir(path string) ([]route.Entry, error) {
	fd, err := fdfs.Open(d.fd, path, unix.O_RDONLY|unix.O_DIRECTORY, true)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	defer func() { _ = f.Close() }()
	entries, err := f.ReadDir(-1)
	var list []route.Entry
	for _, e := range entries {
		k := route.Other
		switch {
		case e.IsDir():
			k = route.Directory
		case e.Type().IsRegular():
			k = route.Regular
		}
		list = append(list, route.Entry{Name: e.Name(), Kind: k})
	}
	return list, err
}

func (d *disk) Lstat(path string) (route.Entry, error) {
	fd, err := fdfs.Open(d.fd, path, unix.O_PATH|unix.O_NOFOLLOW, true)
	if err != nil {
		return route.Entry{}, err
	}
	defer func() { _ = unix.Close(fd) }()
	st, err := fdfs.Stat(fd)
	return route.Entry{
		Kind: kind(st.Mode), Dev: st.Dev, Ino: st.Ino, Nlink: st.Nlink, Size: st.Size, Sec: st.Mtim.Sec, Nsec: st.Mtim.Nsec,
	}, err
}

func (d *disk) Repository(dir string) (*route.Repo, error) {
	fd, err := unix.Open(filepath.Join(d.path, dir, ".git"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	objects, err := unix.Openat(fd, "objects", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &route.Repo{
		GitDir: gitodb.At(fd), Common: gitodb.At(fd), Objects: gitodb.At(objects), HashSize: 20,
		Close: func() error { return errors.Join(unix.Close(fd), unix.Close(objects)) },
	}, nil
}

func git(t testing.TB, dir, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
	}
	cmd.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil && (args[0] != "check-ignore" || cmd.ProcessState.ExitCode() != 1) {
		t.Fatalf("git %v: %v\n%s", args, err, stderr.String())
	}
	return string(out)
}

func put(t testing.TB, root, path, text string) {
	t.Helper()
	full := filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func newRecord(t testing.TB) route.Record {
	t.Helper()
	return route.NewRecord(newDisk(t, t.TempDir()).fd, "ignored.json")
}

func openDisk(t testing.TB, d *disk, rec route.Record) *route.Router {
	t.Helper()
	r, err := route.Open(d, d, rec, route.Options{Isolate: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestAgreesWithGit compares places in random repositories, with nested ones
// and tracked files, with `git check-ignore`. SR-13, [git] cases 5 and 42.
func TestAgreesWithGit(t *testing.T) {
	seed := uint64(time.Now().UnixNano() & (1<<53 - 1))
	if s := os.Getenv("LAZARET_TEST_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("LAZARET_TEST_SEED=%d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	names := []string{"a", "b", "x", "out", "k.log", "n"}
	lines := []string{"out/", "*.log", "!k.log", "/a", "b/x", "**/n", "x", "!x", "a/**/b", "n/", "*", "!*/", "!a", "[a-b]", "out"}
	counts := map[route.Place]int{}
	for range 25 {
		dir := t.TempDir()
		dirs := []string{"", "nest/"}
		git(t, dir, "", "init", "-q")
		git(t, dir, "", "init", "-q", "nest")
		for range 12 {
			d := dirs[r.IntN(len(dirs))] + names[r.IntN(len(names))] + "/"
			if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err == nil {
				dirs = append(dirs, d)
			}
		}
		for range 30 {
			full := filepath.Join(dir, dirs[r.IntN(len(dirs))], names[r.IntN(len(names))])
			if f, err := os.OpenFile(full, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err == nil {
				_ = f.Close()
			}
		}
		for _, d := range dirs {
			if r.IntN(3) == 0 || d == "" {
				var text strings.Builder
				for range 1 + r.IntN(4) {
					text.WriteString(lines[r.IntN(len(lines))] + "\n")
				}
				put(t, dir, d+".gitignore", text.String())
			}
		}
		put(t, dir, ".git/info/exclude", lines[r.IntN(len(lines))])
		put(t, dir, "nest/.git/info/exclude", lines[r.IntN(len(lines))])
		// Every file with its repository, and some of them tracked.
		repos := map[string][]string{}
		isDir := map[string]bool{}
		err := filepath.WalkDir(dir, func(full string, e os.DirEntry, err error) error {
			path := strings.TrimPrefix(strings.TrimPrefix(full, dir), "/")
			switch {
			case err != nil:
				return err
			case e.Name() == ".git":
				return filepath.SkipDir
			case path == "":
				return nil
			}
			repo := ""
			if strings.HasPrefix(path, "nest/") {
				repo = "nest"
			}
			repos[repo] = append(repos[repo], path)
			isDir[path] = e.IsDir()
			return nil
		})
		must(t, 0, err)
		ignored := map[string]bool{}
		for repo, paths := range repos {
			at := filepath.Join(dir, repo)
			rel := func(p string) string { return strings.TrimPrefix(strings.TrimPrefix(p, repo), "/") }
			for _, p := range paths {
				if !isDir[p] && r.IntN(6) == 0 {
					git(t, at, "", "add", "-f", "--", rel(p))
				}
			}
			var in strings.Builder
			for _, p := range paths {
				in.WriteString(rel(p) + "\x00")
			}
			for p := range strings.SplitSeq(git(t, at, in.String(), "check-ignore", "--stdin", "-z"), "\x00") {
				if p != "" {
					ignored[strings.TrimPrefix(repo+"/"+p, "/")] = true
				}
			}
		}
		router := openDisk(t, newDisk(t, dir), newRecord(t))
		for repo, paths := range repos {
			for _, p := range paths {
				place := router.Place(p, isDir[p])
				counts[place]++
				// A nested repository is a directory of the outer one, which may be
				// ignored as a whole, but for what it tracks itself.
				want := ignored[p]
				if repo != "" && ignored[repo] {
					continue
				}
				if got := place == route.Isolated; got != want {
					t.Errorf("%q is %d, git says ignored: %v", p, place, want)
				}
			}
		}
		if t.Failed() {
			t.Fatalf("%s", git(t, dir, "", "ls-files"))
		}
	}
	t.Log(counts)
	for _, place := range []route.Place{route.Shared, route.Isolated, route.Union} {
		if counts[place] == 0 {
			t.Errorf("no path is %d", place)
		}
	}
}

// TestRealCheckout: what a real Git checks out, merges or stashes waits; an
// edit does not. SR-13.
func TestRealCheckout(t *testing.T) {
	dir := t.TempDir()
	git(t, dir, "", "init", "-q", "-b", "main")
	put(t, dir, ".gitignore", ".env\n")
	put(t, dir, ".env", "secret")
	put(t, dir, "f", "x")
	git(t, dir, "", "add", ".gitignore", "f")
	git(t, dir, "", "commit", "-qm", "1")
	git(t, dir, "", "switch", "-qc", "evil")
	put(t, dir, ".gitignore", "nothing\n")
	git(t, dir, "", "commit", "-qam", "2")
	git(t, dir, "", "switch", "-q", "main")
	for name, arrives := range map[string][]string{
		"checkout": {"checkout", "-q", "evil"}, "merge": {"merge", "-q", "--no-ff", "-m", "m", "evil"}, "restore": {"restore", "-s", "evil", ".gitignore"},
		"reset": {"reset", "-q", "--hard", "evil"}, "cherry-pick": {"cherry-pick", "evil"}, "rebase": {"rebase", "-q", "evil"},
	} {
		git(t, dir, "", "checkout", "-qf", "main")
		base := strings.TrimSpace(git(t, dir, "", "rev-parse", "HEAD"))
		rec := newRecord(t)
		d := newDisk(t, dir)
		r := openDisk(t, d, rec)
		git(t, dir, "", arrives...)
		for range 2 {
			must(t, 0, second(r.Changed(".gitignore")))
			must(t, 0, second(r.RepositoryChanged("")))
			if p := r.Place(".env", false); p != route.Isolated {
				t.Errorf("after %s .env is %d", name, p)
			}
			r = openDisk(t, d, rec)
		}
		put(t, dir, ".gitignore", "by hand\n")
		must(t, 0, second(r.Changed(".gitignore")))
		if p := r.Place(".env", false); p != route.Isolated {
			t.Errorf("after %s and an edit .env is %d", name, p)
		}
		must(t, 0, accept(r))
		if p := r.Place(".env", false); p != route.Shared {
			t.Errorf("accepted, .env is %d", p)
		}
		git(t, dir, "", "checkout", "-qf", "main")
		git(t, dir, "", "reset", "-q", "--hard", base)
	}
	rec := newRecord(t)
	r := openDisk(t, newDisk(t, dir), rec)
	put(t, dir, ".gitignore", "edited\n")
	must(t, 0, second(r.Changed(".gitignore")))
	if p := r.Place(".env", false); p != route.Shared {
		t.Errorf("edited by hand, .env is %d", p)
	}
	if len(r.Relaxed()) > 0 {
		t.Error("a hand edit is on record")
	}
}

func second(_ []string, err error) error { return err }

// big makes a tree of n files in directories of 20, with ordinary rules.
func big(b *testing.B, n int) (*disk, []string) {
	b.Helper()
	dir := b.TempDir()
	git(b, dir, "", "init", "-q")
	put(b, dir, ".gitignore", "node_modules/\n*.log\n/dist/\n**/target/\n.env\n!.env.example\n*.py[cod]\n.DS_Store\n/build*/\ncoverage/\n*.swp\n.idea/\n")
	var paths []string
	var index strings.Builder
	for i := range n {
		p := fmt.Sprintf("src/p%d/q%d/file%d.go", i/2000, i/20%100, i%20)
		put(b, dir, p, "")
		paths = append(paths, p)
		fmt.Fprintf(&index, "100644 %040x\t%s\x00", 1, p)
	}
	git(b, dir, index.String(), "update-index", "-z", "--index-info")
	return newDisk(b, dir), paths
}

func BenchmarkPlace(b *testing.B) {
	d, paths := big(b, 50_000)
	rec := newRecord(b)
	b.Run("first start", func(b *testing.B) {
		for b.Loop() {
			openDisk(b, d, newRecord(b)).Close()
		}
	})
	r := openDisk(b, d, rec)
	b.Run("later start", func(b *testing.B) {
		for b.Loop() {
			openDisk(b, d, rec).Close()
		}
	})
	b.Run("place", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			if r.Place(paths[i%len(paths)], false) != route.Shared {
				b.Fatal(paths[i%len(paths)])
			}
			i++
		}
	})
	b.Run("edit", func(b *testing.B) {
		i := 0
		for b.Loop() {
			put(b, d.path, ".gitignore", fmt.Sprintf("#%d\n*.log\n.env\n", i))
			i++
			must(b, 0, second(r.Changed(".gitignore")))
		}
	})
	b.Run("index", func(b *testing.B) {
		for b.Loop() {
			must(b, 0, r.Settle())
			must(b, 0, second(r.RepositoryChanged("")))
		}
	})
}
