package netpolicy

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Facts are what a policy depends on besides the configuration.
type Facts struct {
	Addresses    []Address      // every address of the host, both families
	Routes       []netip.Prefix // IPv4 destinations of the host's routes, without the default
	DefaultRoute bool           // IPv4 leads somewhere

	Nameservers []netip.Addr // of the host's resolv.conf, in its order
	Search      []string     // its search domains

	// Detached says that resolv.conf is a link that leaves /etc and /run, which
	// are all that slirp4netns sees in its sandbox (case 21).
	Detached bool
}

// Address is one address of the host with its network.
type Address struct {
	Interface string
	Prefix    netip.Prefix
}

// Host is where facts come from.
type Host interface {
	// Addresses returns the addresses of all interfaces that are up.
	Addresses() ([]Address, error)
	// RouteTable returns the content of /proc/net/route.
	RouteTable() ([]byte, error)
	// ResolvConf returns the content of /etc/resolv.conf and every path on the
	// way there, its own excluded. A missing file is os.ErrNotExist.
	ResolvConf() (content []byte, via []string, err error)
}

// Gather reads the facts. A host without resolv.conf has no nameservers; any
// other failure is an error, since a policy with a fact missing would be too
// wide.
func Gather(h Host) (Facts, error) {
	var f Facts
	var err error
	if f.Addresses, err = h.Addresses(); err != nil {
		return Facts{}, fmt.Errorf("read the host's addresses: %w", err)
	}
	table, err := h.RouteTable()
	if err != nil {
		return Facts{}, fmt.Errorf("read the host's routes: %w", err)
	}
	if f.Routes, f.DefaultRoute, err = parseRoutes(table); err != nil {
		return Facts{}, fmt.Errorf("read the host's routes: %w", err)
	}
	content, via, err := h.ResolvConf()
	if errors.Is(err, os.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return Facts{}, fmt.Errorf("read the host's resolv.conf: %w", err)
	}
	f.Nameservers, f.Search = parseResolvConf(content)
	f.Detached = slices.ContainsFunc(via, func(p string) bool {
		return !strings.HasPrefix(p, "/etc/") && !strings.HasPrefix(p, "/run/")
	})
	return f, nil
}

// The flags of /proc/net/route that matter here (linux/route.h).
const (
	rtfUp     = 0x1
	rtfReject = 0x200
)

// parseRoutes reads /proc/net/route. A default route is one of 0.0.0.0/0, or
// the two halves that some VPN clients install instead.
func parseRoutes(table []byte) (routes []netip.Prefix, hasDefault bool, err error) {
	half := map[bool]bool{}
	lines := bufio.NewScanner(bytes.NewReader(table))
	lines.Scan() // the heading
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 8 {
			return nil, false, fmt.Errorf("line %q of the route table is too short", lines.Text())
		}
		dst, err := hexAddr(f[1])
		if err != nil {
			return nil, false, err
		}
		mask, err := hexAddr(f[7])
		if err != nil {
			return nil, false, err
		}
		flags, err := strconv.ParseUint(f[3], 16, 32)
		if err != nil {
			return nil, false, fmt.Errorf("flags %q in the route table: %w", f[3], err)
		}
		if flags&rtfUp == 0 || flags&rtfReject != 0 {
			continue
		}
		m := mask.As4()
		bits, size := net.IPMask(m[:]).Size()
		if size == 0 {
			return nil, false, fmt.Errorf("mask %s in the route table has holes", mask)
		}
		switch bits {
		case 0:
			hasDefault = true
		case 1:
			half[dst.As4()[0] >= 128] = true
		default:
			routes = append(routes, netip.PrefixFrom(dst, bits).Masked())
		}
	}
	return routes, hasDefault || len(half) == 2, lines.Err()
}

// hexAddr reads an address as the kernel prints it: in the byte order of the
// machine.
func hexAddr(s string) (netip.Addr, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 4 {
		return netip.Addr{}, fmt.Errorf("address %q in the route table is not one", s)
	}
	var a [4]byte
	binary.NativeEndian.PutUint32(a[:], binary.BigEndian.Uint32(b))
	return netip.AddrFrom4(a), nil
}

// parseResolvConf reads what matters of resolv.conf(5). Lines that it does not
// understand are skipped, as the C library does.
func parseResolvConf(content []byte) (nameservers []netip.Addr, search []string) {
	lines := bufio.NewScanner(bytes.NewReader(content))
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 2 {
			continue
		}
		switch f[0] {
		case "nameserver":
			if a, err := netip.ParseAddr(f[1]); err == nil {
				nameservers = append(nameservers, a.Unmap())
			}
		case "search", "domain":
			search = f[1:]
		}
	}
	return nameservers, search
}

// Machine is the Host that this process runs on.
type Machine struct{}

// Addresses implements Host.
func (Machine) Addresses() ([]Address, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var out []Address
	for _, i := range interfaces {
		addrs, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("addresses of %s: %w", i.Name, err)
		}
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err != nil {
				return nil, fmt.Errorf("address of %s: %w", i.Name, err)
			}
			out = append(out, Address{Interface: i.Name, Prefix: p})
		}
	}
	return out, nil
}

// RouteTable implements Host.
func (Machine) RouteTable() ([]byte, error) { return os.ReadFile("/proc/net/route") }

// ResolvConf implements Host.
func (Machine) ResolvConf() ([]byte, []string, error) {
	const path = "/etc/resolv.conf"
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	var via []string
	for p := path; ; {
		target, err := os.Readlink(p)
		if err != nil {
			break // not a link: the end
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(p), target)
		}
		p = filepath.Clean(target)
		via = append(via, p)
		if len(via) > 40 {
			break // as many as the kernel follows; it has read the file
		}
	}
	// A directory on the way may be a link too.
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, nil, err
	}
	return content, append(via, real), nil
}
