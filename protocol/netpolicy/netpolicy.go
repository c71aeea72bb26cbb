// Package netpolicy holds the derived network policy of one Domain generation
// as a value, and the routes that realise it.
//
// The Host Coordinator derives a Policy from trusted host configuration
// (FR-19); the Runtime Supervisor installs exactly that and attests it. The
// package is pure and linked into both; it touches no interface or route.
package netpolicy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
)

// Policy is a derived network policy (spec 3.6). Only IPv4 exists inside the
// sandbox: IPv6 is disabled, which is the policy for that address family (SR-6).
type Policy struct {
	Address netip.Prefix `json:"address"` // the sandbox's own address with its on-link prefix, e.g. 10.0.2.100/24
	Gateway netip.Addr   `json:"gateway"` // slirp4netns; itself denied
	DNS     netip.Addr   `json:"dns"`     // slirp4netns's resolver
	MTU     int          `json:"mtu"`

	// Rules are sorted by prefix, and no prefix occurs twice.
	Rules []Rule `json:"rules"`

	// Offline says that the host has no resolver or no default route, so that
	// reachability is not demanded before publication; denies still are.
	Offline bool `json:"offline"`
}

// Action is what a rule does with its prefix. The zero value is no action.
type Action string

// The actions.
const (
	Allow Action = "allow"
	Deny  Action = "deny"
)

// UnmarshalText refuses unknown actions.
func (a *Action) UnmarshalText(b []byte) error {
	switch v := Action(b); v {
	case Allow, Deny:
		*a = v
		return nil
	default:
		return fmt.Errorf("unknown network action %q", b)
	}
}

// Rule allows or denies one destination prefix; the longest match wins.
type Rule struct {
	Prefix netip.Prefix `json:"prefix"`
	Action Action       `json:"action"`
	Origin string       `json:"origin"` // where it comes from, for people: "default_deny", "profile claude: allow_egress", "host address eth0"
}

// Route is one route of the enforcement network namespace.
type Route struct {
	Dst     netip.Prefix
	Via     netip.Addr // 127.0.0.1 for a deny, the gateway otherwise
	Dev     string     // "lo" or "tap0"
	Gateway bool       // false for the on-link route, which has no Via
}

// TapName is the interface that slirp4netns serves.
const TapName = "tap0"

// Loopback is where deny routes lead (SR-6: loopback-unicast, never blackhole,
// which runsc ignores).
var Loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// Routes returns the routes that realise the policy in the order in which they
// must be installed: denies first, then the gateway's, so that at no moment a
// denied destination is reachable.
//
// They are no boundary in the namespace that runsc reads: the sandbox's kernel
// passes a loopback route by when a socket is bound to the sandbox's own
// address, or to its interface. They are one in a namespace around it, whose
// kernel forwards by destination alone.
//
// A denied 0.0.0.0/0 becomes its two halves, and there is no default route
// then: runsc silently drops a default route of lo.
func (p *Policy) Routes() []Route {
	action := make(map[netip.Prefix]Action, len(p.Rules))
	for _, r := range p.Rules {
		action[r.Prefix] = r.Action
	}
	deny := func(dst netip.Prefix) Route { return Route{Dst: dst, Via: Loopback, Dev: "lo", Gateway: true} }
	allow := func(dst netip.Prefix) Route {
		return Route{Dst: dst, Via: p.Gateway, Dev: TapName, Gateway: true}
	}
	var out []Route
	for _, r := range p.Rules {
		if r.Action == Deny && r.Prefix != everything {
			out = append(out, deny(r.Prefix))
		}
	}
	if action[everything] == Deny {
		for _, half := range halves {
			if action[half] == "" { // a rule of its own wins
				out = append(out, deny(half))
			}
		}
	} else {
		out = append(out, allow(everything))
	}
	for _, r := range p.Rules {
		if r.Action == Allow && r.Prefix != everything {
			out = append(out, allow(r.Prefix))
		}
	}
	return out
}

var (
	everything = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	halves     = [...]netip.Prefix{netip.MustParsePrefix("0.0.0.0/1"), netip.MustParsePrefix("128.0.0.0/1")}
)

// Render prints the policy for people and for golden tests, one rule a line.
func (p *Policy) Render() string {
	var b strings.Builder
	fmt.Fprintf(&b, "address %s\ngateway %s\ndns %s\nmtu %d\nipv6 disabled\n", p.Address, p.Gateway, p.DNS, p.MTU)
	if p.Offline {
		b.WriteString("offline\n")
	}
	if len(p.Rules) == 0 || p.Rules[0].Prefix != everything {
		b.WriteString("allow 0.0.0.0/0  # unless a longer prefix below says otherwise\n")
	}
	for _, r := range p.Rules {
		fmt.Fprintf(&b, "%s %s  # %s\n", r.Action, r.Prefix, r.Origin)
	}
	return b.String()
}

// Digest is the SHA-256 of what the policy enforces, in hex. Origins are text
// for people and do not enter it.
func (p *Policy) Digest() string {
	h := sha256.New()
	fmt.Fprintf(h, "lazaret-netpolicy-1\n%s %s %s %d %t\n", p.Address, p.Gateway, p.DNS, p.MTU, p.Offline)
	for _, r := range p.Rules {
		fmt.Fprintf(h, "%s %s\n", r.Action, r.Prefix)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Fingerprint is the network readiness fingerprint (spec glossary): a digest
// over Domain ID, generation, Configuration Fingerprint, Network Sidecar ID,
// derived-policy digest and the enforcement namespace's identity.
func Fingerprint(domainID, generation, configFingerprint, networkID, policyDigest string, nsDev, nsIno uint64) string {
	h := sha256.New()
	for _, s := range []string{"lazaret-network-readiness-1", domainID, generation, configFingerprint, networkID, policyDigest} {
		fmt.Fprintf(h, "%d:%s\n", len(s), s)
	}
	fmt.Fprintf(h, "%d %d\n", nsDev, nsIno)
	return hex.EncodeToString(h.Sum(nil))
}
