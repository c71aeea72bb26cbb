package network_test

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lazaret.dev/lazaret/cmd/lazaret/e2etest"
	"lazaret.dev/lazaret/packaging/testnet/nettest"
)

// tryAll connects to every argument, "HOST PORT" or an abstract socket's name
// behind an @, and prints those that answer.
const tryAll = `
import concurrent.futures, socket, sys
def one(to):
    try:
        if to[0] == "@":
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(2)
            s.connect("\0" + to[1:])
        else:
            s = socket.create_connection(to.split(), 2)
        return to + " " + s.recv(100).decode().strip()
    except OSError as e:
        print("no", to, e, file=sys.stderr)
with concurrent.futures.ThreadPoolExecutor(32) as pool:
    for answer in pool.map(one, sys.argv[1:]):
        if answer:
            print(answer)
print("end")
`

// Case 25: a server that listens everywhere on the host is reached by none of
// the host's addresses, nor by its abstract socket.
func TestHostByAnyName(t *testing.T) {
	_, h := world(t)
	var accepted atomic.Int32
	serve := func(network, address string) net.Listener {
		t.Helper()
		l, err := net.Listen(network, address) //nolint:noctx // it lives as long as the test
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				accepted.Add(1)
				_, _ = c.Write([]byte("host\n"))
				_ = c.Close()
			}
		}()
		return l
	}
	tcp := serve("tcp", "[::]:0") // both families
	abstract := fmt.Sprintf("@lazaret-case-25-%d", time.Now().UnixNano())
	serve("unix", abstract)
	port := fmt.Sprint(tcp.Addr().(*net.TCPAddr).Port)

	names := []string{"10.0.2.2", "fd00::2", "fe80::2%tap0", "localhost", "::ffff:127.0.0.1", nettest.LinkLocal}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	linkLocal := false
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		if err != nil {
			t.Fatal(err)
		}
		switch a := p.Addr(); {
		case a.Is6() && a.IsLinkLocalUnicast():
			linkLocal = true
			names = append(names, a.String()+"%tap0")
		case a.Is4():
			names = append(names, a.String(), "::ffff:"+a.String())
		default:
			names = append(names, a.String())
		}
	}
	if !linkLocal || !slices.Contains(names, nettest.HostLAN) {
		t.Fatalf("the host's addresses are %v", names)
	}
	// The server is there for others.
	for network, address := range map[string]string{"tcp": nettest.HostLAN + ":" + port, "unix": abstract} {
		c, err := net.Dial(network, address) //nolint:noctx // answered at once
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
	}
	e2etest.Eventually(t, 5*time.Second, func() bool { return accepted.Load() == 2 }, func() string { return "the server does not answer the host" })

	args := []string{"python3", "-c", tryAll, abstract}
	for _, n := range names {
		args = append(args, n+" "+port)
	}
	if out := h.Must(args...); out != "end\n" {
		t.Errorf("reached:\n%s", out)
	}
	if n := accepted.Load(); n != 2 {
		t.Errorf("%d connections came from the sandbox", n-2)
	}
}

// Case 78: names that have an IPv6 address as well cost no time, where IPv6
// leads nowhere.
func TestNamesWithIPv6(t *testing.T) {
	n, h := world(t)
	defer h.Hold("")()
	web := netip.MustParseAddrPort(nettest.Public + ":80")
	url := "http://" + nettest.DualName + "/"
	for _, command := range []string{
		"curl -sS " + url,
		"git ls-remote " + url + "r.git",
		"npm install --no-audit --no-fund --fetch-retries=0 --registry " + url + " left-pad",
		"python3 -c 'import urllib.request as u; print(u.urlopen(\"" + url + "\").read())'",
		"node -e 'fetch(\"" + url + "\").then(r => r.text()).then(console.log)'",
	} {
		// What the program costs by itself is not the network's: it says its version
		// first. The far end is no repository and no registry.
		program, _, _ := strings.Cut(command, " ")
		h.Must("sh", "-c", program+" --version")
		start := time.Now()
		h.Must("sh", "-c", program+" --version")
		alone := time.Since(start)
		n.Reset(t)
		start = time.Now()
		r := h.Run("sh", "-c", "cd /tmp; timeout 20 "+command)
		took := time.Since(start)
		c := n.Counts(t)
		if c.Accepted(web) == 0 || c.To(nettest.PublicV6) != 0 {
			t.Errorf("%s: %v\n%s", command, c, describe(r))
		}
		if took > alone+2*time.Second {
			t.Errorf("%s took %v, of which %v are its own: %s", command, took, alone, describe(r))
		}
	}
}

// Case 77: a host whose own network is the one that the sandbox usually has.
// The test runs once on such a host.
func TestClash(t *testing.T) {
	n, h := world(t)
	if !n.Clash() {
		return
	}
	const neighbour, own = "10.0.2.60", "10.0.2.50"
	show := h.Lazaret("", "net", "show")
	if show.Status != 0 || !strings.Contains(show.Stdout, own+"/32") || strings.Contains(show.Stdout, "10.0.2.100") {
		t.Errorf("net show: %s", describe(show))
	}
	reach := func(to ...string) string {
		return h.Must(append([]string{"python3", "-c", tryAll}, to...)...)
	}
	if out := reach(neighbour+" 9999", own+" 9999", nettest.DualName+" 9999"); out != nettest.DualName+" 9999 hello from inet "+nettest.Public+"\nend\n" {
		t.Errorf("by default: %s", out)
	}
	if c := n.Counts(t); c.To(neighbour)+c.To(own) != 0 {
		t.Errorf("packets: %v", c)
	}
	h.NothingLeft(10 * time.Second)
	h.Config("[profiles.shell]\nallow_egress = [\"" + neighbour + "/32\"]\n")
	if out := reach(neighbour+" 9999", own+" 9999"); out != neighbour+" 9999 hello from inet "+neighbour+"\nend\n" {
		t.Errorf("with an allow rule: %s", out)
	}
	h.NothingLeft(10 * time.Second)
	// The host's own address is never allowed, and the error says so.
	h.Config("[profiles.shell]\nallow_egress = [\"" + own + "/32\"]\n")
	if r := h.Run("true"); r.Status != 125 || !said(r, own+"/32") || !said(r, "host address clash0") {
		t.Errorf("an allow rule for the host: %s", describe(r))
	}
}
