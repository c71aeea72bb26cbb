package image

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"lazaret.dev/lazaret/host/internal/unpack"
)

const (
	maxFile    = 16 << 20 // of our own JSON files: an image's labels are in them
	tempPrefix = ".tmp-"
)

// record remembers what a registry's reference meant.
type record struct {
	Ref            string    `json:"ref"`
	Platform       string    `json:"platform"`
	ManifestDigest string    `json:"manifest_digest"`
	ConfigDigest   string    `json:"config_digest"`
	Updated        time.Time `json:"updated"`
}

func recordPath(dataRoot, ref, platform string) string {
	sum := sha256.Sum256([]byte(ref + "\n" + platform))
	return filepath.Join(dataRoot, "refs", hex.EncodeToString(sum[:])+".json")
}

func writeRecord(dataRoot string, r record) error {
	path := recordPath(dataRoot, r.Ref, r.Platform)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("record image reference: %w", err)
	}
	return writeJSON(path, r)
}

// recorded returns the published artifact that a reference meant last, or nil.
func recorded(dataRoot, ref, platform string, m unpack.Mapping) *Prepared {
	var r record
	if err := readJSON(recordPath(dataRoot, ref, platform), &r); err != nil || r.Ref != ref {
		return nil
	}
	p, err := load(dataRoot, artifactID(r.ConfigDigest, m))
	if err != nil {
		return nil
	}
	return p
}

// records returns all records that can be read.
func records(dataRoot string) ([]record, error) {
	dir := filepath.Join(dataRoot, "refs")
	es, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read image references: %w", err)
	}
	var rs []record
	for _, e := range es {
		var r record
		if readJSON(filepath.Join(dir, e.Name()), &r) == nil {
			rs = append(rs, r)
		}
	}
	return rs, nil
}

func readJSON(path string, into any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // read only
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// writeJSON writes a file whole or not at all, durably.
func writeJSON(path string, v any) (err error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), tempPrefix)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		_ = f.Close()
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	if _, err := f.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	return rename(f.Name(), path)
}

// rename renames within one directory, durably.
func rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	defer d.Close() //nolint:errcheck // a directory
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}
