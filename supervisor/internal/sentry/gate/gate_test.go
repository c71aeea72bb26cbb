package gate_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lazaret.dev/lazaret/protocol/testgate"
	"lazaret.dev/lazaret/supervisor/internal/sentry/gate"
	"lazaret.dev/lazaret/supervisor/internal/sentry/gitconfig"
)

func TestHead(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"ref: refs/heads/main\n", "ref: refs/heads/a/b-c_d", "ref: refs/heads/x$(sh<r)\n", strings.Repeat("0a", 20) + "\n", strings.Repeat("f", 64),
	} {
		if err := gate.Head([]byte(good)); err != nil {
			t.Errorf("Head(%q): %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "\n", "junk", "ref: HEAD\n", "ref: refs/", "ref: refs/heads/\n", "ref: refs/heads/../../x\n", "ref: refs//x", "ref: refs/heads/.x", "ref: refs/heads/x.lock", "ref: refs/heads/x.lock/y", "ref: refs/heads/x.",
		"ref: refs/heads/a b", "ref: refs/heads/a~1", "ref: refs/x@{1}", "ref: refs/a\\b", "ref: refs/a?", "ref: refs/a\x00b", "ref: refs/a\x7f", "ref: refs/a\n\n", "ref: refs/a\nx", "ref: /refs/a", "ref:refs/heads/x",
		strings.Repeat("a", 39), strings.Repeat("A", 40), strings.Repeat("a", 40) + " x", strings.Repeat("g", 40), "ref: refs/" + strings.Repeat("a", 5000),
	} {
		if gate.Head([]byte(bad)) == nil {
			t.Errorf("Head(%q) passes", bad)
		}
	}
}

// chunk is one of a multi-pack-index.
type chunk struct{ id, data string }

func midx(version, hash byte, packs int, chunks ...chunk) []byte {
	b := append([]byte("MIDX"), version, hash, byte(len(chunks)), 0)
	b = binary.BigEndian.AppendUint32(b, uint32(packs))
	off := uint64(12 + 12*(len(chunks)+1))
	for _, c := range chunks {
		b = binary.BigEndian.AppendUint64(append(b, c.id...), off)
		off += uint64(len(c.data))
	}
	b = binary.BigEndian.AppendUint64(append(b, 0, 0, 0, 0), off)
	for _, c := range chunks {
		b = append(b, c.data...)
	}
	return append(b, make([]byte, map[byte]int{1: 20, 2: 32}[hash])...)
}

func TestMultiPackIndex(t *testing.T) {
	t.Parallel()
	fan := chunk{"OIDF", strings.Repeat("\x00", 1024)}
	names := func(s string) chunk { return chunk{"PNAM", s} }
	good := midx(1, 1, 2, names("pack-ab.idx\x00pack-cd.pack\x00\x00\x00"), fan)
	for what, b := range map[string][]byte{
		"two packs": good, "sha256": midx(1, 2, 1, names("pack-ab.idx\x00")), "version 2": midx(2, 1, 1, fan, names("loose-ab.idx\x00")), "none": midx(1, 1, 0, names("")), "tmp": midx(1, 1, 1, names("tmp-1.idx\x00\x00\x00\x00")),
	} {
		if err := gate.MultiPackIndex(bytes.NewReader(b), int64(len(b))); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, b := range map[string][]byte{
		"empty": nil, "short": good[:11], "no table": good[:20], "no trailer": good[:len(good)-1], "signature": append([]byte("MIDY"), good[4:]...), "version": midx(3, 1, 0, names("")), "hash": midx(1, 3, 0, names("")),
		"no names": midx(1, 1, 0, fan), "upward": midx(1, 1, 1, names("../pack-ab.idx\x00")), "absolute": midx(1, 1, 1, names("/pack-ab.idx\x00")), "below": midx(1, 1, 1, names("pack-ab/x.idx\x00")),
		"other": midx(1, 1, 1, names("pack-xy.idx\x00")), "no id": midx(1, 1, 1, names("pack-.idx\x00")), "keep": midx(1, 1, 1, names("pack-ab.keep\x00")), "two suffixes": midx(1, 1, 1, names("pack-ab.idx.idx\x00")),
		"fewer names": midx(1, 1, 2, names("pack-ab.idx\x00")), "unterminated": midx(1, 1, 1, names("pack-ab.idx")), "more names": midx(1, 1, 1, names("pack-ab.idx\x00../x\x00")), "hidden": midx(1, 1, 1, names("pack-ab.idx\x00\x00../x\x00")),
		"padding": midx(1, 1, 1, names("pack-ab.idx\x00"+strings.Repeat("\x00", 8))), "twice": midx(1, 1, 1, names("pack-ab.idx\x00"), names("../ab.idx\x00")), "fan twice": midx(1, 1, 1, names("pack-ab.idx\x00"), fan, fan),
		"early end": midx(1, 1, 1, chunk{"\x00\x00\x00\x00", ""}, names("pack-ab.idx\x00")),
	} {
		if gate.MultiPackIndex(bytes.NewReader(b), int64(len(b))) == nil {
			t.Errorf("%s passes", what)
		}
	}
	for _, off := range []uint64{0, 35, 1 << 40, 1 << 63, ^uint64(0)} {
		b := slices.Clone(good)
		binary.BigEndian.PutUint64(b[16:], off)
		if gate.MultiPackIndex(bytes.NewReader(b), int64(len(b))) == nil {
			t.Errorf("a chunk at %d passes", off)
		}
	}
}

// TestMultiPackIndexGit: what Git writes passes.
func TestMultiPackIndexGit(t *testing.T) {
	t.Parallel()
	testgate.Need(t, testgate.Git)
	dir := t.TempDir()
	git(t, dir, "init", "-q", ".")
	for _, n := range []string{"1", "2"} {
		git(t, dir, "-c", "user.name=a", "-c", "user.email=a", "commit", "-q", "--allow-empty", "-m", n)
		git(t, dir, "repack", "-q")
	}
	git(t, dir, "multi-pack-index", "write")
	b, err := os.ReadFile(filepath.Join(dir, ".git/objects/pack/multi-pack-index"))
	if err != nil {
		t.Fatal(err)
	}
	if err := gate.MultiPackIndex(bytes.NewReader(b), int64(len(b))); err != nil {
		t.Error(err)
	}
	head, err := os.ReadFile(filepath.Join(dir, ".git/HEAD"))
	if err != nil || gate.Head(head) != nil {
		t.Error(err, gate.Head(head))
	}
}

func git(t testing.TB, dir string, args ...string) string {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "HOME="+dir)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %v: %v", args, err)
	}
	return string(out)
}

