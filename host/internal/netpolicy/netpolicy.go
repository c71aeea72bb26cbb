// Package netpolicy derives a generation's network policy from trusted host
// configuration and from what it finds on the host (FR-19), chooses what the
// prober asks about, and renders the result for people.
//
// It owns the rules that no configuration can lift. It changes nothing on the
// host, sends no packet and installs no route: the Runtime Supervisor does. It
// runs in the Host Coordinator, and in the CLI for lazaret net show.
package netpolicy

import (
	"fmt"
	"net/netip"
	"slices"

	"lazaret.dev/lazaret/protocol/netpolicy"
)

// Rules are the prefixes that the configuration names, for one profile.
type Rules struct {
	Profile      string // for origins
	DefaultAllow []netip.Prefix
	DefaultDeny  []netip.Prefix
	AllowEgress  []netip.Prefix
	DenyEgress   []netip.Prefix
}

// Derived is a policy with what belongs to it on the host's side.
type Derived struct {
	Policy netpolicy.Policy

	// Resolver is the host's nameserver that slirp4netns asks; the zero value
	// when there is none that it can use.
	Resolver netip.Addr

	// PrivateResolver is for launch.Slirp: the nameserver for a private
	// resolv.conf, or empty when slirp4netns can read the host's own.
	PrivateResolver string

	// ResolvConf is the content of the sandbox's /etc/resolv.conf.
	ResolvConf string

	// Warnings are for the user, one line each.
	Warnings []string
}

// mtu is slirp4netns's largest; one large segment instead of many small ones.
const mtu = 65520

// fixed are denied whatever the configuration says. Reserved addresses are
// among them because 0.0.0.0 is the host itself to the host's kernel, and
// because multicast and broadcast are the LAN.
var fixed = []netpolicy.Rule{
	{Prefix: netip.MustParsePrefix("0.0.0.0/8"), Action: netpolicy.Deny, Origin: "always: this host"},
	{Prefix: netip.MustParsePrefix("169.254.0.0/16"), Action: netpolicy.Deny, Origin: "always: link-local"},
	{Prefix: netip.MustParsePrefix("224.0.0.0/4"), Action: netpolicy.Deny, Origin: "always: multicast"},
	{Prefix: netip.MustParsePrefix("240.0.0.0/4"), Action: netpolicy.Deny, Origin: "always: reserved and broadcast"},
}

var loopback = netip.MustParsePrefix("127.0.0.0/8")

// Derive returns the policy for the rules on a host with these facts. The
// result depends on nothing else. Errors are for the user, and name the
// offending prefixes and their origins; a conflict is a *ConflictError, and a
// rule that cannot be a *RuleError.
func Derive(r Rules, f Facts) (*Derived, error) {
	configured, err := r.flatten()
	if err != nil {
		return nil, err
	}
	subnet, clash := chooseSubnet(configured, f)
	d := &Derived{Policy: netpolicy.Policy{
		Address: netip.PrefixFrom(nth(subnet, 100), subnet.Bits()),
		Gateway: nth(subnet, 2),
		DNS:     nth(subnet, 3),
		MTU:     mtu,
	}}
	if clash {
		d.Warnings = append(d.Warnings, fmt.Sprintf(
			"the host uses every network that the sandbox could have: its own hosts in %s are hidden from the sandbox", subnet))
	}

	always := slices.Clone(fixed)
	// The usual gateway too, when it is another: a setting that allows it means
	// the host, and must not become harmless by chance.
	for _, gateway := range []netip.Addr{d.Policy.Gateway, nth(subnets[0], 2)} {
		always = append(always, netpolicy.Rule{
			Prefix: netip.PrefixFrom(gateway, 32), Action: netpolicy.Deny, Origin: "always: slirp4netns's gateway",
		})
	}
	for _, a := range f.Addresses {
		if ip := a.Prefix.Addr().Unmap(); ip.Is4() && !ip.IsLoopback() {
			always = append(always, netpolicy.Rule{
				Prefix: netip.PrefixFrom(ip, 32), Action: netpolicy.Deny, Origin: "always: host address " + a.Interface,
			})
		}
	}
	d.Policy.Rules, err = merge(always, configured)
	if err != nil {
		return nil, err
	}
	d.resolve(f)
	return d, nil
}

// flatten returns the configured rules with their origins, defaults first.
func (r Rules) flatten() ([]netpolicy.Rule, error) {
	profile := "profile " + r.Profile + ": "
	var out []netpolicy.Rule
	for _, l := range []struct {
		prefixes []netip.Prefix
		action   netpolicy.Action
		origin   string
	}{
		{r.DefaultAllow, netpolicy.Allow, "default_allow"},
		{r.DefaultDeny, netpolicy.Deny, "default_deny"},
		{r.AllowEgress, netpolicy.Allow, profile + "allow_egress"},
		{r.DenyEgress, netpolicy.Deny, profile + "deny_egress"},
	} {
		for _, p := range l.prefixes {
			rule := netpolicy.Rule{Prefix: p, Action: l.action, Origin: l.origin}
			if err := valid(rule); err != nil {
				return nil, err
			}
			out = append(out, rule)
		}
	}
	return out, nil
}

