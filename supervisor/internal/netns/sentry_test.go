package netns_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/netns"
)

// wire is what slirp4netns and the sandbox's kernel have of the pair: the tap,
// and a packet socket in the inner namespace.
type wire struct {
	t       *testing.T
	tap     int
	sandbox int
	index   int // of the inner tap0
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// attach opens both ends. The calling thread is in the outer namespace.
func attach(t *testing.T, ns *netns.Pair) *wire {
	t.Helper()
	w := &wire{t: t}
	var err error
	if w.tap, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(w.tap) })
	req, err := unix.NewIfreq("tap0")
	if err != nil {
		t.Fatal(err)
	}
	req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(w.tap, unix.TUNSETIFF, req); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { // its thread stays inside, and ends
		runtime.LockOSThread()
		if err := unix.Setns(int(ns.Inner.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		i, err := net.InterfaceByName("tap0")
		if err != nil {
			done <- err
			return
		}
		w.index = i.Index
		w.sandbox, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_ALL)))
		if err == nil {
			err = unix.Bind(w.sandbox, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: i.Index})
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(w.sandbox) })
	return w
}

// send sends a frame from the sandbox.
func (w *wire) send(frame []byte) {
	w.t.Helper()
	if err := unix.Sendto(w.sandbox, frame, 0, &unix.SockaddrLinklayer{Ifindex: w.index}); err != nil {
		w.t.Fatal(err)
	}
}

// read returns the frames that arrive at fd until one holds the text, and for a
// moment after it.
func (w *wire) read(fd int, until string) (out [][]byte) {
	w.t.Helper()
	deadline, seen := time.Now().Add(5*time.Second), false
	for {
		b := make([]byte, 65536)
		n, from, err := unix.Recvfrom(fd, b, 0)
		if fd == w.tap {
			n, err = unix.Read(fd, b)
		}
		switch {
		case err == nil:
			if l, ok := from.(*unix.SockaddrLinklayer); ok && l.Pkttype == unix.PACKET_OUTGOING {
				continue // the sandbox's own
			}
			out = append(out, b[:n])
			if strings.Contains(string(b[:n]), until) {
				seen, deadline = true, time.Now().Add(20*time.Millisecond)
			}
		case time.Now().After(deadline):
			if !seen {
				w.t.Fatalf("%q did not arrive", until)
			}
			return out
		default:
			time.Sleep(time.Millisecond)
		}
	}
}

var (
	upMAC      = []byte{0x02, 'l', 'z', 'u', 'p', 0}
	sandboxMAC = []byte{0x02, 'l', 'z', 's', 'b', 0}
	everybody  = []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
)

func ethernet(dst, src []byte, kind uint16, payload ...[]byte) []byte {
	out := binary.BigEndian.AppendUint16(append(append([]byte{}, dst...), src...), kind)
	for _, p := range payload {
		out = append(out, p...)
	}
	return out
}

// packet is an IPv4 packet; zero values are the usual ones.
type packet struct {
	src, dst string
	options  []byte
	fragment uint16
	ttl      byte
	payload  string
}

func (p packet) bytes() []byte {
	if p.ttl == 0 {
		p.ttl = 64
	}
	src, dst := netip.MustParseAddr(p.src).As4(), netip.MustParseAddr(p.dst).As4()
	size := 20 + len(p.options)
	h := []byte{0x40 | byte(size/4), 0, 0, 0, 0, 1, 0, 0, p.ttl, 17, 0, 0}
	h = append(append(append(h, src[:]...), dst[:]...), p.options...)
	binary.BigEndian.PutUint16(h[2:], uint16(size+8+len(p.payload)))
	binary.BigEndian.PutUint16(h[6:], p.fragment)
	sum := uint32(0)
	for i := 0; i < len(h); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(h[i:]))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(h[10:], ^uint16(sum))
	udp := []byte{0x10, 0, 0, 9, 0, 0, 0, 0}
	binary.BigEndian.PutUint16(udp[4:], uint16(8+len(p.payload)))
	return append(append(h, udp...), p.payload...)
}

func arp(op uint16, sha []byte, spa string, tha []byte, tpa string) []byte {
	s, t := netip.MustParseAddr(spa).As4(), netip.MustParseAddr(tpa).As4()
	b := []byte{0, 1, 8, 0, 6, 4, byte(op >> 8), byte(op)}
	return append(append(append(append(b, sha...), s[:]...), tha...), t[:]...)
}

// looped returns how many packets went through lo.
func looped(t *testing.T) (n uint64) {
	t.Helper()
	b, err := os.ReadFile("/proc/thread-self/net/dev")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if name, rest, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && name == "lo" {
			if _, err := fmt.Sscan(strings.Fields(rest)[1], &n); err != nil {
				t.Fatal(err)
			}
		}
	}
	return n
}

