package netpolicy

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// resolve decides how names are resolved inside. slirp4netns forwards to the
// first IPv4 nameserver of the host's resolv.conf and follows its changes (case
// 57).
func (d *Derived) resolve(f Facts) {
	if i := slices.IndexFunc(f.Nameservers, netip.Addr.Is4); i >= 0 {
		d.Resolver = f.Nameservers[i]
		if f.Detached {
			d.PrivateResolver = d.Resolver.String()
		}
	}
	var why string
	switch {
	case !f.DefaultRoute:
		why = "the host has no IPv4 default route"
	case len(f.Nameservers) == 0:
		why = "the host's /etc/resolv.conf names no nameserver"
	case !d.Resolver.IsValid():
		why = fmt.Sprintf("the host's /etc/resolv.conf names only the IPv6 nameserver %s, which slirp4netns cannot ask: add an IPv4 one", f.Nameservers[0])
	}
	if why != "" {
		d.Policy.Offline = true
		d.Warnings = append(d.Warnings, "the sandbox starts offline: "+why)
	}
	d.ResolvConf = fmt.Sprintf("nameserver %s\n", d.Policy.DNS)
	if len(f.Search) > 0 {
		d.ResolvConf += "search " + strings.Join(f.Search, " ") + "\n"
	}
}

// ProxyWarnings returns a warning for every proxy setting in the environment of
// a session that names the host's loopback, which is another machine's inside
// (case 76).
func ProxyWarnings(env map[string]string) []string {
	var out []string
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		if host, ok := proxyHost(env[name]); ok {
			out = append(out, fmt.Sprintf(
				"%s names %s, which is the sandbox itself inside: the host's loopback cannot be reached; let the proxy listen on another machine, or unset it", name, host))
		}
	}
	return out
}

// proxyHost returns the host of a proxy setting that leads to loopback. It
// never returns the user name and password that a setting may hold.
func proxyHost(value string) (string, bool) {
	if value == "" {
		return "", false
	}
	if !strings.Contains(value, "://") {
		value = "http://" + value
	}
	u, err := url.Parse(value)
	if err != nil {
		return "", false
	}
	a, err := netip.ParseAddr(u.Hostname())
	local := strings.EqualFold(u.Hostname(), "localhost") || err == nil && (a.Unmap().IsLoopback() || a.IsUnspecified())
	return u.Hostname(), local
}
