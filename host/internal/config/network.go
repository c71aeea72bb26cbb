package config

import (
	"net/netip"
	"slices"
	"strings"

	"lazaret.dev/lazaret/host/internal/config/internal/value"
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
			pfx, err := read(c, l.key, value.Prefix, s)
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
