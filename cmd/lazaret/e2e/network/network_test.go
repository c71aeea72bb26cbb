package network_test

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lazaret.dev/lazaret/cmd/lazaret/e2etest"
	"lazaret.dev/lazaret/packaging/testnet/nettest"
)

//go:embed testdata/attack.py
var attackScript []byte

// denied are addresses that answer in the test internet and may not be reached.
var denied = []string{
	nettest.Private10, nettest.Private17, nettest.Private19, nettest.LinkLocal, nettest.CGNAT,
	nettest.HostLAN, nettest.HostOther, "10.0.2.2",
}

// world is a home in the test internet with the attacker in its project.
func world(t *testing.T) (*nettest.Net, *e2etest.Home) {
	t.Helper()
	n := nettest.Open(t)
	h := e2etest.New(t)
	if err := os.WriteFile(filepath.Join(h.Project, "attack.py"), attackScript, 0o644); err != nil {
		t.Fatal(err)
	}
	return n, h
}

// attack lets the attacker loose on the addresses and returns by which methods
// it reached each.
func attack(t *testing.T, h *e2etest.Home, addresses ...string) map[string][]string {
	t.Helper()
	out := h.Must(append([]string{"python3", "attack.py", "10.0.2.100", "tap0", "9999", "1.5"}, addresses...)...)
	if !strings.HasSuffix(out, "end - - \n") {
		t.Fatalf("the attacker did not come to its end:\n%s", out)
	}
	reached := map[string][]string{}
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); f[0] == "reached" {
			reached[f[1]] = append(reached[f[1]], f[2])
		}
	}
	t.Logf("reached: %v", reached)
	return reached
}

// untouched fails the test if a packet arrived at any address but the public
// one and those given. What the host's kernel says to its neighbours, and
// slirp4netns to the host's resolver, is not the sandbox's.
func untouched(t *testing.T, c nettest.Counts, but ...string) {
	t.Helper()
	but = append(but, nettest.Public)
	listening := map[uint16]bool{80: true, 9999: true, 9: true}
	for key, n := range c {
		proto, to, _ := strings.Cut(key, " ")
		if proto == "dns" || proto == "ip-2" || proto == "ip-58" { // IGMP, ICMPv6
			continue
		}
		ap, err := netip.ParseAddrPort(to)
		if err != nil {
			ap = netip.AddrPortFrom(netip.MustParseAddr(to), 0)
		}
		if slices.Contains(but, ap.Addr().String()) || ap.Addr().IsLoopback() && !listening[ap.Port()] ||
			ap.Addr().Is6() && ap.Addr().IsMulticast() {
			continue
		}
		t.Errorf("%d × %s", n, key)
	}
}

// Issue 2, must show 5: what is denied is not reached, whatever the program
// inside does, and not one packet arrives. SR-6.
func TestDenied(t *testing.T) {
	n, h := world(t)
	defer h.NothingLeft(10 * time.Second)
	all := append(slices.Clone(denied), nettest.PublicV6, "::ffff:10.1.1.1", "fd00::5", "fd00:77::2")
	reached := attack(t, h, append(all, nettest.Public)...)
	for _, a := range all {
		if len(reached[a]) > 0 {
			t.Errorf("%s was reached by %v", a, reached[a])
		}
	}
	c := n.Counts(t)
	untouched(t, c)
	// The attacker knows its trade: what is allowed it reaches by all of these.
	for _, m := range []string{
		"tcp", "tcp-bind", "tcp-device", "tcp-bind-device", "tcp-mapped", "tcp-mapped-bind",
		"udp", "udp-bind", "udp-device", "udp-bind-device", "udp-mapped", "udp-mapped-bind", "udp-pktinfo", "udp-connected-bind",
	} {
		if !slices.Contains(reached[nettest.Public], m) {
			t.Errorf("%s was not reached by %s", nettest.Public, m)
		}
	}
	if c.To(nettest.Public) == 0 {
		t.Error("no packet was counted at all")
	}
}

// An exception within a denied prefix is just that. SR-6.
func TestAllowEgress(t *testing.T) {
	n, h := world(t)
	h.Config("[profiles.shell]\nallow_egress = [\"10.1.1.1/32\"]\n")
	defer h.NothingLeft(10 * time.Second)
	others := append(slices.Clone(denied[1:]), "10.1.1.2", "10.222.0.1")
	reached := attack(t, h, append(others, nettest.Private10)...)
	for _, a := range others {
		if len(reached[a]) > 0 {
			t.Errorf("%s was reached by %v", a, reached[a])
		}
	}
	for _, m := range []string{"tcp", "udp"} {
		if !slices.Contains(reached[nettest.Private10], m) {
			t.Errorf("%s was not reached by %s", nettest.Private10, m)
		}
	}
	c := n.Counts(t)
	untouched(t, c, nettest.Private10)
	if c.To(nettest.Private10) == 0 {
		t.Errorf("no packet arrived at %s", nettest.Private10)
	}
}

// The sandbox's own loopback is its own, and a server inside can be spoken to.
func TestOwnLoopback(t *testing.T) {
	_, h := world(t)
	out := h.Must("python3", "-c", `
import socket, threading
for bind, to in (("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.1.2.3"), ("0.0.0.0", "10.0.2.100")):
    l = socket.socket(); l.bind((bind, 0)); l.listen()
    threading.Thread(target=lambda: l.accept()[0].sendall(b"own\n"), daemon=True).start()
    print(to, socket.create_connection((to, l.getsockname()[1]), 2).recv(10).decode(), end="")
`)
	if out != "127.0.0.1 own\n127.1.2.3 own\n10.0.2.100 own\n" {
		t.Errorf("got %q", out)
	}
}

// denies returns the denied prefixes in the order of their routes.
func denies(t *testing.T, h *e2etest.Home) []netip.Prefix {
	t.Helper()
	r := h.Lazaret("", "net", "show", "--json")
	var shown struct {
		Rules []struct {
			Prefix netip.Prefix `json:"prefix"`
			Action string       `json:"action"`
		} `json:"rules"`
	}
	if err := json.Unmarshal([]byte(r.Stdout), &shown); err != nil || r.Status != 0 {
		t.Fatalf("net show: status %d, %v: %s%s", r.Status, err, r.Stdout, r.Stderr)
	}
	var out []netip.Prefix
	for _, rule := range shown.Rules {
		if rule.Action == "deny" {
			out = append(out, rule.Prefix)
		}
	}
	return out
}

// The readiness proof inside is also a command.
func TestNetTest(t *testing.T) {
	n, h := world(t)
	r := h.Lazaret("", "net", "test")
	if r.Status != 0 || strings.Count(r.Stdout, "closed") != len(denies(t, h)) || !strings.Contains(r.Stdout, "answers") {
		t.Errorf("status %d: %s%s", r.Status, r.Stdout, r.Stderr)
	}
	untouched(t, n.Counts(t))
}

// said tells whether the last line of ours on stderr, and all that explains it,
// holds the text.
func said(r e2etest.Result, text string) bool {
	for line := range strings.Lines(r.Stderr) {
		if strings.HasPrefix(line, "lazaret: error: ") && strings.Contains(line, text) {
			return true
		}
	}
	return false
}

func describe(r e2etest.Result) string {
	return fmt.Sprintf("status %d\nstdout: %s\nstderr: %s", r.Status, r.Stdout, r.Stderr)
}
