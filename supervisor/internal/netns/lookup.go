package netns

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"

	"lazaret.dev/lazaret/protocol/netpolicy"
)

// lookUp asks the calling thread's kernel what it would do with packets that
// come from the sandbox. A list of routes shows what was asked for; this shows
// what follows from it and from everything else, such as a policy rule.
//
//   - To a denied destination: on to lo, where it is dropped.
//   - To an allowed one, and to the resolver: on to the tap.
//   - With another source than the sandbox's address: dropped.
func (s *side) lookUp() error {
	h, err := openLinks()
	if err != nil {
		return err
	}
	defer h.Close()
	for _, dev := range []string{"lo", upName, netpolicy.TapName} {
		if _, err := h.find(dev); err != nil {
			return err
		}
	}
	e := &MismatchError{Namespace: s.name}
	from := s.policy.Address.Addr()
	var open netip.Addr
	for _, r := range s.routes {
		to, ok := s.sample(r.Dst)
		if !ok || r.Dev == upName {
			continue // longer routes cover it whole, or it is the sandbox itself
		}
		dev, err := h.forward(upName, from, to)
		switch {
		case r.Dev == "lo" && err != nil:
			// The kernel's way of saying that it forwards no such packet at all, as
			// for multicast.
		case r.Dev == "lo" && dev != "lo":
			e.Missing = append(e.Missing, fmt.Sprintf("deny of %s: packets for %s leave by %s", r.Dst, to, dev))
		case r.Dev == "lo":
		case err != nil || dev != r.Dev:
			e.Missing = append(e.Missing, fmt.Sprintf("way to %s: %s goes to %q (%v)", r.Dst, to, dev, err))
		default:
			open = to
		}
	}
	if open.IsValid() {
		for _, source := range []netip.Addr{s.policy.DNS, s.policy.Gateway, from.Next(), open} {
			if dev, err := h.forward(upName, source, open); err == nil {
				e.Missing = append(e.Missing, fmt.Sprintf("check of sources: packets of %s for %s leave by %s", source, open, dev))
			}
		}
	}
	return e.orNil()
}

// forward returns the interface by which a packet would leave that arrived on
// another; an error when it would be dropped.
func (h *links) forward(in string, from, to netip.Addr) (string, error) {
	routes, err := h.RouteGetWithOptions(to.AsSlice(), &netlink.RouteGetOptions{IifIndex: h.index[in], SrcAddr: from.AsSlice()})
	if err != nil {
		return "", err
	}
	if len(routes) != 1 {
		return "", errors.New("no single route")
	}
	for name, i := range h.index {
		if i == routes[0].LinkIndex {
			return name, nil
		}
	}
	return fmt.Sprintf("interface %d", routes[0].LinkIndex), nil
}

// sample finds an address of the prefix whose longest match among the routes
// is the prefix itself.
func (s *side) sample(dst netip.Prefix) (netip.Addr, bool) {
	first, last := dst.Addr(), lastOf(dst)
	for _, a := range []netip.Addr{first.Next(), last.Prev(), first, last} {
		if a.IsValid() && dst.Contains(a) && s.longest(a) == dst {
			return a, true
		}
	}
	return netip.Addr{}, false
}

func (s *side) longest(a netip.Addr) netip.Prefix {
	best := netip.Prefix{}
	for _, r := range s.routes {
		if r.Dst.Contains(a) && (!best.IsValid() || r.Dst.Bits() > best.Bits()) {
			best = r.Dst
		}
	}
	return best
}

// lastOf returns the last address of an IPv4 prefix.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	return netip.AddrFrom4(b)
}
