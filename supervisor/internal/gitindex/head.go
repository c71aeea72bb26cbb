package gitindex

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
)

// VerifyHEAD decides whether a HEAD that was made inside may become the
// host's: a reference below refs/, or an object's name.
func VerifyHEAD(b []byte, hashSize int) error {
	b = bytes.TrimSuffix(b, []byte("\n"))
	ref, symbolic := bytes.CutPrefix(b, []byte("ref: "))
	switch {
	case symbolic && validRef(string(ref)):
		return nil
	case !symbolic && len(b) == 2*hashSize && isHex(string(b)):
		return nil
	}
	return refused("HEAD is neither a reference below refs/ nor an object")
}

func isHex(s string) bool { return s != "" && strings.Trim(s, "0123456789abcdef") == "" }

// validRef is Git's rule for the names of references, below refs/.
func validRef(name string) bool {
	if !strings.HasPrefix(name, "refs/") || len(name) > maxPath || strings.HasSuffix(name, ".") ||
		strings.Contains(name, "..") || strings.Contains(name, "@{") {
		return false
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c == 0x7f || strings.IndexByte(`~^:?*[\`, c) >= 0 {
			return false
		}
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}

// VerifyMIDX decides whether a multi-pack-index that was made inside may
// become the host's: Git must find exactly the names of packs in it that
// could be packs of the same directory.
func VerifyMIDX(r io.ReaderAt, size int64) error {
	if size > MaxSize {
		return refused("the multi-pack-index is larger than %d bytes", MaxSize)
	}
	head := make([]byte, 12)
	if size < int64(len(head)) {
		return errMIDX
	}
	if err := readAt(r, head, 0); err != nil {
		return err
	}
	if string(head[:4]) != "MIDX" || head[4] != 1 || head[5] != 1 && head[5] != 2 {
		return refused("it is no multi-pack-index of version 1")
	}
	chunks, packs := int(head[6]), binary.BigEndian.Uint32(head[8:])
	table := make([]byte, (chunks+1)*12)
	first := int64(len(head) + len(table))
	if first > size {
		return errMIDX
	}
	if err := readAt(r, table, int64(len(head))); err != nil {
		return err
	}
	at := func(i int) uint64 { return binary.BigEndian.Uint64(table[12*i+4:]) }
	seen := map[string]bool{}
	for i := range chunks {
		id := string(table[12*i : 12*i+4])
		if seen[id] || id == "\x00\x00\x00\x00" || at(i) < uint64(first) || at(i) > at(i+1) || at(i+1) > uint64(size) {
			return errMIDX
		}
		seen[id] = true
		if id != "PNAM" {
			continue
		}
		names := make([]byte, at(i+1)-at(i))
		if err := readAt(r, names, int64(at(i))); err != nil {
			return err
		}
		if err := packNames(names, packs); err != nil {
			return err
		}
	}
	if !seen["PNAM"] || string(table[12*chunks:12*chunks+4]) != "\x00\x00\x00\x00" {
		return errMIDX
	}
	return nil
}

var errMIDX = refused("the multi-pack-index is malformed")

// packNames wants exactly n names, each with its NUL, and then no more than
// padding: older versions of Git read on beyond the chunk.
func packNames(b []byte, n uint32) error {
	for range n {
		name, rest, ok := bytes.Cut(b, []byte{0})
		if !ok {
			return errMIDX
		}
		if !packName(string(name)) {
			return &RefusedError{"the multi-pack-index names what is no pack of its directory", string(name)}
		}
		b = rest
	}
	if len(b) > 7 || len(bytes.Trim(b, "\x00")) > 0 {
		return errMIDX
	}
	return nil
}

func packName(name string) bool {
	kind, rest, _ := strings.Cut(name, "-")
	id, ext, _ := strings.Cut(rest, ".")
	return (kind == "pack" || kind == "loose" || kind == "tmp") && isHex(id) && (ext == "idx" || ext == "pack")
}
