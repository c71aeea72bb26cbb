package netpolicy_test

import (
	"errors"
	"net/netip"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lazaret.dev/lazaret/host/internal/netpolicy"
)

type fakeHost struct {
	table  string
	resolv string
	via    []string
	err    error // of ResolvConf
}

func (h fakeHost) Addresses() ([]netpolicy.Address, error) {
	return []netpolicy.Address{{Interface: "eth0", Prefix: netip.MustParsePrefix("192.0.2.2/24")}}, nil
}
func (h fakeHost) RouteTable() ([]byte, error)           { return []byte(h.table), nil }
func (h fakeHost) ResolvConf() ([]byte, []string, error) { return []byte(h.resolv), h.via, h.err }

const heading = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"

func TestGather(t *testing.T) {
	compare := cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
	comparePrefix := cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
	addresses := []netpolicy.Address{{Interface: "eth0", Prefix: netip.MustParsePrefix("192.0.2.2/24")}}
	// The table's numbers are in the byte order of little-endian machines, as
	// all that Lazaret is built for.
	def := heading + "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n" +
		"eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
	for name, tc := range map[string]struct {
		host fakeHost
		want netpolicy.Facts
	}{
		"usual": {
			fakeHost{table: def, resolv: "# x\nnameserver 127.0.0.53\noptions edns0\nsearch a.example b.example\nnameserver fe80::1%eth0\nnameserver nonsense\n", via: []string{"/run/systemd/resolve/stub-resolv.conf"}},
			netpolicy.Facts{
				Addresses: addresses, Routes: prefixes("192.0.2.0/24"), DefaultRoute: true,
				Nameservers: []netip.Addr{netip.MustParseAddr("127.0.0.53"), netip.MustParseAddr("fe80::1%eth0")}, Search: []string{"a.example", "b.example"},
			},
		},
		"link that leaves": {
			fakeHost{table: def, resolv: "nameserver 192.0.2.1", via: []string{"/mnt/wsl/resolv.conf"}},
			netpolicy.Facts{Addresses: addresses, Routes: prefixes("192.0.2.0/24"), DefaultRoute: true, Nameservers: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, Detached: true},
		},
		"link that leaves and comes back": {
			fakeHost{table: def, via: []string{"/var/run/x", "/run/x"}},
			netpolicy.Facts{Addresses: addresses, Routes: prefixes("192.0.2.0/24"), DefaultRoute: true, Detached: true},
		},
		"vpn halves": {
			fakeHost{table: heading + "tun0\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0\n" + "tun0\t00000080\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0\n"},
			netpolicy.Facts{Addresses: addresses, DefaultRoute: true},
		},
		"one half": {
			fakeHost{table: heading + "tun0\t00000080\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0\n"},
			netpolicy.Facts{Addresses: addresses},
		},
		"rejecting default": {
			fakeHost{table: heading + "*\t00000000\t00000000\t0201\t0\t0\t0\t00000000\t0\t0\t0\n"},
			netpolicy.Facts{Addresses: addresses},
		},
		"no resolv.conf": {
			fakeHost{table: heading, err: os.ErrNotExist},
			netpolicy.Facts{Addresses: addresses},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := netpolicy.Gather(tc.host)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, compare, comparePrefix); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A fact that cannot be read is an error: a policy without it would be too wide.
func TestGatherFails(t *testing.T) {
	for name, h := range map[string]fakeHost{
		"unreadable resolv.conf": {table: heading, err: os.ErrPermission},
		"short line":             {table: heading + "eth0\t00000000\n"},
		"bad address":            {table: heading + "eth0\tzz\t00000000\t0001\t0\t0\t0\t00000000\t0\t0\t0\n"},
		"mask with holes":        {table: heading + "eth0\t00000000\t00000000\t0001\t0\t0\t0\tFF00FF00\t0\t0\t0\n"},
	} {
		if _, err := netpolicy.Gather(h); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := netpolicy.Gather(fakeHost{table: heading, err: os.ErrPermission}); !errors.Is(err, os.ErrPermission) {
		t.Errorf("the cause is lost: %v", err)
	}
}

// The real thing can be read, whatever it says.
func TestMachine(t *testing.T) {
	f, err := netpolicy.Gather(netpolicy.Machine{})
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Addresses) == 0 {
		t.Error("no address, not even loopback")
	}
}
