package gitindex_test

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lazaret.dev/lazaret/supervisor/internal/gitindex"
)

func git(t testing.TB, dir, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
	}
	cmd.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, stderr.String())
	}
	return string(out)
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// options are for the repository in dir.
func options(t testing.TB, dir string, hashSize int) gitindex.Options {
	return gitindex.Options{HashSize: hashSize, Shared: func(id string) (io.ReaderAt, int64, error) {
		b := read(t, filepath.Join(dir, ".git/sharedindex."+id))
		return bytes.NewReader(b), int64(len(b)), nil
	}}
}

func parse(t testing.TB, dir string, hashSize int) (*gitindex.Index, error) {
	t.Helper()
	b := read(t, filepath.Join(dir, ".git/index"))
	return gitindex.Parse(bytes.NewReader(b), int64(len(b)), options(t, dir, hashSize))
}

func verify(b []byte, f gitindex.Facts) error {
	return gitindex.Verify(bytes.NewReader(b), int64(len(b)), f)
}

func randomPath(r *rand.Rand) string {
	parts := []string{"a", "b", "src", "long-directory-name", "x.go", "é", "A", "a b", "0", ".env", "-", strings.Repeat("n", 200)}
	p := slices.Repeat([]string{""}, 1+r.IntN(5))
	for i := range p {
		p[i] = parts[r.IntN(len(parts))]
		if r.IntN(3) == 0 {
			p[i] += strconv.Itoa(r.IntN(40))
		}
	}
	if r.IntN(60) == 0 {
		for len(strings.Join(p, "/")) < 0x1000-300 {
			p = append(p, strings.Repeat("d", 190))
		}
	}
	return strings.Join(p, "/")
}

// TestAgreesWithGit compares the entries with `git ls-files` over random
// indexes of every kind.
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
	kinds := map[string]int{}
	for n := range 40 {
		dir := t.TempDir()
		hashSize, format := 20, "sha1"
		if r.IntN(4) == 0 {
			hashSize, format = 32, "sha256"
		}
		git(t, dir, "", "init", "-q", "--object-format="+format)
		git(t, dir, "", "config", "index.threads", strconv.Itoa(1+r.IntN(4)))
		git(t, dir, "", "config", "splitIndex.maxPercentChange", "100")
		split := r.IntN(3) == 0
		version := 2 + r.IntN(3)
		for round := range 1 + r.IntN(3) {
			var in strings.Builder
			for range r.IntN(300) {
				path := randomPath(r)
				mode := []string{"100644", "100755", "120000", "160000"}[r.IntN(4)]
				switch hash := fmt.Sprintf("%0*x", 2*hashSize, 1+r.IntN(1000)); {
				case r.IntN(8) == 0:
					fmt.Fprintf(&in, "0 %0*x\t%s\x00", 2*hashSize, 0, path)
				case r.IntN(12) == 0:
					fmt.Fprintf(&in, "0 %0*x\t%s\x00", 2*hashSize, 0, path)
					for stage := 1; stage <= 3; stage++ {
						fmt.Fprintf(&in, "100644 %s %d\t%s\x00", hash, stage, path)
					}
				default:
					fmt.Fprintf(&in, "%s %s\t%s\x00", mode, hash, path)
				}
			}
			git(t, dir, in.String(), "update-index", "-z", "--replace", "--index-info")
			if round == 0 {
				git(t, dir, "", "update-index", "--index-version", strconv.Itoa(version))
				if split {
					git(t, dir, "", "update-index", "--split-index")
				}
			}
			var skip strings.Builder
			unmerged := git(t, dir, "", "ls-files", "-u", "-z")
			for path := range strings.SplitSeq(git(t, dir, "", "ls-files", "-z"), "\x00") {
				if path != "" && r.IntN(9) == 0 && !strings.Contains(unmerged, "\t"+path+"\x00") {
					skip.WriteString(path + "\x00")
				}
			}
			if n%4 == 0 {
				git(t, dir, skip.String(), "update-index", "-z", "--skip-worktree", "--stdin")
			}
			compare(t, dir, hashSize, kinds)
		}
	}
	t.Log(kinds)
	for _, kind := range []string{"v2", "v3", "v4", "split", "table", "unmerged"} {
		if kinds[kind] == 0 {
			t.Errorf("no index of kind %s", kind)
		}
	}
}

