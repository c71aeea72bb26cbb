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

// has tells whether the table has a name.
func (t *table) has(id []byte) (bool, error) {
	_, found, err := t.find(id)
	return found, err
}

// find searches as Git does, so that a table that is out of order hides the
// same from both.
func (t *table) find(id []byte) (place int64, found bool, err error) {
	var b [8]byte
	first := int64(id[0])
	var lo, hi uint32
	if first == 0 {
		if err := readAt(t.file, b[4:], t.fan); err != nil {
			return 0, false, err
		}
	} else {
		if err := readAt(t.file, b[:], t.fan+4*(first-1)); err != nil {
			return 0, false, err
		}
		lo = binary.BigEndian.Uint32(b[:])
	}
	hi = binary.BigEndian.Uint32(b[4:])
	name := make([]byte, len(id))
	for lo < hi {
		mid := lo + (hi-lo)/2
		if err := readAt(t.file, name, t.names+int64(mid)*t.stride+t.skip); err != nil {
			return 0, false, err
		}
		switch c := bytes.Compare(name, id); {
		case c == 0:
			return int64(mid), true, nil
		case c > 0:
			hi = mid
		default:
			lo = mid + 1
		}
	}
	return 0, false, nil
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

// inPack looks into the index of one pack.
func inPack(f File, id []byte) (bool, error) {
	t, _, err := packTable(f, len(id))
	if err != nil {
		return false, err
	}
	return t.has(id)
}

// packTable reads the head of a pack's index, of version 1 or 2.
func packTable(f File, hashSize int) (t table, version int, err error) {
	var head [8]byte
	if err := readAt(f, head[:], 0); err != nil {
		return t, 0, err
	}
	hash := int64(hashSize)
	if string(head[:4]) != "\xfftOc" {
		return table{file: f, fan: 0, names: fanSize, stride: 4 + hash, skip: 4}, 1, nil
	}
	if binary.BigEndian.Uint32(head[4:]) != 2 {
		return t, 0, errMalformed
	}
	return table{file: f, fan: 8, names: 8 + fanSize, stride: hash}, 2, nil
}

// offset is where the object with this name begins in the pack of the index
// f.
func offset(f File, id []byte) (at int64, found bool, err error) {
	t, version, err := packTable(f, len(id))
	if err != nil {
		return 0, false, err
	}
	place, found, err := t.find(id)
	if err != nil || !found {
		return 0, found, err
	}
	var b [8]byte
	if version == 1 {
		err := readAt(f, b[:4], t.names+place*t.stride)
		return int64(binary.BigEndian.Uint32(b[:4])), true, err
	}
	if err := readAt(f, b[:4], t.fan+fanSize-4); err != nil {
		return 0, true, err
	}
	count := int64(binary.BigEndian.Uint32(b[:4]))
	offsets := t.names + count*(t.stride+4)
	if err := readAt(f, b[:4], offsets+4*place); err != nil {
		return 0, true, err
	}
	short := binary.BigEndian.Uint32(b[:4])
	if short>>31 == 0 {
		return int64(short), true, nil
	}
	err = readAt(f, b[:], offsets+4*count+8*int64(short&^(1<<31)))
	return int64(binary.BigEndian.Uint64(b[:])), true, err
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
