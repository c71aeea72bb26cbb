package netpolicy

import (
	"net/netip"
	"slices"

	"lazaret.dev/lazaret/protocol/netpolicy"
)

// probePort is the port that the prober tries: discard (RFC 863). A route does
// not depend on the port, and should a packet leave after all, against every
// other check, discard is where it does least and means nothing.
const probePort = 9

// Targets returns one address of every denied prefix that is denied by this
// very rule: one that no longer rule covers. A prefix which longer rules cover
// in full has no such address, and needs none: no packet follows its route.
func Targets(p netpolicy.Policy) []netip.AddrPort {
	// What is on-link, and the sandbox's own loopback, are longer routes too.
	covers := []netip.Prefix{p.Address.Masked(), loopback}
	for _, r := range p.Rules {
		covers = append(covers, r.Prefix)
	}
	var out []netip.AddrPort
	for _, r := range p.Rules {
		if r.Action != netpolicy.Deny {
			continue
		}
		// A denied 0.0.0.0/0 is two routes (Policy.Routes).
		parts := []netip.Prefix{r.Prefix}
		if r.Prefix.Bits() == 0 {
			parts = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/1"), netip.MustParsePrefix("128.0.0.0/1")}
		}
		for _, part := range parts {
			if r.Prefix != part && slices.Contains(covers, part) {
				continue // a rule of its own
			}
			if a, ok := uncovered(part, covers); ok {
				out = append(out, netip.AddrPortFrom(a, probePort))
			}
		}
	}
	return out
}

// uncovered returns an address of p that lies in no longer prefix of covers. It
// jumps from the end of one cover to the next, so that it takes at most as many
// steps as there are covers. A network's first address comes last: it looks
// like a network's name, which some stacks treat specially.
func uncovered(p netip.Prefix, covers []netip.Prefix) (netip.Addr, bool) {
	first := p.Addr()
	a := first
	if p.Bits() < 31 {
		a = a.Next()
	}
	for p.Contains(a) {
		c, ok := cover(p, a, covers)
		if !ok {
			return a, true
		}
		a = last(c).Next()
	}
	if _, ok := cover(p, first, covers); !ok {
		return first, true
	}
	return netip.Addr{}, false
}

// cover returns the shortest prefix that contains a and is longer than p.
func cover(p netip.Prefix, a netip.Addr, covers []netip.Prefix) (netip.Prefix, bool) {
	var best netip.Prefix
	for _, c := range covers {
		if c.Bits() > p.Bits() && c.Contains(a) && (!best.IsValid() || c.Bits() < best.Bits()) {
			best = c
		}
	}
	return best, best.IsValid()
}

// last returns the last address of an IPv4 prefix.
func last(p netip.Prefix) netip.Addr {
	a := p.Masked().Addr().As4()
	for i := range a {
		if n := p.Bits() - i*8; n < 8 {
			a[i] |= byte(0xff >> max(n, 0))
		}
	}
	return netip.AddrFrom4(a)
}
