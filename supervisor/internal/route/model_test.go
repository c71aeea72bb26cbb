package route_test

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"lazaret.dev/lazaret/supervisor/internal/gitodb"
	"lazaret.dev/lazaret/supervisor/internal/route"
)

// host is a workspace in memory, with one repository at its root and any
// number below it.
type host struct {
	files map[string]string // by path; directories are what they imply
	ino   map[string]uint64
	stamp map[string]int64
	next  int64
	repos map[string]*repo
	// record is what the router saved last.
	record []byte
	saves  int
}

type repo struct {
	tracked map[string]tracked // by path in the repository
	blobs   map[string]bool    // names of loose objects
	exclude string
	locked  bool
}

type tracked struct {
	stamp int64 // of the file when it was added; 0: another
	size  int
	mode  uint32
	skip  bool
}

func newHost() *host {
	return &host{files: map[string]string{}, ino: map[string]uint64{}, stamp: map[string]int64{}, repos: map[string]*repo{}}
}

func newRepo() *repo { return &repo{tracked: map[string]tracked{}, blobs: map[string]bool{}} }

func (h *host) clone() *host {
	c := newHost()
	c.files, c.ino, c.stamp, c.next = maps.Clone(h.files), maps.Clone(h.ino), maps.Clone(h.stamp), h.next
	for dir, r := range h.repos {
		c.repos[dir] = &repo{maps.Clone(r.tracked), maps.Clone(r.blobs), r.exclude, r.locked}
	}
	return c
}

func (h *host) write(path, text string) {
	h.next++
	if _, ok := h.files[path]; !ok {
		h.ino[path] = uint64(h.next)
	}
	h.files[path], h.stamp[path] = text, h.next
}

func (h *host) remove(path string) {
	delete(h.files, path)
	delete(h.ino, path)
	delete(h.stamp, path)
}

// move renames a file or a directory with all that is below.
func (h *host) move(old, to string) {
	for _, p := range slices.Collect(maps.Keys(h.files)) {
		if p != old && !strings.HasPrefix(p, old+"/") {
			continue
		}
		q := to + p[len(old):]
		h.files[q], h.ino[q], h.stamp[q] = h.files[p], h.ino[p], h.stamp[p]
		h.remove(p)
	}
	for _, d := range slices.Collect(maps.Keys(h.repos)) {
		if d == old || strings.HasPrefix(d, old+"/") {
			h.repos[to+d[len(old):]] = h.repos[d]
			delete(h.repos, d)
		}
	}
}

func (h *host) isDir(path string) bool {
	for p := range h.files {
		if strings.HasPrefix(p, path+"/") {
			return true
		}
	}
	return path == ""
}

// The interfaces of the router.

func (h *host) ReadFile(path string, limit int64) ([]byte, error) {
	s, ok := h.files[path]
	switch {
	case !ok:
		return nil, fs.ErrNotExist
	case int64(len(s)) > limit:
		return nil, errors.New("too large")
	}
	return []byte(s), nil
}

func (h *host) Lstat(path string) (route.Entry, error) {
	if h.isDir(path) {
		return route.Entry{Kind: route.Directory, Nlink: 2}, nil
	}
	s, ok := h.files[path]
	if !ok {
		return route.Entry{}, fs.ErrNotExist
	}
	e := route.Entry{Kind: route.Regular, Dev: 1, Ino: h.ino[path], Size: int64(len(s)), Sec: h.stamp[path]}
	for _, ino := range h.ino {
		if ino == e.Ino {
			e.Nlink++
		}
	}
	return e, nil
}

func (h *host) ReadDir(dir string) ([]route.Entry, error) {
	kinds := map[string]route.Kind{}
	for p := range h.files {
		if dir != "" {
			if !strings.HasPrefix(p, dir+"/") {
				continue
			}
			p = p[len(dir)+1:]
		}
		name, _, deeper := strings.Cut(p, "/")
		kinds[name] = route.Regular
		if deeper {
			kinds[name] = route.Directory
		}
	}
	var list []route.Entry
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		list = append(list, route.Entry{Name: name, Kind: kinds[name]})
	}
	return list, nil
}

func (h *host) Repository(dir string) (*route.Repo, error) {
	r := h.repos[dir]
	if r == nil {
		return nil, nil
	}
	return &route.Repo{GitDir: r, Common: r, Objects: objects{r}, HashSize: 20}, nil
}

func (h *host) Load() ([]byte, error) { return h.record, nil }

func (h *host) Save(b []byte) error {
	h.record = bytes.Clone(b)
	h.saves++
	return nil
}

type memFile struct{ *bytes.Reader }

func (f memFile) Close() error { return nil }
func (f memFile) Size() int64  { return f.Reader.Size() }

func (r *repo) Open(name string) (gitodb.File, error) {
	switch {
	case name == "index":
		return memFile{bytes.NewReader(r.index())}, nil
	case name == "index.lock" && r.locked:
		return memFile{bytes.NewReader(nil)}, nil
	case name == "info/exclude" && r.exclude != "":
		return memFile{bytes.NewReader([]byte(r.exclude))}, nil
	}
	return nil, fs.ErrNotExist
}

func (r *repo) ReadDir(string) ([]string, error) { return nil, fs.ErrNotExist }

// index is an index of version 3.
func (r *repo) index() []byte {
	b := append([]byte("DIRC\x00\x00\x00\x03"), binary.BigEndian.AppendUint32(nil, uint32(len(r.tracked)))...)
	for _, path := range slices.Sorted(maps.Keys(r.tracked)) {
		t := r.tracked[path]
		began := len(b)
		for _, n := range []uint32{0, 0, uint32(t.stamp), 0, 0, 0, t.mode, 0, 0, uint32(t.size)} {
			b = binary.BigEndian.AppendUint32(b, n)
		}
		b = append(b, make([]byte, 20)...)
		if t.skip {
			b = append(binary.BigEndian.AppendUint16(b, 0x4000|uint16(len(path))), 0x40, 0)
		} else {
			b = binary.BigEndian.AppendUint16(b, uint16(len(path)))
		}
		b = append(append(b, path...), 0)
		for (len(b)-began)%8 != 0 {
			b = append(b, 0)
		}
	}
	sum := sha1.Sum(b)
	return append(b, sum[:]...)
}

// objects are the loose ones of a repository.
type objects struct{ *repo }

func blobName(text string) string {
	sum := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(text), text))
	return hex.EncodeToString(sum[:])
}

func (o objects) Open(name string) (gitodb.File, error) {
	if o.blobs[strings.Replace(name, "/", "", 1)] {
		return memFile{bytes.NewReader(nil)}, nil
	}
	return nil, fs.ErrNotExist
}

// add puts a file into a repository's index, as it is.
func (h *host) add(root, path string) {
	r := h.repos[root]
	name := strings.TrimPrefix(strings.TrimPrefix(path, root), "/")
	r.tracked[name] = tracked{stamp: h.stamp[path], size: len(h.files[path]), mode: 0o100644}
	r.blobs[blobName(h.files[path])] = true
}
