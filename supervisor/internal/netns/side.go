package netns

import (
	"net"
	"net/netip"

	"lazaret.dev/lazaret/protocol/netpolicy"
	"lazaret.dev/lazaret/supervisor/internal/netns/internal/sysctl"
)

// upName is the outer end of the link to the sandbox. Its inner end has the
// tap's name, so that one policy describes both namespaces.
const upName = "up0"

// The hardware addresses of the link's ends, locally administered. Each side
// knows the other's from the start, and up0 speaks no ARP: the sandbox has
// nobody to ask and nothing to forge.
var (
	upMAC      = net.HardwareAddr{0x02, 'l', 'z', 'u', 'p', 0}
	sandboxMAC = net.HardwareAddr{0x02, 'l', 'z', 's', 'b', 0}
)

// nobodyMAC is the hardware address of nobody, to which the outer namespace's
// loopback sends everything: it comes back as somebody else's and is dropped. A
// packet that was forwarded to lo keeps its route on the way through it, so that
// neither lo's settings nor its source are looked at again: without this, a
// denied packet would go round until its hop limit ends.
var nobodyMAC = net.HardwareAddr{0x02, 'l', 'z', 'n', 'o', 0}

// side is everything that one of the namespaces must hold. It is what is
// installed, and what is compared with what the kernel says.
type side struct {
	name    string
	policy  *netpolicy.Policy
	address netip.Prefix // of the tap; the zero value is none

	// routes has the policy's deny routes first, in its order.
	routes     []netpolicy.Route
	loopback   []neighbour // known before there is a deny route
	neighbours []neighbour

	last []sysctl.Setting // beside the closed ones, when all else is done
}

// neighbour is a fixed entry of the neighbour table. A proxy entry makes the
// kernel answer for an address that is on its other side.
type neighbour struct {
	dev   string
	addr  netip.Addr
	mac   net.HardwareAddr
	proxy bool
}

// innerSide is what runsc copies into the sandbox's kernel, fixed neighbours
// included.
func innerSide(p *netpolicy.Policy) *side {
	return &side{
		name: "inner", policy: p, address: p.Address,
		routes: p.Routes(),
		neighbours: []neighbour{
			{dev: netpolicy.TapName, addr: p.Gateway, mac: upMAC},
			{dev: netpolicy.TapName, addr: p.DNS, mac: upMAC},
		},
	}
}

// outerSide is what enforces the policy.
//
// It has no address but loopback's own, so that the sandbox finds nothing to
// speak to in it. Of the network that slirp4netns serves, only the resolver is
// let through, unless the policy says otherwise.
func outerSide(p *netpolicy.Policy) *side {
	s := &side{
		name: "outer", policy: p,
		// All of loopback is one neighbour, by this address.
		loopback: []neighbour{{dev: "lo", addr: netip.IPv4Unspecified(), mac: nobodyMAC}},
		neighbours: []neighbour{
			{dev: upName, addr: p.Address.Addr(), mac: sandboxMAC},
			{dev: netpolicy.TapName, addr: p.Gateway, mac: slirpMAC(p.Gateway)},
			{dev: netpolicy.TapName, addr: p.DNS, mac: slirpMAC(p.DNS)},
			// slirp4netns asks who has the sandbox's address.
			{dev: netpolicy.TapName, addr: p.Address.Addr(), proxy: true},
		},
		last: []sysctl.Setting{
			// The sandbox's address is the only source that is routed to up0, so
			// that no other is taken from it. tap0 must take the gateway's, whose
			// own address is denied.
			{Name: sysctl.IPv4(upName, "rp_filter"), Value: "1"},
			{Name: sysctl.IPv4(netpolicy.TapName, "forwarding"), Value: "1"},
			{Name: sysctl.IPv4(upName, "forwarding"), Value: "1"},
		},
	}
	ruled := map[netip.Prefix]bool{}
	var out []netpolicy.Route
	for _, r := range p.Routes() {
		ruled[r.Dst] = true
		if r.Dev == "lo" {
			s.routes = append(s.routes, r)
		} else {
			out = append(out, r)
		}
	}
	if subnet := p.Address.Masked(); !ruled[subnet] {
		s.routes = append(s.routes, netpolicy.Route{Dst: subnet, Via: netpolicy.Loopback, Dev: "lo", Gateway: true})
	}
	if dns := host(p.DNS); !ruled[dns] {
		out = append(out, netpolicy.Route{Dst: dns, Dev: netpolicy.TapName})
	}
	s.routes = append(append(s.routes, out...), netpolicy.Route{Dst: host(p.Address.Addr()), Dev: upName})
	return s
}

// interfaces are those of the namespace beside loopback.
func (s *side) interfaces() []string {
	if s.name == "inner" {
		return []string{netpolicy.TapName}
	}
	return []string{netpolicy.TapName, upName}
}

// denies returns how many of the routes lead to loopback; they are the first.
func (s *side) denies() int {
	n := 0
	for n < len(s.routes) && s.routes[n].Dev == "lo" {
		n++
	}
	return n
}

// slirpMAC is the hardware address that slirp4netns gives its own addresses.
// It reads whatever arrives, but its answers carry this one.
func slirpMAC(a netip.Addr) net.HardwareAddr {
	b := a.As4()
	return net.HardwareAddr{0x52, 0x55, b[0], b[1], b[2], b[3]}
}

// host is the prefix of one address.
func host(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
