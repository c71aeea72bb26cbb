package gitindex

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
)

// scanned is what an index holds beside its entries.
type scanned struct {
	sparse bool  // it declares directories of a sparse index
	link   *link // its other half; nil when it is whole
}

// reader counts where it is.
type reader struct {
	in *bufio.Reader
	at int64
}

var errShort = refused("the file ends too early")

func (r *reader) full(b []byte) error {
	n, err := io.ReadFull(r.in, b)
	r.at += int64(n)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errShort
	}
	return err
}

func (r *reader) byte() (byte, error) {
	c, err := r.in.ReadByte()
	if errors.Is(err, io.EOF) {
		return 0, errShort
	}
	r.at++
	return c, err
}

// name reads up to a NUL, which it takes too, and appends it.
func (r *reader) name(into []byte) ([]byte, error) {
	b, err := r.in.ReadSlice(0)
	r.at += int64(len(b))
	switch {
	case errors.Is(err, bufio.ErrBufferFull) || len(into)+len(b)-1 > maxPath:
		return nil, refused("a path is longer than %d bytes", maxPath)
	case errors.Is(err, io.EOF):
		return nil, errShort
	case err != nil:
		return nil, err
	}
	return append(into, b[:len(b)-1]...), nil
}

// scan reads an index strictly: what it accepts, Git reads as exactly these
// entries, whatever it begins with and however many threads it uses.
func scan(in io.ReaderAt, size int64, hashSize int, visit func(*Entry) error) (*scanned, error) {
	if size > MaxSize {
		return nil, refused("the index is larger than %d bytes", MaxSize)
	}
	if hashSize != 20 && hashSize != 32 {
		return nil, refused("no hash of %d bytes is known", hashSize)
	}
	end := size - int64(hashSize)
	// The hash at the end is not compared: Git does not, and who makes the
	// file can make the hash.
	r := &reader{in: bufio.NewReaderSize(io.NewSectionReader(in, 0, max(end, 0)), 1<<16)}
	var head [12]byte
	if err := r.full(head[:]); err != nil {
		return nil, err
	}
	version, count := binary.BigEndian.Uint32(head[4:]), binary.BigEndian.Uint32(head[8:])
	if string(head[:4]) != "DIRC" || version < 2 || version > 4 {
		return nil, refused("it is no index of version 2, 3 or 4")
	}
	s := &scanned{}
	p := entries{reader: r, version: version, hashSize: hashSize}
	var begin starts
	var previous Entry
	unnamed, dirs := 0, false
	for range count {
		at := r.at
		e, err := p.next()
		if err != nil {
			return nil, err
		}
		if !p.fresh && len(begin) > 0 {
			at = none
		}
		begin = append(begin, at)
		switch {
		case e.Path == "" && unnamed == len(begin)-1:
			// Replacements of a split index come first and have no names.
			unnamed++
		case !ordered(&previous, &e):
			return nil, &RefusedError{"the entries are not in order", e.Path}
		}
		previous = e
		dirs = dirs || e.Mode == ModeDir
		if err := visit(&e); err != nil {
			return nil, err
		}
	}
	entriesEnd := r.at
	if err := s.extensions(r, end, hashSize, begin); err != nil {
		return nil, err
	}
	if err := eoie(in, end, entriesEnd); err != nil {
		return nil, err
	}
	switch {
	case unnamed > 0 && s.link == nil:
		return nil, refused("an entry has no path")
	case dirs && !s.sparse:
		return nil, refused("a directory is an entry, but the index is not sparse")
	}
	return s, nil
}

// ordered tells whether b may follow a: by path, and for one path by stage,
// where a merged entry is alone.
func ordered(a, b *Entry) bool {
	switch c := strings.Compare(a.Path, b.Path); {
	case b.Path == "":
		return false
	case c == 0:
		return a.Stage != 0 && a.Stage < b.Stage
	default:
		return c < 0
	}
}

// entries reads one entry after another.
type entries struct {
	*reader
	version  uint32
	hashSize int
	path     []byte // the last one, whose beginning version 4 repeats
	fresh    bool   // the last path took nothing from the one before it
}

const (
	flagAssumeValid  = 0x8000
	flagExtended     = 0x4000
	flagLength       = 0x0fff
	flagSkipWorktree = 0x4000
	flagIntentToAdd  = 0x2000
)

