// Package proof is the proof of a derived network policy from inside the
// sandbox (FR-20): what the prober is asked, how it is run, and what its answer
// means. The answer comes out of the sandbox and is believed only as far as it
// is exactly about what was asked.
//
// It runs in the Host Coordinator before publication, and in the CLI for
// `lazaret net test`.
package proof

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"lazaret.dev/lazaret/host/internal/netpolicy"
	"lazaret.dev/lazaret/host/internal/plan"
	"lazaret.dev/lazaret/host/internal/session"
	pnet "lazaret.dev/lazaret/protocol/netpolicy"
	"lazaret.dev/lazaret/protocol/probe"
)

// resolverTimeoutMS bounds the wait for the resolver's answer, in milliseconds.
const resolverTimeoutMS = 3000

// Request asks for the proof of a policy: one address of every denied prefix,
// also from a socket that is bound to the sandbox's own address, and the
// resolver unless the host is offline.
func Request(policy *pnet.Policy) probe.Request {
	req := probe.Request{
		Denied: netpolicy.Targets(*policy), Source: policy.Address.Addr(), TimeoutMS: resolverTimeoutMS,
	}
	if !policy.Offline {
		req.DNS = netip.AddrPortFrom(policy.DNS, 53)
	}
	return req
}

// Command is the prober's command line inside.
func Command() []string { return []string{plan.GuestTool, "_probe"} }

// Prove runs the prober in the sandbox and judges its answer.
func Prove(ctx context.Context, sb session.Sandbox, policy *pnet.Policy) error {
	req := Request(policy)
	in, err := json.Marshal(req)
	if err != nil {
		return fmt.Errorf("encode probe request: %w", err)
	}
	var out cappedBuffer
	if err := sb.Exec(ctx, bytes.NewReader(in), &out, Command()...); err != nil {
		return fmt.Errorf("the prober failed in the sandbox: %w", err)
	}
	res, err := probe.DecodeResult(&out.b)
	if err != nil {
		return fmt.Errorf("the prober failed in the sandbox: %w", err)
	}
	return Judge(policy, req, res)
}

// Judge compares a result with its request. The prober is Lazaret's, but its
// bytes come out of the sandbox: an answer that is not exactly about what was
// asked proves nothing.
func Judge(policy *pnet.Policy, req probe.Request, res *probe.Result) error {
	if len(res.Denied) != len(req.Denied) {
		return errors.New("the prober answered another question")
	}
	var open []string
	for i, f := range res.Denied {
		if f.Addr != req.Denied[i] {
			return errors.New("the prober answered another question")
		}
		if f.Verdict != probe.Closed {
			open = append(open, denial(policy, f.Addr.Addr()))
		}
	}
	if len(open) > 0 {
		return &OpenError{Prefixes: open}
	}
	if req.DNS.IsValid() && !res.DNSOK {
		return &resolverError{detail: res.DNSErr}
	}
	return nil
}

// denial names the rule that denies an address: the longest that contains it.
func denial(policy *pnet.Policy, a netip.Addr) string {
	best := netip.PrefixFrom(a, a.BitLen())
	bits := -1
	for _, r := range policy.Rules {
		if r.Action == pnet.Deny && r.Prefix.Contains(a) && r.Prefix.Bits() > bits {
			best, bits = r.Prefix, r.Prefix.Bits()
		}
	}
	return best.String()
}

// OpenError reports denied prefixes that the sandbox could reach.
type OpenError struct{ Prefixes []string }

func (e *OpenError) Error() string {
	return "the derived network policy is not in force: " + strings.Join(e.Prefixes, ", ") + " can be reached from the sandbox"
}

// resolverError reports a resolver that the host has and the sandbox does not
// reach.
type resolverError struct{ detail string }

func (e *resolverError) Error() string {
	return fmt.Sprintf("the sandbox cannot reach the host's DNS resolver (%q)", e.detail)
}

func (e *resolverError) Hint() string {
	return "check /etc/resolv.conf on the host: lazaret net show prints what Lazaret made of it"
}

// cappedBuffer takes at most one byte more than a result may have, so that the
// decoder sees what is too large and memory does not.
// It is no bytes.Buffer: that one's ReadFrom, which io.Copy prefers, knows no
// limit.
type cappedBuffer struct{ b bytes.Buffer }

func (c *cappedBuffer) Write(p []byte) (int, error) {
	c.b.Write(p[:min(len(p), probe.MaxResult+1-c.b.Len())])
	return len(p), nil
}
