package main

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
)

// Names are the DNS zone of the test internet.
var names = map[string][]string{
	"allowed.test.": {"203.0.113.5"},
	"other.test.":   {"198.18.0.1"},
	"denied.test.":  {"10.1.1.1"},
	"dual.test.":    {"203.0.113.5", "2001:db8::5"}, // Case 78: an AAAA record without a route
	"localhost.":    {"127.0.0.1", "::1"},
}

const (
	typeA    = 1
	typeAAAA = 28
)

// serveDNS answers A and AAAA questions about names on addr by UDP and TCP.
func (s *server) serveDNS(addr netip.AddrPort) error {
	u, err := net.ListenPacket("udp", addr.String())
	if err != nil {
		return err
	}
	s.keep(u)
	l, err := net.Listen("tcp", addr.String())
	if err != nil {
		return err
	}
	s.keep(l)
	query := func(q []byte) []byte {
		a, name := answer(q)
		s.notef("dns %s %s", addr.Addr(), name)
		return a
	}
	go packets(u, query)
	go accept(l, func(c net.Conn) {
		var n [2]byte
		if _, err := io.ReadFull(c, n[:]); err != nil {
			return
		}
		q := make([]byte, binary.BigEndian.Uint16(n[:]))
		if _, err := io.ReadFull(c, q); err != nil {
			return
		}
		a := query(q)
		_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(a))), a...))
	})
	return nil
}

// answer builds the response to q, nil when it is no question.
func answer(q []byte) (response []byte, name string) {
	if len(q) < 12 || q[2]&0x80 != 0 || binary.BigEndian.Uint16(q[4:]) != 1 {
		return nil, ""
	}
	i := 12
	for i < len(q) && q[i] != 0 {
		n := int(q[i])
		if n > 63 || i+1+n > len(q) {
			return nil, ""
		}
		name += strings.ToLower(string(q[i+1:i+1+n])) + "."
		i += 1 + n
	}
	if i+5 > len(q) {
		return nil, ""
	}
	qtype := binary.BigEndian.Uint16(q[i+1:])
	r := append([]byte(nil), q[:i+5]...)
	r[2], r[3] = 0x84|q[2]&0x01, 0x80 // response, authoritative; recursion available
	binary.BigEndian.PutUint16(r[6:], 0)
	binary.BigEndian.PutUint16(r[8:], 0)
	binary.BigEndian.PutUint16(r[10:], 0)
	records, ok := names[name]
	if !ok {
		r[3] |= 3 // no such name
		return r, name
	}
	var n uint16
	for _, text := range records {
		a := netip.MustParseAddr(text)
		if (qtype == typeA) != a.Is4() || qtype != typeA && qtype != typeAAAA {
			continue
		}
		n++
		r = append(r, 0xc0, 12) // the name of the question
		r = binary.BigEndian.AppendUint16(r, qtype)
		r = binary.BigEndian.AppendUint16(r, 1)
		r = binary.BigEndian.AppendUint32(r, 1)
		r = binary.BigEndian.AppendUint16(r, uint16(len(a.AsSlice())))
		r = append(r, a.AsSlice()...)
	}
	binary.BigEndian.PutUint16(r[6:], n)
	return r, name
}