func FuzzMultiPackIndex(f *testing.F) {
	f.Add(midx(1, 1, 1, chunk{"PNAM", "pack-ab.idx\x00"}))
	f.Add(midx(1, 1, 1, chunk{"PNAM", "../pack-ab.idx\x00"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if gate.MultiPackIndex(bytes.NewReader(b), int64(len(b))) != nil {
			return
		}
		// Whatever passes, Git finds no slash where it looks for names.
		for i := range int(b[6]) {
			row := b[12+12*i:]
			if string(row[:4]) == "PNAM" && bytes.ContainsRune(b[binary.BigEndian.Uint64(row[4:]):binary.BigEndian.Uint64(row[16:])], '/') {
				t.Error("a path passes")
			}
		}
	})
}

func FuzzHead(f *testing.F) {
	f.Add([]byte("ref: refs/heads/main\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if gate.Head(b) == nil && (bytes.Contains(b, []byte("..")) || bytes.Contains(b, []byte("//")) || len(b) > gate.MaxHead) {
			t.Errorf("Head(%q) passes", b)
		}
	})
}

const base = `[core]
	repositoryformatversion = 0
	bare = false
# a comment
[remote "origin"]
	url = https://example.org/r.git
	fetch = +refs/heads/*:refs/remotes/origin/*
[branch "main"]
	remote = origin
	merge = refs/heads/main
	description = mine
[filter "x"]
	clean = ./clean
`

