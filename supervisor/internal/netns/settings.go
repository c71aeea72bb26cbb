package netns

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// setting is one kernel parameter of a network namespace, below /proc/sys/net.
type setting struct{ name, value string }

// noIPv6 switches IPv6 off for all interfaces that exist and all that come.
// Where the kernel has no IPv6 the parameters do not exist.
var noIPv6 = []setting{
	{"ipv6/conf/all/disable_ipv6", "1"},
	{"ipv6/conf/default/disable_ipv6", "1"},
	{"ipv6/conf/lo/disable_ipv6", "1"},
}

// innerSettings come before anything else in the inner namespace.
var innerSettings = noIPv6

// outerSettings come before anything else in the outer namespace.
//
// rp_filter on lo is what drops a packet that was forwarded to a denied
// destination: it arrives on lo with the sandbox's address as its source. The
// effective value is the higher of an interface's and that of all.
var outerSettings = append([]setting{
	{"ipv4/ip_forward", "0"},
	{"ipv4/conf/all/rp_filter", "0"},
	{"ipv4/conf/default/rp_filter", "0"},
	{"ipv4/conf/lo/rp_filter", "1"},
	{"ipv4/conf/all/accept_local", "0"},
	{"ipv4/conf/all/route_localnet", "0"},
	{"ipv4/conf/all/accept_source_route", "0"},
	{"ipv4/conf/all/send_redirects", "0"},
	{"ipv4/conf/default/send_redirects", "0"},
}, noIPv6...)

// uplinkSettings let each side find the other by ARP although both believe to
// be on one link. up0 takes no other source than the sandbox's address; tap0
// must take the gateway's, whose own address is denied.
var uplinkSettings = []setting{
	{"ipv4/conf/" + upName + "/rp_filter", "1"},
	{"ipv4/conf/tap0/rp_filter", "0"},
	{"ipv4/conf/" + upName + "/proxy_arp", "1"},
	{"ipv4/conf/tap0/proxy_arp", "1"},
	{"ipv4/neigh/" + upName + "/proxy_delay", "0"},
	{"ipv4/neigh/tap0/proxy_delay", "0"},
}

// forwardSettings open the way, last of all.
var forwardSettings = []setting{{"ipv4/ip_forward", "1"}}

// path is where the calling thread's namespace has the parameter: /proc/sys
// shows that of the thread that looks.
func (s setting) path() string { return "/proc/sys/net/" + s.name }

// absent tells whether err means that the kernel has no IPv6 at all.
func (s setting) absent(err error) bool {
	return strings.HasPrefix(s.name, "ipv6/") && errors.Is(err, os.ErrNotExist)
}

// set writes parameters of the calling thread's namespace.
func set(settings []setting) error {
	for _, s := range settings {
		if err := os.WriteFile(s.path(), []byte(s.value), 0); err != nil && !s.absent(err) {
			return fmt.Errorf("set %s: %w", s.name, err)
		}
	}
	return nil
}

// settingFacts renders the parameters' values as expected.
func settingFacts(settings []setting) []string {
	var out []string
	for _, s := range settings {
		if _, err := os.Stat(s.path()); err != nil && s.absent(err) {
			continue
		}
		out = append(out, "setting "+s.name+" "+s.value)
	}
	return out
}

// readSettings renders the parameters' values as they are.
func readSettings(settings []setting) ([]string, error) {
	var out []string
	for _, s := range settings {
		b, err := os.ReadFile(s.path())
		if err != nil && s.absent(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", s.name, err)
		}
		out = append(out, "setting "+s.name+" "+strings.TrimSpace(string(b)))
	}
	return out, nil
}
