// Command server is the other side of the test internet: listeners on every
// address of its network namespace, a DNS server, and a count of every packet
// and connection that arrives there. It belongs to the tests; the script
// packaging/testnet/testnet starts one in the "internet" namespace and one in
// the "host" namespace, as root. No part of the product uses it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Ports are those on which every address answers: a web server's, one that
// means nothing, and the one that the product's prober uses.
var ports = []uint16{80, 9999, 9}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

func run() error {
	name := flag.String("name", "", "what the greeting says")
	control := flag.String("control", "", "Unix socket for the counters")
	owner := flag.String("user", "", "user who may read and reset the counters")
	sniff := flag.String("sniff", "", "interface whose incoming packets are counted")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()

	s := &server{name: *name, counts: map[string]int{}}
	defer s.closeAll()
	addrs, err := localAddrs()
	if err != nil {
		return err
	}
	for _, a := range addrs {
		for _, p := range ports {
			if err := s.listen(netip.AddrPortFrom(a, p)); err != nil {
				return err
			}
		}
		if err := s.serveDNS(netip.AddrPortFrom(a, 53)); err != nil {
			return err
		}
	}
	if *sniff != "" {
		if err := s.sniff(*sniff); err != nil {
			return err
		}
	}
	if err := s.serveControl(*control, *owner); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// localAddrs returns the namespace's addresses, and 127.0.0.53 for the stub
// resolver. IPv6 link-local ones are left out: they need a zone.
func localAddrs() ([]netip.Addr, error) {
	ifaces, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	out := []netip.Addr{netip.MustParseAddr("127.0.0.53")}
	for _, i := range ifaces {
		p, err := netip.ParsePrefix(i.String())
		if err != nil {
			return nil, err
		}
		if a := p.Addr().Unmap(); !a.IsLinkLocalUnicast() || a.Is4() {
			out = append(out, a)
		}
	}
	return out, nil
}

type server struct {
	name string

	mu      sync.Mutex
	counts  map[string]int
	closers []io.Closer
}

// notef counts one event. Keys are "accept ADDR:PORT" for a TCP connection, and
// "PROTO ADDR:PORT" or "PROTO ADDR" for a packet that arrived.
func (s *server) notef(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[fmt.Sprintf(format, args...)]++
}

func (s *server) keep(c io.Closer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closers = append(s.closers, c)
}

func (s *server) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.closers {
		_ = c.Close()
	}
}

// listen answers on addr by TCP and UDP with one line that names it.
func (s *server) listen(addr netip.AddrPort) error {
	l, err := net.Listen("tcp", addr.String())
	if err != nil {
		return err
	}
	s.keep(l)
	u, err := net.ListenPacket("udp", addr.String())
	if err != nil {
		return err
	}
	s.keep(u)
	hello := fmt.Sprintf("hello from %s %s\n", s.name, addr.Addr())
	go accept(l, func(c net.Conn) {
		s.notef("accept %s", addr)
		if addr.Port() == 80 {
			_, _ = c.Read(make([]byte, 4096))
			fmt.Fprintf(c, "HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n", len(hello))
		}
		_, _ = io.WriteString(c, hello)
	})
	go packets(u, func(_ []byte) []byte { return []byte(hello) })
	return nil
}

func accept(l net.Listener, handle func(net.Conn)) {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		go func() {
			defer c.Close() //nolint:errcheck // a test peer that went away is no matter
			_ = c.SetDeadline(time.Now().Add(5 * time.Second))
			handle(c)
		}()
	}
}

func packets(u net.PacketConn, answer func([]byte) []byte) {
	b := make([]byte, 4096)
	for {
		n, from, err := u.ReadFrom(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		if a := answer(b[:n]); a != nil {
			_, _ = u.WriteTo(a, from)
		}
	}
}

// serveControl answers "counts" with the counters as JSON, and "reset" by
// emptying them. The socket appears when everything else is ready.
func (s *server) serveControl(path, owner string) error {
	if err := os.MkdirAll(path[:strings.LastIndexByte(path, '/')+1], 0o755); err != nil {
		return err
	}
	l, err := net.Listen("unix", path+".new")
	if err != nil {
		return err
	}
	s.keep(l)
	if owner != "" {
		u, err := user.Lookup(owner)
		if err != nil {
			return err
		}
		uid, err := strconv.Atoi(u.Uid)
		if err != nil {
			return err
		}
		if err := os.Chown(path+".new", uid, -1); err != nil {
			return err
		}
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	go accept(l, func(c net.Conn) {
		b := make([]byte, 64)
		n, _ := c.Read(b)
		s.mu.Lock()
		defer s.mu.Unlock()
		if strings.TrimSpace(string(b[:n])) == "reset" {
			clear(s.counts)
		}
		_ = json.NewEncoder(c).Encode(s.counts)
	})
	return nil
}
