package unpack

import (
	"archive/tar"
	"fmt"
	"io"
	"path"
	"strings"
	"time"
)

const (
	whPrefix = ".wh."
	whOpaque = ".wh..wh..opq"
	whMeta   = ".wh..wh." // bookkeeping of an old union filesystem
)

// nobody owns what belongs to an id that the mapping does not have.
const nobody = 65534

// maxXattrs bounds the attributes of one entry: names and values together fit
// the one block that the smallest filesystems have for them. More would fail
// with ENOSPC, which is said of full disks.
const maxXattrs = 3 << 10

// overlayXattrs are attributes by which kernel overlayfs (mounted with
// userxattr), fuse-overlayfs and rootless tools are told what a lower file
// "really" is. An image must not speak to them.
var overlayXattrs = []string{"user.overlay.", "user.fuseoverlayfs.", "user.containers.", "user.rootlesscontainers"}

// entry is one entry of a layer: a header and the file's bytes.
type entry struct {
	Header *tar.Header
	Body   io.Reader
}

// eachEntry calls fn for every entry of a tar stream, a bounded number.
func eachEntry(stream io.Reader, fn func(entry) error) error {
	tr := tar.NewReader(stream)
	for n := 0; ; n++ {
		hdr, err := tr.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return &layerError{ErrLayer, fmt.Errorf("read layer: %w", err)}
		}
		if n >= maxEntries {
			return &layerError{ErrLayer, fmt.Errorf("layer has more than %d entries", maxEntries)}
		}
		if err := fn(entry{hdr, tr}); err != nil {
			return err
		}
	}
}

// filter decides, entry by entry of one layer, what the applier sees.
type filter struct {
	ids     idSets
	note    func(entry, what string)
	skipped map[string]bool // names without a file, which links cannot name
}

func newFilter(ids idSets, note func(entry, what string)) *filter {
	return &filter{ids: ids, note: note, skipped: map[string]bool{}}
}

// apply rewrites hdr into what is unpacked, or says that the entry is skipped.
// An error refuses the whole layer: it tries to leave the image's root.
func (f *filter) apply(hdr *tar.Header) (keep bool, err error) {
	raw := hdr.Name
	switch hdr.Typeflag {
	case tar.TypeXGlobalHeader:
		return false, nil
	case tar.TypeCont, tar.TypeGNUSparse:
		hdr.Typeflag = tar.TypeReg // the reader has resolved the difference
	}
	name, ok := inside(raw)
	if !ok {
		return false, fmt.Errorf("entry %s leads out of the image", quote(raw))
	}
	if name == "." && hdr.Typeflag != tar.TypeDir {
		return false, fmt.Errorf("entry %s replaces the root directory", quote(raw))
	}
	hdr.Name = name
	if isWhiteout, keep := f.whiteout(name); isWhiteout {
		return keep, nil
	}

	switch hdr.Typeflag {
	case tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeFifo:
	case tar.TypeLink:
		if keep, err := f.link(hdr); !keep {
			return false, err
		}
	case tar.TypeChar, tar.TypeBlock:
		return f.skip(name, fmt.Sprintf("device %d:%d skipped", hdr.Devmajor, hdr.Devminor))
	default:
		return f.skip(name, fmt.Sprintf("entry of unknown type %q skipped", hdr.Typeflag))
	}
	delete(f.skipped, name)

	hdr.Mode &= 0o7777
	f.owner(hdr)
	f.xattrs(hdr)
	hdr.ModTime, hdr.AccessTime = saneTime(hdr.ModTime), saneTime(hdr.AccessTime)
	return true, nil
}

func (f *filter) skip(name, what string) (bool, error) {
	f.skipped[name] = true
	f.note(name, what)
	return false, nil
}

