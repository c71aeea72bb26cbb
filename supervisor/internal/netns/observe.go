package netns

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/netpolicy"
)

// MismatchError says how the observed namespace differs from the policy.
type MismatchError struct {
	Missing []string // in the policy, not in the kernel
	Extra   []string // in the kernel, not in the policy
}

func (e *MismatchError) Error() string {
	var parts []string
	if len(e.Missing) > 0 {
		parts = append(parts, "missing: "+strings.Join(e.Missing, ", "))
	}
	if len(e.Extra) > 0 {
		parts = append(parts, "unexpected: "+strings.Join(e.Extra, ", "))
	}
	return "the network namespace is not as the policy demands: " + strings.Join(parts, "; ")
}

// Identity is a network namespace's identity.
type Identity struct {
	Dev, Ino uint64
}

// Observe reads the calling thread's network namespace back from the kernel
// and compares it with the policy, both ways: what is missing and what is too
// much. Any difference is a *MismatchError. It returns the namespace's
// identity.
func Observe(p *netpolicy.Policy) (Identity, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return Identity{}, fmt.Errorf("open rtnetlink: %w", err)
	}
	defer h.Close()
	got, err := facts(h)
	if err != nil {
		return Identity{}, err
	}
	if err := compare(expected(p), got); err != nil {
		return Identity{}, err
	}
	var st unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &st); err != nil {
		return Identity{}, os.NewSyscallError("stat network namespace", err)
	}
	return Identity{Dev: st.Dev, Ino: st.Ino}, nil
}

// expected renders everything that the namespace must hold, one fact a line.
func expected(p *netpolicy.Policy) []string {
	out := []string{
		"interface lo up",
		fmt.Sprintf("interface %s up mtu %d", netpolicy.TapName, p.MTU),
		"address 127.0.0.1/8 dev lo",
		fmt.Sprintf("address %s dev %s", p.Address, netpolicy.TapName),
		// The kernel adds the on-link route with the address.
		fmt.Sprintf("route %s dev %s", p.Address.Masked(), netpolicy.TapName),
	}
	for _, r := range p.Routes() {
		out = append(out, routeFact(r))
	}
	return out
}

func routeFact(r netpolicy.Route) string {
	if !r.Gateway {
		return fmt.Sprintf("route %s dev %s", r.Dst, r.Dev)
	}
	return fmt.Sprintf("route %s via %s dev %s", r.Dst, r.Via, r.Dev)
}

// facts renders what the kernel holds in the same form.
func facts(h *netlink.Handle) ([]string, error) {
	links, err := h.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	var out []string
	names := map[int]string{}
	for _, l := range links {
		a := l.Attrs()
		names[a.Index] = a.Name
		if a.Flags&net.FlagUp == 0 && a.Name != "lo" && a.Name != netpolicy.TapName {
			continue // tunnel templates that some kernels put into every namespace
		}
		state := "down"
		if a.Flags&net.FlagUp != 0 {
			state = "up"
		}
		fact := fmt.Sprintf("interface %s %s", a.Name, state)
		if a.Name != "lo" {
			fact += fmt.Sprintf(" mtu %d", a.MTU)
		}
		out = append(out, fact)
	}
	addrs, err := h.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	for _, a := range addrs {
		out = append(out, fmt.Sprintf("address %s dev %s", prefix(a.IPNet), names[a.LinkIndex]))
	}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := h.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
		if err != nil {
			return nil, fmt.Errorf("list routes: %w", err)
		}
		for _, r := range routes {
			if r.Table == unix.RT_TABLE_LOCAL {
				continue // the kernel's own, derived from the addresses
			}
			out = append(out, kernelRouteFact(&r, names))
		}
	}
	return out, nil
}

// kernelRouteFact renders a kernel route. What a policy never has shows in the
// text, so that it cannot be equal to an expected fact.
func kernelRouteFact(r *netlink.Route, names map[int]string) string {
	dst := "0.0.0.0/0"
	if r.Dst != nil {
		dst = prefix(r.Dst).String()
	}
	fact := "route " + dst
	if len(r.Gw) > 0 {
		fact += " via " + r.Gw.String()
	}
	fact += " dev " + names[r.LinkIndex]
	if r.Type != unix.RTN_UNICAST {
		fact += fmt.Sprintf(" type %d", r.Type)
	}
	if r.Table != unix.RT_TABLE_MAIN {
		fact += fmt.Sprintf(" table %d", r.Table)
	}
	if r.Priority != 0 {
		fact += fmt.Sprintf(" metric %d", r.Priority)
	}
	if len(r.MultiPath) > 0 {
		fact += " multipath"
	}
	return fact
}

// prefix converts a kernel prefix; the invalid one prints as such.
func prefix(n *net.IPNet) netip.Prefix {
	a, ok := netip.AddrFromSlice(n.IP)
	if !ok {
		return netip.Prefix{}
	}
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(a.Unmap(), ones)
}

// compare returns a *MismatchError unless both hold the same facts.
func compare(want, got []string) error {
	e := &MismatchError{Missing: minus(want, got), Extra: minus(got, want)}
	if len(e.Missing)+len(e.Extra) == 0 {
		return nil
	}
	return e
}

// minus returns a's facts that b has fewer of.
func minus(a, b []string) []string {
	rest := slices.Clone(b)
	var out []string
	for _, f := range a {
		if i := slices.Index(rest, f); i >= 0 {
			rest = slices.Delete(rest, i, i+1)
		} else {
			out = append(out, f)
		}
	}
	return out
}

// IsMismatch tells whether err says that the namespace differs from the
// policy.
func IsMismatch(err error) bool {
	var m *MismatchError
	return errors.As(err, &m)
}
