package unpack

import (
	"archive/tar"
	"bytes"
	"io"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func subordinate() idSets {
	s := idSet{{0, 65537}}
	return idSets{uids: s, gids: s}
}

// checkKept asserts what the applier may rely on for every entry that it sees.
func checkKept(t interface{ Errorf(string, ...any) }, hdr *tar.Header, ids idSets) {
	if hdr.Name != path.Clean(hdr.Name) || path.IsAbs(hdr.Name) || hdr.Name == ".." || strings.HasPrefix(hdr.Name, "../") {
		t.Errorf("name %q", hdr.Name)
	}
	dir, last := path.Split(hdr.Name)
	if strings.HasPrefix(dir, whPrefix) || strings.Contains(dir, "/"+whPrefix) {
		t.Errorf("whiteout name on the path: %q", hdr.Name)
	}
	if of, ok := strings.CutPrefix(last, whPrefix); ok {
		if of == "" || of == "." || of == ".." || (strings.HasPrefix(of, whPrefix) && last != whOpaque) {
			t.Errorf("whiteout %q", hdr.Name)
		}
		return
	}
	switch hdr.Typeflag {
	case tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeFifo:
	case tar.TypeLink:
		if l := hdr.Linkname; l == "." || l != path.Clean(l) || path.IsAbs(l) || l == ".." || strings.HasPrefix(l, "../") || l == hdr.Name {
			t.Errorf("hard link to %q", l)
		}
	default:
		t.Errorf("type %q", hdr.Typeflag)
	}
	if hdr.Mode&^0o7777 != 0 {
		t.Errorf("mode %o", hdr.Mode)
	}
	if ids.single && (hdr.Uid != 0 || hdr.Gid != 0) || !ids.single && (!ids.uids.has(hdr.Uid) || !ids.gids.has(hdr.Gid)) {
		t.Errorf("owner %d:%d", hdr.Uid, hdr.Gid)
	}
	for name := range hdr.Xattrs { //nolint:staticcheck // SA1019: it is what the applier reads
		if !strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "user.overlay.") {
			t.Errorf("attribute %q", name)
		}
	}
}

// Cases 1, 37, 89, 90: whatever a header says, what passes is safe to apply.
func TestFilterProperties(t *testing.T) {
	component := rapid.SampledFrom([]string{"..", ".", "", "a", "b", ".wh.a", ".wh..", ".wh...", ".wh.", ".wh..wh..opq", ".wh..wh.aufs", "\xff"})
	name := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(component, 0, 6).Draw(t, "components"), "/")
	})
	rapid.Check(t, func(t *rapid.T) {
		ids := subordinate()
		ids.single = rapid.Bool().Draw(t, "single")
		f := newFilter(ids, func(string, string) {})
		for range rapid.IntRange(1, 4).Draw(t, "entries") {
			hdr := &tar.Header{
				Name: name.Draw(t, "name"), Linkname: name.Draw(t, "link"), Typeflag: rapid.Byte().Draw(t, "type"),
				Mode: rapid.Int64().Draw(t, "mode"), Uid: rapid.Int().Draw(t, "uid"), Gid: rapid.Int().Draw(t, "gid"),
				PAXRecords: map[string]string{"SCHILY.xattr." + rapid.SampledFrom([]string{"user.", "user.x", "user.overlay.y", "trusted.x"}).Draw(t, "xattr"): "v"},
			}
			if keep, err := f.apply(hdr); keep && err == nil {
				checkKept(t, hdr, ids)
			}
		}
	})
}

func TestInside(t *testing.T) {
	for in, want := range map[string]string{
		"a": "a", "./a": "a", "/a": "a", "a/../b": "b", "": ".", "/": ".", "./": ".", "a//b/": "a/b",
		"..": "!", "../a": "!", "a/../..": "!", "/..": "!", "a/../../b": "!",
	} {
		got, ok := inside(in)
		if !ok {
			got = "!"
		}
		if got != want {
			t.Errorf("inside(%q) = %q, want %q", in, got, want)
		}
	}
}

// Set-id bits of an owner that the mapping does not have would be another's.
func TestForeignOwnersLoseSetID(t *testing.T) {
	type kept struct {
		Mode     int64
		UID, GID int
	}
	for name, c := range map[string]struct{ in, want kept }{
		"known":         {kept{0o6755, 10, 20}, kept{0o6755, 10, 20}},
		"foreign owner": {kept{0o6755, 70000, 20}, kept{0o2755, nobody, 20}},
		"foreign group": {kept{0o6755, 10, -1}, kept{0o4755, 10, nobody}},
	} {
		hdr := &tar.Header{Name: "f", Typeflag: tar.TypeReg, Mode: c.in.Mode, Uid: c.in.UID, Gid: c.in.GID}
		if keep, err := newFilter(subordinate(), func(string, string) {}).apply(hdr); !keep || err != nil {
			t.Fatalf("%s: %v, %v", name, keep, err)
		}
		if diff := cmp.Diff(c.want, kept{hdr.Mode, hdr.Uid, hdr.Gid}); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// FuzzLayer feeds bytes to everything that reads a layer before the applier.
func FuzzLayer(f *testing.F) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []*tar.Header{
		{Name: "a/.wh..wh..opq", Typeflag: tar.TypeReg},
		{Name: "l", Linkname: "../x", Typeflag: tar.TypeLink},
		{Name: "f", Typeflag: tar.TypeReg, Uid: 1 << 30, PAXRecords: map[string]string{"SCHILY.xattr.user.overlay.x": "y"}},
	} {
		if err := w.WriteHeader(h); err != nil {
			f.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte{0x1f, 0x8b, 8, 0})
	f.Add([]byte{0x28, 0xb5, 0x2f, 0xfd, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decompress(bytes.NewReader(data))
		if err != nil {
			return
		}
		defer r.Close()
		ids := subordinate()
		flt := newFilter(ids, func(entry, what string) {
			if len(printable(what)) == 0 {
				t.Errorf("note on %q says nothing", entry)
			}
		})
		_ = eachEntry(io.LimitReader(r, 1<<20), func(e entry) error {
			keep, err := flt.apply(e.Header)
			if keep && err == nil {
				checkKept(t, e.Header, ids)
			}
			return err
		})
	})
}

// FuzzEvent feeds bytes to the host's reader of a program's reports.
func FuzzEvent(f *testing.F) {
	f.Add([]byte(`{"kind":"failed","code":"layer","message":"\u001b[31m"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		ev, err := DecodeEvent(line)
		if err != nil {
			return
		}
		for _, s := range []string{ev.Entry, ev.What, ev.Message} {
			for _, r := range s {
				if r < ' ' || r > '~' {
					t.Errorf("not printable: %q", s)
				}
			}
		}
	})
}
