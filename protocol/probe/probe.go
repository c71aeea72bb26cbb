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
	"time"
)

// MaxResult bounds a result's encoding, in bytes.
const MaxResult = 256 << 10

// MaxRequest bounds a request's encoding, in bytes.
const MaxRequest = 256 << 10

// Settle is how long the prober waits for a denied destination to answer. It
// sends only where the route leads to loopback, so an answer could come from
// the sandbox's own kernel alone, which gives it within microseconds: the wait
// is for the scheduler, not for a network. What proves the deny is the route;
// that nothing answers shows that the kernel does as its route says. A denied
// connection hangs by design, so that every start waits this long in full.
const Settle = 20 * time.Millisecond

// Request asks the prober to check a policy from inside the sandbox.
type Request struct {
	// Denied holds one address of every denied prefix. For each, the route must
	// lead to loopback before anything is sent, and then neither TCP nor UDP may
	// reach it.
	Denied []netip.AddrPort `json:"denied"`

	// Source, unless it is the zero value, is the sandbox's own address. The
	// prober then asks every denied address from it as well: the sandbox's
	// kernel picks a route by the source that a socket is bound to, and passes
	// loopback routes by. Such packets leave the sandbox, so it may be set only
	// when the routes of the namespace around it have been attested.
	Source netip.Addr `json:"source,omitzero"`

	// DNS must answer unless it is the zero value.
	DNS netip.AddrPort `json:"dns,omitzero"`

	// TimeoutMS bounds the wait for DNS, in milliseconds.
	TimeoutMS int `json:"timeout_ms"`
}

// DecodeRequest reads at most MaxRequest bytes and decodes strictly one request.
func DecodeRequest(r io.Reader) (*Request, error) {
	var req Request
	if err := decode(r, MaxRequest, &req); err != nil {
		return nil, fmt.Errorf("probe request: %w", err)
	}
	for _, a := range req.Denied {
		if !a.Addr().Is4() {
			return nil, fmt.Errorf("probe request: %s is not IPv4", a)
		}
	}
	if req.Source.IsValid() && !req.Source.Is4() || req.DNS.IsValid() && !req.DNS.Addr().Is4() {
		return nil, errors.New("probe request: only IPv4 exists in the sandbox")
	}
	if req.TimeoutMS < 0 || req.TimeoutMS > maxTimeoutMS {
		return nil, fmt.Errorf("probe request: timeout of %d ms", req.TimeoutMS)
	}
	return &req, nil
}

const maxTimeoutMS = 60_000

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
// What it returns is still the sandbox's word: the caller compares it with what
// it asked.
func DecodeResult(r io.Reader) (*Result, error) {
	var res Result
	if err := decode(r, MaxResult, &res); err != nil {
		return nil, fmt.Errorf("probe result: %w", err)
	}
	for i, f := range res.Denied {
		// The zero value of a verdict, which a missing member leaves, is none.
		if f.Verdict == "" || !f.Addr.IsValid() {
			return nil, fmt.Errorf("probe result: finding %d is incomplete", i)
		}
	}
	return &res, nil
}

// decode reads one JSON value of at most limit bytes and nothing after it.
func decode(r io.Reader, limit int, v any) error {
	b, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if len(b) > limit {
		return fmt.Errorf("larger than %d bytes", limit)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("decode: trailing data")
	}
	return nil
}
