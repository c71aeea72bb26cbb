package prober

import (
	"errors"
	"net/netip"
	"os"
	"syscall"
)

// Plain system calls, not package net: its sockets would need a goroutine and a
// poller each, and package net alone adds to the start of a process that runs
// once in every cold start.

func sockaddr(a netip.AddrPort) *syscall.SockaddrInet4 {
	return &syscall.SockaddrInet4{Addr: a.Addr().As4(), Port: int(a.Port())}
}

// route returns the source address that a packet to a would get. A connected
// UDP socket has asked for the route; no packet is sent. In the sandbox's kernel
// the source is an address of the route's interface, so that it tells where the
// route leads.
func route(a netip.AddrPort) (netip.Addr, error) {
	fd, err := socket(syscall.SOCK_DGRAM)
	if err != nil {
		return netip.Addr{}, err
	}
	defer func() { _ = syscall.Close(fd) }()
	if err := syscall.Connect(fd, sockaddr(a)); err != nil {
		return netip.Addr{}, os.NewSyscallError("connect", err)
	}
	local, err := syscall.Getsockname(fd)
	if err != nil {
		return netip.Addr{}, os.NewSyscallError("getsockname", err)
	}
	in, ok := local.(*syscall.SockaddrInet4)
	if !ok {
		return netip.Addr{}, errors.New("getsockname: not an IPv4 address")
	}
	return netip.AddrFrom4(in.Addr), nil
}

func socket(kind int) (int, error) {
	fd, err := syscall.Socket(syscall.AF_INET, kind|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	return fd, os.NewSyscallError("socket", err)
}

// An attempt is one try to reach an address. It owns its descriptor until
// finish.
type attempt struct {
	kind string // "TCP" or "UDP"
	fd   int
	err  error // of the start
}

// connect starts a TCP connection, from source unless it is the zero value.
func connect(a netip.AddrPort, source netip.Addr) *attempt {
	t := start("TCP", syscall.SOCK_STREAM, a, source)
	if errors.Is(t.err, syscall.EINPROGRESS) {
		t.err = nil
	}
	return t
}

// send sends one datagram, from source unless it is the zero value.
func send(a netip.AddrPort, source netip.Addr) *attempt {
	t := start("UDP", syscall.SOCK_DGRAM, a, source)
	if t.err == nil {
		_, t.err = syscall.Write(t.fd, []byte{0})
	}
	return t
}

func start(kind string, sockType int, a netip.AddrPort, source netip.Addr) *attempt {
	t := &attempt{kind: kind}
	if t.fd, t.err = socket(sockType); t.err != nil {
		t.fd = -1
		return t
	}
	if source.IsValid() {
		if t.err = syscall.Bind(t.fd, sockaddr(netip.AddrPortFrom(source, 0))); t.err != nil {
			return t
		}
	}
	t.err = syscall.Connect(t.fd, sockaddr(a))
	return t
}

// finish closes the attempt and says what answered; empty when nothing did. A
// refusal is an answer. That the attempt itself could not be made, because the
// kernel has no way there, is none.
func (t *attempt) finish() string {
	if t.fd < 0 {
		return t.kind + " could not be tried: " + t.err.Error()
	}
	defer func() { _ = syscall.Close(t.fd) }()
	if t.err != nil {
		return t.answered(t.err)
	}
	if t.kind == "UDP" {
		_, _, err := syscall.Recvfrom(t.fd, make([]byte, 1), 0)
		if err == nil {
			return "a UDP answer came"
		}
		return t.answered(err)
	}
	n, err := syscall.GetsockoptInt(t.fd, syscall.SOL_SOCKET, syscall.SO_ERROR)
	if err != nil {
		return t.answered(err)
	}
	if n != 0 {
		return t.answered(syscall.Errno(n))
	}
	if _, err := syscall.Getpeername(t.fd); err == nil {
		return "a TCP connection was made"
	}
	return ""
}

// answered says whether an error came from the other side.
func (t *attempt) answered(err error) string {
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) {
		return t.kind + " was refused"
	}
	return ""
}
