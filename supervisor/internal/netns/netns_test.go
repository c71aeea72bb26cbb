package netns_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/netpolicy"
	"lazaret.dev/lazaret/protocol/testgate"
	"lazaret.dev/lazaret/supervisor/internal/netns"
)

func policy() *netpolicy.Policy {
	p := &netpolicy.Policy{
		Address: netip.MustParsePrefix("10.0.2.100/24"),
		Gateway: netip.MustParseAddr("10.0.2.2"),
		DNS:     netip.MustParseAddr("10.0.2.3"),
		MTU:     65520,
	}
	for _, r := range []struct {
		prefix string
		action netpolicy.Action
	}{
		{"10.0.0.0/8", netpolicy.Deny},
		{"10.0.2.2/32", netpolicy.Deny},
		{"10.1.1.1/32", netpolicy.Allow},
		{"169.254.0.0/16", netpolicy.Deny},
		{"172.16.0.0/12", netpolicy.Deny},
		{"192.168.0.0/16", netpolicy.Deny},
	} {
		p.Rules = append(p.Rules, netpolicy.Rule{Prefix: netip.MustParsePrefix(r.prefix), Action: r.action})
	}
	return p
}

// insideEnv names the test that runs in the namespaces that inside makes.
const insideEnv = "LAZARET_TEST_INSIDE"

// inside runs the calling test again, alone, as uid 0 in new user and network
// namespaces, and tells whether this is that run.
func inside(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideEnv) == t.Name() {
		return true
	}
	testgate.Need(t, testgate.UserNS, testgate.Tun)
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), insideEnv+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("in the namespace: %v\n%s", err, out)
	}
	return false
}

// pair makes the pair and moves the calling goroutine's thread into the outer
// namespace, for good.
func pair(t *testing.T, p *netpolicy.Policy, f netns.Fault) *netns.Pair {
	t.Helper()
	runtime.LockOSThread()
	ns, err := netns.Create(p, f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ns.Close)
	if err := unix.Setns(int(ns.Outer.Fd()), unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	return ns
}

// What is installed is what is observed. SR-6.
func TestCreateObserve(t *testing.T) {
	if !inside(t) {
		return
	}
	p := policy()
	ns := pair(t, p, netns.NoFault)
	id, err := netns.Observe(p, ns.Inner)
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(ns.Outer.Fd()), &st); err != nil || st.Ino != id.Ino || st.Dev != id.Dev {
		t.Errorf("identity %+v, want %d:%d (%v)", id, st.Dev, st.Ino, err)
	}
	// What the kernel would do with the sandbox's packets, whatever they are
	// bound to inside.
	for addr, dev := range map[string]string{
		"10.1.1.2": "lo", "10.1.1.1": "tap0", "10.0.2.2": "lo", "10.0.2.3": "tap0",
		"192.168.1.1": "lo", "203.0.113.5": "tap0", "172.32.0.1": "tap0",
	} {
		routes, err := netlink.RouteGetWithOptions(net.ParseIP(addr), &netlink.RouteGetOptions{Iif: "up0", SrcAddr: net.ParseIP("10.0.2.100")})
		if err != nil || len(routes) != 1 {
			t.Fatalf("%s: %v, %v", addr, routes, err)
		}
		l, err := netlink.LinkByIndex(routes[0].LinkIndex)
		if err != nil || l.Attrs().Name != dev {
			t.Errorf("%s goes to %v, want %s (%v)", addr, l, dev, err)
		}
	}
}

// A deny route that is missing in one of the namespaces fails the attestation
// and is named, whichever it is. Issue 2, must show 5.
func TestMissingDenyRoute(t *testing.T) {
	if !inside(t) {
		return
	}
	p := policy()
	for n, r := range p.Routes() {
		if r.Dev != "lo" {
			if n != 5 {
				t.Fatalf("%d deny routes", n)
			}
			break
		}
		for name, f := range map[string]netns.Fault{"outer": {Outer: n, Inner: -1}, "inner": {Outer: -1, Inner: n}} {
			ns := pair(t, p, f)
			_, err := netns.Observe(p, ns.Inner)
			var m *netns.MismatchError
			want := fmt.Sprintf("route %s via 127.0.0.1 dev lo", r.Dst)
			if !errors.As(err, &m) || m.Namespace != name || len(m.Missing) != 1 || m.Missing[0] != want || len(m.Extra) != 0 {
				t.Errorf("deny %d, %s: %v, want %s missing", n, name, err, want)
			}
		}
	}
}

