// Package netns makes the pair of network namespaces that enforces a derived
// network policy, and attests it.
//
//	host's   slirp4netns: sockets
//	───────────┬──────────────────────────────────────────────────────────────
//	outer    tap0 (uplink address)    denied prefixes → lo, the rest → gateway
//	         up0                      forwards; the supervisor runs here
//	───────────┬──────────────────────────────────────────────────────────────
//	inner    tap0 = up0's peer        the sandbox's address, the same routes;
//	                                  runsc moves both into the sandbox's kernel
//
// Two, since routes in the namespace that runsc reads are no boundary: the
// sandbox's kernel goes by the address or interface that a socket is bound to
// and passes a loopback route by. The outer namespace's kernel forwards by
// destination alone. What it forwards to lo comes back with a source that does
// not belong there and is dropped. The inner routes make a denied connection
// fail without leaving the sandbox, and are what its prober sees.
//
// The package installs exactly the policy, observes what the kernel really
// holds, and decides nothing. It is the only one that speaks rtnetlink. It
// runs in the Runtime Supervisor: Create before the supervisor enters the
// outer namespace, Observe and DropRoute inside it.
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

// upName is the outer end of the link to the sandbox. Its inner end has the
// tap's name, so that one policy describes both namespaces.
const upName = "up0"

// Pair is the two namespaces. The descriptors are close-on-exec and keep them
// alive.
type Pair struct {
	Outer, Inner *os.File
}

// Close closes both descriptors.
func (p *Pair) Close() { _ = errors.Join(p.Outer.Close(), p.Inner.Close()) }

// Create makes the pair with the policy installed. skip is the index of a deny
// route that a fault leaves out, or -1. The caller owns the pair.
//
// The work is done on a thread of its own, which ends with the call: the
// caller's thread never leaves its namespace.
func Create(p *netpolicy.Policy, skip int) (*Pair, error) {
	var pair *Pair
	err := onThread(func() (err error) {
		pair, err = create(p, skip)
		return err
	})
	return pair, err
}

// onThread runs f on a thread that ends with it, so that f may change the
// thread's namespaces. The calling goroutine must be locked to its own thread,
// lest that one be taken.
func onThread(f func() error) error {
	c := make(chan error)
	go func() {
		// Never unlocked: the runtime ends the thread with the goroutine.
		runtime.LockOSThread()
		c <- f()
	}()
	return <-c
}

// create makes the pair on the calling thread and leaves it in the outer
// namespace.
//
// Order: everything inner and every deny route comes before the outer tap's
// routes, and forwarding is switched on last, so that at no moment a denied
// destination has another route. slirp4netns attaches after all of this.
// TestMissingDenyRoute is the test to run when touching it.
func create(p *netpolicy.Policy, skip int) (_ *Pair, err error) {
	outer, err := newNamespace()
	if err != nil {
		return nil, err
	}
	inner, err := newNamespace()
	if err != nil {
		_ = outer.Close()
		return nil, err
	}
	pair := &Pair{Outer: outer, Inner: inner}
	defer func() {
		if err != nil {
			pair.Close()
		}
	}()
	// This thread is in the inner one. A handle stays in the namespace in which
	// it was opened; /proc/sys and the tap follow the thread.
	ih, err := openLinks()
	if err != nil {
		return nil, err
	}
	defer ih.Close()
	if err := set(innerSettings); err != nil {
		return nil, err
	}
	if err := unix.Setns(int(outer.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, os.NewSyscallError("setns", err)
	}
	oh, err := openLinks()
	if err != nil {
		return nil, err
	}
	defer oh.Close()
	if err := set(outerSettings); err != nil {
		return nil, err
	}
	if err := oh.link(inner, p); err != nil {
		return nil, err
	}
	if err := ih.install(p, skip, p.Address); err != nil {
		return nil, fmt.Errorf("inner namespace: %w", err)
	}
	if err := persistentTap(netpolicy.TapName); err != nil {
		return nil, fmt.Errorf("make %s: %w", netpolicy.TapName, err)
	}
	if err := oh.install(p, skip, p.Uplink()); err != nil {
		return nil, fmt.Errorf("outer namespace: %w", err)
	}
	if err := oh.hostRoute(p); err != nil {
		return nil, err
	}
	if err := set(uplinkSettings); err != nil {
		return nil, err
	}
	return pair, set(forwardSettings)
}

// newNamespace moves the calling thread into a new network namespace.
func newNamespace() (*os.File, error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, os.NewSyscallError("unshare CLONE_NEWNET", err)
	}
	return os.Open("/proc/thread-self/ns/net")
}

// links is an rtnetlink handle of one namespace.
type links struct{ *netlink.Handle }

func openLinks() (*links, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open rtnetlink: %w", err)
	}
	return &links{h}, nil
}

