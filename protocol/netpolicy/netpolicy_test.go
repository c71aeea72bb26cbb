package netpolicy_test

import (
	"encoding/json"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"lazaret.dev/lazaret/protocol/netpolicy"
)

func policy(rules ...netpolicy.Rule) *netpolicy.Policy {
	return &netpolicy.Policy{
		Address: netip.MustParsePrefix("10.0.2.100/24"),
		Gateway: netip.MustParseAddr("10.0.2.2"),
		DNS:     netip.MustParseAddr("10.0.2.3"),
		MTU:     65520,
		Rules:   rules,
	}
}

func rule(a netpolicy.Action, p string) netpolicy.Rule {
	return netpolicy.Rule{Action: a, Prefix: netip.MustParsePrefix(p), Origin: "test"}
}

// byRule decides as the policy says: the longest rule, else allow.
func byRule(p *netpolicy.Policy, a netip.Addr) netpolicy.Action {
	action, bits := netpolicy.Allow, -1
	for _, r := range p.Rules {
		if r.Prefix.Contains(a) && r.Prefix.Bits() > bits {
			action, bits = r.Action, r.Prefix.Bits()
		}
	}
	return action
}

// byRoute decides as a kernel does with the routes, and fails when two routes
// have one destination, where a kernel would refuse the second.
func byRoute(t interface{ Fatalf(string, ...any) }, p *netpolicy.Policy, a netip.Addr) netpolicy.Action {
	action, bits := netpolicy.Deny, -1 // without a route nothing leaves
	seen := map[netip.Prefix]bool{}
	for _, r := range p.Routes() {
		if seen[r.Dst] {
			t.Fatalf("two routes to %s", r.Dst)
		}
		seen[r.Dst] = true
		if r.Dst.Bits() == 0 && r.Dev == "lo" {
			t.Fatalf("a default route of lo, which runsc drops")
		}
		if r.Dst.Contains(a) && r.Dst.Bits() > bits {
			bits, action = r.Dst.Bits(), netpolicy.Allow
			if r.Dev == "lo" {
				action = netpolicy.Deny
			}
		}
	}
	return action
}

// SR-6: the routes mean what the rules say, for any rules and any address.
func TestRoutesRealiseRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		addr := rapid.Custom(func(t *rapid.T) netip.Addr {
			// Few bits vary, so that rules and addresses meet often.
			b := rapid.SampledFrom([]byte{0, 1, 10, 127, 128, 192, 255})
			return netip.AddrFrom4([4]byte{b.Draw(t, "a"), b.Draw(t, "b"), b.Draw(t, "c"), b.Draw(t, "d")})
		})
		byPrefix := map[netip.Prefix]netpolicy.Rule{}
		for range rapid.IntRange(0, 12).Draw(t, "rules") {
			p := netip.PrefixFrom(addr.Draw(t, "net"), rapid.IntRange(0, 32).Draw(t, "bits")).Masked()
			byPrefix[p] = netpolicy.Rule{Prefix: p, Action: rapid.SampledFrom([]netpolicy.Action{netpolicy.Allow, netpolicy.Deny}).Draw(t, "action")}
		}
		p := policy()
		for _, r := range byPrefix {
			p.Rules = append(p.Rules, r)
		}
		slices.SortFunc(p.Rules, func(a, b netpolicy.Rule) int { return a.Prefix.Compare(b.Prefix) })
		for range 20 {
			a := addr.Draw(t, "address")
			if got, want := byRoute(t, p, a), byRule(p, a); got != want {
				t.Fatalf("%s: routes %s, rules %s\n%s", a, got, want, p.Render())
			}
		}
	})
}

// At no moment during the installation is a denied address reachable: every
// deny precedes everything that leads out.
func TestDeniesComeFirst(t *testing.T) {
	p := policy(rule(netpolicy.Deny, "10.0.0.0/8"), rule(netpolicy.Allow, "10.1.1.1/32"), rule(netpolicy.Deny, "192.168.0.0/16"))
	out := false
	for _, r := range p.Routes() {
		if r.Dev == "lo" && out {
			t.Errorf("deny %s comes after a route that leads out", r.Dst)
		}
		out = out || r.Dev == netpolicy.TapName
		// SR-6: loopback-unicast.
		if r.Dev == "lo" && r.Via != netpolicy.Loopback {
			t.Errorf("deny %s leads to %s", r.Dst, r.Via)
		}
	}
	if !out {
		t.Error("nothing leads out")
	}
}

func TestDigestIsOfWhatIsEnforced(t *testing.T) {
	base := policy(rule(netpolicy.Deny, "10.0.0.0/8"))
	renamed := policy(rule(netpolicy.Deny, "10.0.0.0/8"))
	renamed.Rules[0].Origin = "elsewhere"
	if base.Digest() != renamed.Digest() {
		t.Error("an origin changes the digest")
	}
	for name, p := range map[string]*netpolicy.Policy{
		"action": policy(rule(netpolicy.Allow, "10.0.0.0/8")),
		"prefix": policy(rule(netpolicy.Deny, "10.0.0.0/9")),
		"none":   policy(),
	} {
		if p.Digest() == base.Digest() {
			t.Errorf("%s: the digest does not change", name)
		}
	}
	offline := policy(rule(netpolicy.Deny, "10.0.0.0/8"))
	offline.Offline = true
	if offline.Digest() == base.Digest() {
		t.Error("offline does not change the digest")
	}
}

// FR-18: every part of the readiness fingerprint counts, and none runs into the
// next.
func TestFingerprint(t *testing.T) {
	base := netpolicy.Fingerprint("d", "g", "c", "n", "p", 1, 2)
	for i, f := range []string{
		netpolicy.Fingerprint("x", "g", "c", "n", "p", 1, 2),
		netpolicy.Fingerprint("d", "x", "c", "n", "p", 1, 2),
		netpolicy.Fingerprint("d", "g", "x", "n", "p", 1, 2),
		netpolicy.Fingerprint("d", "g", "c", "x", "p", 1, 2),
		netpolicy.Fingerprint("d", "g", "c", "n", "x", 1, 2),
		netpolicy.Fingerprint("d", "g", "c", "n", "p", 9, 2),
		netpolicy.Fingerprint("d", "g", "c", "n", "p", 1, 9),
		netpolicy.Fingerprint("dg", "", "c", "n", "p", 1, 2),
	} {
		if f == base {
			t.Errorf("variant %d has the same fingerprint", i)
		}
	}
}

func TestActionRefusesTheUnknown(t *testing.T) {
	var r netpolicy.Rule
	if err := json.Unmarshal([]byte(`{"prefix":"10.0.0.0/8","action":"permit"}`), &r); err == nil {
		t.Error("an unknown action is accepted")
	}
	if err := json.Unmarshal([]byte(`{"prefix":"10.0.0.0/8","action":"deny"}`), &r); err != nil || r.Action != netpolicy.Deny {
		t.Errorf("deny: %v %v", r.Action, err)
	}
}
