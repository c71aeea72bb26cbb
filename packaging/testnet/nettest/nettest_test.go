package nettest_test

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"lazaret.dev/lazaret/packaging/testnet/nettest"
)

func hello(t *testing.T, network, addr string) string {
	t.Helper()
	c, err := net.DialTimeout(network, addr, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // a test's connection
	if err := c.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if network == "udp" {
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		n, err := c.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	b, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// What the counters say is what tests of the product stand on: they count what
// arrives, and stay at 0 for what does not.
func TestCounters(t *testing.T) {
	n := nettest.Open(t)
	for _, a := range []string{nettest.Public, nettest.Private10, nettest.LinkLocal, nettest.HostLAN, "[" + nettest.PublicV6 + "]"} {
		for _, network := range []string{"tcp", "udp"} {
			if got := hello(t, network, a+":9999"); !strings.HasPrefix(got, "hello from ") {
				t.Errorf("%s %s: %q", network, a, got)
			}
		}
	}
	c := n.Counts(t)
	for _, a := range []string{nettest.Public, nettest.Private10, nettest.LinkLocal, nettest.HostLAN, nettest.PublicV6} {
		if c.To(a) < 4 {
			t.Errorf("%s: %d packets", a, c.To(a))
		}
		if got := c.Accepted(netip.AddrPortFrom(netip.MustParseAddr(a), 9999)); got != 1 {
			t.Errorf("%s: %d connections", a, got)
		}
	}
	if got := c.To(nettest.Private17); got != 0 {
		t.Errorf("%d packets to an address that was left alone", got)
	}
	n.Reset(t)
	if got := n.Counts(t).To(nettest.Public); got != 0 {
		t.Errorf("%d packets after a reset", got)
	}
	// A SYN to a closed port is a packet too.
	if c, err := net.DialTimeout("tcp", nettest.Private17+":1", time.Second); err == nil {
		_ = c.Close()
		t.Error("something listens on port 1")
	}
	if n.Counts(t).To(nettest.Private17) == 0 {
		t.Error("a refused SYN is not counted")
	}
}

func TestNames(t *testing.T) {
	n := nettest.Open(t)
	if n.Resolver() == "none" {
		if b, err := os.ReadFile("/etc/resolv.conf"); err != nil || len(b) != 0 {
			t.Errorf("resolv.conf is not empty: %q, %v", b, err)
		}
		return
	}
	got, err := (&net.Resolver{PreferGo: true}).LookupHost(context.Background(), nettest.AllowName)
	if err != nil || len(got) != 1 || got[0] != nettest.Public {
		t.Errorf("%s is %v, %v", nettest.AllowName, got, err)
	}
}
