package gitindex

import (
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
)

// link is the extension of a split index: its base, and which entries of the
// base are gone or replaced.
type link struct {
	base              string // of the file sharedindex.<base>
	deleted, replaced bitmap
}

func parseLink(b []byte, hashSize int) (*link, error) {
	if len(b) < hashSize {
		return nil, refused("the extension of a split index is malformed")
	}
	l := &link{base: hex.EncodeToString(b[:hashSize])}
	if strings.Trim(l.base, "0") == "" {
		return nil, refused("a split index has no base")
	}
	b = b[hashSize:]
	if len(b) == 0 {
		return l, nil
	}
	for _, m := range []*bitmap{&l.deleted, &l.replaced} {
		n, err := m.parse(b)
		if err != nil {
			return nil, err
		}
		b = b[n:]
	}
	if len(b) > 0 {
		return nil, refused("the extension of a split index is malformed")
	}
	return l, nil
}

// merge is the whole index. The entries of top without a path replace those of
// base, in order; the others are added.
func (l *link) merge(base, top *Index) (*Index, error) {
	n := len(base.entries)
	deleted, err := l.deleted.expand(n)
	if err != nil {
		return nil, err
	}
	replaced, err := l.replaced.expand(n)
	if err != nil {
		return nil, err
	}
	whole := &Index{split: true}
	next := 0
	for i, e := range base.entries {
		if replaced[i] {
			if next == len(top.entries) || top.entries[next].Path != "" {
				return nil, refused("a split index replaces more entries than it has")
			}
			path := e.Path
			e = top.entries[next]
			e.Path = path
			next++
		}
		if !deleted[i] {
			whole.entries = append(whole.entries, e)
		}
	}
	if next < len(top.entries) && top.entries[next].Path == "" {
		return nil, refused("an entry has no path")
	}
	whole.entries = append(whole.entries, top.entries[next:]...)
	slices.SortFunc(whole.entries, func(a, b Entry) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		return int(a.Stage) - int(b.Stage)
	})
	return whole, nil
}

// bitmap is one in Git's compressed form (EWAH), big-endian.
type bitmap struct{ words []byte } // eight bytes each

// parse reads a bitmap and says how many bytes it took. It begins with its
// length in bits, which says nothing that its words do not.
func (m *bitmap) parse(b []byte) (int, error) {
	if len(b) < 8 {
		return 0, refused("a bitmap of the index is malformed")
	}
	n := int64(binary.BigEndian.Uint32(b[4:])) * 8
	if int64(len(b)) < 8+n+4 {
		return 0, refused("a bitmap of the index is malformed")
	}
	m.words = b[8 : 8+n]
	return int(8 + n + 4), nil
}

// expand is the bitmap over n entries. A bit beyond is an error.
//
// It is a row of groups: a word with one bit, how many words it fills (32
// bits) and how many literal words follow (31 bits).
func (m *bitmap) expand(n int) ([]bool, error) {
	out := make([]bool, n)
	at := 0 // the next bit
	set := func(i int) error {
		if i >= n {
			return refused("a bitmap of the index is about entries that do not exist")
		}
		out[i] = true
		return nil
	}
	for w := 0; w < len(m.words); {
		head := binary.BigEndian.Uint64(m.words[w:])
		w += 8
		run, literals := int(head>>1&(1<<32-1)), int(head>>33)
		if literals > (len(m.words)-w)/8 {
			return nil, refused("a bitmap of the index is malformed")
		}
		if head&1 != 0 {
			for i := range run * 64 {
				if err := set(at + i); err != nil {
					return nil, err
				}
			}
		}
		at += run * 64
		for range literals {
			word := binary.BigEndian.Uint64(m.words[w:])
			w += 8
			for i := range 64 {
				if word>>i&1 != 0 {
					if err := set(at + i); err != nil {
						return nil, err
					}
				}
			}
			at += 64
		}
	}
	return out, nil
}
