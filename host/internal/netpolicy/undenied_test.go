package netpolicy_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lazaret.dev/lazaret/host/internal/netpolicy"
	pnet "lazaret.dev/lazaret/protocol/netpolicy"
)

// addresses is a host of which only the addresses matter.
type addresses struct {
	netpolicy.Host
	list []string
}

func (a addresses) Addresses() ([]netpolicy.Address, error) {
	var out []netpolicy.Address
	for _, s := range a.list {
		out = append(out, netpolicy.Address{Interface: "eth0", Prefix: netip.MustParsePrefix(s)})
	}
	return out, nil
}

func TestUndenied(t *testing.T) {
	policy := pnet.Policy{Rules: []pnet.Rule{
		{Prefix: netip.MustParsePrefix("10.0.0.0/8"), Action: pnet.Deny},
		{Prefix: netip.MustParsePrefix("10.9.0.0/16"), Action: pnet.Allow},
		{Prefix: netip.MustParsePrefix("198.51.100.2/32"), Action: pnet.Deny},
	}}
	host := addresses{list: []string{
		"127.0.0.1/8", "10.1.1.1/24", "198.51.100.2/24", // denied, or the sandbox's own
		"198.51.100.7/24", "10.9.1.1/24", // new: no rule, and one below an allow
		"fe80::1/64", "2001:db8::1/64", // IPv6 is off inside
	}}
	got, err := netpolicy.Undenied(host, policy)
	if err != nil {
		t.Fatal(err)
	}
	want := []netip.Addr{netip.MustParseAddr("198.51.100.7"), netip.MustParseAddr("10.9.1.1")}
	if d := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
		t.Error(d)
	}
}
