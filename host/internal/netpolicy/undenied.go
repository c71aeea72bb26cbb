package netpolicy

import (
	"net/netip"

	"lazaret.dev/lazaret/protocol/netpolicy"
)

// Undenied returns the host's own IPv4 addresses that a policy does not deny:
// those that the host has gained since the policy was derived.
func Undenied(h Host, p netpolicy.Policy) ([]netip.Addr, error) {
	addrs, err := h.Addresses()
	if err != nil {
		return nil, err
	}
	var out []netip.Addr
	for _, a := range addrs {
		ip := a.Prefix.Addr().Unmap()
		if ip.Is4() && !ip.IsLoopback() && !denied(p.Rules, ip) {
			out = append(out, ip)
		}
	}
	return out, nil
}

// denied reports what the longest matching rule says about an address.
func denied(rules []netpolicy.Rule, ip netip.Addr) bool {
	best := netpolicy.Rule{Action: netpolicy.Allow}
	bits := -1
	for _, r := range rules {
		if r.Prefix.Contains(ip) && r.Prefix.Bits() > bits {
			best, bits = r, r.Prefix.Bits()
		}
	}
	return best.Action == netpolicy.Deny
}
