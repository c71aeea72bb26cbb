package netpolicy_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lazaret.dev/lazaret/host/internal/netpolicy"
	wire "lazaret.dev/lazaret/protocol/netpolicy"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func prefixes(s ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range s {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

var defaultDeny = prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10")

func desktop() netpolicy.Facts {
	return netpolicy.Facts{
		Addresses: []netpolicy.Address{
			{Interface: "lo", Prefix: netip.MustParsePrefix("127.0.0.1/8")},
			{Interface: "lo", Prefix: netip.MustParsePrefix("::1/128")},
			{Interface: "wlan0", Prefix: netip.MustParsePrefix("192.168.77.2/24")},
			{Interface: "wlan0", Prefix: netip.MustParsePrefix("fd00:77::2/64")},
			{Interface: "tun0", Prefix: netip.MustParsePrefix("198.51.100.2/32")},
		},
		Routes:       prefixes("192.168.77.0/24"),
		DefaultRoute: true,
		Nameservers:  []netip.Addr{netip.MustParseAddr("127.0.0.53")},
		Search:       []string{"corp.example"},
	}
}

func derive(t *testing.T, r netpolicy.Rules, f netpolicy.Facts) *netpolicy.Derived {
	t.Helper()
	d, err := netpolicy.Derive(r, f)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// The derived policy is a value: the golden files hold its whole text.
func TestGolden(t *testing.T) {
	clash := desktop() // Case 77
	clash.Addresses = append(clash.Addresses, netpolicy.Address{Interface: "eth9", Prefix: netip.MustParsePrefix("10.0.2.50/24")})
	clash.Routes = append(clash.Routes, netip.MustParsePrefix("10.0.2.0/24"))
	for name, tc := range map[string]struct {
		rules netpolicy.Rules
		facts netpolicy.Facts
	}{
		"default": {netpolicy.Rules{Profile: "claude", DefaultDeny: defaultDeny}, desktop()},
		"holes": {netpolicy.Rules{
			Profile: "claude", DefaultDeny: defaultDeny,
			AllowEgress: prefixes("10.1.1.1/32", "10.222.0.0/16", "192.168.77.0/24"), DenyEgress: prefixes("10.222.7.0/24", "203.0.113.0/24"),
		}, desktop()},
		"nothing-but": {netpolicy.Rules{
			Profile: "claude", DefaultDeny: prefixes("0.0.0.0/0"), AllowEgress: prefixes("203.0.113.5/32"),
		}, desktop()},
		"clash":   {netpolicy.Rules{Profile: "claude", DefaultDeny: defaultDeny}, clash},
		"offline": {netpolicy.Rules{Profile: "claude", DefaultDeny: defaultDeny}, netpolicy.Facts{}},
	} {
		t.Run(name, func(t *testing.T) {
			d := derive(t, tc.rules, tc.facts)
			var b bytes.Buffer
			b.WriteString(d.Policy.Render())
			b.WriteString("\ntargets\n")
			for _, a := range netpolicy.Targets(d.Policy) {
				b.WriteString(a.String() + "\n")
			}
			b.WriteString("\nresolv.conf\n" + d.ResolvConf)
			b.WriteString("\nnet show\n")
			if err := d.WriteText(&b); err != nil {
				t.Fatal(err)
			}
			for _, w := range d.Warnings {
				b.WriteString("warning: " + w + "\n")
			}
			file := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), b.String()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// SR-6, and what no configuration can lift.
func TestRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		rules    netpolicy.Rules
		conflict bool
		text     []string
	}{
		"equal prefixes": {netpolicy.Rules{
			Profile: "claude", DefaultDeny: prefixes("10.0.0.0/8"), AllowEgress: prefixes("10.0.0.0/8"),
		}, true, []string{"10.0.0.0/8", "default_deny", "profile claude: allow_egress"}},
		"host address":      {netpolicy.Rules{AllowEgress: prefixes("192.168.77.2/32")}, false, []string{"192.168.77.2/32", "host address wlan0"}},
		"gateway":           {netpolicy.Rules{AllowEgress: prefixes("10.0.2.2/32")}, false, []string{"10.0.2.2/32", "slirp4netns"}},
		"link-local":        {netpolicy.Rules{AllowEgress: prefixes("169.254.0.0/16")}, false, []string{"always denied", "link-local"}},
		"inside link-local": {netpolicy.Rules{AllowEgress: prefixes("169.254.169.254/32")}, false, []string{"always denied"}},
		"multicast":         {netpolicy.Rules{DefaultAllow: prefixes("224.0.0.251/32")}, false, []string{"always denied", "default_allow"}},
		"IPv6":              {netpolicy.Rules{DenyEgress: prefixes("fd00::/8")}, false, []string{"fd00::/8", "IPv6 is disabled"}},
		"host bits":         {netpolicy.Rules{DenyEgress: prefixes("10.1.1.1/8")}, false, []string{"10.1.1.1/8"}},
		"loopback":          {netpolicy.Rules{AllowEgress: prefixes("127.0.0.1/32")}, false, []string{"loopback"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := netpolicy.Derive(tc.rules, desktop())
			if err == nil {
				t.Fatal("accepted")
			}
			var conflict *netpolicy.ConflictError
			if errors.As(err, &conflict) != tc.conflict {
				t.Errorf("error is a %T", err)
			}
			for _, s := range tc.text {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q does not say %q", err, s)
				}
			}
			var h interface{ Hint() string }
			if !errors.As(err, &h) || h.Hint() == "" {
				t.Errorf("%q has no hint", err)
			}
		})
	}
}

// Case 77: an allow for something in slirp4netns's usual network works, because
// the sandbox's network moves away; the same facts give the same network.
func TestSubnetMovesAway(t *testing.T) {
	usual := netip.MustParsePrefix("10.0.2.0/24")
	allow := netpolicy.Rules{DefaultDeny: defaultDeny, AllowEgress: prefixes("10.0.2.50/32")}
	vpn := desktop()
	vpn.Routes = append(vpn.Routes, netip.MustParsePrefix("10.0.0.0/8"))
	dns := desktop()
	dns.Nameservers = []netip.Addr{netip.MustParseAddr("10.0.2.3")}
	for name, d := range map[string]*netpolicy.Derived{
		"rule":       derive(t, allow, desktop()),
		"route":      derive(t, netpolicy.Rules{}, vpn),
		"nameserver": derive(t, netpolicy.Rules{}, dns),
	} {
		if d.Policy.Address.Overlaps(usual) {
			t.Errorf("%s: the sandbox is %s", name, d.Policy.Address)
		}
		if d.Policy.Address.Masked() != netip.PrefixFrom(d.Policy.Gateway, 24).Masked() || !d.Policy.Address.Contains(d.Policy.DNS) {
			t.Errorf("%s: address, gateway and dns are not of one network: %+v", name, d.Policy)
		}
	}
	if a, b := derive(t, allow, desktop()), derive(t, allow, desktop()); a.Policy.Digest() != b.Policy.Digest() {
		t.Error("the same facts give two policies")
	}
	full := desktop()
	full.Routes = prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/15")
	if d := derive(t, netpolicy.Rules{}, full); len(d.Warnings) != 1 {
		t.Errorf("no network is free: warnings %q", d.Warnings)
	}
}

// Every target is denied by the rule it stands for, and a rule without one is
// covered in full.
func TestTargets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := netpolicy.Rules{DefaultDeny: defaultDeny}
		seen := map[netip.Prefix]bool{}
		for _, p := range defaultDeny {
			seen[p] = true
		}
		for range rapid.IntRange(0, 10).Draw(t, "rules") {
			b := rapid.SampledFrom([]byte{0, 1, 5, 128, 255})
			p := netip.PrefixFrom(netip.AddrFrom4([4]byte{
				rapid.SampledFrom([]byte{10, 172, 192}).Draw(t, "a"), b.Draw(t, "b"), b.Draw(t, "c"), b.Draw(t, "d"),
			}), rapid.IntRange(7, 32).Draw(t, "bits")).Masked()
			if seen[p] {
				continue
			}
			seen[p] = true
			if rapid.Bool().Draw(t, "allow") {
				r.AllowEgress = append(r.AllowEgress, p)
			} else {
				r.DenyEgress = append(r.DenyEgress, p)
			}
		}
		f := desktop()
		f.Addresses = nil
		d, err := netpolicy.Derive(r, f)
		if err != nil {
			t.Fatal(err)
		}
		denies := map[netip.Prefix]bool{}
		for _, r := range d.Policy.Rules {
			if r.Action == wire.Deny {
				denies[r.Prefix] = true
			}
		}
		for _, a := range netpolicy.Targets(d.Policy) {
			best := d.Policy.Address.Masked()
			if !best.Contains(a.Addr()) {
				best = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
			}
			for _, r := range d.Policy.Rules {
				if r.Prefix.Contains(a.Addr()) && r.Prefix.Bits() >= best.Bits() {
					best = r.Prefix
				}
			}
			if !denies[best] {
				t.Fatalf("%s is of %s, which is not denied, or has a target already", a, best)
			}
			delete(denies, best)
		}
		for p := range denies {
			// What is left must be covered: try some of its addresses.
			for a, n := p.Addr(), 0; p.Contains(a) && n < 300; a, n = a.Next(), n+1 {
				longer := d.Policy.Address.Masked().Contains(a)
				for _, r := range d.Policy.Rules {
					longer = longer || r.Prefix.Bits() > p.Bits() && r.Prefix.Contains(a)
				}
				if !longer {
					t.Fatalf("%s has no target, though nothing else covers %s", p, a)
				}
			}
		}
	})
}

