package network_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"lazaret.dev/lazaret/cmd/lazaret/e2etest"
	"lazaret.dev/lazaret/packaging/testnet/nettest"
	"lazaret.dev/lazaret/protocol/testgate"
)

// faulty gives the home an installation whose supervisor has fault points, and
// returns what sets the fault to commit.
func faulty(t *testing.T, h *e2etest.Home) (commit func(format string, args ...any)) {
	t.Helper()
	testgate.Need(t, testgate.Faults)
	h.Tree = filepath.Join(h.Dir, "tree")
	libexec := filepath.Join(h.Tree, "libexec/lazaret")
	for _, d := range []string{filepath.Join(h.Tree, "bin"), libexec} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	built := func(name string) string { return filepath.Join(testgate.Tree(), name) }
	// Copies of what looks for its neighbours or may be no link, links to the
	// rest.
	for to, from := range map[string]string{
		"bin/lazaret":                        built("bin/lazaret"),
		"libexec/lazaret/lazaret-escalate":   built("libexec/lazaret/lazaret-escalate"),
		"libexec/lazaret/lazaret-supervisor": os.Getenv("LAZARET_TEST_FAULTY"),
	} {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(h.Tree, to), b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"libexec/lazaret/runsc", "image"} {
		from, err := filepath.Abs(built(name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(from, filepath.Join(h.Tree, name)); err != nil {
			t.Fatal(err)
		}
	}
	return func(format string, args ...any) {
		t.Helper()
		file := filepath.Join(libexec, "lazaret-supervisor.fault")
		if err := os.WriteFile(file, fmt.Appendf(nil, format, args...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Issue 2, must show 5: any one deny route that is missing before runsc starts
// prevents publication, and is named. SR-5, FR-20.
func TestMissingDeny(t *testing.T) {
	n, h := world(t)
	commit := faulty(t, h)
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
		for _, f := range faults {
			commit("%s %d", f, i)
			r := h.Run("echo", "published")
			if r.Status != 125 || r.Stdout != "" || !said(r, p.String()) {
				t.Errorf("%s of %s: %s", f, p, describe(r))
			}
		}
	}
	untouched(t, n.Counts(t))
	h.NothingLeft(10 * time.Second)

	commit("drop-deny both 1000")
	if r := h.Run("echo", "published"); r.Stdout != "published\n" {
		t.Errorf("without a fault: %s", describe(r))
	}
}

// The suite can fail: with a deny route of the outer namespace gone, and the
// attestation passed, the attacker gets through, by what passes the sandbox's
// own routes by and by nothing else.
func TestAttackNeedsTheOuterDeny(t *testing.T) {
	n, h := world(t)
	commit := faulty(t, h)
	i := slices.IndexFunc(denies(t, h), func(p netip.Prefix) bool { return p.String() == "10.0.0.0/8" })
	commit("drop-deny-late outer %d", i)
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
