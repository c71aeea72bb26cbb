package generation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"lazaret.dev/lazaret/host/internal/config"
	"lazaret.dev/lazaret/host/internal/hostfacts"
	"lazaret.dev/lazaret/host/internal/spawn"
)

// RequestVersion is the version of Request's encoding. The CLI and the
// coordinator are one binary; another version means that it was replaced in
// between.
const RequestVersion = 1

// maxRequest bounds a request's encoding, in bytes.
const maxRequest = 4 << 20

// Request is everything that a coordinator needs to know of its Domain. The
// CLI that won the Domain lock resolves it from trusted host configuration.
type Request struct {
	Domain     config.Domain   `json:"domain"`
	Generation string          `json:"generation"`
	RuntimeDir string          `json:"runtime_dir"` // the Domain's own
	LogDir     string          `json:"log_dir"`     // the generation's own
	Executable string          `json:"executable"`  // lazaret, for its programs in the user namespace
	Tools      hostfacts.Tools `json:"tools"`
	Mapping    spawn.Mapping   `json:"mapping"`
}

// Fingerprint is the Configuration Fingerprint of the Domain.
func (r *Request) Fingerprint() string { return r.Domain.Fingerprint() }

// Differences says how a client's configuration differs from the running one.
func (r *Request) Differences(client map[string]string) []string {
	return config.Diff(r.Domain.Shape(), client)
}

// Encode renders the request.
func (r *Request) Encode() ([]byte, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode start request: %w", err)
	}
	return b, nil
}

// DecodeRequest reads a request of the given size strictly.
func DecodeRequest(r io.Reader, size int64) (*Request, error) {
	if size <= 0 || size > maxRequest {
		return nil, fmt.Errorf("start request of %d bytes", size)
	}
	b, err := io.ReadAll(io.LimitReader(r, size+1))
	if err != nil {
		return nil, fmt.Errorf("read start request: %w", err)
	}
	if int64(len(b)) != size {
		return nil, errors.New("start request is not as long as announced")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	var req Request
	if err := d.Decode(&req); err != nil {
		return nil, fmt.Errorf("decode start request: %w", err)
	}
	return &req, nil
}

// Transients is where each generation of the Domain has its transient layer.
func (r *Request) Transients() string { return filepath.Join(r.Domain.DomainDir, "transient") }

// Runner runs programs in the generation's id mapping.
func (r *Request) Runner() spawn.Enter {
	return spawn.Enter{Supervisor: r.Tools.Supervisor, Executable: r.Executable, Mapping: r.Mapping}
}