// whiteout handles names with the whiteout prefix. Those that the applier is
// not to see: in the middle of a path, where they would become directories
// (and whiteouts to fuse-overlayfs); without a name; and those whose name is
// "." or "..", which would remove more than an entry.
func (f *filter) whiteout(name string) (isWhiteout, keep bool) {
	dir, last := path.Split(name)
	for c := range strings.SplitSeq(dir, "/") {
		if strings.HasPrefix(c, whPrefix) {
			f.note(name, "entry below a whiteout's name skipped")
			return true, false
		}
	}
	of, ok := strings.CutPrefix(last, whPrefix)
	switch {
	case !ok:
		return false, false
	case last == whOpaque:
		return true, true
	case of == "" || of == "." || of == ".." || strings.HasPrefix(last, whMeta):
		f.note(name, "whiteout of no entry skipped")
		return true, false
	}
	return true, true
}

// link checks a hard link, whose target is a name from the root.
func (f *filter) link(hdr *tar.Header) (keep bool, err error) {
	target, ok := inside(hdr.Linkname)
	if !ok || target == "." {
		return false, fmt.Errorf("hard link %s to %s leads out of the image", quote(hdr.Name), quote(hdr.Linkname))
	}
	hdr.Linkname = target
	switch {
	case target == hdr.Name:
		f.note(hdr.Name, "hard link to itself skipped")
		return false, nil
	case f.skipped[target]:
		return f.skip(hdr.Name, "hard link to a skipped entry skipped")
	}
	return true, nil
}

// owner keeps the owner that the mapping has, and gives the rest to nobody,
// without the set-id bits: they would be another user's.
func (f *filter) owner(hdr *tar.Header) {
	if f.ids.single {
		hdr.Uid, hdr.Gid = 0, 0
		return
	}
	if !f.ids.uids.has(hdr.Uid) {
		f.note(hdr.Name, fmt.Sprintf("owner %d is outside the id mapping: nobody", hdr.Uid))
		hdr.Uid = f.ids.uids.fallback()
		hdr.Mode &^= 0o4000
	}
	if !f.ids.gids.has(hdr.Gid) {
		f.note(hdr.Name, fmt.Sprintf("group %d is outside the id mapping: nogroup", hdr.Gid))
		hdr.Gid = f.ids.gids.fallback()
		hdr.Mode &^= 0o2000
	}
}

// xattrs keeps the attributes that a user may set and no overlay interprets.
func (f *filter) xattrs(hdr *tar.Header) {
	const pax = "SCHILY.xattr."
	kept, size := map[string]string{}, 0
	for key, value := range hdr.PAXRecords {
		name, ok := strings.CutPrefix(key, pax)
		if !ok {
			continue
		}
		size += len(name) + len(value) + 32
		switch why := f.refusedXattr(hdr, name, size); why {
		case "":
			kept[name] = value
		default:
			size -= len(name) + len(value) + 32
			if len(name) > 256 {
				name = name[:256]
			}
			f.note(hdr.Name, fmt.Sprintf("attribute %s skipped: %s", quote(name), why))
		}
	}
	hdr.Xattrs = kept //nolint:staticcheck // SA1019: it is what the applier reads
	hdr.PAXRecords = nil
}

func (f *filter) refusedXattr(hdr *tar.Header, name string, size int) string {
	switch {
	case !strings.HasPrefix(name, "user.") || name == "user.":
		return "it needs privilege"
	case hdr.Typeflag != tar.TypeReg && hdr.Typeflag != tar.TypeDir:
		return "the file's type has none"
	case len(name) > 255 || strings.ContainsRune(name, 0):
		return "malformed name"
	case size > maxXattrs:
		return "too large"
	}
	for _, p := range overlayXattrs {
		if strings.HasPrefix(name, p) {
			return "reserved for overlays"
		}
	}
	return ""
}

// inside returns the name from the root, "." for the root itself, and false
// when its components lead above the root. A leading slash means the root.
func inside(name string) (string, bool) {
	depth := 0
	for c := range strings.SplitSeq(name, "/") {
		switch c {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return "", false
			}
		default:
			depth++
		}
	}
	clean := strings.TrimPrefix(path.Clean("/"+name), "/")
	if clean == "" {
		return ".", true
	}
	return clean, true
}

// saneTime bounds times to what every filesystem can store.
func saneTime(t time.Time) time.Time {
	switch s := t.Unix(); {
	case t.IsZero():
		return t
	case s < 0:
		return time.Unix(0, 0)
	case s > 1<<33:
		return time.Unix(1<<33, 0)
	}
	return t
}
