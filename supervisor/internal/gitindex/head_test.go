package gitindex_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lazaret.dev/lazaret/supervisor/internal/gitindex"
)

// TestVerifyHEAD is rule R4 for HEAD.
func TestVerifyHEAD(t *testing.T) {
	hex := strings.Repeat("0a", 20)
	for _, s := range []string{"ref: refs/heads/main\n", "ref: refs/heads/a/b-c.d\n", "ref: refs/x", "ref: refs/heads/é\n", hex + "\n", hex} {
		if err := gitindex.VerifyHEAD([]byte(s), 20); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	}
	for _, s := range []string{
		"", "\n", "ref: ", "ref: refs/", "ref: HEAD\n", "ref: ../x\n", "ref: refs/../../x\n", "ref: refs/heads/a..b", "ref: refs/heads/.a", "ref: refs/a.lock",
		"ref: refs/heads/a.lock/b", "ref: refs/a//b", "ref: refs/a/", "ref: /refs/a", "ref:refs/a", "ref: refs/a b", "ref: refs/a\x00", "ref: refs/a\n\n", "ref: refs/a@{1}",
		"ref: refs/a.", "ref: refs/a~", "ref: refs/a^", "ref: refs/a:b", "ref: refs/[a", `ref: refs/a\b`, "ref: refs/*", "ref: refs/\x7f", hex[:39], hex + "0", strings.Repeat("0a", 32),
		strings.ToUpper(hex), "gitdir: x", hex + " ",
	} {
		if err := gitindex.VerifyHEAD([]byte(s), 20); !isRefusal(err) {
			t.Errorf("%q passes", s)
		}
	}
}

func verifyMIDX(b []byte) error { return gitindex.VerifyMIDX(bytes.NewReader(b), int64(len(b))) }

// midx makes a multi-pack-index with the given chunk of names.
func midx(packs uint32, names string, more ...string) []byte {
	chunks := append([]string{"PNAM", names}, more...)
	n := len(chunks) / 2
	b := append([]byte("MIDX\x01\x01"), byte(n), 0)
	b = append(b, be32(packs)...)
	at := uint32(12 + 12*(n+1))
	for i := range n {
		b = append(append(b, chunks[2*i]...), be32(0, at)...)
		at += uint32(len(chunks[2*i+1]))
	}
	b = append(b, be32(0, 0, at)...)
	for i := range n {
		b = append(b, chunks[2*i+1]...)
	}
	return append(b, make([]byte, 20)...)
}

// TestVerifyMIDX is rule R4 for multi-pack-index: vectors o_midx_*.
func TestVerifyMIDX(t *testing.T) {
	for name, b := range map[string][]byte{
		"one":  midx(1, "pack-0a.idx\x00\x00\x00\x00"),
		"two":  midx(2, "pack-0a.idx\x00tmp-b.pack\x00\x00", "OIDF", "xxxx"),
		"none": midx(0, ""),
	} {
		if err := verifyMIDX(b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, b := range map[string][]byte{
		"elsewhere":    midx(1, "../../other/pack-0a.idx\x00"),
		"slash":        midx(1, "pack-0a.idx/../x\x00"),
		"second":       midx(2, "pack-0a.idx\x00../pack-0b.idx\x00"),
		"not counted":  midx(1, "pack-0a.idx\x00../pack-0b.idx\x00"),
		"beyond":       midx(2, "pack-0a.idx\x00", "OIDF", "../pack-0b.idx\x00"),
		"no NUL":       midx(1, "pack-0a.idx"),
		"name":         midx(1, "pack-.idx\x00"),
		"letter":       midx(1, "pack-0g.idx\x00"),
		"extension":    midx(1, "pack-0a.idx.x\x00"),
		"twice":        midx(1, "pack-0a.idx\x00", "PNAM", "../pack-0b.idx\x00"),
		"no names":     bytes.Replace(midx(1, "pack-0a.idx\x00"), []byte("PNAM"), []byte("XNAM"), 1),
		"version":      bytes.Replace(midx(1, "pack-0a.idx\x00"), []byte("MIDX\x01"), []byte("MIDX\x02"), 1),
		"backwards":    append([]byte("MIDX\x01\x01\x01\x00"+be32(0)+"PNAM"+be32(0, 90, 0, 0, 10)), make([]byte, 90)...),
		"out of range": append([]byte("MIDX\x01\x01\x01\x00"+be32(0)+"PNAM"+be32(1<<31, 36, 0, 1<<31, 37)), make([]byte, 90)...),
		"short":        []byte("MIDX\x01\x01\xff\x00" + be32(0)),
	} {
		if err := verifyMIDX(b); !isRefusal(err) {
			t.Errorf("%s passes: %v", name, err)
		}
	}
}

// TestVerifyRealMIDX lets pass what Git writes.
func TestVerifyRealMIDX(t *testing.T) {
	dir := t.TempDir()
	git(t, dir, "", "init", "-q")
	for i := range 3 {
		if err := os.WriteFile(filepath.Join(dir, "f"), fmt.Append(nil, i), 0o600); err != nil {
			t.Fatal(err)
		}
		git(t, dir, "", "add", "f")
		git(t, dir, "", "commit", "-qm", "x")
		git(t, dir, "", "repack", "-q")
	}
	git(t, dir, "", "multi-pack-index", "write", "--bitmap")
	b := read(t, filepath.Join(dir, ".git/objects/pack/multi-pack-index"))
	if err := verifyMIDX(b); err != nil {
		t.Error(err)
	}
	if err := gitindex.VerifyHEAD(read(t, filepath.Join(dir, ".git/HEAD")), 20); err != nil {
		t.Error(err)
	}
}

// FuzzVerifyMIDX: any bytes are refused or pass, without more.
func FuzzVerifyMIDX(f *testing.F) {
	f.Add(midx(1, "pack-0a.idx\x00"))
	f.Add(midx(2, "pack-0a.idx\x00tmp-b.pack\x00", "OIDF", "x"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := verifyMIDX(b); err != nil && !isRefusal(err) {
			t.Fatal(err)
		}
	})
}
