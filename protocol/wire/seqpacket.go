// Package wire carries messages between Lazaret's own host processes: typed
// packets with file descriptors over a SOCK_SEQPACKET pair, and bounded frames
// over a stream.
//
// It knows no message of its own. Every size is bounded, reads are whole, and
// a reader names what it expects. It is linked into every process.
package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// MaxPacket is the largest packet, in bytes. It stays below the default socket
// buffer, so that a packet is either sent whole or refused.
const MaxPacket = 64 << 10

// MaxFDs is the largest number of descriptors in one packet.
const MaxFDs = 8

// Kind names a packet's message.
type Kind string

// packet is the encoding of one message.
type packet struct {
	Kind Kind            `json:"kind"`
	FDs  int             `json:"fds,omitempty"`
	Body json.RawMessage `json:"body,omitempty"`
}

// ErrUnexpected reports a packet that the reader did not ask for.
var ErrUnexpected = errors.New("unexpected message")

// Seq is one end of a SOCK_SEQPACKET pair. Send is safe for concurrent use;
// Recv belongs to one reader.
type Seq struct {
	f    *os.File
	mu   sync.Mutex
	rbuf []byte
}

// SeqPair makes a connected pair, close-on-exec. The second end is meant for a
// child process, as a file.
func SeqPair(name string) (*Seq, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return NewSeq(os.NewFile(uintptr(fds[0]), name)), os.NewFile(uintptr(fds[1]), name+"-peer"), nil
}

// InheritSeq adopts the descriptor fd, which a parent process left open, and
// marks it close-on-exec.
func InheritSeq(fd uintptr, name string) (*Seq, error) {
	t, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return nil, fmt.Errorf("descriptor %d: %w", fd, os.NewSyscallError("getsockopt", err))
	}
	if t != unix.SOCK_SEQPACKET {
		return nil, fmt.Errorf("descriptor %d is not a SOCK_SEQPACKET socket", fd)
	}
	unix.CloseOnExec(int(fd))
	if err := unix.SetNonblock(int(fd), true); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return NewSeq(os.NewFile(fd, name)), nil
}

// NewSeq wraps a non-blocking SOCK_SEQPACKET socket. The Seq owns f.
func NewSeq(f *os.File) *Seq {
	return &Seq{f: f, rbuf: make([]byte, MaxPacket)}
}

// Close closes the socket; the peer's Recv returns io.EOF.
func (s *Seq) Close() error { return s.f.Close() }

// File returns the underlying socket, for handing it to an exec. The Seq keeps
// ownership.
func (s *Seq) File() *os.File { return s.f }

// Send sends one message with the given descriptors, which stay the caller's.
func (s *Seq) Send(kind Kind, body any, files ...*os.File) error {
	if len(files) > MaxFDs {
		return fmt.Errorf("send %s: %d descriptors, limit %d", kind, len(files), MaxFDs)
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("send %s: %w", kind, err)
	}
	b, err := json.Marshal(packet{Kind: kind, FDs: len(files), Body: raw})
	if err != nil {
		return fmt.Errorf("send %s: %w", kind, err)
	}
	if len(b) > MaxPacket {
		return fmt.Errorf("send %s: %d bytes, limit %d", kind, len(b), MaxPacket)
	}
	var oob []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		oob = unix.UnixRights(fds...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	rc, err := s.f.SyscallConn()
	if err != nil {
		return fmt.Errorf("send %s: %w", kind, err)
	}
	var serr error
	if err := rc.Write(func(fd uintptr) bool {
		for {
			serr = unix.Sendmsg(int(fd), b, oob, nil, unix.MSG_NOSIGNAL)
			if !errors.Is(serr, unix.EINTR) {
				return !errors.Is(serr, unix.EAGAIN)
			}
		}
	}); err != nil {
		return fmt.Errorf("send %s: %w", kind, err)
	}
	if serr != nil {
		return fmt.Errorf("send %s: %w", kind, os.NewSyscallError("sendmsg", serr))
	}
	return nil
}

// Packet is one received message. Its Files belong to the receiver.
type Packet struct {
	Kind  Kind
	Body  json.RawMessage
	Files []*os.File
}

// Decode decodes the body strictly: unknown fields are an error.
func (p *Packet) Decode(v any) error {
	d := json.NewDecoder(bytes.NewReader(p.Body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("decode %s: %w", p.Kind, err)
	}
	return nil
}

// CloseFiles closes the descriptors that came with the packet.
func (p *Packet) CloseFiles() {
	for _, f := range p.Files {
		_ = f.Close()
	}
	p.Files = nil
}

// Recv receives one message. It returns io.EOF when the peer is gone. A packet
// that is cut, too large, malformed, or whose descriptors do not match its
// header is an error, and its descriptors are closed.
func (s *Seq) Recv() (*Packet, error) {
	oob := make([]byte, unix.CmsgSpace(MaxFDs*4))
	rc, err := s.f.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("receive: %w", err)
	}
	var n, oobn, flags int
	var rerr error
	if err := rc.Read(func(fd uintptr) bool {
		for {
			n, oobn, flags, _, rerr = unix.Recvmsg(int(fd), s.rbuf, oob, unix.MSG_CMSG_CLOEXEC)
			if !errors.Is(rerr, unix.EINTR) {
				return !errors.Is(rerr, unix.EAGAIN)
			}
		}
	}); err != nil {
		if errors.Is(err, os.ErrClosed) {
			return nil, io.EOF
		}
		return nil, fmt.Errorf("receive: %w", err)
	}
	if rerr != nil {
		if errors.Is(rerr, unix.ECONNRESET) {
			return nil, io.EOF
		}
		return nil, os.NewSyscallError("recvmsg", rerr)
	}
	files, ferr := parseRights(oob[:oobn])
	p := &Packet{Files: files}
	if ferr != nil {
		p.CloseFiles()
		return nil, ferr
	}
	if n == 0 && len(files) == 0 {
		return nil, io.EOF
	}
	if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		p.CloseFiles()
		return nil, errors.New("receive: packet is larger than the limit")
	}
	var h packet
	if err := json.Unmarshal(s.rbuf[:n], &h); err != nil {
		p.CloseFiles()
		return nil, fmt.Errorf("receive: malformed packet: %w", err)
	}
	if h.FDs != len(files) {
		p.CloseFiles()
		return nil, fmt.Errorf("receive %s: %d descriptors announced, %d came", h.Kind, h.FDs, len(files))
	}
	p.Kind, p.Body = h.Kind, append(json.RawMessage(nil), h.Body...)
	return p, nil
}

// Expect receives one message of the given kind with exactly nfds descriptors
// and decodes its body into v. Anything else is ErrUnexpected.
func (s *Seq) Expect(kind Kind, v any, nfds int) (*Packet, error) {
	p, err := s.Recv()
	if err != nil {
		return nil, err
	}
	if p.Kind != kind || len(p.Files) != nfds {
		p.CloseFiles()
		return nil, fmt.Errorf("%w: %s with %d descriptors, want %s with %d", ErrUnexpected, p.Kind, len(p.Files), kind, nfds)
	}
	if err := p.Decode(v); err != nil {
		p.CloseFiles()
		return nil, err
	}
	return p, nil
}

// parseRights turns control messages into files, all close-on-exec.
func parseRights(oob []byte) ([]*os.File, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, os.NewSyscallError("parse control message", err)
	}
	var files []*os.File
	for i := range msgs {
		fds, err := unix.ParseUnixRights(&msgs[i])
		if err != nil {
			return files, os.NewSyscallError("parse rights", err)
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files, nil
}
