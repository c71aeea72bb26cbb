package coordinator

import (
	"context"
	"testing"

	"lazaret.dev/lazaret/host/internal/config"
	"lazaret.dev/lazaret/host/internal/generation"
	"lazaret.dev/lazaret/host/internal/spawn"
	"lazaret.dev/lazaret/protocol/control"
	"lazaret.dev/lazaret/protocol/handoff"
	"lazaret.dev/lazaret/protocol/launch"
	"lazaret.dev/lazaret/protocol/netpolicy"
)

// FR-18, SR-17: on the handoff, what proves a generation is its readiness
// fingerprint. One of an earlier generation, of another Domain, configuration,
// sidecar, policy or namespace opens no gate, and the host's own network never
// does.
func TestStaleReadiness(t *testing.T) {
	host, err := spawn.NamespaceOf("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	const netns = 4242
	hc := &coordinator{
		req:  generation.Request{Domain: config.Domain{ID: "0123456789ab"}, Generation: "g2"},
		plan: &launch.Plan{NetworkID: "n2", Network: netpolicy.Policy{MTU: 1500}},
	}
	fp := hc.req.Fingerprint()
	policy := hc.plan.Network.Digest()
	for _, tc := range []struct {
		name string
		m    handoff.NetworkReady
		ok   bool
	}{
		{"this generation", handoff.NetworkReady{NetNS: netns, Fingerprint: netpolicy.Fingerprint("0123456789ab", "g2", fp, "n2", policy, host.Dev, netns)}, true},
		{"an earlier generation", handoff.NetworkReady{NetNS: netns, Fingerprint: netpolicy.Fingerprint("0123456789ab", "g1", fp, "n2", policy, host.Dev, netns)}, false},
		{"another Domain", handoff.NetworkReady{NetNS: netns, Fingerprint: netpolicy.Fingerprint("ba9876543210", "g2", fp, "n2", policy, host.Dev, netns)}, false},
		{"another configuration", handoff.NetworkReady{NetNS: netns, Fingerprint: netpolicy.Fingerprint("0123456789ab", "g2", fp+"x", "n2", policy, host.Dev, netns)}, false},
		{"another sidecar", handoff.NetworkReady{NetNS: netns, Fingerprint: netpolicy.Fingerprint("0123456789ab", "g2", fp, "n1", policy, host.Dev, netns)}, false},
		{"another policy", handoff.NetworkReady{NetNS: netns, Fingerprint: netpolicy.Fingerprint("0123456789ab", "g2", fp, "n2", policy+"x", host.Dev, netns)}, false},
		{"another namespace", handoff.NetworkReady{NetNS: netns + 1, Fingerprint: netpolicy.Fingerprint("0123456789ab", "g2", fp, "n2", policy, host.Dev, netns)}, false},
		{"the host's network", handoff.NetworkReady{NetNS: host.Ino, Fingerprint: netpolicy.Fingerprint("0123456789ab", "g2", fp, "n2", policy, host.Dev, host.Ino)}, false},
		{"nothing", handoff.NetworkReady{NetNS: netns}, false},
	} {
		if err := hc.checkReadiness(tc.m); (err == nil) != tc.ok {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// A client that was asked about one generation, and came to the next, ends
// nothing.
func TestStopOfAnEarlierGeneration(t *testing.T) {
	hc := &coordinator{
		req:   generation.Request{Generation: "g2"},
		inbox: make(chan func(), 1), done: make(chan struct{}),
	}
	hc.stopFor(t.Context(), control.StopRequest{Generation: "g1", By: "a client"})
	if len(hc.inbox) != 0 {
		t.Error("another generation's stop reached the loop")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // it does not wait for the end
	hc.stopFor(ctx, control.StopRequest{Generation: "g2", By: "a client"})
	if len(hc.inbox) != 1 {
		t.Error("this generation's stop did not reach the loop")
	}
}
