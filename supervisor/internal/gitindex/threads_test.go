package gitindex_test

import (
	"crypto/sha1"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lazaret.dev/lazaret/supervisor/internal/gitindex"
)

// TestHiddenEntries: Git's threads begin to read where a table in the index
// says, so that they find entries which a reader from front to back never
// sees, here in an extension that is ignored. The gate must not be such a
// reader. [git] case 6.
func TestHiddenEntries(t *testing.T) {
	dir := t.TempDir()
	git(t, dir, "", "init", "-q")
	one, two := forged{path: "aa/aaaaaaaaaaaaaaaaaaa", mode: 0o100644}, forged{path: "zz", mode: 0o100644}
	entries := forge(2, "", one, two)
	entries = entries[:len(entries)-sha1.Size]
	hidden := forge(2, "", forged{path: ".git/hooks/post-commit", mode: 0o100755})
	hidden = hidden[12 : len(hidden)-sha1.Size]
	end, second := len(entries), len(forge(2, "", one))-sha1.Size
	table := be32(1, uint32(end+8), 1, uint32(second), 1)
	heads := sha1.Sum([]byte("JUNK" + be32(uint32(len(hidden))) + "IEOT" + be32(uint32(len(table)))))
	b := append(entries, ext("JUNK", string(hidden))+ext("IEOT", table)+ext("EOIE", be32(uint32(end))+string(heads[:]))...)
	sum := sha1.Sum(b)
	b = append(b, sum[:]...)
	if n := binary.BigEndian.Uint32(b[8:]); n != 2 {
		t.Fatalf("the index has %d entries", n)
	}
	if err := os.WriteFile(filepath.Join(dir, ".git/index"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	if list := git(t, dir, "", "-c", "index.threads=1", "ls-files"); strings.Contains(list, "hooks") {
		t.Errorf("git sees it with one thread: %q", list)
	}
	if list := git(t, dir, "", "-c", "index.threads=3", "ls-files"); !strings.Contains(list, ".git/hooks/post-commit") {
		t.Logf("this git does not see it with three threads: %q", list)
	}
	if err := verify(b, gitindex.Facts{HashSize: 20}); !isRefusal(err) {
		t.Errorf("it passes: %v", err)
	}
}