// A deny route that goes later is noticed as well, in either namespace.
func TestDropRoute(t *testing.T) {
	if !inside(t) {
		return
	}
	p := policy()
	for name, f := range map[string]netns.Fault{"outer": {Outer: 0, Inner: -1}, "inner": {Outer: -1, Inner: 0}} {
		ns := pair(t, p, netns.NoFault)
		if err := netns.DropRoute(p, ns.Inner, f); err != nil {
			t.Fatal(err)
		}
		var m *netns.MismatchError
		if _, err := netns.Observe(p, ns.Inner); !errors.As(err, &m) || m.Namespace != name {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whatever else changes the namespace is noticed too.
func TestObserveDifferences(t *testing.T) {
	if !inside(t) {
		return
	}
	p := policy()
	ns := pair(t, p, netns.NoFault)
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	tap, err := netlink.LinkByName("tap0")
	if err != nil {
		t.Fatal(err)
	}
	_, leak, _ := net.ParseCIDR("192.168.1.0/24")
	_, denied, _ := net.ParseCIDR("172.16.0.0/12")
	extra := &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(10, 9, 9, 9), Mask: net.CIDRMask(32, 32)}}
	leakRoute := &netlink.Route{LinkIndex: tap.Attrs().Index, Dst: leak, Gw: net.IPv4(10, 0, 2, 2), Flags: int(netlink.FLAG_ONLINK)}
	elsewhere := &netlink.Route{LinkIndex: tap.Attrs().Index, Gw: net.IPv4(10, 0, 2, 2), Flags: int(netlink.FLAG_ONLINK), Table: 77}
	neigh := &netlink.Neigh{LinkIndex: tap.Attrs().Index, Family: unix.AF_INET, IP: net.IPv4(10, 0, 2, 9), State: unix.NUD_PERMANENT, HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 9}}
	nobody := &netlink.Neigh{LinkIndex: lo.Attrs().Index, Family: unix.AF_INET, IP: net.IPv4zero, State: unix.NUD_PERMANENT, HardwareAddr: net.HardwareAddr{2, 'l', 'z', 'n', 'o', 0}}
	proxied := &netlink.Neigh{LinkIndex: tap.Attrs().Index, Family: unix.AF_INET, IP: net.IPv4(10, 0, 2, 9), Flags: unix.NTF_PROXY}
	unreachable := &netlink.Route{Dst: denied, Type: unix.RTN_UNREACHABLE}
	viaLo := &netlink.Route{LinkIndex: lo.Attrs().Index, Dst: denied, Gw: net.IPv4(127, 0, 0, 1)}
	sysctl := func(name, value string) func() error {
		return func() error { return os.WriteFile("/proc/sys/net/ipv4/"+name, []byte(value), 0) }
	}
	for _, tc := range []struct {
		name     string
		do, undo func() error
		text     string
	}{
		{"a longer route out", func() error { return netlink.RouteAdd(leakRoute) }, func() error { return netlink.RouteDel(leakRoute) }, "route 192.168.1.0/24 via 10.0.2.2 dev tap0"},
		{"a further address", func() error { return netlink.AddrAdd(lo, extra) }, func() error { return netlink.AddrDel(lo, extra) }, "10.9.9.9/32"},
		{"another mtu", func() error { return netlink.LinkSetMTU(tap, 1500) }, func() error { return netlink.LinkSetMTU(tap, 65520) }, "mtu 1500"},
		// runsc ignores such a route, and its prefix is then open.
		{
			"unreachable instead of loopback", func() error { return errors.Join(netlink.RouteDel(viaLo), netlink.RouteAdd(unreachable)) },
			func() error { return errors.Join(netlink.RouteDel(unreachable), netlink.RouteAdd(viaLo)) }, "type 7",
		},
		{"another table", func() error { return netlink.RouteAdd(elsewhere) }, func() error { return netlink.RouteDel(elsewhere) }, "table 77"},
		{"loopback leads to loopback", func() error { return netlink.NeighDel(nobody) }, func() error { return netlink.NeighSet(nobody) }, "neighbour 0.0.0.0"},
		{"no check of sources of the sandbox", sysctl("conf/up0/rp_filter", "0"), sysctl("conf/up0/rp_filter", "1"), "setting ipv4/conf/up0/rp_filter 0"},
		{"lo forwards", sysctl("conf/lo/forwarding", "1"), sysctl("conf/lo/forwarding", "0"), "setting ipv4/conf/lo/forwarding 1"},
		{"no forwarding", sysctl("conf/up0/forwarding", "0"), sysctl("conf/up0/forwarding", "1"), "setting ipv4/conf/up0/forwarding 0"},
		{"a neighbour", func() error { return netlink.NeighSet(neigh) }, func() error { return netlink.NeighDel(neigh) }, "neighbour 10.0.2.9"},
		{"a proxied neighbour", func() error { return netlink.NeighAdd(proxied) }, func() error { return netlink.NeighDel(proxied) }, "neighbour proxy 10.0.2.9"},
	} {
		if err := tc.do(); err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		_, err := netns.Observe(p, ns.Inner)
		if err == nil || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s: %v, want …%s…", tc.name, err, tc.text)
		}
		if err := tc.undo(); err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if _, err := netns.Observe(p, ns.Inner); err != nil {
			t.Fatalf("after %s: %v", tc.name, err)
		}
	}
	if err := netlink.LinkSetDown(tap); err != nil {
		t.Fatal(err)
	}
	if _, err := netns.Observe(p, ns.Inner); err == nil {
		t.Error("a tap that is down was not noticed")
	}
}

