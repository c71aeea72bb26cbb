package gitodb

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
)

// The limits: on a commit and on what it is made from, on the deltas that lead
// to it, and on how many commits one question reads.
const (
	maxObject  = 4 << 20
	maxChain   = 32 << 20 // all deltas of one object together, and all that they make
	maxDeltas  = 4096
	maxCommits = 20000
)

// ErrUnknown says that a question was not answered within its limits, or that
// an object is not there.
var ErrUnknown = errors.New("the history is not known")

var errObject = errors.New("an object is malformed")

// The types of entries in a pack that are no object of their own.
const (
	typeOfsDelta = 6
	typeRefDelta = 7
)

// types are the types of objects that are read, by their number in a pack.
var types = map[int]string{1: "commit", 2: "tree", 4: "tag"}

// object is what is read of an object.
type object struct {
	kind string
	text []byte
}

// Descends tells whether the commit is the ancestor, or has it for one.
// Databases that this one borrows from are not read, nor are replacements and
// grafts, by which Git would say otherwise.
func (s *Store) Descends(ctx context.Context, commit, ancestor []byte) (bool, error) {
	seen := map[string]bool{string(commit): true}
	queue := [][]byte{commit}
	for len(queue) > 0 {
		id := queue[0]
		queue = queue[1:]
		if bytes.Equal(id, ancestor) {
			return true, nil
		}
		if ctx.Err() != nil || len(seen) > maxCommits {
			return false, ErrUnknown
		}
		parents, err := s.parents(id)
		if err != nil {
			return false, err
		}
		for _, p := range parents {
			if !seen[string(p)] {
				seen[string(p)] = true
				queue = append(queue, p)
			}
		}
	}
	return false, nil
}

// parents are those of a commit. A tag has the one commit that it names.
func (s *Store) parents(id []byte) ([][]byte, error) {
	x, err := s.object(id)
	if err != nil {
		return nil, err
	}
	if x.kind == "tree" {
		return nil, errObject
	}
	var out [][]byte
	head, _, _ := strings.Cut(string(x.text), "\n\n")
	for line := range strings.SplitSeq(head, "\n") {
		name, ok := strings.CutPrefix(line, "parent ")
		if !ok {
			if name, ok = strings.CutPrefix(line, "object "); !ok {
				continue
			}
		}
		p, err := hex.DecodeString(name)
		if err != nil || len(p) != s.HashSize {
			return nil, errObject
		}
		out = append(out, p)
	}
	return out, nil
}

// object reads a commit, a tree or a tag.
func (s *Store) object(id []byte) (*object, error) {
	if len(id) != s.HashSize || len(id) < 2 {
		return nil, errObject
	}
	name := hex.EncodeToString(id)
	f, err := s.Objects.Open(name[:2] + "/" + name[2:])
	if err == nil {
		defer func() { _ = f.Close() }()
		return loose(f)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	names, err := s.Objects.ReadDir("pack")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrUnknown
	}
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		base, ok := strings.CutSuffix(name, ".idx")
		if !ok {
			continue
		}
		x, err := s.packed("pack/"+base, id)
		if x != nil || err != nil {
			return x, err
		}
	}
	return nil, ErrUnknown
}

// loose reads an object that is a file of its own.
func loose(f File) (*object, error) {
	z, err := zlib.NewReader(io.NewSectionReader(f, 0, f.Size()))
	if err != nil {
		return nil, errObject
	}
	b, err := io.ReadAll(io.LimitReader(z, maxObject+1))
	if err != nil || len(b) > maxObject {
		return nil, errObject
	}
	head, text, ok := bytes.Cut(b, []byte{0})
	kind, _, _ := strings.Cut(string(head), " ")
	if !ok || !known(kind) {
		return nil, errObject
	}
	return &object{kind, text}, nil
}

func known(kind string) bool { return kind == types[1] || kind == types[2] || kind == types[4] }

// packed reads an object of the pack with this name, nil if it has none.
func (s *Store) packed(base string, id []byte) (*object, error) {
	idx, err := s.Objects.Open(base + ".idx")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = idx.Close() }()
	at, found, err := offset(idx, id)
	if err != nil || !found {
		return nil, err
	}
	pack, err := s.Objects.Open(base + ".pack")
	if err != nil {
		return nil, err
	}
	defer func() { _ = pack.Close() }()
	return unpack(pack, idx, at, s.HashSize)
}

