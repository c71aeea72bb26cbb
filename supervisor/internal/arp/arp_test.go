package arp

import (
	"bytes"
	"net"
	"net/netip"
	"testing"
)

func TestPacket(t *testing.T) {
	got, err := packet(net.HardwareAddr{2, 0, 0, 0, 0, 9}, netip.MustParseAddr("10.0.2.100"))
	want := []byte{0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 9, 10, 0, 2, 100, 0, 0, 0, 0, 0, 0, 10, 0, 2, 100}
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %x, %v; want %x", got, err, want)
	}
	if _, err := packet(nil, netip.MustParseAddr("10.0.2.100")); err == nil {
		t.Error("no hardware address: accepted")
	}
	if _, err := packet(net.HardwareAddr{2, 0, 0, 0, 0, 9}, netip.MustParseAddr("2001:db8::1")); err == nil {
		t.Error("IPv6: accepted")
	}
}
