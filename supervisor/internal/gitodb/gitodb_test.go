package gitodb_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/gitodb"
)

func git(t *testing.T, dir, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func openDir(t *testing.T, path string) (gitodb.Dir, func() error) {
	t.Helper()
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return gitodb.At(fd), func() error { return unix.Close(fd) }
}

func store(t *testing.T, dir string, hashSize int) *gitodb.Store {
	t.Helper()
	d, closer := openDir(t, filepath.Join(dir, ".git/objects"))
	t.Cleanup(func() { _ = closer() })
	return &gitodb.Store{Objects: d, HashSize: hashSize, Alternate: func(_ gitodb.Dir, path string) (gitodb.Dir, func() error, error) {
		d, closer := openDir(t, path)
		return d, closer, nil
	}}
}

// TestHasBlob asks databases of every kind that Git makes.
func TestHasBlob(t *testing.T) {
	for _, format := range []struct {
		name string
		size int
	}{{"sha1", 20}, {"sha256", 32}} {
		base := t.TempDir()
		dir := filepath.Join(base, "r")
		git(t, base, "", "init", "-q", "--object-format="+format.name, "r")
		config, err := os.ReadFile(filepath.Join(dir, ".git/config"))
		if err != nil {
			t.Fatal(err)
		}
		if n, err := gitodb.HashSize(config); n != format.size || err != nil {
			t.Fatalf("%s: the hash has %d bytes, %v", format.name, n, err)
		}
		text := func(i int) string { return fmt.Sprintf("*.log\n%d\n", i) }
		write := func(from, to int) {
			var tree strings.Builder
			for i := from; i < to; i++ {
				id := git(t, dir, text(i), "hash-object", "-w", "--stdin")
				fmt.Fprintf(&tree, "100644 blob %s\tf%d\n", id, i)
			}
			id := git(t, dir, tree.String(), "mktree")
			git(t, dir, "", "tag", fmt.Sprintf("t%d", from), id)
		}
		check := func(s *gitodb.Store, kind string, n int) {
			t.Helper()
			for i := range n + 40 {
				got, err := s.HasBlob([]byte(text(i)))
				if err != nil {
					t.Fatalf("%s, %s: %v", format.name, kind, err)
				}
				if want := i < n; got != want {
					t.Errorf("%s, %s: text %d is a blob: %v", format.name, kind, i, got)
				}
			}
		}
		s := store(t, dir, format.size)
		check(s, "empty", 0)
		write(0, 40)
		check(s, "loose", 40)
		if format.size == 20 {
			git(t, dir, "", "-c", "pack.indexVersion=1", "repack", "-adq")
			git(t, dir, "", "prune-packed")
			check(s, "version 1", 40)
		}
		write(40, 80)
		git(t, dir, "", "repack", "-dq")
		check(s, "two packs", 80)
		git(t, dir, "", "multi-pack-index", "write")
		idx, _ := filepath.Glob(filepath.Join(dir, ".git/objects/pack/*.idx"))
		for _, name := range idx {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
		check(s, "multi-pack-index", 80)
		git(t, base, "", "clone", "-q", "-s", "--no-checkout", "r", "borrows")
		check(store(t, filepath.Join(base, "borrows"), format.size), "alternates", 80)
		if _, err := (&gitodb.Store{Objects: store(t, filepath.Join(base, "borrows"), format.size).Objects, HashSize: format.size}).HasBlob([]byte("x")); err == nil {
			t.Error("a database that borrows answers without those that it borrows from")
		}
	}
}

// TestBorrowsInCircles: databases that borrow from one another end in an
// error.
func TestBorrowsInCircles(t *testing.T) {
	d := mem{"info/alternates": []byte("../x\n../y\n")}
	s := &gitodb.Store{Objects: d, HashSize: 20, Alternate: func(gitodb.Dir, string) (gitodb.Dir, func() error, error) {
		return d, func() error { return nil }, nil
	}}
	if found, err := s.HasBlob(nil); found || err == nil {
		t.Errorf("%v, %v", found, err)
	}
}

// TestUnreadable: what may be an answer and cannot be read is an error.
func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	id := "5716ca5987cbf97d6bb54920bea6adde242d87e6" // of "bar\n"
	objects := filepath.Join(dir, ".git/objects")
	if err := os.MkdirAll(filepath.Join(objects, id[:2]), 0o700); err != nil {
		t.Fatal(err)
	}
	s := store(t, dir, 20)
	ask := func() (bool, error) { return s.HasBlob([]byte("bar\n")) }
	if found, err := ask(); found || err != nil {
		t.Fatal(found, err)
	}
	loose := filepath.Join(objects, id[:2], id[2:])
	if err := os.Symlink("/dev/null", loose); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(); err == nil {
		t.Error("a link in an object's place is no error")
	}
	_ = os.Remove(loose)
	if err := unix.Mkfifo(loose, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(); err == nil {
		t.Error("a FIFO in an object's place is no error")
	}
	_ = os.Remove(loose)
	if err := os.MkdirAll(filepath.Join(objects, "pack"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(objects, "pack/pack-1.idx"), []byte("\xfftOc\x00\x00\x00\x02"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(); err == nil {
		t.Error("a pack's index that ends early is no error")
	}
}

func TestHashSize(t *testing.T) {
	for config, want := range map[string]int{
		"": 20, "[core]\n\tbare = false\n": 20, "[extensions]\n\tobjectformat = sha256\n": 32, "[Extensions] objectFormat=\"sha256\" ; x\n": 32,
		"[extensions]\nobjectFormat = sha256\n[core]\nobjectFormat = sha1\n": 32, "[extensions]\nobjectformat = sha1\n": 20, "[extensions]\nobjectformat = sha512\n": 0,
	} {
		if got, err := gitodb.HashSize([]byte(config)); got != want || (err == nil) != (want != 0) {
			t.Errorf("%q: %d, %v", config, got, err)
		}
	}
}

// mem is a directory in memory.
type mem map[string][]byte

type memFile struct{ *bytes.Reader }

func (f memFile) Close() error { return nil }
func (f memFile) Size() int64  { return f.Reader.Size() }

func (m mem) Open(name string) (gitodb.File, error) {
	b, ok := m[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return memFile{bytes.NewReader(b)}, nil
}

func (m mem) ReadDir(name string) ([]string, error) {
	files := fstest.MapFS{}
	for n := range m {
		files[n] = &fstest.MapFile{}
	}
	list, err := files.ReadDir(name)
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names, err
}

// FuzzPackIndex: any bytes answer or are an error.
func FuzzPackIndex(f *testing.F) {
	f.Add([]byte("\xfftOc\x00\x00\x00\x02"+strings.Repeat("\x00\x00\x00\x01", 256)+strings.Repeat("x", 20)), []byte("MIDX\x01\x01\x02\x00\x00\x00\x00\x00OIDF\x00\x00\x00\x00\x00\x00\x00\x40OIDL"))
	f.Add([]byte(strings.Repeat("\xff", 1030)), []byte{})
	f.Fuzz(func(t *testing.T, pack, multi []byte) {
		for _, hashSize := range []int{20, 32} {
			s := &gitodb.Store{Objects: mem{"pack/a.idx": pack, "pack/multi-pack-index": multi}, HashSize: hashSize}
			_, _ = s.HasBlob([]byte("x"))
		}
	})
}