func compare(t *testing.T, dir string, hashSize int, kinds map[string]int) {
	t.Helper()
	b := read(t, filepath.Join(dir, ".git/index"))
	x, err := parse(t, dir, hashSize)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for e := range x.All() {
		tag := "H"
		switch {
		case e.Stage != 0:
			tag = "M"
			kinds["unmerged"]++
		case e.SkipWorktree:
			tag = "S"
		}
		got = append(got, fmt.Sprintf("%s %06o %d %s", tag, e.Mode, e.Stage, e.Path))
		if !x.Tracked(e.Path) {
			t.Errorf("%q is no entry", e.Path)
		}
		for i := strings.LastIndexByte(e.Path, '/'); i > 0; i = strings.LastIndexByte(e.Path[:i], '/') {
			if !x.HasBelow(e.Path[:i]) {
				t.Errorf("nothing is below %q", e.Path[:i])
			}
		}
		if x.Tracked(e.Path+"/") || x.HasBelow(e.Path+"~") {
			t.Errorf("%q is more than an entry", e.Path)
		}
	}
	var want []string
	for line := range strings.SplitSeq(strings.TrimSuffix(git(t, dir, "", "ls-files", "-z", "-t", "--stage", "--sparse"), "\x00"), "\x00") {
		f := strings.SplitN(line, " ", 4)
		if len(f) == 4 {
			stage, path, _ := strings.Cut(f[3], "\t")
			want = append(want, fmt.Sprintf("%s %s %s %s", f[0], f[1], stage, path))
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%d entries, git has %d:\n%.2000q\n%.2000q", len(got), len(want), got, want)
	}
	kinds["v"+strconv.Itoa(int(b[7]))]++
	if bytes.Contains(b, []byte("IEOT")) {
		kinds["table"]++
	}
	if x.Split() {
		kinds["split"]++
		if err := verify(b, gitindex.Facts{HashSize: hashSize}); !isRefusal(err) {
			t.Errorf("a split index passes on a host without one: %v", err)
		}
	}
	if err := verify(b, gitindex.Facts(options(t, dir, hashSize))); err != nil {
		t.Errorf("what git wrote is refused: %v", err)
	}
}

func isRefusal(err error) bool {
	var r *gitindex.RefusedError
	return errors.As(err, &r)
}

// TestSparseIndex reads an index that holds directories.
func TestSparseIndex(t *testing.T) {
	dir := t.TempDir()
	git(t, dir, "", "init", "-q")
	for _, p := range []string{"in/a", "out/deep/b", "out/c", "top"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(p)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, p), []byte(p), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git(t, dir, "", "add", ".")
	git(t, dir, "", "commit", "-qm", "x")
	git(t, dir, "", "sparse-checkout", "init", "--cone", "--sparse-index")
	git(t, dir, "", "sparse-checkout", "set", "in")
	x, err := parse(t, dir, 20)
	if err != nil {
		t.Fatal(err)
	}
	if e, ok := x.Lookup("out/"); !ok || e.Mode != gitindex.ModeDir || !x.HasBelow("out") || x.Tracked("out/c") || !x.Tracked("in/a") {
		t.Errorf("out/ is %+v, %v", e, ok)
	}
	compare(t, dir, 20, map[string]int{})
	b := read(t, filepath.Join(dir, ".git/index"))
	b = bytes.Replace(b, []byte("sdir"), []byte("SDIR"), 1)
	if err := verify(b, gitindex.Facts{HashSize: 20}); !isRefusal(err) {
		t.Errorf("directories without the extension: %v", err)
	}
}

// forged makes an index of version 2 as an attacker would. [git] case 6.
type forged struct {
	path  string
	mode  uint32
	stage uint16
	len   int // what the entry says its length is; 0: the truth
}

func forge(version uint32, extensions string, entries ...forged) []byte {
	b := append([]byte("DIRC"), binary.BigEndian.AppendUint32(nil, version)...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(entries)))
	for _, e := range entries {
		began := len(b)
		b = append(b, make([]byte, 24)...)
		b = binary.BigEndian.AppendUint32(b, e.mode)
		b = append(b, make([]byte, 12+20)...)
		if e.len == 0 {
			e.len = min(len(e.path), 0xfff)
		}
		b = binary.BigEndian.AppendUint16(b, e.stage<<12|uint16(e.len))
		if version == 4 {
			b = append(b, 0)
		}
		b = append(append(b, e.path...), 0)
		for version != 4 && (len(b)-began)%8 != 0 {
			b = append(b, 0)
		}
	}
	b = append(b, extensions...)
	sum := sha1.Sum(b)
	return append(b, sum[:]...)
}

