package network_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"lazaret.dev/lazaret/cmd/lazaret/e2etest/faulttest"
	"lazaret.dev/lazaret/packaging/testnet/nettest"
)

// commit asks for one fault, "NAME WHERE", about one prefix, and for no other.
func commit(f *faulttest.Faults, fault string, prefix int) {
	f.TakeBack()
	name, where, _ := strings.Cut(fault, " ")
	f.Ask(name, fmt.Sprintf("%s %d", where, prefix))
}

// Issue 2, must show 5: any one deny route that is missing before runsc starts
// prevents publication, and is named. SR-5, FR-20.
func TestMissingDeny(t *testing.T) {
	n, h := world(t)
	f := faulttest.New(t, h)
	prefixes := denies(t, h)
	if len(prefixes) < 10 {
		t.Fatalf("only %v are denied", prefixes)
	}
	for i, p := range prefixes {
		faults := []string{"drop-deny both"}
		// In one namespace alone, and after the attestation: supervisor/internal/netns
		// tries all of them.
		if i == 1 || i == len(prefixes)-1 {
			faults = append(faults, "drop-deny outer", "drop-deny inner", "drop-deny-late both", "drop-deny-late inner")
		}
		for _, fault := range faults {
			commit(f, fault, i)
			r := h.Run("echo", "published")
			if r.Status != 125 || r.Stdout != "" || !said(r, p.String()) {
				t.Errorf("%s of %s: %s", fault, p, describe(r))
			}
		}
	}
	untouched(t, n.Counts(t))
	h.NothingLeft(10 * time.Second)

	commit(f, "drop-deny both", 1000)
	if r := h.Run("echo", "published"); r.Stdout != "published\n" {
		t.Errorf("without a fault: %s", describe(r))
	}
}

// The suite can fail: with a deny route of the outer namespace gone, and the
// attestation passed, the attacker gets through, by what passes the sandbox's
// own routes by and by nothing else.
func TestAttackNeedsTheOuterDeny(t *testing.T) {
	n, h := world(t)
	f := faulttest.New(t, h)
	i := slices.IndexFunc(denies(t, h), func(p netip.Prefix) bool { return p.String() == "10.0.0.0/8" })
	commit(f, "drop-deny-late outer", i)
	reached := attack(t, h, nettest.Private10)[nettest.Private10]
	for _, m := range []string{"tcp-bind", "udp-bind", "udp-device"} {
		if !slices.Contains(reached, m) {
			t.Errorf("%s does not reach %s, so that the attack proves nothing: %v", m, nettest.Private10, reached)
		}
	}
	for _, m := range []string{"tcp", "udp"} {
		if slices.Contains(reached, m) {
			t.Errorf("%s reached %s", m, nettest.Private10)
		}
	}
	if n.Counts(t).To(nettest.Private10) == 0 {
		t.Error("no packet was counted")
	}
}
