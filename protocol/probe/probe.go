// Package probe holds the messages between the Host Coordinator and the static
// prober that it runs inside the sandbox before publication (FR-20, design
// section 9). The bytes come back from the sandbox, so the decoder is strict
// and bounded. It is pure, and linked into both ends.
package probe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
)

// MaxResult bounds a result's encoding, in bytes.
const MaxResult = 256 << 10

// Request asks the prober to check a policy from inside the sandbox.
type Request struct {
	// Denied holds one address of every denied prefix. For each, the route must
	// lead to loopback before anything is sent, and then neither TCP nor UDP may
	// reach it.
	Denied []netip.AddrPort `json:"denied"`

	// DNS must answer unless it is the zero value.
	DNS netip.AddrPort `json:"dns"`

	// TimeoutMS bounds each single check, in milliseconds.
	TimeoutMS int `json:"timeout_ms"`
}

// Verdict is what the prober saw at one denied address.
type Verdict string

// The verdicts.
const (
	Closed    Verdict = "closed"     // the route is loopback and nothing answered
	RouteOpen Verdict = "route_open" // the route leads out; nothing was sent
	Reached   Verdict = "reached"    // something answered
)

// UnmarshalText refuses unknown verdicts.
func (v *Verdict) UnmarshalText(b []byte) error {
	switch w := Verdict(b); w {
	case Closed, RouteOpen, Reached:
		*v = w
		return nil
	default:
		return fmt.Errorf("unknown verdict %q", b)
	}
}

// Result is the prober's answer.
type Result struct {
	Denied []Finding `json:"denied"`            // in the request's order
	DNSOK  bool      `json:"dns_ok"`            // the resolver answered
	DNSErr string    `json:"dns_err,omitempty"` // why not; hostile text
}

// Finding is the verdict for one denied address.
type Finding struct {
	Addr    netip.AddrPort `json:"addr"`
	Verdict Verdict        `json:"verdict"`
	Detail  string         `json:"detail,omitempty"` // hostile text
}

// DecodeResult reads at most MaxResult bytes and decodes strictly one result.
func DecodeResult(r io.Reader) (*Result, error) {
	b, err := io.ReadAll(io.LimitReader(r, MaxResult+1))
	if err != nil {
		return nil, fmt.Errorf("read probe result: %w", err)
	}
	if len(b) > MaxResult {
		return nil, errors.New("probe result is larger than the limit")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	var res Result
	if err := d.Decode(&res); err != nil {
		return nil, fmt.Errorf("decode probe result: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("decode probe result: trailing data")
	}
	return &res, nil
}
