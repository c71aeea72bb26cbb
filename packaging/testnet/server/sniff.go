package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// sniff counts every IP packet that arrives on an interface by its protocol,
// destination and port, whether or not something listens there: a SYN that is
// refused counts as well as one that is accepted.
func (s *server) sniff(name string) error {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return err
	}
	const all = syscall.ETH_P_ALL
	fd, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, int(all>>8|all<<8&0xff00))
	if err != nil {
		return fmt.Errorf("packet socket: %w", err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrLinklayer{Protocol: all>>8 | all<<8&0xff00, Ifindex: i.Index}); err != nil {
		_ = syscall.Close(fd)
		return fmt.Errorf("bind packet socket to %s: %w", name, err)
	}
	go func() {
		b := make([]byte, 2048)
		for {
			n, from, err := syscall.Recvfrom(fd, b, 0)
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if err != nil {
				return
			}
			if l, ok := from.(*syscall.SockaddrLinklayer); ok && l.Pkttype != syscall.PACKET_OUTGOING {
				if key := describe(b[:n]); key != "" {
					s.notef("%s", key)
				}
			}
		}
	}()
	return nil
}

// describe returns "PROTO ADDR:PORT" for TCP and UDP packets, "PROTO ADDR" for
// other IP packets, and nothing for the rest, such as ARP.
func describe(b []byte) string {
	if len(b) < 1 {
		return ""
	}
	var (
		dst   netip.Addr
		proto byte
		rest  []byte
	)
	switch {
	case b[0]>>4 == 4 && len(b) >= 20 && int(b[0]&15)*4 <= len(b):
		dst, _ = netip.AddrFromSlice(b[16:20])
		proto, rest = b[9], b[int(b[0]&15)*4:]
	case b[0]>>4 == 6 && len(b) >= 40:
		dst, _ = netip.AddrFromSlice(b[24:40])
		proto, rest = b[6], b[40:]
	default:
		return ""
	}
	switch {
	case proto == syscall.IPPROTO_TCP && len(rest) >= 4:
		return "tcp " + netip.AddrPortFrom(dst, binary.BigEndian.Uint16(rest[2:])).String()
	case proto == syscall.IPPROTO_UDP && len(rest) >= 4:
		return "udp " + netip.AddrPortFrom(dst, binary.BigEndian.Uint16(rest[2:])).String()
	case proto == syscall.IPPROTO_ICMP:
		return "icmp " + dst.String()
	default:
		return fmt.Sprintf("ip-%d %s", proto, dst)
	}
}
