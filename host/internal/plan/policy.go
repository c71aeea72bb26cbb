package plan

import (
	"lazaret.dev/lazaret/host/internal/config"
	"lazaret.dev/lazaret/host/internal/netpolicy"
)

// Policy derives the generation's network policy from the configuration and
// what is found on this host now (FR-19).
func Policy(d *config.Domain, warn func(text string)) (*netpolicy.Derived, error) {
	facts, err := netpolicy.Gather(netpolicy.Machine{})
	if err != nil {
		return nil, err
	}
	net, err := netpolicy.Derive(NetworkRules(d.Profile, d.Network), facts)
	if err != nil {
		return nil, err
	}
	for _, w := range net.Warnings {
		warn(w)
	}
	return net, nil
}

// NetworkRules are a profile's configured prefixes as rules.
func NetworkRules(profile string, n config.Network) netpolicy.Rules {
	return netpolicy.Rules{
		Profile: profile, DefaultAllow: n.DefaultAllow, DefaultDeny: n.DefaultDeny,
		AllowEgress: n.AllowEgress, DenyEgress: n.DenyEgress,
	}
}
