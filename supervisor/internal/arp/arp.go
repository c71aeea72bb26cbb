// Package arp announces the sandbox's address to slirp4netns, once, so that its
// first answer does not wait.
//
// slirp4netns learns a hardware address only from ARP, and holds the packet that
// made it ask until something else wakes it: the first DNS answer of each
// generation came tens of milliseconds late. It sends on the supervisor's own
// tap device alone, and reads nothing. It runs in the Runtime Supervisor, in the
// outer network namespace.
package arp

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// request is the operation of a gratuitous ARP packet (RFC 826, RFC 5227).
const request = 1

// Announce sends one gratuitous ARP request for addr from the device's own
// hardware address.
func Announce(device string, addr netip.Addr) error {
	dev, err := net.InterfaceByName(device)
	if err != nil {
		return fmt.Errorf("announce %s: %w", addr, err)
	}
	p, err := packet(dev.HardwareAddr, addr)
	if err != nil {
		return err
	}
	protocol := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ARP))
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket AF_PACKET", err)
	}
	defer unix.Close(fd)
	to := &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: dev.Index, Halen: 6}
	copy(to.Addr[:], []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	if err := unix.Sendto(fd, p, 0, to); err != nil {
		return os.NewSyscallError("sendto AF_PACKET", err)
	}
	return nil
}

// packet renders the announcement: sender and target are the same address.
func packet(mac net.HardwareAddr, addr netip.Addr) ([]byte, error) {
	if len(mac) != 6 || !addr.Is4() {
		return nil, fmt.Errorf("announce %s: not IPv4 on Ethernet", addr)
	}
	ip := addr.As4()
	p := []byte{0, 1, 8, 0, 6, 4, 0, request} // Ethernet, IPv4, their lengths
	p = append(p, mac...)
	p = append(p, ip[:]...)
	p = append(p, make([]byte, 6)...)
	return append(p, ip[:]...), nil
}
