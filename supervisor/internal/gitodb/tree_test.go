package gitodb_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"lazaret.dev/lazaret/supervisor/internal/gitodb"
)

// TestTree reads the trees that Git made, loose and packed, and through a tag.
func TestTree(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "r")
	git(t, base, "", "init", "-q", "-b", "main", "r")
	git(t, dir, "", "config", "user.name", "n")
	git(t, dir, "", "config", "user.email", "e@x")
	for i := range 300 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("file-%03d", i)), []byte{byte(i)}, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sub/x"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, m := range []string{"first", "second"} {
		git(t, dir, "", "add", "-A")
		git(t, dir, "", "commit", "-q", "--allow-empty", "-m", m)
		if err := os.WriteFile(filepath.Join(dir, "file-150"), []byte(m), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git(t, dir, "", "tag", "-a", "-m", "t", "v1")
	for _, state := range []string{"loose", "packed"} {
		s := store(t, dir, 20)
		tree, err := s.TreeOf(raw(t, git(t, dir, "", "rev-parse", "v1")))
		if err != nil || hex.EncodeToString([]byte(tree)) != git(t, dir, "", "rev-parse", "HEAD^{tree}") {
			t.Fatalf("%s: %x, %v", state, tree, err)
		}
		got, err := s.Tree(tree)
		if err != nil || len(got) != 301 {
			t.Fatalf("%s: %d entries, %v", state, len(got), err)
		}
		for _, e := range got {
			if want := git(t, dir, "", "rev-parse", "HEAD:"+e.Name); hex.EncodeToString([]byte(e.ID)) != want || e.Dir != (e.Name == "sub") || e.Link {
				t.Errorf("%s: %+v, want %s", state, e, want)
			}
		}
		if _, err := s.Tree(string(raw(t, git(t, dir, "", "rev-parse", "HEAD:sub/x")))); err == nil {
			t.Errorf("%s: a blob was read as a tree", state)
		}
		git(t, dir, "", "repack", "-q", "-a", "-d", "-f")
	}
}

// FuzzDelta: no delta makes more than it declares, or reads what is not there.
func FuzzDelta(f *testing.F) {
	f.Add([]byte("base text"), []byte("\x09\x0c\x90\x09\x03abc"))
	f.Add([]byte("b"), []byte("\x01\x02\x91\x00\x01\x01x"))
	f.Fuzz(func(t *testing.T, base, delta []byte) {
		out, err := gitodb.Patch(base, delta)
		if err == nil && len(out) > len(base)*len(delta)*2+len(delta) && len(out) > 1<<16*len(delta) {
			t.Errorf("%d bytes of %d and %d", len(out), len(base), len(delta))
		}
	})
}

// memory is a file in memory.
type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

// FuzzPack: whatever stands in a pack, reading it comes to an end.
func FuzzPack(f *testing.F) {
	f.Add([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01\x90\x01x\x9c\x03\x00\x00\x00\x00\x01"), int64(12))
	f.Add([]byte("\x61\x01x\x9c\x03\x00\x00\x00\x00\x01"), int64(0))
	f.Fuzz(func(_ *testing.T, b []byte, at int64) {
		_ = gitodb.Unpack(memory{bytes.NewReader(b)}, at)
	})
}