// What reaches slirp4netns when the sandbox sends whatever it wants: a sentry
// that is no longer itself still has only its end of the link. SR-6.
func TestWhateverTheSandboxSends(t *testing.T) {
	if !inside(t) {
		return
	}
	p := policy()
	ns := pair(t, p, netns.NoFault)
	w := attach(t, ns)
	const own, public = "10.0.2.100", "203.0.113.5"
	ip := func(p packet) []byte { return ethernet(upMAC, sandboxMAC, 0x0800, p.bytes()) }

	// Destinations that are denied: dropped on lo, once each.
	forwarded := []string{"10.1.1.2", "10.0.2.2", "10.0.2.1", "10.0.2.50", "10.0.2.255", "172.16.5.5", "192.168.1.1", "169.254.169.254"}
	before := looped(t)
	for _, dst := range forwarded {
		w.send(ip(packet{src: own, dst: dst, payload: "denied"}))
	}
	w.send(ip(packet{src: own, dst: public, payload: "allowed 1"}))
	for _, f := range w.read(w.tap, "allowed 1") {
		if !strings.Contains(string(f), "allowed") {
			t.Errorf("left the sandbox: %x", f)
		}
	}
	if got, want := looped(t)-before, uint64(len(forwarded)); got != want {
		t.Errorf("%d packets went through lo, want %d: each once", got, want)
	}

	// Everything else that is not a plain packet of the sandbox's to somewhere
	// allowed.
	lsrr := append([]byte{0x83, 7, 4}, 10, 1, 1, 2, 1)
	v6 := append([]byte{0x60, 0, 0, 0, 0, 8, 17, 64}, make([]byte, 40)...)
	copy(v6[8:], []byte{0xfe, 0x80, 15: 1})
	copy(v6[24:], []byte{0xff, 0x02, 15: 1})
	for name, frame := range map[string][]byte{
		"loopback":              ip(packet{src: own, dst: "127.0.0.1", payload: "no"}),
		"this host":             ip(packet{src: own, dst: "0.0.0.0", payload: "no"}),
		"multicast":             ip(packet{src: own, dst: "224.0.0.1", payload: "no"}),
		"multicast group":       ethernet([]byte{1, 0, 0x5e, 0, 0, 0xfb}, sandboxMAC, 0x0800, packet{src: own, dst: "224.0.0.251", payload: "no"}.bytes()),
		"broadcast":             ethernet(everybody, sandboxMAC, 0x0800, packet{src: own, dst: "255.255.255.255", payload: "no"}.bytes()),
		"itself":                ip(packet{src: own, dst: own, payload: "no"}),
		"as the gateway":        ip(packet{src: "10.0.2.2", dst: public, payload: "no"}),
		"as the resolver":       ip(packet{src: "10.0.2.3", dst: public, payload: "no"}),
		"as a neighbour":        ip(packet{src: "10.0.2.101", dst: public, payload: "no"}),
		"as somebody":           ip(packet{src: "198.18.0.1", dst: public, payload: "no"}),
		"as the destination":    ip(packet{src: public, dst: public, payload: "no"}),
		"as loopback":           ip(packet{src: "127.0.0.1", dst: public, payload: "no"}),
		"as nobody":             ip(packet{src: "0.0.0.0", dst: public, payload: "no"}),
		"as everybody":          ip(packet{src: "255.255.255.255", dst: public, payload: "no"}),
		"source route":          ip(packet{src: own, dst: public, options: lsrr, payload: "no"}),
		"fragment":              ip(packet{src: own, dst: "10.1.1.2", fragment: 0x2000, payload: "no"}),
		"later fragment":        ip(packet{src: own, dst: "10.1.1.2", fragment: 8, payload: "no"}),
		"last hop":              ip(packet{src: own, dst: public, ttl: 1, payload: "no"}),
		"priority tag":          ethernet(upMAC, sandboxMAC, 0x8100, []byte{0, 0, 8, 0}, packet{src: own, dst: "10.1.1.2", payload: "no"}.bytes()),
		"vlan":                  ethernet(upMAC, sandboxMAC, 0x8100, []byte{0, 7, 8, 0}, packet{src: own, dst: public, payload: "no"}.bytes()),
		"to nobody's address":   ethernet([]byte{2, 0, 0, 0, 0, 9}, sandboxMAC, 0x0800, packet{src: own, dst: public, payload: "no"}.bytes()),
		"to everybody":          ethernet(everybody, sandboxMAC, 0x0800, packet{src: own, dst: public, payload: "no"}.bytes()),
		"arp for the gateway":   ethernet(everybody, sandboxMAC, 0x0806, arp(1, sandboxMAC, own, make([]byte, 6), "10.0.2.2")),
		"arp for itself":        ethernet(everybody, sandboxMAC, 0x0806, arp(1, sandboxMAC, own, make([]byte, 6), own)),
		"arp as the gateway":    ethernet(upMAC, sandboxMAC, 0x0806, arp(2, sandboxMAC, "10.0.2.2", upMAC, own)),
		"arp as the resolver":   ethernet(everybody, sandboxMAC, 0x0806, arp(2, sandboxMAC, "10.0.2.3", everybody, "10.0.2.3")),
		"ipv6 to all":           ethernet([]byte{0x33, 0x33, 0, 0, 0, 1}, sandboxMAC, 0x86dd, v6),
		"spanning tree":         ethernet([]byte{1, 0x80, 0xc2, 0, 0, 0}, sandboxMAC, 38, make([]byte, 38)),
		"a pause of the link":   ethernet([]byte{1, 0x80, 0xc2, 0, 0, 1}, sandboxMAC, 0x8808, make([]byte, 46)),
		"nothing that is known": ethernet(upMAC, sandboxMAC, 0x88b5, []byte("no")),
	} {
		w.send(frame)
		w.send(ip(packet{src: own, dst: public, payload: "allowed 2"}))
		for _, f := range w.read(w.tap, "allowed 2") {
			if !strings.Contains(string(f), "allowed") {
				t.Errorf("%s left the sandbox: %x", name, f)
			}
		}
	}
	// And nobody answered, but for the hop limit's end; what it sent to itself
	// came back.
	for _, answer := range w.drain(w.sandbox) {
		const icmp, timeExceeded = 1, 11
		if ip := answer[14:]; ip[9] != icmp || ip[20] != timeExceeded {
			if !strings.Contains(string(answer), string(packet{src: own, dst: own, payload: "no"}.bytes()[12:])) {
				t.Errorf("an answer: %x", answer)
			}
		}
	}
	if _, err := netns.Observe(p, ns.Inner); err != nil {
		t.Errorf("afterwards: %v", err)
	}

	// Exceptions hold, from the first byte to the last.
	w.send(ip(packet{src: own, dst: "10.1.1.1", payload: "exception"}))
	w.send(ip(packet{src: own, dst: "10.0.2.3", fragment: 8, payload: "question"}))
	w.read(w.tap, "question")
}

