package gate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxPackNames bounds the PNAM chunk: 60 bytes for each of 100,000 packs.
const maxPackNames = 6 << 20

// MultiPackIndex tells why r is no multi-pack-index whose pack names stay in
// their directory. Git uses those names as paths, and never checks them.
func MultiPackIndex(r io.ReaderAt, size int64) error {
	const header, row = 12, 12
	head := make([]byte, header)
	if _, err := r.ReadAt(head, 0); err != nil {
		return fmt.Errorf("read the multi-pack-index: %w", err)
	}
	// Signature, version, hash, chunks, base files, packs.
	version, hash, chunks, packs := head[4], head[5], int(head[6]), binary.BigEndian.Uint32(head[8:])
	if string(head[:4]) != "MIDX" || version < 1 || version > 2 || hash < 1 || hash > 2 {
		return errors.New("the multi-pack-index has another signature or version")
	}
	end := size - map[byte]int64{1: 20, 2: 32}[hash]
	toc := make([]byte, (chunks+1)*row)
	if _, err := r.ReadAt(toc, header); err != nil {
		return fmt.Errorf("read the multi-pack-index's table: %w", err)
	}
	var names []byte
	seen := map[string]bool{}
	last := uint64(header + len(toc))
	for i := range chunks {
		id := string(toc[i*row : i*row+4])
		from := binary.BigEndian.Uint64(toc[i*row+4:])
		to := binary.BigEndian.Uint64(toc[(i+1)*row+4:])
		if seen[id] || id == "\x00\x00\x00\x00" || from < last || to < from || end < 0 || to > uint64(end) {
			return errors.New("the multi-pack-index's table is out of order")
		}
		seen[id], last = true, from
		if id != "PNAM" {
			continue
		}
		if to-from > maxPackNames {
			return errors.New("the multi-pack-index has too many pack names")
		}
		names = make([]byte, to-from)
		if _, err := r.ReadAt(names, int64(from)); err != nil { //nolint:gosec // within the file: end is an int64
			return fmt.Errorf("read the multi-pack-index's pack names: %w", err)
		}
	}
	if string(toc[chunks*row:chunks*row+4]) != "\x00\x00\x00\x00" || !seen["PNAM"] {
		return errors.New("the multi-pack-index has no pack names")
	}
	return packNames(string(names), packs)
}

// packNames checks that names holds exactly n names and padding: older Gits
// read on behind the chunk when it holds fewer.
func packNames(names string, n uint32) error {
	for range n {
		name, rest, ok := strings.Cut(names, "\x00")
		if !ok {
			return errors.New("the multi-pack-index has fewer pack names than packs")
		}
		if !packName(name) {
			return fmt.Errorf("the multi-pack-index names %.100q, which is no pack beside it", name)
		}
		names = rest
	}
	if len(names) > 7 || strings.Trim(names, "\x00") != "" {
		return errors.New("the multi-pack-index has more pack names than packs")
	}
	return nil
}

func packName(name string) bool {
	kind, rest, _ := strings.Cut(name, "-")
	id, ext, _ := strings.Cut(rest, ".")
	return (kind == "pack" || kind == "loose" || kind == "tmp") && hex(id) && (ext == "idx" || ext == "pack")
}
