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

// Any one deny route that is missing fails the start, and is named. Issue 2,
// must show 5.
func TestFaultDropDeny(t *testing.T) {
	w := newWorld(t)
	for n, r := range w.plan.Network.Rules {
		commit(t, "drop-deny "+strconv.Itoa(n))
		w.freshState(t)
		c := w.start(t)
		c.sendPlan()
		c.expect(handoff.KindAnchorReady, &handoff.AnchorReady{})
		var f handoff.Failed
		c.expect(handoff.KindFailed, &f)
		if f.Step != "network" || !strings.Contains(f.Error, r.Prefix.String()) {
			t.Errorf("without %s: %+v", r.Prefix, f)
		}
		c.reap(5e9)
	}
}

// One that goes between attestation and start is seen by the prober inside.
func TestFaultDropDenyLate(t *testing.T) {
	n := nettest.Open(t)
	w := newWorld(t)
	w.bringProber(t)
	commit(t, "drop-deny-late 0")
	c := w.bringUp(t)
	n.Reset(t)
	res := c.probe(probe.Request{Denied: []netip.AddrPort{netip.MustParseAddrPort("10.1.1.1:9999")}, TimeoutMS: 1000})
	if len(res.Denied) != 1 || res.Denied[0].Verdict != probe.RouteOpen {
		t.Errorf("%+v", res)
	}
	if got := n.Counts(t).To("10.1.1.1"); got != 0 {
		t.Errorf("%d packets left", got)
	}
	c.stop()
}