// drain returns what has arrived.
func (w *wire) drain(fd int) (out [][]byte) {
	for {
		b := make([]byte, 65536)
		n, from, err := unix.Recvfrom(fd, b, 0)
		if err != nil {
			return out
		}
		if l, ok := from.(*unix.SockaddrLinklayer); ok && l.Pkttype != unix.PACKET_OUTGOING {
			out = append(out, b[:n])
		}
	}
}

// What slirp4netns sends reaches the sandbox; it finds the sandbox at once, and
// nobody else.
func TestWhatSlirpSends(t *testing.T) {
	if !inside(t) {
		return
	}
	ns := pair(t, policy(), netns.NoFault)
	w := attach(t, ns)
	slirp := []byte{0x52, 0x55, 10, 0, 2, 2}
	tapMAC, err := net.InterfaceByName("tap0")
	if err != nil {
		t.Fatal(err)
	}
	write := func(frame []byte) {
		t.Helper()
		if _, err := unix.Write(w.tap, frame); err != nil {
			t.Fatal(err)
		}
	}
	for _, who := range []string{"10.0.2.1", "10.0.2.50", "10.1.1.1", "203.0.113.5"} {
		write(ethernet(everybody, slirp, 0x0806, arp(1, slirp, "10.0.2.2", make([]byte, 6), who)))
	}
	asked := time.Now()
	write(ethernet(everybody, slirp, 0x0806, arp(1, slirp, "10.0.2.2", make([]byte, 6), "10.0.2.100")))
	answers := w.read(w.tap, string([]byte{10, 0, 2, 100}))
	if d := time.Since(asked); d > 500*time.Millisecond {
		t.Errorf("the answer took %s", d)
	}
	if len(answers) != 1 || string(answers[0]) != string(ethernet(slirp, tapMAC.HardwareAddr, 0x0806, arp(2, tapMAC.HardwareAddr, "10.0.2.100", slirp, "10.0.2.2"))) {
		t.Errorf("answers %x", answers)
	}
	write(ethernet(tapMAC.HardwareAddr, slirp, 0x0800, packet{src: "203.0.113.5", dst: "10.0.2.100", payload: "answer"}.bytes()))
	got := w.read(w.sandbox, "answer")
	if len(got) != 1 || string(got[0][:12]) != string(sandboxMAC)+string(upMAC) {
		t.Errorf("got %x", got)
	}
}
