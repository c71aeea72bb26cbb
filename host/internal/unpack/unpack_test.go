package unpack_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/unpack"
	"lazaret.dev/lazaret/host/internal/unpack/unpacktest"
	"lazaret.dev/lazaret/protocol/testgate"
)

type (
	e  = unpacktest.E
	fs = map[string]unpacktest.File
)

// result is what one run of the program gave.
type result struct {
	files fs
	notes []string
	last  unpack.Event
	dir   string // parent of the tree, where nothing but the tree may appear
	err   error
}

// stored is a layer as it lies in a blob.
type stored struct {
	blob           []byte
	digest, diffID string
}

func plain(b []byte) stored {
	return stored{b, unpacktest.Digest(b), unpacktest.Digest(b)}
}

// run applies the layers in a user namespace.
func run(t *testing.T, m unpack.Mapping, r *unpacktest.Runner, layers ...stored) result {
	t.Helper()
	testgate.Need(t, testgate.UserNS, testgate.SubIDs)
	dir := unpacktest.TempDir(t)
	root := filepath.Join(dir, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	target, err := os.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	req := unpack.Request{Version: unpack.Version, Mapping: m, Target: 3}
	files := []*os.File{target}
	for i, l := range layers {
		// An offset, as for a layer inside an archive.
		path := filepath.Join(t.TempDir(), fmt.Sprint(i))
		if err := os.WriteFile(path, append([]byte("prefix"), append(l.blob, "suffix"...)...), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		req.Layers = append(req.Layers, unpack.Layer{FD: 3 + len(files), Offset: 6, Size: int64(len(l.blob)), Digest: l.digest, DiffID: l.diffID})
		files = append(files, f)
	}
	body, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	res := result{dir: dir}
	res.err = r.Run(context.Background(), unpack.Program, body, files, &out)
	for line := range strings.Lines(out.String()) {
		ev, err := unpack.DecodeEvent([]byte(line))
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if ev.Kind == unpack.EventNote {
			res.notes = append(res.notes, ev.Entry+" "+ev.What)
		}
		res.last = ev
	}
	if (res.err == nil) != (res.last.Kind == unpack.EventDone) {
		t.Fatalf("status %v, last event %+v", res.err, res.last)
	}
	res.files = unpacktest.Snapshot(t, root)
	return res
}

// apply is run for plain layers that must unpack.
func apply(t *testing.T, layers ...[]byte) result {
	t.Helper()
	var ls []stored
	for _, l := range layers {
		ls = append(ls, plain(l))
	}
	res := run(t, unpack.MappingFull, &unpacktest.Runner{}, ls...)
	if res.err != nil {
		t.Fatalf("%v: %+v", res.err, res.last)
	}
	for name := range res.files {
		for c := range strings.SplitSeq(name, "/") {
			if strings.HasPrefix(c, ".wh.") {
				t.Errorf("whiteout name in the tree: %s", name)
			}
		}
	}
	es, err := os.ReadDir(res.dir)
	if err != nil || len(es) != 1 {
		t.Errorf("something landed beside the root: %v, %v", es, err)
	}
	return res
}

func (r result) want(t *testing.T, name, body string) {
	t.Helper()
	f, ok := r.files[name]
	if !ok || f.Body != body {
		t.Errorf("%s: got %q (there: %v), want %q", name, f.Body, ok, body)
	}
}

func (r result) absent(t *testing.T, names ...string) {
	t.Helper()
	for _, n := range names {
		if _, ok := r.files[n]; ok {
			t.Errorf("%s exists", n)
		}
	}
}

func (r result) mode(t *testing.T, name string, mode uint32) {
	t.Helper()
	if f, ok := r.files[name]; !ok || f.Mode != mode {
		t.Errorf("%s: mode %o (there: %v), want %o", name, f.Mode, ok, mode)
	}
}

func (r result) noted(t *testing.T, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(strings.Join(r.notes, "\n"), p) {
			t.Errorf("no note %q in %q", p, r.notes)
		}
	}
}

// Case 1
func TestOpaqueAndWhiteouts(t *testing.T) {
	res := apply(t,
		unpacktest.Tar(t, e{Name: "d", Type: tar.TypeDir}, e{Name: "d/old", Body: "old"}, e{Name: "gone", Body: "x"}, e{Name: "o/keep", Body: "1"}),
		unpacktest.Tar(t, e{Name: "d/.wh..wh..opq"}, e{Name: "d/new", Body: "new"}, e{Name: ".wh.gone"}))
	res.want(t, "d/new", "new")
	res.want(t, "o/keep", "1")
	res.absent(t, "d/old", "gone")

	// The marker after the file of its own layer.
	res = apply(t,
		unpacktest.Tar(t, e{Name: "d/old", Body: "old"}),
		unpacktest.Tar(t, e{Name: "d/new", Body: "new"}, e{Name: "d/.wh..wh..opq"}))
	res.want(t, "d/new", "new")
	res.absent(t, "d/old")

	// Strays, and names that would remove more than an entry.
	res = apply(t, unpacktest.Tar(t,
		e{Name: "a/b/f", Body: "stays"}, e{Name: ".wh.x"}, e{Name: "a/b/.wh..."}, e{Name: "a/b/.wh.."}, e{Name: "a/b/.wh."},
		e{Name: ".wh..."}, e{Name: ".wh..wh.plnk", Type: tar.TypeDir}, e{Name: "a/.wh.dir/f", Body: "no"}))
	res.want(t, "a/b/f", "stays")
	res.noted(t, "whiteout of no entry", "below a whiteout")
}

// Case 1: a whiteout named ".." in a later layer, where nothing protects the
// lower layer's files.
func TestWhiteoutOfParent(t *testing.T) {
	res := apply(t,
		unpacktest.Tar(t, e{Name: "a/b/f", Body: "stays"}, e{Name: "z", Body: "z"}),
		unpacktest.Tar(t, e{Name: "a/b/.wh..."}, e{Name: ".wh..."}, e{Name: ".wh.."}, e{Name: "a/.wh."}))
	res.want(t, "a/b/f", "stays")
	res.want(t, "z", "z")
}

// Case 2
func TestHardLinksAcrossLayers(t *testing.T) {
	res := apply(t,
		unpacktest.Tar(t, e{Name: "t2", Body: "123"}),
		unpacktest.Tar(t, e{Name: "t1", Type: tar.TypeLink, Link: "t2"}, e{Name: "t3", Type: tar.TypeLink, Link: "t2"}),
		unpacktest.Tar(t, e{Name: "t1", Body: "456"}))
	res.want(t, "t1", "456")
	res.want(t, "t2", "123")
	res.want(t, "t3", "123")
	if res.files["t2"].Ino != res.files["t3"].Ino || res.files["t1"].Ino == res.files["t2"].Ino {
		t.Errorf("inodes: %+v", res.files)
	}
	res = apply(t,
		unpacktest.Tar(t, e{Name: "x"}),
		unpacktest.Tar(t, e{Name: "A", Body: "bytes"}, e{Name: "B", Type: tar.TypeLink, Link: "A"}),
		unpacktest.Tar(t, e{Name: ".wh.A"}))
	res.want(t, "B", "bytes")
	res.absent(t, "A")
}

// Case 37
func TestSymlinksStayInside(t *testing.T) {
	canary := filepath.Join(t.TempDir(), "canary")
	if err := os.WriteFile(canary, []byte("host"), 0o666); err != nil {
		t.Fatal(err)
	}
	res := apply(t,
		unpacktest.Tar(t, e{Name: "busybox", Body: "bb"}, e{Name: "env", Type: tar.TypeSymlink, Link: "busybox"},
			e{Name: "usr/bin", Type: tar.TypeDir}, e{Name: "bin", Type: tar.TypeSymlink, Link: "usr/bin"},
			e{Name: "x", Type: tar.TypeSymlink, Link: "/tmp"}, e{Name: "up", Type: tar.TypeSymlink, Link: "../../../.."},
			e{Name: "c", Type: tar.TypeSymlink, Link: canary}, e{Name: "cd", Type: tar.TypeSymlink, Link: filepath.Dir(canary)}),
		unpacktest.Tar(t, e{Name: "env", Body: "new"}, e{Name: "bin/x", Body: "in usr"}, e{Name: "x/pwn", Body: "1"},
			e{Name: "up/top", Body: "2"}, e{Name: "c", Body: "3"}, e{Name: "cd/canary", Body: "4"}, e{Name: "cd/.wh..wh..opq"}))
	res.want(t, "busybox", "bb")
	res.want(t, "env", "new")
	res.want(t, "usr/bin/x", "in usr")
	res.want(t, "tmp/pwn", "1")
	res.want(t, "top", "2")
	res.want(t, "c", "3")
	if b, err := os.ReadFile(canary); err != nil || string(b) != "host" {
		t.Errorf("the host's file: %q, %v", b, err)
	}
	if _, err := os.Lstat("/tmp/pwn"); err == nil {
		t.Error("/tmp/pwn was made on the host")
	}
}

// Case 37: what says that it leaves the root is refused, by name.
func TestEscapesAreRefused(t *testing.T) {
	for name, entry := range map[string]e{
		"hard link":          {Name: "l", Type: tar.TypeLink, Link: "../../etc/passwd"},
		"hard link, hidden":  {Name: "l", Type: tar.TypeLink, Link: "a/../../etc/passwd"},
		"name":               {Name: "../pwn", Body: "x"},
		"name, hidden":       {Name: "a/b/../../../pwn", Body: "x"},
		"whiteout":           {Name: "../.wh.x"},
		"link as the root":   {Name: "./", Type: tar.TypeSymlink, Link: "/etc"},
		"link to the root":   {Name: "l", Type: tar.TypeLink, Link: "/"},
		"dot dot":            {Name: "..", Type: tar.TypeDir},
		"absolute, dot dot":  {Name: "/../pwn", Body: "x"},
		"dir that is parent": {Name: "a/../..", Type: tar.TypeDir},
	} {
		t.Run(name, func(t *testing.T) {
			res := run(t, unpack.MappingFull, &unpacktest.Runner{}, plain(unpacktest.Tar(t, entry)))
			if res.last.Code != unpack.ErrLayer {
				t.Fatalf("%+v", res.last)
			}
			if len(res.files) != 1 {
				t.Errorf("files: %v", res.files)
			}
		})
	}
}

// Case 38
func TestModes(t *testing.T) {
	entries := []e{
		{Name: "suid", Mode: 0o4755, Body: "x"},
		{Name: "sgid", Mode: 0o2755, UID: 5, GID: 7, Body: "x"},
		{Name: "tmp", Mode: 0o1777, Type: tar.TypeDir},
		{Name: "none", ModeZero: true, Body: "secret"},
		{Name: "own", Mode: 0o4711, UID: 33, GID: 33, Body: "x"},
		{Name: "implied/f", Mode: 0o666},
	}
	l := plain(unpacktest.Tar(t, entries...))
	for _, umask := range []int{0, 0o077} {
		res := run(t, unpack.MappingFull, &unpacktest.Runner{Umask: umask}, l)
		res.mode(t, "suid", unix.S_IFREG|0o4755)
		res.mode(t, "sgid", unix.S_IFREG|0o2755)
		res.mode(t, "tmp", unix.S_IFDIR|0o1777)
		res.mode(t, "none", unix.S_IFREG)
		res.mode(t, "own", unix.S_IFREG|0o4711)
		res.mode(t, "implied", unix.S_IFDIR|0o755)
		res.mode(t, "implied/f", unix.S_IFREG|0o666)
		if f := res.files["sgid"]; f.UID != 5 || f.GID != 7 {
			t.Errorf("owner: %+v", f)
		}
	}
	res := run(t, unpack.MappingSingle, &unpacktest.Runner{Single: true}, l)
	if f := res.files["own"]; f.UID != 0 || f.GID != 0 || f.Mode != unix.S_IFREG|0o4711 {
		t.Errorf("single mapping: %+v, %v %+v", f, res.err, res.last)
	}
}

// Case 89
func TestOwnersDevicesAndModes(t *testing.T) {
	res := apply(t,
		unpacktest.Tar(t,
			e{Name: "big", UID: 1516583083, GID: 1516583083, Mode: 0o6755, Body: "x"},
			e{Name: "dev/console", Type: tar.TypeChar, Major: 5, Minor: 1}, e{Name: "dev/copy", Type: tar.TypeLink, Link: "dev/console"},
			e{Name: "disk", Type: tar.TypeBlock, Major: 8}, e{Name: "wh", Type: tar.TypeChar},
			e{Name: "kept", Body: "kept"}, e{Name: "pipe", Type: tar.TypeFifo, Mode: 0o622},
			e{Name: "etc/gshadow", ModeZero: true, UID: 0, GID: 42, Body: "1"},
			e{Name: "ro", Type: tar.TypeDir, Mode: 0o555, UID: 100}, e{Name: "ro/a", Body: "a"},
			e{Name: "locked", Type: tar.TypeDir, ModeZero: true}, e{Name: "locked/in", Body: "in"}),
		unpacktest.Tar(t, e{Name: "etc/gshadow", ModeZero: true, Body: "2"}, e{Name: "ro/b", Body: "b"}, e{Name: "kept", Type: tar.TypeChar}))
	res.want(t, "etc/gshadow", "2")
	res.want(t, "ro/a", "a")
	res.want(t, "ro/b", "b")
	res.want(t, "kept", "kept") // a 0:0 device is no whiteout
	res.want(t, "locked/in", "in")
	res.mode(t, "ro", unix.S_IFDIR|0o555)
	res.mode(t, "locked", unix.S_IFDIR)
	res.mode(t, "pipe", unix.S_IFIFO|0o622)
	res.mode(t, "big", unix.S_IFREG|0o755)
	if f := res.files["big"]; f.UID != 65534 || f.GID != 65534 {
		t.Errorf("owner: %+v", f)
	}
	res.absent(t, "dev/console", "dev/copy", "disk", "wh")
	res.noted(t, "device 5:1", "device 8:0", "device 0:0", "owner 1516583083", "hard link to a skipped")
}

// Case 90
func TestXattrs(t *testing.T) {
	res := apply(t, unpacktest.Tar(t,
		e{Name: "f", Body: "x", Xattrs: map[string]string{
			"security.capability": "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
			"security.selinux":    "system_u:object_r:bin_t:s0", "user.x": "kept\x00\xff", "trusted.x": "t",
			"user.overlay.whiteout": "y", "user.overlay.opaque": "y", "trusted.overlay.opaque": "y",
			"user.fuseoverlayfs.opaque": "y", "user.containers.override_stat": "0:0:0755",
		}},
		e{Name: "d", Type: tar.TypeDir, Xattrs: map[string]string{"user.overlay.opaque": "y", "user.d": "1"}},
		e{Name: "d/in"},
		e{Name: "large", Xattrs: map[string]string{"user.big": strings.Repeat("x", 60000)}},
		e{Name: "l", Type: tar.TypeSymlink, Link: "f", Xattrs: map[string]string{"user.l": "1"}},
		e{Name: "p", Type: tar.TypeFifo, Xattrs: map[string]string{"user.p": "1"}}))
	if got := res.files["f"].Xattrs; len(got) != 1 || got["user.x"] != "kept\x00\ufffd" && got["user.x"] != "kept\x00\xff" {
		t.Errorf("attributes: %q", got)
	}
	if got := res.files["d"].Xattrs; len(got) != 1 || got["user.d"] != "1" {
		t.Errorf("attributes: %q", got)
	}
	if got := res.files["large"].Xattrs; len(got) != 0 {
		t.Errorf("attributes: %d", len(got))
	}
	res.noted(t, "security.capability", "security.selinux", "user.overlay.whiteout", "too large", "the file's type")
}

// Case 91
func TestCompressions(t *testing.T) {
	layer := unpacktest.Tar(t, e{Name: "f", Body: strings.Repeat("text ", 10000)}, e{Name: "g", Body: "g"})
	half := len(layer) / 2
	frame := func(b []byte) []byte {
		w, err := zstd.NewWriter(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		return w.EncodeAll(b, nil)
	}
	zip := func(b []byte) []byte {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	skippable := append([]byte{0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0}, "skip"...)
	for name, blob := range map[string][]byte{
		"plain": layer, "gzip": zip(layer), "zstd": frame(layer),
		"two gzip members":    append(zip(layer[:half]), zip(layer[half:])...),
		"two zstd frames":     append(frame(layer[:half]), frame(layer[half:])...),
		"skippable frame":     append(skippable, frame(layer)...),
		"skippable at end":    append(frame(layer), skippable...),
		"bytes after the end": append(append([]byte{}, layer...), "trailing"...),
	} {
		t.Run(name, func(t *testing.T) {
			diff := unpacktest.Digest(layer)
			if name == "bytes after the end" {
				diff = unpacktest.Digest(blob)
			}
			ok := stored{blob, unpacktest.Digest(blob), diff}
			res := run(t, unpack.MappingFull, &unpacktest.Runner{}, ok)
			if res.err != nil {
				t.Fatalf("%+v", res.last)
			}
			res.want(t, "g", "g")
			wrong := ok
			wrong.diffID = unpacktest.Digest([]byte("other"))
			if res := run(t, unpack.MappingFull, &unpacktest.Runner{}, wrong); res.last.Code != unpack.ErrDiffID {
				t.Errorf("wrong diffID: %+v", res.last)
			}
			wrong = ok
			wrong.digest = unpacktest.Digest([]byte("other"))
			if res := run(t, unpack.MappingFull, &unpacktest.Runner{}, wrong); res.last.Code != unpack.ErrDigest {
				t.Errorf("wrong digest: %+v", res.last)
			}
		})
	}
	for name, blob := range map[string][]byte{
		"cut gzip": zip(layer)[:100], "cut zstd": frame(layer)[:60], "no tar": bytes.Repeat([]byte("no tar "), 200), "cut tar": layer[:700],
	} {
		if res := run(t, unpack.MappingFull, &unpacktest.Runner{}, plain(blob)); res.last.Code != unpack.ErrLayer && res.last.Code != unpack.ErrOther {
			t.Errorf("%s: %+v", name, res.last)
		}
	}
}

// Case 94
func TestNames(t *testing.T) {
	deep := strings.Repeat("abcdefghi/", 30) + "end" // 303 bytes
	target := strings.Repeat("t", 4095)
	raw := "caf\xff\xe9"
	res := apply(t, unpacktest.Tar(t,
		e{Name: deep, Body: "deep"}, e{Name: "long", Type: tar.TypeSymlink, Link: target}, e{Name: raw, Body: "raw", Raw: true},
		e{Name: "dup", Body: "1"}, e{Name: "dup", Body: "2"}, e{Name: "./dot/f", Body: "dot"}, e{Name: "/abs/f", Body: "abs"},
		e{Name: "no/parents/f", Body: "np"}, e{Name: "./", Type: tar.TypeDir, Mode: 0o755}, e{Name: "inside/../here", Body: "here"},
		e{Name: "self", Body: "self"}, e{Name: "self", Type: tar.TypeLink, Link: "./self"}, e{Name: "f/below", Body: "dir"},
		e{Name: strings.Repeat("n", 255), Body: "255"}, e{Name: "new\nline\x1b[31m", Body: "esc"}))
	res.want(t, deep, "deep")
	res.want(t, "long", target)
	res.want(t, hex.EncodeToString([]byte(raw)), "raw")
	res.want(t, "dup", "2")
	res.want(t, "dot/f", "dot")
	res.want(t, "abs/f", "abs")
	res.want(t, "no/parents/f", "np")
	res.want(t, "here", "here")
	res.want(t, "self", "self")
	res.want(t, strings.Repeat("n", 255), "255")
	res.mode(t, ".", unix.S_IFDIR|0o755)
}

// Text from the image is printable wherever it is reported.
func TestReportsArePrintable(t *testing.T) {
	name := "x\x1b[31m\u202e\n" + strings.Repeat("n", 300)
	res := run(t, unpack.MappingFull, &unpacktest.Runner{}, plain(unpacktest.Tar(t, e{Name: name})))
	if res.err == nil {
		t.Fatal("a component of more than 255 bytes was unpacked")
	}
	for _, r := range res.last.Message {
		if r < ' ' || r > '~' {
			t.Fatalf("message %q", res.last.Message)
		}
	}
}

// A full filesystem is told from a broken layer.
func TestDiskFull(t *testing.T) {
	testgate.Need(t, testgate.UserNS, testgate.SubIDs)
	// The program's own mount namespace gets a small filesystem over the target
	// of descriptor 3, which the shell opens.
	dir := unpacktest.TempDir(t)
	blob := unpacktest.Tar(t, e{Name: "f", Body: strings.Repeat("x", 4<<20)})
	file := filepath.Join(t.TempDir(), "blob")
	if err := os.WriteFile(file, blob, 0o600); err != nil {
		t.Fatal(err)
	}
	req, _ := json.Marshal(unpack.Request{
		Version: unpack.Version, Mapping: unpack.MappingFull, Target: 3,
		Layers: []unpack.Layer{{FD: 4, Size: int64(len(blob)), DiffID: unpacktest.Digest(blob)}},
	})
	r := &unpacktest.Runner{Prefix: []string{"--mount", "sh", "-c", `mount -t tmpfs -o size=1m none "$0" && exec "$2" 3<"$0" 4<"$1"`, dir, file}}
	var out bytes.Buffer
	err := r.Run(context.Background(), unpack.Program, req, nil, &out)
	if err == nil {
		t.Fatal("4 MiB fitted in 1 MiB")
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	ev, err := unpack.DecodeEvent([]byte(lines[len(lines)-1]))
	if err != nil || ev.Code != unpack.ErrDiskFull {
		t.Errorf("%+v, %v", ev, err)
	}
}

// OR-7: whatever owners and modes a tree has, it can be removed, and links out
// of it lead nowhere.
func TestRemoveTree(t *testing.T) {
	res := apply(t, unpacktest.Tar(t,
		e{Name: "a", Type: tar.TypeDir, ModeZero: true, UID: 77, GID: 88}, e{Name: "a/b", Type: tar.TypeDir, ModeZero: true, UID: 5},
		e{Name: "a/b/f", ModeZero: true}, e{Name: "out", Type: tar.TypeSymlink, Link: "/"}))
	keep := filepath.Join(res.dir, "keep")
	if err := os.WriteFile(keep, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	parent, err := os.Open(res.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer parent.Close()
	for _, name := range []string{"root", "root", "../x", "", ".", "..", "a/b"} {
		req, _ := json.Marshal(unpack.RemoveRequest{Version: unpack.Version, Parent: 3, Name: name})
		err := (&unpacktest.Runner{}).Run(context.Background(), unpack.RemoveProgram, req, []*os.File{parent}, io.Discard)
		if (err == nil) != (name == "root") {
			t.Errorf("remove %q: %v", name, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(res.dir, "root")); !os.IsNotExist(err) {
		t.Errorf("the tree: %v", err)
	}
	if _, err := os.Lstat(keep); err != nil {
		t.Errorf("its neighbour: %v", err)
	}
}

// Requests that do not fit are refused before anything is touched.
func TestRequestsAreChecked(t *testing.T) {
	testgate.Need(t, testgate.UserNS)
	for _, req := range []string{
		``, `{}`, `{"version":99}`, `{"version":1,"mapping":"both","target":3}`, `{"version":1,"mapping":"full","target":2}`,
		`{"version":1,"mapping":"full","target":3,"more":1}`, `{"version":1,"mapping":"full","target":3,"layers":[{"fd":4,"size":1,"diff_id":"md5:00"}]}`,
	} {
		var out bytes.Buffer
		err := (&unpacktest.Runner{}).Run(context.Background(), unpack.Program, []byte(req), nil, &out)
		if err == nil || !strings.Contains(out.String(), `"failed"`) {
			t.Errorf("%s: %v, %s", req, err, out.String())
		}
	}
}
