package gitodb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
)

var errMalformed = errors.New("the index is malformed")

// table is a row of names in order, each with what follows it, and before it
// a fan-out: for each first byte the number of names up to it.
type table struct {
	file   File
	fan    int64
	names  int64
	stride int64
	skip   int64 // what stands before a name in its record
}

// has searches as Git does, so that a table that is out of order hides the
// same from both.
func (t *table) has(id []byte) (bool, error) {
	var b [8]byte
	first := int64(id[0])
	var lo, hi uint32
	if first == 0 {
		if err := readAt(t.file, b[4:], t.fan); err != nil {
			return false, err
		}
	} else {
		if err := readAt(t.file, b[:], t.fan+4*(first-1)); err != nil {
			return false, err
		}
		lo = binary.BigEndian.Uint32(b[:])
	}
	hi = binary.BigEndian.Uint32(b[4:])
	name := make([]byte, len(id))
	for lo < hi {
		mid := lo + (hi-lo)/2
		if err := readAt(t.file, name, t.names+int64(mid)*t.stride+t.skip); err != nil {
			return false, err
		}
		switch c := bytes.Compare(name, id); {
		case c == 0:
			return true, nil
		case c > 0:
			hi = mid
		default:
			lo = mid + 1
		}
	}
	return false, nil
}

// readAt fills b; beyond the end of the file is malformed.
func readAt(f File, b []byte, at int64) error {
	n, err := f.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return errMalformed
	}
	return err
}

const fanSize = 256 * 4

// inPack looks into the index of one pack, of version 1 or 2.
func inPack(f File, id []byte) (bool, error) {
	var head [8]byte
	if err := readAt(f, head[:], 0); err != nil {
		return false, err
	}
	hash := int64(len(id))
	t := table{file: f, fan: 0, names: fanSize, stride: 4 + hash, skip: 4}
	if string(head[:4]) == "\xfftOc" {
		if binary.BigEndian.Uint32(head[4:]) != 2 {
			return false, errMalformed
		}
		t = table{file: f, fan: 8, names: 8 + fanSize, stride: hash}
	}
	return t.has(id)
}

// inMulti looks into a multi-pack-index.
func inMulti(f File, id []byte) (bool, error) {
	var head [12]byte
	if err := readAt(f, head[:], 0); err != nil {
		return false, err
	}
	if string(head[:4]) != "MIDX" || head[4] != 1 || head[5] != 1 && head[5] != 2 {
		return false, errMalformed
	}
	chunks := make([]byte, 12*int(head[6]))
	if err := readAt(f, chunks, int64(len(head))); err != nil {
		return false, err
	}
	t := table{file: f, stride: int64(len(id))}
	for ; len(chunks) > 0; chunks = chunks[12:] {
		at := int64(binary.BigEndian.Uint64(chunks[4:]))
		if at < 0 || at > f.Size() {
			return false, errMalformed
		}
		switch string(chunks[:4]) {
		case "OIDF":
			t.fan = at
		case "OIDL":
			t.names = at
		}
	}
	if t.fan == 0 || t.names == 0 {
		return false, errMalformed
	}
	return t.has(id)
}