func (p *entries) next() (e Entry, err error) {
	began := p.at
	var fixed [40 + 32 + 2]byte
	b := fixed[:40+p.hashSize+2]
	if err := p.full(b); err != nil {
		return e, err
	}
	u32 := func(i int) uint32 { return binary.BigEndian.Uint32(b[4*i:]) }
	e.MtimeSec, e.MtimeNsec, e.Mode, e.Size = u32(2), u32(3), u32(6), u32(9)
	flags := binary.BigEndian.Uint16(b[40+p.hashSize:])
	e.Stage, e.AssumeValid = uint8(flags>>12&3), flags&flagAssumeValid != 0
	if flags&flagExtended != 0 {
		var x [2]byte
		if err := p.full(x[:]); err != nil {
			return e, err
		}
		more := binary.BigEndian.Uint16(x[:])
		if p.version == 2 || more&^(flagSkipWorktree|flagIntentToAdd) != 0 {
			return e, refused("an entry has flags that are not known")
		}
		e.SkipWorktree, e.IntentToAdd = more&flagSkipWorktree != 0, more&flagIntentToAdd != 0
	}
	if err := p.readPath(began); err != nil {
		return e, err
	}
	e.Path = string(p.path)
	// Git goes by this length where it fits, and not by the NUL.
	if want := min(len(e.Path), flagLength); int(flags&flagLength) != want {
		return e, &RefusedError{"the length of a path is not the one that is declared", e.Path}
	}
	return e, nil
}

func (p *entries) readPath(began int64) (err error) {
	if p.version == 4 {
		strip, err := p.varint()
		if err != nil {
			return err
		}
		if strip > uint64(len(p.path)) {
			return refused("a path takes more from the one before than there is")
		}
		p.fresh = strip == uint64(len(p.path))
		p.path, err = p.name(p.path[:len(p.path)-int(strip)])
		return err
	}
	p.fresh = true
	if p.path, err = p.name(p.path[:0]); err != nil {
		return err
	}
	// An entry is padded to eight bytes, the NUL that ends the path included.
	for (p.at-began)%8 != 0 {
		if c, err := p.byte(); err != nil {
			return err
		} else if c != 0 {
			return refused("what pads an entry is not zero")
		}
	}
	return nil
}

// varint is the number of bytes that version 4 takes off the last path.
func (p *entries) varint() (uint64, error) {
	c, err := p.byte()
	v := uint64(c & 0x7f)
	for err == nil && c&0x80 != 0 {
		if c, err = p.byte(); v > maxPath {
			return 0, refused("a path takes more from the one before than there can be")
		}
		v = (v+1)<<7 | uint64(c&0x7f)
	}
	return v, err
}

// extensions reads what follows the entries. Git ignores what it does not know
// if its name begins with a capital letter.
func (s *scanned) extensions(r *reader, end int64, hashSize int, begin starts) error {
	for r.at < end {
		var head [8]byte
		if err := r.full(head[:]); err != nil {
			return err
		}
		name, size := string(head[:4]), int64(binary.BigEndian.Uint32(head[4:]))
		if size > end-r.at {
			return errShort
		}
		switch {
		case name == "link" || name == "sdir" || name == "IEOT":
			data := make([]byte, size)
			if err := r.full(data); err != nil {
				return err
			}
			if err := s.known(name, data, hashSize, begin); err != nil {
				return err
			}
		case name[0] < 'A' || name[0] > 'Z':
			return refused("the extension %q is not known", name)
		default:
			n, err := io.CopyN(io.Discard, r.in, size)
			r.at += n
			if err != nil {
				return errShort
			}
		}
	}
	return nil
}

func (s *scanned) known(name string, data []byte, hashSize int, begin starts) (err error) {
	switch name {
	case "sdir":
		s.sparse = true
	case "link":
		if s.link != nil {
			return refused("the index is split twice")
		}
		s.link, err = parseLink(data, hashSize)
	case "IEOT":
		return begin.check(data)
	}
	return err
}

// eoie compares the extension by which Git, when it reads with several
// threads, finds the end of the entries. Git looks for it at a fixed place
// before the hash, whether or not an extension begins there; in the length of
// the hash within it, versions differ.
func eoie(in io.ReaderAt, end, entriesEnd int64) error {
	for _, hash := range []int64{20, 32} {
		b := make([]byte, 8+4)
		at := end - int64(len(b)) - hash
		if at < 0 {
			continue
		}
		if err := readAt(in, b, at); err != nil {
			return err
		}
		if bytes.HasPrefix(b, []byte("EOIE")) && int64(binary.BigEndian.Uint32(b[8:])) != entriesEnd {
			return refused("the entries do not end where the index says that they do")
		}
	}
	return nil
}

// readAt fills b. A file that has become shorter is refused.
func readAt(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return errShort
	}
	return err
}

// starts are the places where entries begin, by number. Git's threads begin to
// read where a table in the index says.
type starts []int64

// none marks an entry that takes its beginning from the one before, where no
// thread can begin.
const none = -1

// check compares such a table with where the entries are.
func (s starts) check(b []byte) error {
	if len(b) < 4 || (len(b)-4)%8 != 0 || binary.BigEndian.Uint32(b) != 1 {
		return refused("the table of entries is malformed")
	}
	next := 0
	for b = b[4:]; len(b) > 0; b = b[8:] {
		at, n := int64(binary.BigEndian.Uint32(b)), int64(binary.BigEndian.Uint32(b[4:]))
		if next == len(s) || s[next] != at || n > int64(len(s)-next) {
			return refused("the table of entries does not name where they are")
		}
		next += int(n)
	}
	if next != len(s) {
		return refused("the table of entries does not name them all")
	}
	return nil
}
