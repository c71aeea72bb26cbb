package coordinator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"lazaret.dev/lazaret/host/internal/netpolicy"
	"lazaret.dev/lazaret/protocol"
	pnet "lazaret.dev/lazaret/protocol/netpolicy"
	"lazaret.dev/lazaret/protocol/probe"
)

// probeTimeoutMS bounds one check of the prober, in milliseconds.
const probeTimeoutMS = 3000

// verify runs the prober inside the sandbox and reports its finding (FR-20).
func (g *generation) verify(ctx context.Context) {
	if err := g.prove(ctx); err != nil {
		g.log.Error("the network policy could not be proven from inside", "err", err)
		g.post(protocol.Lost{Generation: g.req.Generation, Component: protocol.ComponentNetwork, Reason: err.Error()})
		return
	}
	g.post(protocol.PolicyVerified{})
}

// ProbeRequest asks for the proof of a policy: one address of every denied
// prefix, and the resolver unless the host is offline.
func ProbeRequest(policy *pnet.Policy) probe.Request {
	req := probe.Request{Denied: netpolicy.Targets(*policy), TimeoutMS: probeTimeoutMS}
	if !policy.Offline {
		req.DNS = netip.AddrPortFrom(policy.DNS, 53)
	}
	return req
}

// ProbeCommand is the prober's command line inside.
func ProbeCommand() []string { return []string{guestTool, "_probe"} }

func (g *generation) prove(ctx context.Context) error {
	req := ProbeRequest(&g.plan.Network)
	in, err := json.Marshal(req)
	if err != nil {
		return fmt.Errorf("encode probe request: %w", err)
	}
	var out cappedBuffer
	if err := g.sandbox.Exec(ctx, bytes.NewReader(in), &out, ProbeCommand()...); err != nil {
		return fmt.Errorf("the prober failed in the sandbox: %w", err)
	}
	res, err := probe.DecodeResult(&out.Buffer)
	if err != nil {
		return fmt.Errorf("the prober failed in the sandbox: %w", err)
	}
	return Judge(req, res)
}

// Judge compares a result with its request. The prober is Lazaret's, but its
// bytes come out of the sandbox: an answer that is not exactly about what was
// asked proves nothing.
func Judge(req probe.Request, res *probe.Result) error {
	if len(res.Denied) != len(req.Denied) {
		return errors.New("the prober answered another question")
	}
	var open []string
	for i, f := range res.Denied {
		if f.Addr != req.Denied[i] {
			return errors.New("the prober answered another question")
		}
		if f.Verdict != probe.Closed {
			open = append(open, f.Addr.Addr().String())
		}
	}
	if len(open) > 0 {
		return &OpenError{Addresses: open}
	}
	if req.DNS.IsValid() && !res.DNSOK {
		return &resolverError{detail: res.DNSErr}
	}
	return nil
}

// OpenError reports denied destinations that the sandbox could reach.
type OpenError struct{ Addresses []string }

func (e *OpenError) Error() string {
	return "the derived network policy is not in force: " + strings.Join(e.Addresses, ", ") + " can be reached from the sandbox"
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
type cappedBuffer struct{ bytes.Buffer }

func (c *cappedBuffer) Write(p []byte) (int, error) {
	if room := probe.MaxResult + 1 - c.Len(); room < len(p) {
		c.Buffer.Write(p[:max(room, 0)])
		return len(p), nil
	}
	return c.Buffer.Write(p)
}
