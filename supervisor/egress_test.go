package supervisor_test

import (
	"encoding/json"
	"net/netip"
	"os"
	"strings"
	"testing"

	"lazaret.dev/lazaret/packaging/testnet/nettest"
	"lazaret.dev/lazaret/protocol/netpolicy"
	"lazaret.dev/lazaret/protocol/probe"
)

// probe runs the prober in the sandbox.
func (c *coordinator) probe(r probe.Request) *probe.Result {
	c.t.Helper()
	in, err := json.Marshal(r)
	if err != nil {
		c.t.Fatal(err)
	}
	out, err := c.execInput(string(in), "/workspace/prober", "_probe")
	if err != nil {
		c.t.Fatalf("prober: %v: %s", err, out)
	}
	res, err := probe.DecodeResult(strings.NewReader(out))
	if err != nil {
		c.t.Fatalf("%v: %s", err, out)
	}
	return res
}

// bringProber puts the prober into the workspace.
func (w *world) bringProber(t testing.TB) {
	t.Helper()
	b, err := os.ReadFile(binary("lazaret-escalate"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.at("workspace/prober"), b, 0o755); err != nil {
		t.Fatal(err)
	}
}

// No packet leaves for a denied destination, also from a socket that is bound
// to the sandbox's own address, which makes the sandbox's kernel pass its
// loopback routes by. SR-6.
func TestEgress(t *testing.T) {
	n := nettest.Open(t)
	w := newWorld(t)
	w.bringProber(t)
	for _, own := range []string{nettest.HostOther} { // its LAN address is in 192.168/16
		w.plan.Network.Rules = append(w.plan.Network.Rules, netpolicy.Rule{Prefix: netip.MustParsePrefix(own + "/32"), Action: netpolicy.Deny})
	}
	// One exception, which must work.
	w.plan.Network.Rules = append(w.plan.Network.Rules, netpolicy.Rule{Prefix: netip.MustParsePrefix(nettest.Private10 + "/32"), Action: netpolicy.Allow})
	c := w.bringUp(t)
	defer c.stop()

	denied := []string{"10.1.1.2", nettest.Private17, nettest.Private19, nettest.LinkLocal, nettest.CGNAT, nettest.HostLAN, nettest.HostOther, "10.0.2.2"}
	n.Reset(t)
	req := probe.Request{Source: w.plan.Network.Address.Addr(), DNS: netip.AddrPortFrom(w.plan.Network.DNS, 53), TimeoutMS: 3000}
	for _, a := range denied {
		req.Denied = append(req.Denied, netip.AddrPortFrom(netip.MustParseAddr(a), 9999))
	}
	res := c.probe(req)
	if !res.DNSOK {
		t.Errorf("the resolver: %s", res.DNSErr)
	}
	for _, f := range res.Denied {
		if f.Verdict != probe.Closed {
			t.Errorf("%s: %s (%s)", f.Addr, f.Verdict, f.Detail)
		}
	}
	counts := n.Counts(t)
	for _, a := range denied {
		if got := counts.To(a); got != 0 {
			t.Errorf("%d packets reached %s: %v", got, a, counts)
		}
	}
	for _, a := range []string{nettest.Public, nettest.Private10} {
		if got := c.sh("echo | nc -w 5 " + a + " 9999"); !strings.Contains(got, a) {
			t.Errorf("%s answers %q", a, got)
		}
	}
}

// slirp4netns gone: not one packet more. Design section 9.
func TestEgressWithoutSlirp(t *testing.T) {
	n := nettest.Open(t)
	w := newWorld(t)
	c := w.bringUp(t)
	if got := c.sh("echo | nc -w 5 " + nettest.Public + " 9999"); !strings.Contains(got, nettest.Public) {
		t.Fatalf("before: %q", got)
	}
	fam := c.family()
	killed(t, c.slirp.PID)
	n.Reset(t)
	_, _ = c.exec("/bin/sh", "-c", "echo | nc -w 1 "+nettest.Public+" 9999")
	if counts := n.Counts(t); counts.To(nettest.Public) != 0 {
		t.Errorf("%v", counts)
	}
	gone(t, fam, 10e9)
}
