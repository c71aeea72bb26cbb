package slirp_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lazaret.dev/lazaret/protocol/netpolicy"
	"lazaret.dev/lazaret/supervisor/internal/slirp"
)

func TestArgs(t *testing.T) {
	p := &netpolicy.Policy{Address: netip.MustParsePrefix("10.0.2.100/24"), MTU: 65520}
	want := []string{
		"slirp4netns", "--disable-host-loopback", "--mtu=65520", "--netns-type=path", "--ready-fd=4", "--exit-fd=5",
		"--enable-sandbox", "--enable-seccomp", "/proc/self/fd/3", "tap0",
	}
	if d := cmp.Diff(want, slirp.Args(p, true)); d != "" {
		t.Error(d)
	}
	p = &netpolicy.Policy{Address: netip.MustParsePrefix("192.0.2.100/24"), MTU: 1500}
	want = []string{
		"slirp4netns", "--disable-host-loopback", "--mtu=1500", "--netns-type=path", "--ready-fd=4", "--exit-fd=5",
		"--cidr=192.0.2.0/24", "/proc/self/fd/3", "tap0",
	}
	if d := cmp.Diff(want, slirp.Args(p, false)); d != "" {
		t.Error(d)
	}
}

func TestExecRefusesBadArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"10.0.0.1"}, {"not an address", "/bin/true", "true"}, {"10.0.0.1\nsearch x", "/bin/true", "true"}} {
		if err := slirp.Exec(args); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
}