func ext(name, data string) string {
	return name + string(binary.BigEndian.AppendUint32(nil, uint32(len(data)))) + data
}

func be32(ns ...uint32) string {
	var b []byte
	for _, n := range ns {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return string(b)
}

// TestVerifyRefuses plants what rule R4 keeps from the host's Git.
func TestVerifyRefuses(t *testing.T) {
	one := func(path string) []byte { return forge(2, "", forged{path: path, mode: 0o100644}) }
	ok := forged{path: "ok", mode: 0o100644}
	cases := map[string][]byte{
		"mode 777":         forge(2, "", forged{path: "a", mode: 0o100777}),
		"mode directory":   forge(2, "", forged{path: "a/", mode: 0o040000}),
		"file with slash":  forge(2, "", forged{path: "a/", mode: 0o100644}),
		"below a link":     forge(2, "", forged{path: "a", mode: 0o120000}, forged{path: "a/b", mode: 0o100644}),
		"below, apart":     forge(2, "", forged{path: "a", mode: 0o120000}, forged{path: "a-", mode: 0o100644}, forged{path: "a/b/c", mode: 0o100644}),
		"below a gitlink":  forge(2, "", forged{path: "a", mode: 0o160000}, forged{path: "a/b", mode: 0o100644}),
		"order":            forge(2, "", forged{path: "b", mode: 0o100644}, forged{path: "a", mode: 0o100644}),
		"twice":            forge(2, "", ok, ok),
		"length":           forge(2, "", forged{path: "abc", mode: 0o100644, len: 2}),
		"link .gitmodules": forge(2, "", forged{path: "x/.GitModules", mode: 0o120000}),
		"no path":          forge(2, "", forged{path: "", mode: 0o100644}),
		"unknown":          forge(2, ext("abcd", ""), ok),
		"unknown symbol":   forge(2, ext("~BCD", ""), ok),
		"split":            forge(2, ext("link", strings.Repeat("x", 20)), ok),
		"version":          forge(5, "", ok),
		"entries end":      forge(2, ext("JUNK", "xx")+ext("EOIE", be32(13)+strings.Repeat("h", 20)), ok),
		"end in junk":      forge(2, ext("JUNK", ext("EOIE", be32(99)+strings.Repeat("h", 20))), ok),
		"table":            forge(2, ext("IEOT", be32(1, 12, 0, 84, 1)), ok),
		"table twice":      forge(2, ext("IEOT", be32(1, 12, 1, 12, 1)), ok),
		"table elsewhere":  forge(2, ext("IEOT", be32(1, 20, 1)), ok),
		"table short":      forge(2, ext("IEOT", be32(1)), ok),
		"long":             one(strings.Repeat("d/", 2048) + "x"),
	}
	for _, p := range []string{
		".git/config", ".git/hooks/post-checkout", "a/.GIT/x", "a/.git", "git~1/x", "GIT~1/x", "a/.git /x", "a/.git.../x", "a/.git::$INDEX_ALLOCATION/x",
		".g\u200cit/config", ".gi\u200dt", "\ufeff.git/x", "../x", "a/../../x", "./x", "/etc/passwd", "a//b", "..", ".", `a\.git\config`, `.git\x`, "a\\git~1",
	} {
		cases["path "+p] = one(p)
	}
	for name, b := range cases {
		if err := verify(b, gitindex.Facts{HashSize: 20}); !isRefusal(err) {
			t.Errorf("%s passes: %v", name, err)
		}
	}
	for name, b := range map[string][]byte{
		"plain":    forge(2, ext("TREE", "x")+ext("JUNK", "y"), forged{path: ".gitignore", mode: 0o100644}, forged{path: ".gitmodules", mode: 0o100644}, forged{path: "a.git/x", mode: 0o100644}, forged{path: "git~10", mode: 0o120000}),
		"version4": forge(4, "", ok),
		"unmerged": forge(2, "", forged{path: "a", mode: 0o100644, stage: 2}, forged{path: "a/b", mode: 0o100644}),
		"table":    forge(2, ext("IEOT", be32(1, 12, 1))+ext("EOIE", be32(84)+strings.Repeat("h", 20)), ok),
		"empty":    forge(2, ""),
	} {
		if err := verify(b, gitindex.Facts{HashSize: 20}); err != nil {
			t.Errorf("%s is refused: %v", name, err)
		}
	}
}

// TestDamagedIndex: an index that ends early, or has one bit wrong, is refused
// or read; it never fails otherwise.
func TestDamagedIndex(t *testing.T) {
	dir := t.TempDir()
	git(t, dir, "", "init", "-q")
	git(t, dir, "", "config", "index.threads", "2")
	git(t, dir, "100644 "+strings.Repeat("1", 40)+"\ta/b\x00100644 "+strings.Repeat("2", 40)+"\ta/c\x00", "update-index", "-z", "--index-info")
	git(t, dir, "", "update-index", "--index-version", "4")
	b := read(t, filepath.Join(dir, ".git/index"))
	for n := range b {
		// What ends after the last entry is an index without extensions.
		if err := verify(b[:n], gitindex.Facts{HashSize: 20}); err != nil && !isRefusal(err) {
			t.Fatalf("%d of %d bytes: %v", n, len(b), err)
		}
		for bit := range 8 {
			c := bytes.Clone(b)
			c[n] ^= 1 << bit
			if err := verify(c, gitindex.Facts{HashSize: 20}); err != nil && !isRefusal(err) {
				t.Fatalf("byte %d, bit %d: %v", n, bit, err)
			}
		}
	}
}

// FuzzParse: any bytes are refused or read, and what passes the gate is read
// with paths that stay in the working tree.
func FuzzParse(f *testing.F) {
	f.Add(forge(2, ext("TREE", "x"), forged{path: "a", mode: 0o100644}), []byte{})
	f.Add(forge(4, ext("IEOT", be32(1, 12, 1)), forged{path: "a/b", mode: 0o120000}), []byte{})
	bits := be32(64, 2) + be32(0, 2) + be32(0, 1) + be32(0)
	f.Add(forge(2, ext("link", strings.Repeat("x", 20)+bits+bits), forged{path: "", mode: 0o100644}, forged{path: "z", mode: 0o100644}), forge(2, "", forged{path: "a", mode: 0o100644}))
	f.Fuzz(func(t *testing.T, b, shared []byte) {
		o := gitindex.Options{HashSize: 20, Shared: func(string) (io.ReaderAt, int64, error) {
			return bytes.NewReader(shared), int64(len(shared)), nil
		}}
		x, err := gitindex.Parse(bytes.NewReader(b), int64(len(b)), o)
		if err != nil && !isRefusal(err) {
			t.Fatal(err)
		}
		if verify(b, gitindex.Facts(o)) != nil {
			return
		}
		if err != nil {
			t.Fatalf("what passes cannot be read: %v", err)
		}
		for e := range x.All() {
			if p := strings.TrimSuffix(e.Path, "/"); !filepath.IsLocal(p) || filepath.Clean(p) != p || slices.Contains(strings.Split(p, "/"), ".git") {
				t.Fatalf("%q passes", e.Path)
			}
		}
	})
}
