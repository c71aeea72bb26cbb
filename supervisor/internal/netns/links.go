package netns

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/netpolicy"
	"lazaret.dev/lazaret/supervisor/internal/netns/internal/sysctl"
)

// links is an rtnetlink handle of one namespace.
type links struct {
	*netlink.Handle
	index map[string]int // of the interfaces that were looked up
}

func openLinks() (*links, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open rtnetlink: %w", err)
	}
	return &links{Handle: h, index: map[string]int{}}, nil
}

// openClosed does so in a new namespace, which it closes first.
func openClosed() (*links, error) {
	if err := sysctl.Set(closed()); err != nil {
		return nil, err
	}
	return openLinks()
}

// find looks an interface up.
func (h *links) find(name string) (netlink.Link, error) {
	l, err := h.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", name, err)
	}
	h.index[name] = l.Attrs().Index
	return l, nil
}

// up brings an interface up.
func (h *links) up(name string) error {
	l, err := h.find(name)
	if err != nil {
		return err
	}
	if err := h.LinkSetUp(l); err != nil {
		return fmt.Errorf("bring up %s: %w", name, err)
	}
	return nil
}

// deny brings up loopback and installs the deny routes, which need nothing
// else, all but the n-th.
func (h *links) deny(s *side, n int) error {
	if err := h.up("lo"); err != nil {
		return err
	}
	if err := h.know(s.loopback); err != nil {
		return err
	}
	for i, r := range s.routes[:s.denies()] {
		if i == n {
			continue
		}
		if err := h.addRoute(r); err != nil {
			return err
		}
	}
	return nil
}

// veth makes the link between the namespaces, h's being the outer one.
func (h *links) veth(p *netpolicy.Policy, inner *os.File) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.HardwareAddr = upName, p.MTU, upMAC
	err := h.LinkAdd(&netlink.Veth{
		LinkAttrs: attrs, PeerName: netpolicy.TapName, PeerMTU: uint32(p.MTU), PeerHardwareAddr: sandboxMAC,
		PeerNamespace: netlink.NsFd(inner.Fd()),
	})
	if errors.Is(err, unix.EOPNOTSUPP) {
		return &VethError{err}
	}
	if err != nil {
		return err
	}
	up, err := h.find(upName)
	if err != nil {
		return err
	}
	return h.LinkSetARPOff(up)
}

// VethError reports a kernel without virtual Ethernet devices.
type VethError struct{ Err error }

func (e *VethError) Error() string {
	return "this kernel has no virtual Ethernet devices (veth): " + e.Err.Error()
}

func (e *VethError) Unwrap() error { return e.Err }

// Hint says how to get them.
func (e *VethError) Hint() string { return "load the module once: sudo modprobe veth" }

// allow brings up what leads out of the namespace.
func (h *links) allow(s *side) error {
	tap, err := h.find(netpolicy.TapName)
	if err != nil {
		return err
	}
	if err := h.LinkSetMTU(tap, s.policy.MTU); err != nil {
		return fmt.Errorf("set mtu %d of %s: %w", s.policy.MTU, netpolicy.TapName, err)
	}
	if s.address.IsValid() {
		if err := h.AddrAdd(tap, &netlink.Addr{IPNet: ipNet(s.address)}); err != nil {
			return fmt.Errorf("add address %s to %s: %w", s.address, netpolicy.TapName, err)
		}
	}
	if err := h.know(s.neighbours); err != nil {
		return err
	}
	for _, dev := range s.interfaces() {
		if err := h.up(dev); err != nil {
			return err
		}
	}
	for _, r := range s.routes[s.denies():] {
		if err := h.addRoute(r); err != nil {
			return err
		}
	}
	return nil
}

// know adds neighbours.
func (h *links) know(neighbours []neighbour) error {
	for _, n := range neighbours {
		e := &netlink.Neigh{LinkIndex: h.index[n.dev], Family: unix.AF_INET, IP: n.addr.AsSlice(), HardwareAddr: n.mac, State: unix.NUD_PERMANENT}
		if n.proxy {
			e.Flags = unix.NTF_PROXY
			if err := h.answerAtOnce(n.dev); err != nil {
				return fmt.Errorf("proxy delay of %s: %w", n.dev, err)
			}
		}
		if err := h.NeighSet(e); err != nil {
			return fmt.Errorf("add neighbour %s of %s: %w", n.addr, n.dev, err)
		}
	}
	return nil
}

// Attributes of RTM_SETNEIGHTBL (linux/neighbour.h).
const (
	ndtaName        = 1
	ndtaParms       = 6
	ndtpaIfindex    = 1
	ndtpaProxyDelay = 13
)

// answerAtOnce makes the kernel answer ARP requests for proxied addresses
// without a random delay, which otherwise is most of a second. It is no
// parameter below /proc/sys: kernels before 6.1 show those of neighbours to the
// first user namespace alone.
func (h *links) answerAtOnce(dev string) error {
	req := nl.NewNetlinkRequest(unix.RTM_SETNEIGHTBL, unix.NLM_F_ACK)
	req.AddData(tableHeader{})
	req.AddData(nl.NewRtAttr(ndtaName, nl.ZeroTerminated("arp_cache")))
	parms := nl.NewRtAttr(ndtaParms|unix.NLA_F_NESTED, nil)
	parms.AddRtAttr(ndtpaIfindex, nl.Uint32Attr(uint32(h.index[dev])))
	parms.AddRtAttr(ndtpaProxyDelay, binary.NativeEndian.AppendUint64(nil, 0))
	req.AddData(parms)
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// tableHeader is a struct ndtmsg for IPv4.
type tableHeader struct{}

func (tableHeader) Len() int          { return 4 }
func (tableHeader) Serialize() []byte { return []byte{unix.AF_INET, 0, 0, 0} }

// addRoute adds one route.
func (h *links) addRoute(r netpolicy.Route) error {
	if err := h.RouteAdd(h.route(r)); err != nil {
		return fmt.Errorf("add %s: %w", routeFact(r), err)
	}
	return nil
}

// drop removes the n-th route from the calling thread's namespace.
func (s *side) drop(n int) error {
	if n < 0 {
		return nil
	}
	h, err := openLinks()
	if err != nil {
		return err
	}
	defer h.Close()
	if _, err := h.find(s.routes[n].Dev); err != nil {
		return err
	}
	return h.RouteDel(h.route(s.routes[n]))
}

func (h *links) route(r netpolicy.Route) *netlink.Route {
	out := &netlink.Route{LinkIndex: h.index[r.Dev], Dst: ipNet(r.Dst)}
	switch {
	case !r.Gateway:
		out.Scope = netlink.SCOPE_LINK
	case r.Dev != "lo":
		// On-link: the kernel need not find a route to the gateway first. Without
		// it, denying the gateway's own address would forbid the routes through
		// it.
		out.Flags = int(netlink.FLAG_ONLINK)
		fallthrough
	default:
		out.Gw = r.Via.AsSlice()
	}
	return out
}

// persistentTap makes a tap device in the calling thread's namespace that
// outlives the descriptor it was made by. slirp4netns, started later, opens it
// by name.
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

// LoopbackUp brings up lo in the calling thread's network namespace.
func LoopbackUp() error {
	h, err := openLinks()
	if err != nil {
		return err
	}
	defer h.Close()
	return h.up("lo")
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
