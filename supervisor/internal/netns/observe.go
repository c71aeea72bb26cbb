package netns

import (
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

// MismatchError says how an observed namespace differs from the policy.
type MismatchError struct {
	Namespace string   // "outer" or "inner"
	Missing   []string // in the policy, not in the kernel
	Extra     []string // in the kernel, not in the policy
}

func (e *MismatchError) Error() string {
	var parts []string
	if len(e.Missing) > 0 {
		parts = append(parts, "missing: "+strings.Join(e.Missing, ", "))
	}
	if len(e.Extra) > 0 {
		parts = append(parts, "unexpected: "+strings.Join(e.Extra, ", "))
	}
	return "the " + e.Namespace + " network namespace is not as the policy demands: " + strings.Join(parts, "; ")
}

// Identity is a network namespace's identity.
type Identity struct {
	Dev, Ino uint64
}

// Observe reads both namespaces back from the kernel, the calling thread's
// being the outer one, and compares them with the policy, both ways: what is
// missing and what is too much. Any difference is a *MismatchError. For every
// deny route it also asks the outer kernel where it would forward a packet of
// the sandbox's, which sends none. It returns the outer namespace's identity,
// which is the enforcement namespace.
func Observe(p *netpolicy.Policy, inner *os.File) (Identity, error) {
	if err := observe("outer", outerFacts(p), outerSettings, uplinkSettings, forwardSettings); err != nil {
		return Identity{}, err
	}
	if err := lookUp(p); err != nil {
		return Identity{}, err
	}
	if err := within(inner, func() error { return observe("inner", innerFacts(p), innerSettings) }); err != nil {
		return Identity{}, err
	}
	var st unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &st); err != nil {
		return Identity{}, os.NewSyscallError("stat network namespace", err)
	}
	return Identity{Dev: st.Dev, Ino: st.Ino}, nil
}

// observe compares the calling thread's namespace with the given facts and
// settings. Of a setting that is written twice, the last value counts.
func observe(name string, want []string, settings ...[]setting) error {
	last := map[string]setting{}
	for _, group := range settings {
		for _, s := range group {
			last[s.name] = s
		}
	}
	var all []setting
	for _, s := range last {
		all = append(all, s)
	}
	h, err := openLinks()
	if err != nil {
		return err
	}
	defer h.Close()
	got, err := h.facts()
	if err != nil {
		return err
	}
	values, err := readSettings(all)
	if err != nil {
		return err
	}
	want, got = append(want, settingFacts(all)...), append(got, values...)
	e := &MismatchError{Namespace: name, Missing: minus(want, got), Extra: minus(got, want)}
	if len(e.Missing)+len(e.Extra) > 0 {
		slices.Sort(e.Missing)
		slices.Sort(e.Extra)
		return e
	}
	return nil
}

// innerFacts renders everything that the inner namespace must hold, one fact a
// line.
func innerFacts(p *netpolicy.Policy) []string { return commonFacts(p, p.Address) }

// outerFacts does so for the outer namespace.
func outerFacts(p *netpolicy.Policy) []string {
	return append(commonFacts(p, p.Uplink()),
		fmt.Sprintf("interface %s up mtu %d", upName, p.MTU),
		fmt.Sprintf("route %s dev %s", sandboxRoute(p), upName))
}

func commonFacts(p *netpolicy.Policy, addr netip.Prefix) []string {
	out := []string{
		"interface lo up",
		fmt.Sprintf("interface %s up mtu %d", netpolicy.TapName, p.MTU),
		"address 127.0.0.1/8 dev lo",
		fmt.Sprintf("address %s dev %s", addr, netpolicy.TapName),
		// The kernel adds the on-link route with the address.
		fmt.Sprintf("route %s dev %s", addr.Masked(), netpolicy.TapName),
	}
	for _, r := range p.Routes() {
		out = append(out, fmt.Sprintf("route %s via %s dev %s", r.Dst, r.Via, r.Dev))
	}
	return out
}

// facts renders what the kernel holds in the same form.
func (h *links) facts() ([]string, error) {
	all, err := h.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	var out []string
	names := map[int]string{}
	for _, l := range all {
		a := l.Attrs()
		names[a.Index] = a.Name
		if a.Flags&net.FlagUp == 0 && !ours(a.Name) {
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
			out = append(out, routeFact(&r, names))
		}
	}
	return out, nil
}

func ours(name string) bool { return name == "lo" || name == upName || name == netpolicy.TapName }

// routeFact renders a kernel route. What a policy never has shows in the text,
// so that it cannot be equal to an expected fact.
func routeFact(r *netlink.Route, names map[int]string) string {
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

// minus returns a's facts that b has fewer of.
func minus(a, b []string) []string {
	count := map[string]int{}
	for _, f := range b {
		count[f]++
	}
	var out []string
	for _, f := range a {
		if count[f]--; count[f] < 0 {
			out = append(out, f)
		}
	}
	return out
}

// lookUp asks the calling thread's kernel where it would forward the sandbox's
// packets: those for denied destinations to lo or nowhere, those for the
// resolver to the tap. It finds what no list of routes shows, such as a policy
// rule.
func lookUp(p *netpolicy.Policy) error {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		return err
	}
	tap, err := net.InterfaceByName(netpolicy.TapName)
	if err != nil {
		return err
	}
	e := &MismatchError{Namespace: "outer"}
	for _, r := range p.Routes() {
		if r.Dev != "lo" {
			continue
		}
		to, ok := sample(p, r.Dst)
		if !ok {
			continue // longer routes cover it whole
		}
		// An error is the kernel's way of saying that it forwards no such packet,
		// as for multicast.
		if dev, err := forwardsTo(p, to); err == nil && dev != lo.Index {
			e.Missing = append(e.Missing, fmt.Sprintf("deny of %s: %s would leave", r.Dst, to))
		}
	}
	if dev, err := forwardsTo(p, p.DNS); err != nil || dev != tap.Index {
		e.Missing = append(e.Missing, fmt.Sprintf("way to the resolver %s (%v)", p.DNS, err))
	}
	if len(e.Missing) > 0 {
		return e
	}
	return nil
}

// forwardsTo returns the interface to which the kernel would forward a packet
// from the sandbox.
func forwardsTo(p *netpolicy.Policy, to netip.Addr) (int, error) {
	routes, err := netlink.RouteGetWithOptions(to.AsSlice(), &netlink.RouteGetOptions{Iif: upName, SrcAddr: p.Address.Addr().AsSlice()})
	if err != nil {
		return 0, err
	}
	if len(routes) != 1 {
		return 0, fmt.Errorf("%d routes", len(routes))
	}
	return routes[0].LinkIndex, nil
}

// sample finds an address of the prefix whose longest match among the routes,
// on-link ones included, is the prefix itself.
func sample(p *netpolicy.Policy, dst netip.Prefix) (netip.Addr, bool) {
	first, last := dst.Addr(), lastOf(dst)
	for _, a := range []netip.Addr{first.Next(), last.Prev(), first, last} {
		if a.IsValid() && dst.Contains(a) && longest(p, a) == dst {
			return a, true
		}
	}
	return netip.Addr{}, false
}

func longest(p *netpolicy.Policy, a netip.Addr) netip.Prefix {
	best := netip.Prefix{}
	consider := func(c netip.Prefix) {
		if c.Contains(a) && (!best.IsValid() || c.Bits() > best.Bits()) {
			best = c
		}
	}
	consider(p.Address.Masked())
	for _, r := range p.Routes() {
		consider(r.Dst)
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
