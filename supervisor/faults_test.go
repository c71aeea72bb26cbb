//go:build faults

package supervisor_test

import (
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	"lazaret.dev/lazaret/packaging/testnet/nettest"
	"lazaret.dev/lazaret/protocol/handoff"
	"lazaret.dev/lazaret/protocol/probe"
)

// These tests need a tree whose supervisor was built with the tag as well.

func commit(t *testing.T, fault string) {
	t.Helper()
	file := binary("lazaret-supervisor") + ".fault"
	if err := os.WriteFile(file, []byte(fault), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(file) })
}

// Any one deny route that is missing fails the start, in whichever namespace,
// and is named. Issue 2, must show 5.
func TestFaultDropDeny(t *testing.T) {
	w := newWorld(t)
	for n, r := range w.plan.Network.Rules {
		for _, side := range []string{"outer", "inner", "both"} {
			commit(t, "drop-deny "+side+" "+strconv.Itoa(n))
			w.freshState(t)
			c := w.start(t)
			c.sendPlan()
			c.expect(handoff.KindAnchorReady, &handoff.AnchorReady{})
			var f handoff.Failed
			c.expect(handoff.KindFailed, &f)
			if f.Step != "network" || !strings.Contains(f.Error, r.Prefix.String()) {
				t.Errorf("%s without %s: %+v", side, r.Prefix, f)
			}
			c.reap(5e9)
		}
	}
}

// One that goes between attestation and start is seen by the prober inside, as
// a route where the inner one is gone too, and as an answer where it is the
// outer one alone: the packet counters show that TestEgress's zero is no
// accident.
func TestFaultDropDenyLate(t *testing.T) {
	n := nettest.Open(t)
	w := newWorld(t)
	w.bringProber(t)
	for side, want := range map[string]probe.Verdict{"both": probe.RouteOpen, "inner": probe.RouteOpen, "outer": probe.Reached} {
		commit(t, "drop-deny-late "+side+" 0")
		c := w.bringUp(t)
		n.Reset(t)
		res := c.probe(probe.Request{
			Denied: []netip.AddrPort{netip.MustParseAddrPort("10.1.1.1:9999")}, TimeoutMS: 1000,
			Source: w.plan.Network.Address.Addr(),
		})
		if len(res.Denied) != 1 || res.Denied[0].Verdict != want {
			t.Errorf("%s: %+v, want %s", side, res, want)
		}
		if got := n.Counts(t).To("10.1.1.1"); (got > 0) != (want == probe.Reached) {
			t.Errorf("%s: %d packets left", side, got)
		}
		c.stop()
		c.reap(5e9)
	}
}
