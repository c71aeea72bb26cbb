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
	"lazaret.dev/lazaret/supervisor/internal/netns/internal/sysctl"
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

// orNil returns e if it says anything.
func (e *MismatchError) orNil() error {
	if len(e.Missing)+len(e.Extra) == 0 {
		return nil
	}
	return e
}

// Identity is a network namespace's identity.
type Identity struct {
	Dev, Ino uint64
}

// Observe reads both namespaces back from the kernel, the calling thread's
// being the outer one, and compares them with the policy, both ways: what is
// missing and what is too much. Any difference is a *MismatchError. It also
// asks the outer kernel what it would do with packets of the sandbox, which
// sends none. It returns the identity of the outer namespace, which is the
// enforcement namespace.
func Observe(p *netpolicy.Policy, inner *os.File) (Identity, error) {
	outer := outerSide(p)
	if err := outer.observe(); err != nil {
		return Identity{}, err
	}
	if err := outer.lookUp(); err != nil {
		return Identity{}, err
	}
	if err := within(inner, innerSide(p).observe); err != nil {
		return Identity{}, err
	}
	var st unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &st); err != nil {
		return Identity{}, os.NewSyscallError("stat network namespace", err)
	}
	return Identity{Dev: st.Dev, Ino: st.Ino}, nil
}

// observe compares the calling thread's namespace with the side.
func (s *side) observe() error {
	h, err := openLinks()
	if err != nil {
		return err
	}
	defer h.Close()
	got, err := h.facts()
	if err != nil {
		return err
	}
	wantValues, gotValues, err := sysctl.Compare(s.settings())
	if err != nil {
		return err
	}
	want := append(s.facts(), wantValues...)
	got = append(got, gotValues...)
	return (&MismatchError{Namespace: s.name, Missing: minus(want, got), Extra: minus(got, want)}).orNil()
}

// facts renders everything that the namespace must hold, one fact a line.
func (s *side) facts() []string {
	out := []string{"interface lo up", "address 127.0.0.1/8 dev lo"}
	mtu := s.policy.MTU
	if s.name == "outer" {
		out = append(out,
			fmt.Sprintf("interface %s up mtu %d tuntap", netpolicy.TapName, mtu),
			fmt.Sprintf("interface %s up mtu %d veth %s noarp", upName, mtu, upMAC))
	} else {
		out = append(out, fmt.Sprintf("interface %s up mtu %d veth %s", netpolicy.TapName, mtu, sandboxMAC))
	}
	if s.address.IsValid() {
		out = append(out,
			fmt.Sprintf("address %s dev %s", s.address, netpolicy.TapName),
			// The kernel adds the on-link route with the address.
			fmt.Sprintf("route %s dev %s", s.address.Masked(), netpolicy.TapName))
	}
	for _, r := range s.routes {
		out = append(out, routeFact(r))
	}
	for _, n := range slices.Concat(s.loopback, s.neighbours) {
		out = append(out, n.fact())
	}
	return out
}

func routeFact(r netpolicy.Route) string {
	if !r.Gateway {
		return fmt.Sprintf("route %s dev %s", r.Dst, r.Dev)
	}
	return fmt.Sprintf("route %s via %s dev %s", r.Dst, r.Via, r.Dev)
}

func (n neighbour) fact() string {
	if n.proxy {
		return fmt.Sprintf("neighbour proxy %s dev %s", n.addr, n.dev)
	}
	return fmt.Sprintf("neighbour %s %s dev %s", n.addr, n.mac, n.dev)
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
		if a.Flags&net.FlagUp == 0 && a.Name != "lo" && a.Name != upName && a.Name != netpolicy.TapName {
			continue // tunnel templates that some kernels put into every namespace
		}
		out = append(out, linkFact(l))
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
	neighbours, err := h.neighbourFacts(names)
	return append(out, neighbours...), err
}

func linkFact(l netlink.Link) string {
	a := l.Attrs()
	fact := "interface " + a.Name + " down"
	if a.Flags&net.FlagUp != 0 {
		fact = "interface " + a.Name + " up"
	}
	if a.Name == "lo" {
		return fact
	}
	fact += fmt.Sprintf(" mtu %d %s", a.MTU, l.Type())
	if l.Type() == "veth" {
		fact += " " + a.HardwareAddr.String()
	}
	if a.RawFlags&unix.IFF_NOARP != 0 {
		fact += " noarp"
	}
	return fact
}

// neighbourFacts renders the fixed neighbours; what the kernel learns by itself
// is no fact.
func (h *links) neighbourFacts(names map[int]string) ([]string, error) {
	fixed, err := h.NeighList(0, netlink.FAMILY_V4)
	if err != nil {
		return nil, fmt.Errorf("list neighbours: %w", err)
	}
	proxies, err := h.NeighProxyList(0, netlink.FAMILY_V4)
	if err != nil {
		return nil, fmt.Errorf("list proxied neighbours: %w", err)
	}
	var out []string
	for _, n := range append(fixed, proxies...) {
		proxy := n.Flags&unix.NTF_PROXY != 0
		if !proxy && n.State&unix.NUD_PERMANENT == 0 {
			continue
		}
		a, _ := netip.AddrFromSlice(n.IP)
		out = append(out, neighbour{dev: names[n.LinkIndex], addr: a.Unmap(), mac: n.HardwareAddr, proxy: proxy}.fact())
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

// minus returns a's facts that b has fewer of, sorted.
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
	slices.Sort(out)
	return out
}
