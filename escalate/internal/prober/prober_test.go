package prober_test

import (
	"bytes"
	"encoding/json"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"lazaret.dev/lazaret/escalate/internal/prober"
	"lazaret.dev/lazaret/protocol/probe"
	"lazaret.dev/lazaret/protocol/testgate"
)

// asProber makes the test binary serve one request: the namespace test needs a
// process inside.
const asProber = "LAZARET_TEST_AS_PROBER"

func TestMain(m *testing.M) {
	if os.Getenv(asProber) == "1" {
		if err := prober.Serve(os.Stdin, os.Stdout); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// resolver answers every datagram with what reply makes of it.
func resolver(t *testing.T, reply func([]byte) []byte) netip.AddrPort {
	t.Helper()
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 512)
		for {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			if r := reply(b[:n]); r != nil {
				_, _ = c.WriteTo(r, from)
			}
		}
	}()
	t.Cleanup(func() {
		_ = c.Close()
		<-done
	})
	return netip.MustParseAddrPort(c.LocalAddr().String())
}

func TestDNS(t *testing.T) {
	lost := 0
	for name, tc := range map[string]struct {
		reply   func([]byte) []byte
		timeout int
		ok      bool
	}{
		// A resolver that refuses has been reached.
		"refused":    {func(q []byte) []byte { q[2] |= 0x80; q[3] = 5; return q }, 2000, true},
		"first lost": {func(q []byte) []byte { lost++; q[2] |= 0x80; return map[bool][]byte{false: nil, true: q}[lost > 1] }, 900, true},
		"silent":     {func([]byte) []byte { return nil }, 50, false},
		"echo":       {func(q []byte) []byte { return q }, 50, false},
		"other id":   {func(q []byte) []byte { q[0] ^= 1; q[2] |= 0x80; return q }, 50, false},
		"short":      {func(q []byte) []byte { return q[:5] }, 50, false},
	} {
		t.Run(name, func(t *testing.T) {
			res := prober.Run(&probe.Request{DNS: resolver(t, tc.reply), TimeoutMS: tc.timeout})
			if res.DNSOK != tc.ok || (res.DNSErr == "") != tc.ok {
				t.Errorf("%+v", res)
			}
		})
	}
	if res := prober.Run(&probe.Request{}); res.DNSOK {
		t.Error("a resolver that nobody asked for is fine")
	}
}

// Everything that answers on loopback is reached: a listener and a refusal.
func TestReached(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // the test is over
	open := netip.MustParseAddrPort(l.Addr().String())
	refused := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.9"), 1)
	echo := resolver(t, func(q []byte) []byte { return q })
	res := prober.Run(&probe.Request{Denied: []netip.AddrPort{open, refused, echo}})
	for i, f := range res.Denied {
		if f.Verdict != probe.Reached || f.Detail == "" {
			t.Errorf("%d: %+v", i, f)
		}
	}
}

// In a namespace with a deny route and one way out: the denied address is
// closed, and where the deny is missing nothing is sent at all (FR-20).
func TestInNamespace(t *testing.T) {
	testgate.Need(t, testgate.UserNS)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	req, err := json.Marshal(probe.Request{Denied: []netip.AddrPort{
		netip.MustParseAddrPort("10.0.0.1:9"),     // denied
		netip.MustParseAddrPort("198.51.100.1:9"), // its deny is missing
		netip.MustParseAddrPort("172.16.0.1:9"),   // no route at all
	}})
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("unshare", "--user", "--map-root-user", "--net", "sh", "-euc", `
		ip link set lo up
		ip link add out type veth peer name far
		ip link set far up
		echo 1 | tee /proc/sys/net/ipv6/conf/out/disable_ipv6 >/proc/sys/net/ipv6/conf/far/disable_ipv6
		ip addr add 192.0.2.1/24 dev out
		ip link set out up arp off
		ip route add 198.51.100.0/24 via 192.0.2.2 dev out
		ip route add 10.0.0.0/8 via 127.0.0.1 dev lo src 127.0.0.1 # netstack picks this source itself
		"$0"
		awk '$1 == "out:" { print "sent", $11 }' /proc/net/dev >&2`, self)
	c.Env = append(os.Environ(), asProber+"=1", "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	c.Stdin = bytes.NewReader(req)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	start := time.Now()
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("took %s", d)
	}
	res, err := probe.DecodeResult(bytes.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	var got []probe.Verdict
	for _, f := range res.Denied {
		got = append(got, f.Verdict)
	}
	if len(got) != 3 || got[0] != probe.Closed || got[1] != probe.RouteOpen || got[2] != probe.Closed {
		t.Errorf("got %+v", res.Denied)
	}
	if strings.TrimSpace(stderr.String()) != "sent 0" {
		t.Errorf("packets left: %q", stderr.String())
	}
}