// link makes the link between the namespaces, h's being the outer one.
func (h *links) link(inner *os.File, p *netpolicy.Policy) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = upName, p.MTU
	err := h.LinkAdd(&netlink.Veth{
		LinkAttrs: attrs, PeerName: netpolicy.TapName, PeerMTU: uint32(p.MTU), PeerNamespace: netlink.NsFd(inner.Fd()),
	})
	if errors.Is(err, unix.EOPNOTSUPP) {
		return &VethError{err}
	}
	if err != nil {
		return fmt.Errorf("make %s: %w", upName, err)
	}
	return nil
}

// VethError reports a kernel without virtual Ethernet devices.
type VethError struct{ Err error }

func (e *VethError) Error() string {
	return "this kernel has no virtual Ethernet devices (veth): " + e.Err.Error()
}

func (e *VethError) Unwrap() error { return e.Err }

// Hint says how to get them.
func (e *VethError) Hint() string { return "load the module once: sudo modprobe veth" }

// install brings one namespace up: loopback and the deny routes, which need
// nothing else, and only then the tap with its address and what leads out.
func (h *links) install(p *netpolicy.Policy, skip int, addr netip.Prefix) error {
	lo, err := h.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find lo: %w", err)
	}
	if err := h.LinkSetUp(lo); err != nil {
		return fmt.Errorf("bring up lo: %w", err)
	}
	routes := p.Routes()
	n := 0
	for ; n < len(routes) && routes[n].Dev == "lo"; n++ {
		if n == skip {
			continue
		}
		if err := h.addRoute(lo, routes[n]); err != nil {
			return err
		}
	}
	tap, err := h.LinkByName(netpolicy.TapName)
	if err != nil {
		return fmt.Errorf("find %s: %w", netpolicy.TapName, err)
	}
	if err := h.LinkSetMTU(tap, p.MTU); err != nil {
		return fmt.Errorf("set mtu %d of %s: %w", p.MTU, netpolicy.TapName, err)
	}
	if err := h.AddrAdd(tap, &netlink.Addr{IPNet: ipNet(addr)}); err != nil {
		return fmt.Errorf("add address %s to %s: %w", addr, netpolicy.TapName, err)
	}
	if err := h.LinkSetUp(tap); err != nil {
		return fmt.Errorf("bring up %s: %w", netpolicy.TapName, err)
	}
	for _, r := range routes[n:] {
		if err := h.addRoute(tap, r); err != nil {
			return err
		}
	}
	return nil
}

// addRoute adds one route of the policy.
func (h *links) addRoute(dev netlink.Link, r netpolicy.Route) error {
	nr := &netlink.Route{LinkIndex: dev.Attrs().Index, Dst: ipNet(r.Dst), Gw: r.Via.AsSlice()}
	if r.Dev != "lo" {
		// On-link: the kernel need not find a route to the gateway first. Without
		// it, denying the gateway's own address would forbid the routes through
		// it.
		nr.Flags = int(netlink.FLAG_ONLINK)
	}
	if err := h.RouteAdd(nr); err != nil {
		return fmt.Errorf("add route %s via %s dev %s: %w", r.Dst, r.Via, r.Dev, err)
	}
	return nil
}

// hostRoute leads the sandbox's address to the sandbox.
func (h *links) hostRoute(p *netpolicy.Policy) error {
	up, err := h.LinkByName(upName)
	if err != nil {
		return fmt.Errorf("find %s: %w", upName, err)
	}
	if err := h.LinkSetUp(up); err != nil {
		return fmt.Errorf("bring up %s: %w", upName, err)
	}
	dst := sandboxRoute(p)
	if err := h.RouteAdd(&netlink.Route{LinkIndex: up.Attrs().Index, Dst: ipNet(dst), Scope: netlink.SCOPE_LINK}); err != nil {
		return fmt.Errorf("add route %s dev %s: %w", dst, upName, err)
	}
	return nil
}

func sandboxRoute(p *netpolicy.Policy) netip.Prefix {
	return netip.PrefixFrom(p.Address.Addr(), p.Address.Addr().BitLen())
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

// DropRoute removes the policy's n-th route from both namespaces, the calling
// thread's being the outer one. Only a fault point calls it.
func DropRoute(p *netpolicy.Policy, inner *os.File, n int) error {
	drop := func() error {
		r := p.Routes()[n]
		l, err := netlink.LinkByName(r.Dev)
		if err != nil {
			return err
		}
		return netlink.RouteDel(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: ipNet(r.Dst), Gw: r.Via.AsSlice()})
	}
	return errors.Join(drop(), within(inner, drop))
}

// within runs f in another network namespace, on a thread that ends with it.
func within(ns *os.File, f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return os.NewSyscallError("setns", err)
		}
		return f()
	})
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