func TestConfig(t *testing.T) {
	t.Parallel()
	for what, after := range map[string]string{
		"equal":            base,
		"upstream":         base + "[branch \"x\"]\n\tremote = origin\n\tmerge = refs/heads/x\n\trebase = interactive\n\tpushRemote = .\n",
		"no upstream":      strings.Replace(base, "\tremote = origin\n\tmerge = refs/heads/main\n", "", 1),
		"submodule":        base + "[submodule \"a/b\"]\n\tactive = true\n\turl = git@example.org:x/y.git\n",
		"per worktree":     base + "[extensions]\n\tworktreeConfig = true\n",
		"in between":       strings.Replace(base, "[filter", "[branch \"y\"]\n\tmerge = refs/heads/y\n[filter", 1),
		"header alone":     base + "[branch \"x\"]\n",
		"reordered branch": strings.Replace(base, "\tremote = origin\n\tmerge = refs/heads/main\n", "\tmerge = refs/heads/main\n\tremote = origin\n", 1),
	} {
		if err := gate.Config("config", []byte(base), []byte(after)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, after := range map[string]string{
		"nothing left": "", "alias": base + "[alias]\n\tx = !y\n", "fsmonitor": base + "[core]\n\tfsmonitor = x\n", "one line": base + "[core] fsmonitor = x\n", "one line, branch": base + "[branch \"x\"] merge = refs/heads/x\n",
		"unknown remote": base + "[branch \"x\"]\n\tremote = ext::sh\n", "url as remote": base + "[branch \"x\"]\n\tremote = https://e/x\n", "new remote used": base + "[remote \"e\"]\n[branch \"x\"]\n\tremote = e\n",
		"bad ref": base + "[branch \"x\"]\n\tmerge = ../x\n", "mergeoptions": base + "[branch \"x\"]\n\tmergeOptions = -s x\n", "description": base + "[branch \"x\"]\n\tdescription = y\n", "bad rebase": base + "[branch \"x\"]\n\trebase = !x\n",
		"ext url": base + "[submodule \"x\"]\n\turl = ext::sh\n", "option url": base + "[submodule \"x\"]\n\turl = --upload-pack=x\n", "update": base + "[submodule \"x\"]\n\tupdate = !x\n", "not bool": base + "[submodule \"x\"]\n\tactive = x\n",
		"objectformat": base + "[extensions]\n\tobjectFormat = sha256\n", "not per worktree": base + "[extensions]\n\tworktreeConfig = false\n", "continued": base + "[branch \"x\"]\n\tmerge = refs/heads/x\\\n[core]\n",
		"CR": base + "[branch \"x\"]\r\n", "NUL": base + "[branch \"x\x00\"]\n", "no newline": base + "[branch \"x\"]", "quoted": base + "[branch \"x\"]\n\tmerge = \"refs/heads/x\"\n", "comment after": base + "[branch \"x\"]\n\tmerge = refs/heads/x # y\n",
		"escaped": base + "[branch \"x\\\"]\n\tmerge = refs/heads/x\n", "no indent": base + "[branch \"x\"]\nmerge = refs/heads/x\n", "moved description": strings.Replace(base, "[branch \"main\"]\n", "", 1), "other case": strings.Replace(base, "[core]", "[CORE]", 1),
		"comment dropped": strings.Replace(base, "# a comment\n", "", 1), "reordered": strings.Replace(base, "\trepositoryformatversion = 0\n\tbare = false\n", "\tbare = false\n\trepositoryformatversion = 0\n", 1),
		"swallowed": strings.Replace(base, "[filter \"x\"]\n", "", 1), "other branch takes it": strings.Replace(base, "\tdescription = mine\n", "[branch \"z\"]\n\tdescription = mine\n", 1), "syntax": base + "[branch \"x\"]\n\t= x\n", "dotted": base + "[branch.x]\n\tmerge = refs/heads/x\n",
		"include": base + "[include]\n\tpath = x\n", "worktree": strings.Replace(base, "bare = false", "worktree = /x", 1), "sparse in config": base + "[index]\n\tsparse = true\n",
	} {
		if gate.Config("config", []byte(base), []byte(after)) == nil {
			t.Errorf("%s passes", what)
		}
	}
	sparse := "[core]\n\tsparseCheckout = true\n\tsparseCheckoutCone = false\n[index]\n\tsparse = true\n"
	if err := gate.Config("config.worktree", nil, []byte(sparse)); err != nil {
		t.Error(err)
	}
	for name, after := range map[string]string{"config.worktree": sparse + "\tfsmonitor = x\n", "commondir": sparse, "config": sparse} {
		if gate.Config(name, nil, []byte(after)) == nil {
			t.Errorf("%s passes", name)
		}
	}
	if gate.Config("config.worktree", nil, []byte("[core]\n\tfsmonitor = true\n")) == nil || gate.Config("config.worktree", nil, []byte("[branch \"x\"]\n\tmerge = refs/x\n")) == nil {
		t.Error("other keys pass in config.worktree")
	}
	on := base + "[extensions]\n\tworktreeConfig = true\n"
	if gate.Config("config", []byte(on), []byte(base)) == nil {
		t.Error("config.worktree can be switched off")
	}
	if gate.Config("config", []byte("x"), []byte("x")) == nil || gate.Config("config", []byte(base+"[a]x\n"), []byte(base+"[a]x\n")) == nil {
		t.Error("a file that is not understood passes")
	}
}

// TestConfigMutations: what passes the gate changes no variable but those that
// may, and keeps the others' order, as Git itself reads both files.
func TestConfigMutations(t *testing.T) {
	t.Parallel()
	testgate.Need(t, testgate.Git)
	dir := t.TempDir()
	list := func(text string) []string {
		path := filepath.Join(dir, "c")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var kept []string
		for e := range strings.SplitSeq(git(t, dir, "config", "-f", path, "--list", "-z"), "\x00") {
			key, _, _ := strings.Cut(e, "\n")
			branch := strings.HasPrefix(key, "branch.") && slices.ContainsFunc([]string{".remote", ".pushremote", ".merge", ".rebase"}, func(s string) bool { return strings.HasSuffix(key, s) })
			sub := strings.HasPrefix(key, "submodule.") && (strings.HasSuffix(key, ".active") || strings.HasSuffix(key, ".url"))
			if !branch && !sub && key != "extensions.worktreeconfig" {
				kept = append(kept, e)
			}
		}
		return kept
	}
	want := list(base)
	lines := strings.SplitAfter(base, "\n")
	pieces := []string{
		"[branch \"x\"]\n", "[branch \"main\"]\n", "\tremote = origin\n", "\tmerge = refs/heads/y\n", "\trebase = true\n", "[submodule \"s\"]\n", "\tactive = true\n", "\turl = https://example.org/x\n", "[extensions]\n", "\tworktreeConfig = true\n",
		"[core]\n", "\tfsmonitor = x\n", "[alias]\n", "\tx = !y\n", "\tpushRemote = .\n", "[branch \"x\"]", "\\\n", "\"", "#", "\tmerge = refs/heads/\"a\n", "[branch]\n", "\r\n", " ", "\t", "\n", "]", "[", "=", "[BRANCH \"x\"]\n",
	}
	passed := 0
	rapid.Check(t, func(rt *rapid.T) {
		after := slices.Clone(lines)
		for range rapid.IntRange(1, 4).Draw(rt, "changes") {
			at := rapid.IntRange(0, len(after)-1).Draw(rt, "at")
			switch rapid.IntRange(0, 3).Draw(rt, "how") {
			case 0:
				after = slices.Delete(after, at, min(at+1, len(after)-1))
			case 1:
				after = slices.Insert(after, at, rapid.SampledFrom(pieces).Draw(rt, "piece"), rapid.SampledFrom(pieces).Draw(rt, "piece"))
			case 2:
				after = slices.Insert(after, at, rapid.SampledFrom(pieces).Draw(rt, "piece"))
			default:
				to := rapid.IntRange(0, len(after)-1).Draw(rt, "to")
				after[at], after[to] = after[to], after[at]
			}
		}
		text := strings.Join(after, "")
		if gate.Config("config", []byte(base), []byte(text)) != nil {
			return
		}
		passed++
		if got := list(text); !slices.Equal(got, want) {
			rt.Fatalf("the gate lets this through:\n%s\ngit reads %q\nwant %q", text, got, want)
		}
	})
	if passed == 0 {
		t.Error("nothing passed")
	}
	t.Logf("%d passed", passed)
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(base + "[branch \"x\"]\n\tremote = origin\n"))
	before, _ := gitconfig.Parse([]byte(base))
	_ = before
	f.Fuzz(func(t *testing.T, after []byte) {
		if gate.Config("config", []byte(base), after) != nil {
			return
		}
		entries, err := gitconfig.Parse(after)
		if err != nil {
			t.Fatalf("what Git does not read passes: %q", after)
		}
		for _, e := range entries {
			if !slices.Contains([]string{"branch", "submodule", "extensions"}, e.Section) && !slices.Contains(before, e) {
				t.Errorf("%+v passes", e)
			}
		}
	})
}
