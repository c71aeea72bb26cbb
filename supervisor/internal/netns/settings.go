package netns

import "lazaret.dev/lazaret/supervisor/internal/netns/internal/sysctl"

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
func closed() []sysctl.Setting { return settingsOf("all", "default", "lo") }

func settingsOf(devs ...string) (out []sysctl.Setting) {
	for _, dev := range devs {
		out = append(out, sysctl.NoIPv6(dev))
	}
	for _, dev := range devs {
		for _, b := range base {
			out = append(out, sysctl.Setting{Name: sysctl.IPv4(dev, b.name), Value: b.value})
		}
	}
	return out
}

// settings returns what every parameter of the side must be in the end.
func (s *side) settings() []sysctl.Setting {
	out := append(closed(), settingsOf(s.interfaces()...)...)
	for i := range out {
		for _, l := range s.last {
			if l.Name == out[i].Name {
				out[i] = l
			}
		}
	}
	return out
}
