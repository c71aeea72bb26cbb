package netns

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/netpolicy"
)

// setting is one kernel parameter of a network namespace, below /proc/sys/net,
// where every thread sees those of its own.
type setting struct{ name, value string }

// conf names an interface's IPv4 parameter.
func conf(dev, name string) string { return "ipv4/conf/" + dev + "/" + name }

// base is what interfaces are to be like unless another value is said for one.
// A new namespace takes over the host's values, whatever they are. Forwarding
// comes first: writing it for all interfaces changes other parameters.
var base = []struct{ name, value string }{
	{"forwarding", "0"},
	{"rp_filter", "0"}, // the effective value is the higher of the interface's and that of all
	{"accept_local", "0"},
	{"accept_redirects", "0"},
	{"accept_source_route", "0"},
	{"log_martians", "0"}, // the sandbox does not write into the host's kernel log
	{"proxy_arp", "0"},
	{"proxy_arp_pvlan", "0"},
	{"route_localnet", "0"},
	{"send_redirects", "0"}, // a redirect would lead the sandbox's kernel astray
}

// closed are the settings of a namespace that forwards and accepts nothing, and
// in which IPv6 is off: for what exists, and for what comes.
func closed() []setting {
	out := []setting{
		{"ipv6/conf/all/disable_ipv6", "1"},
		{"ipv6/conf/default/disable_ipv6", "1"},
		{"ipv6/conf/lo/disable_ipv6", "1"},
	}
	for _, dev := range []string{"all", "default", "lo"} {
		for _, b := range base {
			out = append(out, setting{conf(dev, b.name), b.value})
		}
	}
	return out
}

// settings returns what every parameter of the side must be in the end.
func (s *side) settings() []setting {
	out := append([]setting(nil), s.first...)
	devs := []string{netpolicy.TapName}
	if s.name == "outer" {
		devs = append(devs, upName)
	}
	for _, dev := range devs {
		out = append(out, setting{"ipv6/conf/" + dev + "/disable_ipv6", "1"})
		for _, b := range base {
			want := setting{conf(dev, b.name), b.value}
			for _, l := range s.last {
				if l.name == want.name {
					want = l
				}
			}
			out = append(out, want)
		}
	}
	return out
}

func (s setting) String() string { return "setting " + s.name + " " + s.value }

// absent tells whether err means that the kernel has no IPv6 at all.
func (s setting) absent(err error) bool {
	return strings.HasPrefix(s.name, "ipv6/") && errors.Is(err, os.ErrNotExist)
}

// set writes parameters of the calling thread's namespace.
func set(settings []setting) error {
	for _, s := range settings {
		err := s.do(unix.O_WRONLY, func(fd int) error {
			_, err := unix.Write(fd, []byte(s.value))
			return err
		})
		if err != nil && !s.absent(err) {
			return fmt.Errorf("set %s: %w", s.name, err)
		}
	}
	return nil
}

// settingFacts renders the parameters as they must be and as they are.
func settingFacts(settings []setting) (want, got []string, err error) {
	b := make([]byte, 64)
	for _, s := range settings {
		n := 0
		err := s.do(unix.O_RDONLY, func(fd int) (err error) {
			n, err = unix.Read(fd, b)
			return err
		})
		if err != nil && s.absent(err) {
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read %s: %w", s.name, err)
		}
		want = append(want, s.String())
		got = append(got, setting{s.name, strings.TrimSpace(string(b[:max(n, 0)]))}.String())
	}
	return want, got, nil
}

// do opens the parameter's file. There are so many that the system calls of
// package os, which asks for more than is needed here, would show in a start.
func (s setting) do(mode int, f func(fd int) error) error {
	fd, err := unix.Open("/proc/sys/net/"+s.name, mode|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return f(fd)
}
