// Package prober checks the network policy from inside the sandbox, before the
// sandbox is published (FR-20).
//
// It sends nothing to a denied address whose route does not lead to loopback.
// It runs in the sandbox, started by the Host Coordinator; what it reports is
// judged there.
package prober

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"time"

	"lazaret.dev/lazaret/protocol/probe"
)

// batch bounds how many denied addresses have open sockets at a time: four for
// each, far below the usual limit of 1024 descriptors.
const batch = 128

// Serve reads one probe.Request and writes its probe.Result as JSON.
func Serve(r io.Reader, w io.Writer) error {
	req, err := probe.DecodeRequest(r)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(w).Encode(Run(req)); err != nil {
		return fmt.Errorf("write probe result: %w", err)
	}
	return nil
}

// Run performs all checks at once: it takes about probe.Settle, or as long as
// the resolver does.
func Run(req *probe.Request) *probe.Result {
	res := &probe.Result{Denied: make([]probe.Finding, 0, len(req.Denied))}
	var dns *query
	var dnsErr error
	if req.DNS.IsValid() {
		dns, dnsErr = ask(req.DNS)
	}
	for rest := req.Denied; len(rest) > 0; {
		n := min(batch, len(rest))
		res.Denied = append(res.Denied, denied(rest[:n], req.Source)...)
		rest = rest[n:]
	}
	if dns != nil {
		dnsErr = dns.wait(time.Duration(req.TimeoutMS) * time.Millisecond)
	}
	res.DNSOK = dns != nil && dnsErr == nil
	if dnsErr != nil {
		res.DNSErr = dnsErr.Error()
	}
	return res
}

// denied checks some addresses that must not answer.
func denied(addrs []netip.AddrPort, source netip.Addr) []probe.Finding {
	out := make([]probe.Finding, len(addrs))
	attempts := make([][]*attempt, len(addrs))
	for i, a := range addrs {
		out[i] = probe.Finding{Addr: a, Verdict: probe.Closed}
		local, err := route(a)
		if err != nil {
			out[i].Detail = err.Error() // no route at all
			continue
		}
		if !local.IsLoopback() {
			out[i].Verdict = probe.RouteOpen
			out[i].Detail = "the route leads out from " + local.String()
			continue
		}
		attempts[i] = append(attempts[i], connect(a, netip.Addr{}), send(a, netip.Addr{}))
		if source.IsValid() {
			attempts[i] = append(attempts[i], connect(a, source), send(a, source))
		}
	}
	time.Sleep(probe.Settle)
	for i := range out {
		for _, t := range attempts[i] {
			if why := t.finish(); why != "" {
				out[i].Verdict, out[i].Detail = probe.Reached, why
			}
		}
	}
	return out
}
