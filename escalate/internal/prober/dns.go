package prober

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"time"
)

// A query is one DNS question on its way. It owns its descriptor until wait.
type query struct {
	fd int
	id uint16
}

// question asks for the address of "localhost.". What is to be proven is the
// way to the host's resolver, not what lies behind it: RFC 6761 lets resolvers
// answer this name themselves, so that it is answered when the host is offline
// behind its own resolver, and nothing meaningful leaves. Any answer will do.
var question = []byte("\x09localhost\x00\x00\x01\x00\x01")

// ask sends the question.
func ask(server netip.AddrPort) (*query, error) {
	fd, err := socket(syscall.SOCK_DGRAM)
	if err != nil {
		return nil, err
	}
	if err := syscall.Connect(fd, sockaddr(server)); err != nil {
		_ = syscall.Close(fd)
		return nil, os.NewSyscallError("connect", err)
	}
	// The answer only has to match this question on this connected socket.
	q := &query{fd: fd, id: uint16(os.Getpid())}
	if err := q.send(); err != nil {
		_ = syscall.Close(fd)
		return nil, err
	}
	return q, nil
}

func (q *query) send() error {
	m := binary.BigEndian.AppendUint16(nil, q.id)
	m = append(m, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0) // recursion desired; one question
	_, err := syscall.Write(q.fd, append(m, question...))
	return os.NewSyscallError("send", err)
}

// An answer may take so long before the question is repeated, each time twice as
// long as before: a datagram can be lost. And while slirp4netns does not know the
// sandbox's hardware address it keeps the first answer back until something else
// happens, which the next question is; the wait for it would be in every start.
const (
	resendFirst = 20 * time.Millisecond
	resendMost  = time.Second
)

// wait waits for the answer, at most for timeout, and closes the query.
func (q *query) wait(timeout time.Duration) error {
	defer func() { _ = syscall.Close(q.fd) }()
	start := time.Now()
	next, step := resendFirst, resendFirst
	b := make([]byte, 1500)
	for {
		n, _, err := syscall.Recvfrom(q.fd, b, 0)
		switch {
		case err == nil:
			if answers(b[:n], q.id) {
				return nil
			}
			continue
		case errors.Is(err, syscall.EINTR):
			continue
		case !errors.Is(err, syscall.EAGAIN):
			return os.NewSyscallError("receive", err)
		}
		passed := time.Since(start)
		if passed >= timeout {
			return fmt.Errorf("no answer within %s", timeout)
		}
		if passed >= next {
			step = min(2*step, resendMost)
			next += step
			if err := q.send(); err != nil {
				return err
			}
		}
		time.Sleep(time.Millisecond)
	}
}

// answers reports whether b is a response to the question. Which one is no
// matter: a resolver that refuses has been reached.
func answers(b []byte, id uint16) bool {
	return len(b) >= 12 && binary.BigEndian.Uint16(b) == id && b[2]&0x80 != 0
}
