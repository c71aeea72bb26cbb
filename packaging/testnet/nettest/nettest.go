// Package nettest is how Go tests use the test internet that
// packaging/testnet/testnet makes: the addresses that are there, and the counters
// of what arrived at them.
//
// Tests run inside the "host" namespace already; the package makes no namespace
// and needs no privilege. It belongs to test processes.
package nettest

import (
	"encoding/json"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lazaret.dev/lazaret/protocol/testgate"
)

// What the script sets up. Every address answers "hello from WHERE ADDRESS" on
// the ports 80 (HTTP, TCP; bare by UDP), 9999 and 9.
const (
	Public    = "203.0.113.5"     // no policy denies it
	Other     = "198.18.0.1"      // nor this one
	Private10 = "10.1.1.1"        // and the following are denied by default
	Private17 = "172.16.5.5"      //
	Private19 = "192.168.1.1"     //
	LinkLocal = "169.254.169.254" // can never be allowed
	CGNAT     = "100.64.0.1"      //
	HostLAN   = "192.168.77.2"    // the host's own
	HostOther = "198.51.100.2"    // the host's own, and public
	PublicV6  = "2001:db8::5"     // no IPv6 leaves a sandbox
	AllowName = "allowed.test"    // resolves to Public
	DualName  = "dual.test"       // resolves to Public and PublicV6
)

// Net is the test internet.
type Net struct{ state string }

// Open returns the test internet with its counters at 0. The test is skipped
// or fails where there is none (testgate.Internet).
func Open(t testing.TB) *Net {
	t.Helper()
	testgate.Need(t, testgate.Internet)
	n := &Net{state: os.Getenv("LAZARET_TEST_NETNS")}
	n.Reset(t)
	return n
}

// Resolver is the kind of /etc/resolv.conf that this process sees, as testnet
// exec names it.
func (n *Net) Resolver() string { return os.Getenv("LAZARET_TEST_RESOLVER") }

// Clash says that the host has the network that slirp4netns usually takes
// (testnet --clash).
func (n *Net) Clash() bool { return os.Getenv("LAZARET_TEST_CLASH") == "yes" }

// ResolvConf is the file behind /etc/resolv.conf with the resolver kind "link";
// the test may replace it.
func (n *Net) ResolvConf() string { return filepath.Join(n.state, "etc", "resolv.conf") }

// Counts are events by key: "accept ADDR:PORT" for a TCP connection, "tcp
// ADDR:PORT", "udp ADDR:PORT" and "icmp ADDR" for a packet, "dns ADDR NAME" for
// a question.
type Counts map[string]int

// Counts returns what has arrived since the last Reset, at the internet and at
// the host's own addresses together. Packets of the test's own to the host's
// loopback are among them.
//
// The counters are fed by a sniffer that runs beside what it counts: what has
// just arrived is waited for, so that "none" means none.
func (n *Net) Counts(t testing.TB) Counts {
	t.Helper()
	time.Sleep(settle)
	out := Counts{}
	for _, side := range sides {
		for k, v := range n.ask(t, side, "counts") {
			out[k] += v
		}
	}
	return out
}

// settle is how long a packet may take from its arrival to its counter.
const settle = 150 * time.Millisecond

// Reset sets the counters to 0.
func (n *Net) Reset(t testing.TB) {
	t.Helper()
	time.Sleep(settle)
	for _, side := range sides {
		n.ask(t, side, "reset")
	}
}

var sides = []string{"inet", "host"}

func (n *Net) ask(t testing.TB, side, verb string) Counts {
	t.Helper()
	c, err := net.DialTimeout("unix", filepath.Join(n.state, side+".sock"), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // it was only read from
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, verb+"\n"); err != nil {
		t.Fatal(err)
	}
	var out Counts
	if err := json.NewDecoder(c).Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// To returns the number of packets that arrived for one address, by any
// protocol and port.
func (c Counts) To(addr string) int {
	want := netip.MustParseAddr(addr)
	sum := 0
	for key, n := range c {
		proto, dst, _ := strings.Cut(key, " ")
		if proto == "accept" || proto == "dns" {
			continue // their packets are counted
		}
		a, err := netip.ParseAddr(dst)
		if err != nil {
			ap, err := netip.ParseAddrPort(dst)
			if err != nil {
				continue
			}
			a = ap.Addr()
		}
		if a == want {
			sum += n
		}
	}
	return sum
}

// Accepted returns the number of TCP connections made to one address and port.
func (c Counts) Accepted(addr netip.AddrPort) int { return c["accept "+addr.String()] }
