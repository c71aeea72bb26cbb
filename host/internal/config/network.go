package config

import (
	"net/netip"
	"slices"
	"strings"
)

// Network returns the prefixes that hold for a profile. It needs no workspace.
func (c *Config) Network(profile string) (Network, error) {
	p := c.doc.Profiles[profile]
	var n Network
	seen := map[netip.Prefix]string{} // where a prefix was first, by action and key
	for _, l := range []struct {
		dst  *[]netip.Prefix
		key  []string
		text []string
		deny bool
	}{
		{&n.DefaultAllow, []string{"network", "default_allow"}, c.doc.Network.DefaultAllow, false},
		{&n.DefaultDeny, []string{"network", "default_deny"}, c.doc.Network.DefaultDeny, true},
		{&n.AllowEgress, []string{"profiles", profile, "allow_egress"}, p.AllowEgress, false},
		{&n.DenyEgress, []string{"profiles", profile, "deny_egress"}, p.DenyEgress, true},
	} {
		action := map[bool]string{false: "allow", true: "deny"}[l.deny]
		*l.dst = []netip.Prefix{}
		for _, s := range l.text {
			pfx, err := c.prefix(l.key, s)
			if err != nil {
				return Network{}, err
			}
			// SR-6: two rules of one specificity cannot contradict each other.
			if other, ok := seen[pfx]; ok && !strings.HasPrefix(other, action+" ") {
				return Network{}, c.doc.Fault(l.key,
					"remove one of the two, or write longer prefixes, which win over shorter ones",
					"%s is allowed and denied: %s also names it", pfx, other[strings.IndexByte(other, ' ')+1:])
			}
			seen[pfx] = action + " " + strings.Join(l.key, ".")
			if !slices.Contains(*l.dst, pfx) {
				*l.dst = append(*l.dst, pfx)
			}
		}
		slices.SortFunc(*l.dst, netip.Prefix.Compare)
	}
	return n, nil
}

// prefix reads one IPv4 prefix with no bits set behind its length.
func (c *Config) prefix(key []string, s string) (netip.Prefix, error) {
	var none netip.Prefix
	p, err := netip.ParsePrefix(s)
	if err != nil {
		if a, aerr := netip.ParseAddr(s); aerr == nil && a.Is4() {
			return none, c.doc.Fault(key, "write \""+s+"/32\"", "%q has no prefix length", s)
		} else if aerr == nil {
			return none, c.noIPv6(key, s)
		}
		return none, c.doc.Fault(key, `write a prefix such as "10.222.0.0/16"`, "%q is not an IPv4 prefix", s)
	}
	switch {
	case !p.Addr().Is4():
		return none, c.noIPv6(key, s)
	case p != p.Masked():
		return none, c.doc.Fault(key, "write \""+p.Masked().String()+"\", or a longer prefix", "%q has address bits set behind its prefix length", s)
	case p.Bits() == 0:
		return none, c.doc.Fault(key, `what no rule names is allowed; to deny everything write "0.0.0.0/1" and "128.0.0.0/1"`, "%q is not possible", s)
	}
	return p, nil
}

func (c *Config) noIPv6(key []string, s string) error {
	return c.doc.Fault(key, "remove it", "%q is IPv6, which is switched off in the sandbox: nothing is reachable there anyway", s)
}