// unpack reads the object at a place of a pack, following its deltas.
func unpack(pack, idx File, at int64, hashSize int) (*object, error) {
	var deltas [][]byte
	left := maxChain
	for range maxDeltas {
		kind, base, text, err := entry(pack, idx, at, hashSize)
		if err != nil {
			return nil, err
		}
		if left -= len(text); left < 0 {
			return nil, errObject
		}
		if kind != typeOfsDelta && kind != typeRefDelta {
			if types[kind] == "" {
				return nil, errObject
			}
			for _, delta := range slices.Backward(deltas) {
				if text, err = patch(text, delta); err != nil {
					return nil, err
				}
				if left -= len(text); left < 0 {
					return nil, errObject
				}
			}
			return &object{types[kind], text}, nil
		}
		deltas = append(deltas, text)
		at = base
	}
	return nil, errObject
}

// entry reads one entry of a pack; base is where a delta's other half is.
func entry(pack, idx File, at int64, hashSize int) (kind int, base int64, text []byte, err error) {
	if at < 0 || at >= pack.Size() {
		return 0, 0, nil, errObject
	}
	var head [64]byte
	n, err := pack.ReadAt(head[:], at)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, 0, nil, err
	}
	b := head[:n]
	if n == 0 {
		return 0, 0, nil, errObject
	}
	kind = int(b[0] >> 4 & 7)
	_, used := sizeOf(b[1:], b[0]&0x80 != 0, int64(b[0]&15), 4)
	used++
	switch kind {
	case typeOfsDelta:
		back, m := backwards(b[min(used, n):])
		base, used = at-back, used+m
		if back <= 0 || base < 0 {
			return 0, 0, nil, errObject
		}
	case typeRefDelta:
		if used+hashSize > n {
			return 0, 0, nil, errObject
		}
		var found bool
		base, found, err = offset(idx, b[used:used+hashSize])
		if err != nil || !found {
			return 0, 0, nil, errors.Join(errObject, err)
		}
		used += hashSize
	}
	z, err := zlib.NewReader(io.NewSectionReader(pack, at+int64(used), pack.Size()-at-int64(used)))
	if err != nil {
		return 0, 0, nil, errObject
	}
	text, err = io.ReadAll(io.LimitReader(z, maxObject+1))
	if err != nil || len(text) > maxObject {
		return 0, 0, nil, errObject
	}
	return kind, base, text, nil
}

// sizeOf reads the rest of a size of seven bits a byte, least first.
func sizeOf(b []byte, more bool, v int64, shift uint) (size int64, used int) {
	for more && used < len(b) && shift < 56 {
		v |= int64(b[used]&0x7f) << shift
		more = b[used]&0x80 != 0
		shift += 7
		used++
	}
	return v, used
}

// backwards reads the distance to a delta's other half.
func backwards(b []byte) (back int64, used int) {
	for used < len(b) && used < 8 {
		c := b[used]
		if used++; used > 1 {
			back++
		}
		back = back<<7 | int64(c&0x7f)
		if c&0x80 == 0 {
			return back, used
		}
	}
	return 0, used
}

// patch applies a delta.
func patch(base, delta []byte) ([]byte, error) {
	next := func() int64 {
		v, used := sizeOf(delta, true, 0, 0)
		delta = delta[used:]
		return v
	}
	from, to := next(), next()
	if from != int64(len(base)) || to < 0 || to > maxObject {
		return nil, errObject
	}
	out := make([]byte, 0, to)
	for len(delta) > 0 {
		op := delta[0]
		delta = delta[1:]
		if op&0x80 == 0 {
			if op == 0 || int(op) > len(delta) {
				return nil, errObject
			}
			out, delta = append(out, delta[:op]...), delta[op:]
			continue
		}
		var at, n int
		for i := range 7 {
			if op>>i&1 == 0 {
				continue
			}
			if len(delta) == 0 {
				return nil, errObject
			}
			if i < 4 {
				at |= int(delta[0]) << (8 * i)
			} else {
				n |= int(delta[0]) << (8 * (i - 4))
			}
			delta = delta[1:]
		}
		if n == 0 {
			n = 0x10000
		}
		if at > len(base) || n > len(base)-at || len(out)+n > int(to) {
			return nil, errObject
		}
		out = append(out, base[at:at+n]...)
	}
	if int64(len(out)) != to {
		return nil, fmt.Errorf("%w: a delta gives %d bytes, not %d", errObject, len(out), to)
	}
	return out, nil
}