// What the kernel would do with a packet is asked, not only what it was told.
func TestLookUp(t *testing.T) {
	if !inside(t) {
		return
	}
	p := policy()
	pair(t, p, netns.NoFault)
	tap, err := netlink.LinkByName("tap0")
	if err != nil {
		t.Fatal(err)
	}
	out := &netlink.Route{LinkIndex: tap.Attrs().Index, Gw: net.IPv4(10, 0, 2, 2), Flags: int(netlink.FLAG_ONLINK), Table: 77}
	if err := netlink.RouteAdd(out); err != nil {
		t.Fatal(err)
	}
	rule := netlink.NewRule()
	rule.Table, rule.Priority, rule.IifName = 77, 100, "up0"
	sysctl := func(name, value string) error {
		return os.WriteFile("/proc/sys/net/ipv4/conf/"+name, []byte(value), 0)
	}
	for _, tc := range []struct {
		name     string
		do, undo func() error
		text     string
	}{
		{"a policy rule", func() error { return netlink.RuleAdd(rule) }, func() error { return netlink.RuleDel(rule) }, "deny of 172.16.0.0/12: packets for 172.16.0.1 leave by tap0"},
		{"any source", func() error { return sysctl("up0/rp_filter", "0") }, func() error { return sysctl("up0/rp_filter", "1") }, "check of sources: packets of 10.0.2.101"},
		{"no way out", func() error { return netlink.LinkSetDown(tap) }, func() error { return nil }, "way to 10.0.2.3/32"},
	} {
		if err := netns.LookUp(p); err != nil {
			t.Fatalf("before %s: %v", tc.name, err)
		}
		if err := tc.do(); err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if err := netns.LookUp(p); err == nil || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s: %v, want …%s…", tc.name, err, tc.text)
		}
		if err := tc.undo(); err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
	}
}

// IPv6 is off for every interface, also for one that comes later.
func TestNoIPv6(t *testing.T) {
	if !inside(t) {
		return
	}
	pair(t, policy(), netns.NoFault)
	if _, err := os.Stat("/proc/sys/net/ipv6"); err != nil {
		return // this kernel has none at all
	}
	time.Sleep(50 * time.Millisecond)
	addrs, err := netlink.AddrList(nil, netlink.FAMILY_V6)
	if err != nil || len(addrs) != 0 {
		t.Errorf("IPv6 addresses %v (%v)", addrs, err)
	}
	for _, i := range []string{"all", "default", "lo", "tap0", "up0"} {
		b, err := os.ReadFile("/proc/sys/net/ipv6/conf/" + i + "/disable_ipv6")
		if err != nil || strings.TrimSpace(string(b)) != "1" {
			t.Errorf("disable_ipv6 of %s is %q (%v)", i, b, err)
		}
	}
}

// Create leaves the caller where it was.
func TestCreateLeavesCaller(t *testing.T) {
	if !inside(t) {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, _ := os.Readlink("/proc/thread-self/ns/net")
	ns, err := netns.Create(policy(), netns.NoFault)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	after, _ := os.Readlink("/proc/thread-self/ns/net")
	var outer, inner unix.Stat_t
	if err := errors.Join(unix.Fstat(int(ns.Outer.Fd()), &outer), unix.Fstat(int(ns.Inner.Fd()), &inner)); err != nil {
		t.Fatal(err)
	}
	if before != after || before == fmt.Sprintf("net:[%d]", outer.Ino) || outer.Ino == inner.Ino {
		t.Errorf("caller in %s, then %s; made %d and %d", before, after, outer.Ino, inner.Ino)
	}
}
