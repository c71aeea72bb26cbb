// Package gitodb answers questions about a repository's object database: does
// it hold a text as a blob, does one commit descend from another, which files
// are in a commit?
//
// For the first it reads loose objects' names and the indexes of packs alone,
// for the others commits, trees and tags. It runs no Git and writes nothing. The bytes are
// hostile, since the sandbox writes objects: whatever is malformed, too large or
// unreadable is an error, which the caller has to take for the worse answer. It
// runs in the Runtime Supervisor.
package gitodb

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// File is an open regular file.
type File interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

// Dir is a directory of the host, of which no link is followed.
type Dir interface {
	// Open opens a regular file for reading, without waiting for anybody. It
	// fails with [fs.ErrNotExist] when nothing has that name.
	Open(name string) (File, error)
	// ReadDir lists a directory, with a limit of its own.
	ReadDir(name string) ([]string, error)
}

// The limits: on the databases that one borrows from, in depth as Git has it,
// and on how many one question opens.
const (
	maxDepth   = 5
	maxStores  = 64
	maxPacks   = 20000
	maxBorrows = 1 << 16 // the size of info/alternates
)

// Store is a repository's object database, with those that it borrows from.
type Store struct {
	Objects  Dir
	HashSize int // 20 or 32
	// Alternate opens an object directory that info/alternates names, by the
	// path as it is there: relative to the directory that has the file, or
	// absolute. nil: a database that borrows is an error.
	Alternate func(from Dir, path string) (Dir, func() error, error)
}

// HasBlob tells whether the database holds a blob of these bytes.
func (s *Store) HasBlob(text []byte) (bool, error) {
	head := fmt.Appendf(nil, "blob %d\x00", len(text))
	var id []byte
	switch s.HashSize {
	case 20:
		// Git's name for the object; nothing rests on its strength here.
		h := sha1.Sum(append(head, text...))
		id = h[:]
	case 32:
		h := sha256.Sum256(append(head, text...))
		id = h[:]
	default:
		return false, fmt.Errorf("no hash of %d bytes is known", s.HashSize)
	}
	q := question{store: s, id: id}
	return q.ask(s.Objects, 0)
}

// question is one look-up, in all the databases.
type question struct {
	store  *Store
	id     []byte
	opened int
}

func (q *question) ask(d Dir, depth int) (bool, error) {
	if q.opened++; q.opened > maxStores || depth > maxDepth {
		return false, errors.New("the object database borrows from too many others")
	}
	name := hex.EncodeToString(q.id)
	switch f, err := d.Open(name[:2] + "/" + name[2:]); {
	case err == nil:
		return true, f.Close()
	case !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	if found, err := q.packs(d); found || err != nil {
		return found, err
	}
	return q.borrowed(d, depth)
}

// packs looks into every index of d/pack.
func (q *question) packs(d Dir) (bool, error) {
	names, err := d.ReadDir("pack")
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if len(names) > maxPacks {
		return false, errors.New("the object database has too many packs")
	}
	for _, name := range names {
		look := inPack
		switch {
		case name == "multi-pack-index":
			look = inMulti
		case name == "multi-pack-index.d":
			found, err := q.chain(d)
			if found || err != nil {
				return found, err
			}
			continue
		case !strings.HasSuffix(name, ".idx"):
			continue
		}
		if found, err := q.index(d, "pack/"+name, look); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// chain looks into the layers of an incremental multi-pack-index.
func (q *question) chain(d Dir) (bool, error) {
	const dir = "pack/multi-pack-index.d"
	names, err := d.ReadDir(dir)
	if err != nil {
		return false, err
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".midx") {
			continue
		}
		if found, err := q.index(d, dir+"/"+name, inMulti); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

func (q *question) index(d Dir, name string, look func(File, []byte) (bool, error)) (bool, error) {
	f, err := d.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // repacked away meanwhile; what was in it is in another
	}
	if err != nil {
		return false, err
	}
	found, err := look(f, q.id)
	if err != nil {
		err = fmt.Errorf("read %s: %w", name, err)
	}
	return found, errors.Join(err, f.Close())
}

// borrowed follows info/alternates.
func (q *question) borrowed(d Dir, depth int) (bool, error) {
	f, err := d.Open("info/alternates")
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	text, err := io.ReadAll(io.NewSectionReader(f, 0, maxBorrows+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return false, err
	}
	if len(text) > maxBorrows {
		return false, errors.New("info/alternates is too large")
	}
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		path := string(line)
		switch {
		case path == "" || path[0] == '#':
			continue
		case path[0] == '"' || strings.Contains(path, "\x00"):
			return false, errors.New("info/alternates has a path that is not read")
		case q.store.Alternate == nil:
			return false, errors.New("the object database borrows from another")
		}
		other, closer, err := q.store.Alternate(d, path)
		if err != nil {
			return false, fmt.Errorf("open alternate %q: %w", path, err)
		}
		found, err := q.ask(other, depth+1)
		if err := errors.Join(err, closer()); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// HashSize is the length of the object names in a repository with this
// configuration file: 20, or 32 for SHA-256. A format that is not known is an
// error.
func HashSize(config []byte) (int, error) {
	size, section := 20, ""
	for line := range strings.Lines(string(config)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			var rest string
			section, rest, _ = strings.Cut(line[1:], "]")
			line = strings.TrimSpace(rest)
		}
		key, value, _ := strings.Cut(line, "=")
		if !strings.EqualFold(strings.TrimSpace(section), "extensions") || !strings.EqualFold(strings.TrimSpace(key), "objectformat") {
			continue
		}
		if i := strings.IndexAny(value, "#;"); i >= 0 {
			value = value[:i]
		}
		switch v := strings.Trim(strings.TrimSpace(value), `"`); v {
		case "sha1":
			size = 20
		case "sha256":
			size = 32
		default:
			return 0, fmt.Errorf("the object format %q is not known", v)
		}
	}
	return size, nil
}
