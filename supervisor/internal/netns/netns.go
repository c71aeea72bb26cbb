// Package netns makes the enforcement network namespace and attests it: the
// tap device, the addresses and the routes of a derived network policy.
//
// It installs exactly the policy, observes what the kernel really holds, and
// decides nothing. It is the only package that speaks rtnetlink. It runs in
// the Runtime Supervisor; Create before the supervisor enters the namespace,
// Observe and DropRoute inside it.
package netns

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/netpolicy"
)

// Create makes a network namespace with the policy installed and returns a
// descriptor of it, close-on-exec, which the caller owns and which keeps it
// alive. skip is the index of a deny route that a fault leaves out, or -1.
//
// The work is done on a thread of its own, which ends with the call: the
// caller's thread never leaves its namespace.
func Create(p *netpolicy.Policy, skip int) (*os.File, error) {
	type result struct {
		ns  *os.File
		err error
	}
	c := make(chan result)
	go func() {
		// Never unlocked: the runtime ends the thread with the goroutine, so that
		// no other goroutine can come to run in the new namespace.
		runtime.LockOSThread()
		ns, err := create(p, skip)
		c <- result{ns, err}
	}()
	r := <-c
	return r.ns, r.err
}

func create(p *netpolicy.Policy, skip int) (*os.File, error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, os.NewSyscallError("unshare CLONE_NEWNET", err)
	}
	if err := Install(p, skip); err != nil {
		return nil, err
	}
	ns, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	return ns, nil
}

// Install installs the policy in the calling thread's network namespace, which
// must be new.
//
// Order: IPv6 goes first, before an interface could get a link-local address.
// Then loopback and the deny routes, which need nothing else. Only then the
// tap and what leads out of it, so that at no moment a denied destination has
// another route. slirp4netns attaches after all of this.
// TestMissingDenyRoute is the test to run when touching it.
func Install(p *netpolicy.Policy, skip int) error {
	for _, f := range ipv6Knobs {
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+f+"/disable_ipv6", []byte("1"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("disable ipv6: %w", err)
		}
	}
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open rtnetlink: %w", err)
	}
	defer h.Close()
	lo, err := h.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find lo: %w", err)
	}
	if err := h.LinkSetUp(lo); err != nil {
		return fmt.Errorf("bring up lo: %w", err)
	}
	index := map[string]int{"lo": lo.Attrs().Index}

	routes := p.Routes()
	n := 0
	for ; n < len(routes) && routes[n].Dev == "lo"; n++ {
		if n == skip {
			continue
		}
		if err := addRoute(h, index, routes[n]); err != nil {
			return err
		}
	}
	tap, err := addTap(h, p)
	if err != nil {
		return err
	}
	index[netpolicy.TapName] = tap.Attrs().Index
	for _, r := range routes[n:] {
		if err := addRoute(h, index, r); err != nil {
			return err
		}
	}
	return nil
}

// ipv6Knobs are the interfaces for which IPv6 is disabled: all that exist and
// all that come.
var ipv6Knobs = [...]string{"all", "default", "lo"}

// addTap makes the persistent tap device, to which slirp4netns attaches, and
// gives it the policy's address.
func addTap(h *netlink.Handle, p *netpolicy.Policy) (netlink.Link, error) {
	if err := persistentTap(netpolicy.TapName); err != nil {
		return nil, fmt.Errorf("make %s: %w", netpolicy.TapName, err)
	}
	tap, err := h.LinkByName(netpolicy.TapName)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", netpolicy.TapName, err)
	}
	if err := h.LinkSetMTU(tap, p.MTU); err != nil {
		return nil, fmt.Errorf("set mtu %d of %s: %w", p.MTU, netpolicy.TapName, err)
	}
	addr := &netlink.Addr{IPNet: ipNet(p.Address)}
	if err := h.AddrAdd(tap, addr); err != nil {
		return nil, fmt.Errorf("add address %s to %s: %w", p.Address, netpolicy.TapName, err)
	}
	if err := h.LinkSetUp(tap); err != nil {
		return nil, fmt.Errorf("bring up %s: %w", netpolicy.TapName, err)
	}
	return tap, nil
}

// persistentTap makes a tap device that outlives the descriptor it was made
// by. slirp4netns, started later, opens it by name.
func persistentTap(name string) error {
	f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	req, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	fd := int(f.Fd())
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		return os.NewSyscallError("ioctl TUNSETIFF", err)
	}
	if err := unix.IoctlSetInt(fd, unix.TUNSETPERSIST, 1); err != nil {
		return os.NewSyscallError("ioctl TUNSETPERSIST", err)
	}
	return nil
}

// addRoute adds one route.
func addRoute(h *netlink.Handle, index map[string]int, r netpolicy.Route) error {
	nr := &netlink.Route{
		LinkIndex: index[r.Dev],
		Dst:       ipNet(r.Dst),
		// On-link: the kernel need not find a route to the gateway first. Without
		// it, denying the gateway's own address would forbid the routes through
		// it.
		Flags: int(netlink.FLAG_ONLINK),
		Gw:    r.Via.AsSlice(),
	}
	if r.Dev == "lo" {
		nr.Flags = 0
	}
	if err := h.RouteAdd(nr); err != nil {
		return fmt.Errorf("add route %s via %s dev %s: %w", r.Dst, r.Via, r.Dev, err)
	}
	return nil
}

// DropRoute removes the policy's n-th route. Only a fault point calls it.
func DropRoute(p *netpolicy.Policy, n int) error {
	r := p.Routes()[n]
	l, err := netlink.LinkByName(r.Dev)
	if err != nil {
		return err
	}
	return netlink.RouteDel(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: ipNet(r.Dst), Gw: r.Via.AsSlice()})
}

// LoopbackUp brings up lo in the calling thread's network namespace.
func LoopbackUp() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