func TestTargetsSkipCovered(t *testing.T) {
	d := derive(t, netpolicy.Rules{
		DefaultDeny: prefixes("203.0.113.0/24", "198.51.100.0/24"),
		AllowEgress: prefixes("203.0.113.0/25", "203.0.113.128/25", "198.51.100.0/25"),
	}, netpolicy.Facts{})
	var got []string
	for _, a := range netpolicy.Targets(d.Policy) {
		got = append(got, a.Addr().String())
	}
	want := []string{"0.0.0.1", "10.0.2.2", "169.254.0.1", "198.51.100.128", "224.0.0.1", "240.0.0.1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Case 21: what a resolver setting means for slirp4netns.
func TestResolver(t *testing.T) {
	addr := func(s ...string) (out []netip.Addr) {
		for _, a := range s {
			out = append(out, netip.MustParseAddr(a))
		}
		return out
	}
	for name, tc := range map[string]struct {
		nameservers []netip.Addr
		detached    bool
		noRoute     bool
		resolver    string
		private     string
		offline     string // in the warning
	}{
		"stub":        {nameservers: addr("127.0.0.53"), resolver: "127.0.0.53"},
		"second":      {nameservers: addr("fd00::1", "192.168.1.1"), resolver: "192.168.1.1"},
		"detached":    {nameservers: addr("192.168.1.1"), detached: true, resolver: "192.168.1.1", private: "192.168.1.1"},
		"IPv6 only":   {nameservers: addr("::1"), offline: "::1"},
		"none":        {offline: "names no nameserver"},
		"no route":    {nameservers: addr("127.0.0.53"), noRoute: true, resolver: "127.0.0.53", offline: "no IPv4 default route"},
		"none at all": {noRoute: true, offline: "no IPv4 default route"},
	} {
		t.Run(name, func(t *testing.T) {
			f := desktop()
			f.Nameservers, f.Detached, f.DefaultRoute = tc.nameservers, tc.detached, !tc.noRoute
			d := derive(t, netpolicy.Rules{}, f)
			resolver := ""
			if d.Resolver.IsValid() {
				resolver = d.Resolver.String()
			}
			if resolver != tc.resolver || d.PrivateResolver != tc.private || d.Policy.Offline != (tc.offline != "") {
				t.Errorf("resolver %q, private %q, offline %t", resolver, d.PrivateResolver, d.Policy.Offline)
			}
			if text := strings.Join(d.Warnings, "\n"); !strings.Contains(text, tc.offline) || (tc.offline == "") != (text == "") {
				t.Errorf("warnings %q", text)
			}
		})
	}
}

// Case 76.
func TestProxyWarnings(t *testing.T) {
	got := netpolicy.ProxyWarnings(map[string]string{
		"HTTP_PROXY": "http://user:secret@127.0.0.1:3128", "https_proxy": "localhost:3128", "ALL_PROXY": "socks5://[::1]:1080",
		"http_proxy": "http://proxy.example:3128", "NO_PROXY": "127.0.0.1", "all_proxy": "://",
	})
	if len(got) != 3 || !strings.HasPrefix(got[0], "HTTP_PROXY names 127.0.0.1") {
		t.Errorf("got %q", got)
	}
	if strings.Contains(strings.Join(got, ""), "secret") {
		t.Error("a warning holds the password")
	}
}

func TestWriteJSON(t *testing.T) {
	var b bytes.Buffer
	if err := derive(t, netpolicy.Rules{Profile: "claude", DefaultDeny: defaultDeny}, desktop()).WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var got struct {
		DNS      string      `json:"dns"`
		Resolver string      `json:"resolver"`
		Rules    []wire.Rule `json:"rules"`
		Warnings []string    `json:"warnings"`
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.DNS != "10.0.2.3" || got.Resolver != "127.0.0.53" || got.Warnings == nil || got.Rules[0].Action != wire.Allow {
		t.Errorf("got %s", b.String())
	}
}
