package netpolicy

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"text/tabwriter"

	"lazaret.dev/lazaret/protocol/netpolicy"
)

// WriteText prints the policy as lazaret net show does.
func (d *Derived) WriteText(w io.Writer) error {
	p := &d.Policy
	resolver := "none on the host"
	if d.Resolver.IsValid() {
		resolver = "asks the host's " + d.Resolver.String()
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "address\t%s\n", p.Address)
	fmt.Fprintf(t, "dns\t%s (%s)\n", p.DNS, resolver)
	fmt.Fprintf(t, "ipv6\tdisabled\n")
	if p.Offline {
		fmt.Fprintf(t, "state\toffline\n")
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nThe longest prefix that holds a destination decides:\n\n")
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range d.rules() {
		fmt.Fprintf(t, "%s\t%s\t%s\n", r.Action, r.Prefix, r.Origin)
	}
	return t.Flush()
}

// WriteJSON prints the policy as lazaret net show --json does.
func (d *Derived) WriteJSON(w io.Writer) error {
	p := &d.Policy
	out := struct {
		Address  string           `json:"address"`
		Gateway  string           `json:"gateway"`
		DNS      string           `json:"dns"`
		Resolver string           `json:"resolver,omitempty"` // the host's
		IPv6     bool             `json:"ipv6"`
		Offline  bool             `json:"offline"`
		Rules    []netpolicy.Rule `json:"rules"`
		Warnings []string         `json:"warnings"`
		Digest   string           `json:"digest"`
	}{
		p.Address.String(), p.Gateway.String(), p.DNS.String(), "", false, p.Offline,
		d.rules(), append([]string{}, d.Warnings...), p.Digest(),
	}
	if d.Resolver.IsValid() {
		out.Resolver = d.Resolver.String()
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(out)
}

// rules returns the rules with the one that holds where no other does.
func (d *Derived) rules() []netpolicy.Rule {
	all := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if len(d.Policy.Rules) > 0 && d.Policy.Rules[0].Prefix == all {
		return d.Policy.Rules
	}
	return append([]netpolicy.Rule{{Prefix: all, Action: netpolicy.Allow, Origin: "everything else"}}, d.Policy.Rules...)
}
