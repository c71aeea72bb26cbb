package proof_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lazaret.dev/lazaret/host/internal/proof"
	"lazaret.dev/lazaret/host/internal/session"
	"lazaret.dev/lazaret/protocol/netpolicy"
	"lazaret.dev/lazaret/protocol/probe"
)

func policy() *netpolicy.Policy {
	rule := func(p string) netpolicy.Rule {
		return netpolicy.Rule{Prefix: netip.MustParsePrefix(p), Action: netpolicy.Deny}
	}
	return &netpolicy.Policy{
		Address: netip.MustParsePrefix("10.0.2.100/24"), Gateway: netip.MustParseAddr("10.0.2.2"), DNS: netip.MustParseAddr("10.0.2.3"),
		Rules: []netpolicy.Rule{rule("10.0.0.0/8"), rule("10.1.0.0/16")},
	}
}

func question() probe.Request {
	return probe.Request{
		Denied: []netip.AddrPort{netip.MustParseAddrPort("10.9.9.9:9"), netip.MustParseAddrPort("10.1.2.3:9")},
		DNS:    netip.MustParseAddrPort("10.0.2.3:53"),
	}
}

// answer is the proof that is wanted.
func answer() *probe.Result {
	res := &probe.Result{DNSOK: true}
	for _, a := range question().Denied {
		res.Denied = append(res.Denied, probe.Finding{Addr: a, Verdict: probe.Closed})
	}
	return res
}

// FR-20: only an answer to exactly what was asked is a proof.
func TestJudge(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*probe.Result)
		want   string
	}{
		{"proven", func(*probe.Result) {}, ""},
		{"one reached", func(r *probe.Result) { r.Denied[1].Verdict = probe.Reached }, "10.1.0.0/16 can be reached"},
		{"one has a way out", func(r *probe.Result) { r.Denied[0].Verdict = probe.RouteOpen }, "10.0.0.0/8 can be reached"},
		{"one missing", func(r *probe.Result) { r.Denied = r.Denied[:1] }, "another question"},
		{"none", func(r *probe.Result) { r.Denied = nil }, "another question"},
		{"one more", func(r *probe.Result) { r.Denied = append(r.Denied, r.Denied[0]) }, "another question"},
		{"swapped", func(r *probe.Result) { slices.Reverse(r.Denied) }, "another question"},
		{"another address", func(r *probe.Result) { r.Denied[0].Addr = netip.MustParseAddrPort("10.9.9.8:9") }, "another question"},
		{"another port", func(r *probe.Result) { r.Denied[0].Addr = netip.MustParseAddrPort("10.9.9.9:10") }, "another question"},
		{"no resolver", func(r *probe.Result) { r.DNSOK, r.DNSErr = false, "\x1b[2Jtimeout" }, `"\x1b[2Jtimeout"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			res := answer()
			tc.change(res)
			err := proof.Judge(policy(), question(), res)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want %q", err, tc.want)
			case err != nil && strings.ContainsRune(err.Error(), '\x1b'):
				t.Errorf("the sandbox's text is not escaped: %q", err)
			}
		})
	}
}

func TestJudgeNamesEveryOpenPrefix(t *testing.T) {
	res := answer()
	res.Denied[0].Verdict, res.Denied[1].Verdict = probe.Reached, probe.RouteOpen
	var open *proof.OpenError
	if err := proof.Judge(policy(), question(), res); !errors.As(err, &open) || !slices.Equal(open.Prefixes, []string{"10.0.0.0/8", "10.1.0.0/16"}) {
		t.Errorf("got %v", err)
	}
}

func TestRequestOffline(t *testing.T) {
	p := policy()
	if got := proof.Request(p).DNS; got != netip.MustParseAddrPort("10.0.2.3:53") {
		t.Errorf("DNS %v", got)
	}
	p.Offline = true
	if got := proof.Request(p).DNS; got.IsValid() {
		t.Errorf("offline, it still demands the resolver %v", got)
	}
}

// What comes out of the sandbox is bounded, and nonsense is a failure.
func TestProveDistrustsItsBytes(t *testing.T) {
	for name, tc := range map[string]struct{ script, want string }{
		"nothing":   {"cat >/dev/null", "probe result"},
		"nonsense":  {"echo hello", "probe result"},
		"endless":   {"head -c 50000000 /dev/zero", "larger than"},
		"fails":     {"echo complaint >&2; exit 3", `"complaint"`},
		"unrelated": {`echo '{"denied":[],"dns_ok":true}'`, "another question"},
	} {
		t.Run(name, func(t *testing.T) {
			runsc := filepath.Join(t.TempDir(), "runsc")
			if err := os.WriteFile(runsc, fmt.Appendf(nil, "#!/bin/sh\nPATH=/usr/bin:/bin\n%s\n", tc.script), 0o700); err != nil { //nolint:gosec // a program
				t.Fatal(err)
			}
			err := proof.Prove(context.Background(), session.Sandbox{Runsc: runsc, StateDir: "/x", ID: "x"}, policy())
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// FuzzJudge: no result but the wanted one is a proof.
func FuzzJudge(f *testing.F) {
	f.Add([]byte(`{"denied":[{"addr":"10.9.9.9:9","verdict":"closed"},{"addr":"10.1.2.3:9","verdict":"closed"}],"dns_ok":true}`))
	f.Add([]byte(`{"denied":[{"addr":"10.9.9.9:9","verdict":"closed"},{"addr":"10.9.9.9:9","verdict":"closed"}],"dns_ok":true}`))
	f.Add([]byte(`{"denied":null,"dns_ok":true}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		res, err := probe.DecodeResult(strings.NewReader(string(b)))
		if err != nil || proof.Judge(policy(), question(), res) != nil {
			return
		}
		want := answer()
		for i, d := range res.Denied {
			d.Detail = ""
			if d != want.Denied[i] {
				t.Fatalf("%q is taken for a proof", b)
			}
		}
		if len(res.Denied) != len(want.Denied) || !res.DNSOK {
			t.Fatalf("%q is taken for a proof", b)
		}
	})
}