func valid(r netpolicy.Rule) error {
	switch p := r.Prefix; {
	case !p.IsValid():
		return &RuleError{Rule: r, Reason: "it is no prefix"}
	case !p.Addr().Is4():
		return &RuleError{Rule: r, Reason: "IPv6 is disabled in the sandbox", Fix: "remove it: no IPv6 destination can be reached"}
	case p != p.Masked():
		return &RuleError{Rule: r, Reason: "it has bits behind its length", Fix: "write " + p.Masked().String()}
	case loopback.Overlaps(p) && p.Bits() >= loopback.Bits():
		return &RuleError{Rule: r, Reason: "127.0.0.0/8 is the sandbox's own loopback", Fix: "remove it: the host's loopback can never be reached"}
	}
	return nil
}

// merge joins what always holds with what is configured. The longest prefix
// wins at run time, so only equal prefixes meet here (SR-6); but nothing may
// make a hole into what always holds.
func merge(always, configured []netpolicy.Rule) ([]netpolicy.Rule, error) {
	byPrefix := map[netip.Prefix]netpolicy.Rule{}
	for _, a := range always {
		if _, ok := byPrefix[a.Prefix]; !ok {
			byPrefix[a.Prefix] = a
		}
	}
	for _, c := range configured {
		if c.Action == netpolicy.Allow {
			for _, a := range always {
				if a.Prefix.Bits() <= c.Prefix.Bits() && a.Prefix.Contains(c.Prefix.Addr()) {
					return nil, &RuleError{
						Rule:   c,
						Reason: fmt.Sprintf("%s is always denied (%s)", a.Prefix, a.Origin[len("always: "):]),
						Fix:    "remove it: no setting lifts this rule",
					}
				}
			}
		}
		other, ok := byPrefix[c.Prefix]
		switch {
		case !ok:
			byPrefix[c.Prefix] = c
		case other.Action != c.Action:
			return nil, &ConflictError{One: other, Other: c}
		}
	}
	out := make([]netpolicy.Rule, 0, len(byPrefix))
	for _, r := range byPrefix {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b netpolicy.Rule) int { return a.Prefix.Compare(b.Prefix) })
	return out, nil
}

// subnets are the networks that the sandbox's own may be, best first. The last
// is for benchmarks of network devices, so that hardly a host uses it.
var subnets = []netip.Prefix{
	netip.MustParsePrefix("10.0.2.0/24"), // slirp4netns's usual one
	netip.MustParsePrefix("10.254.2.0/24"),
	netip.MustParsePrefix("172.31.254.0/24"),
	netip.MustParsePrefix("192.168.254.0/24"),
	netip.MustParsePrefix("198.18.254.0/24"),
}

// chooseSubnet returns the first network in which neither the host has an
// address or a route nor a rule names something: what is on-link inside hides
// the real network of that name (case 77). Rules shorter than the network do
// not count: the on-link route is longer. It reports whether all clash.
func chooseSubnet(configured []netpolicy.Rule, f Facts) (subnet netip.Prefix, clash bool) {
	for _, s := range subnets {
		free := !slices.ContainsFunc(f.Addresses, func(a Address) bool { return s.Overlaps(a.Prefix.Masked()) }) &&
			!slices.ContainsFunc(f.Routes, s.Overlaps) &&
			!slices.ContainsFunc(f.Nameservers, s.Contains) &&
			!slices.ContainsFunc(configured, func(r netpolicy.Rule) bool {
				return r.Prefix.Bits() >= s.Bits() && s.Overlaps(r.Prefix)
			})
		if free {
			return s, false
		}
	}
	return subnets[len(subnets)-1], true
}

// nth returns the n-th address of an IPv4 network of at most 24 bits.
func nth(p netip.Prefix, n byte) netip.Addr {
	a := p.Masked().Addr().As4()
	a[3] += n
	return netip.AddrFrom4(a)
}

// A ConflictError reports an allow and a deny of one prefix (SR-6).
type ConflictError struct{ One, Other netpolicy.Rule }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("cannot both %s and %s %s: %s and %s contradict each other",
		e.One.Action, e.Other.Action, e.One.Prefix, e.One.Origin, e.Other.Origin)
}

// Hint says how to settle the conflict.
func (e *ConflictError) Hint() string {
	return "remove one of the two, or write longer prefixes, which win over shorter ones"
}

// A RuleError reports a configured rule that cannot be.
type RuleError struct {
	Rule   netpolicy.Rule
	Reason string
	Fix    string
}

func (e *RuleError) Error() string {
	return fmt.Sprintf("cannot %s %s (%s): %s", e.Rule.Action, e.Rule.Prefix, e.Rule.Origin, e.Reason)
}

// Hint says what to write instead; empty when there is nothing to say.
func (e *RuleError) Hint() string { return e.Fix }
