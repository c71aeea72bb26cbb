package image

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"lazaret.dev/lazaret/host/internal/image/durable"
	"lazaret.dev/lazaret/host/internal/unpack"
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
	return durable.WriteJSON(path, r)
}

// recorded returns the published artifact that a reference meant last, or nil.
func recorded(dataRoot, ref, platform string, m unpack.Mapping) *Prepared {
	var r record
	if err := durable.ReadJSON(recordPath(dataRoot, ref, platform), &r); err != nil || r.Ref != ref {
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
		if durable.ReadJSON(filepath.Join(dir, e.Name()), &r) == nil {
			rs = append(rs, r)
		}
	}
	return rs, nil
}
