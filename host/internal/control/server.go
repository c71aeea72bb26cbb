// Package control holds both ends of the host-only control socket: enrolment
// of Client CLIs, then one mutually authenticated connection for each session.
//
// The server runs in the Host Coordinator, the client in the CLI. It
// authenticates and frames; whether a session is admitted is the
// coordinator's decision. The sockets are never mounted into the sandbox.
package control

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/claim"
	"lazaret.dev/lazaret/host/internal/trust"
	"lazaret.dev/lazaret/protocol/control"
	"lazaret.dev/lazaret/protocol/faults"
	"lazaret.dev/lazaret/protocol/identity"
	"lazaret.dev/lazaret/protocol/isolation"
	"lazaret.dev/lazaret/protocol/wire"
)

// greetTimeout bounds how long a peer may take to say who it is and what it
// wants.
const greetTimeout = 10 * time.Second

// answerTimeout bounds how long a question about ignored paths may take.
const answerTimeout = 20 * time.Second

// Handler serves one authenticated client whose first message has come. It
// owns nothing: the connection is closed when it returns.
type Handler func(ctx context.Context, c *Conn, req control.OpenRequest)

// Handlers are what a server does for its clients. They are called on
// goroutines of the server's.
type Handlers struct {
	Open Handler

	// Status says what runs here.
	Status func() control.Status

	// Ignored answers a question about ignored paths.
	Ignored func(ctx context.Context, req isolation.Request) isolation.Answer

	// Stop ends the generation and returns when nothing of it is left but this
	// server.
	Stop func(ctx context.Context, req control.StopRequest)

	// NoClients are the programs that run for a generation. A process of one of
	// them is no client, though it be of the same user namespace (SR-16).
	NoClients []string
}

// Server listens on a Domain's two sockets.
type Server struct {
	dir      string
	self     identity.Identity
	anchor   *trust.Anchor
	handlers Handlers

	enroll, control socket
	wg              sync.WaitGroup
	cancel          context.CancelFunc
	ctx             context.Context //nolint:containedctx // the server's life: what its connections end with
}

// socket is one of the two: where it is found once it is published.
type socket struct {
	*net.UnixListener
	file claim.File
}

// Listen binds both sockets in dir under names of the generation's own. The
// handlers are called for each client, on a goroutine of the server's.
func Listen(ctx context.Context, dir string, self identity.Identity, anchor *trust.Anchor, h Handlers) (*Server, error) {
	s := &Server{dir: dir, self: self, anchor: anchor, handlers: h}
	s.ctx, s.cancel = context.WithCancel(ctx)
	var err error
	if s.control, err = s.bind(control.ControlSocket); err != nil {
		return nil, err
	}
	faults.Point("start.hc.half-bound")
	if s.enroll, err = s.bind(control.EnrollSocket); err != nil {
		_ = s.control.Close()
		return nil, err
	}
	s.wg.Go(func() { s.accept(s.control.UnixListener, s.serveControl) })
	s.wg.Go(func() { s.accept(s.enroll.UnixListener, s.serveEnroll) })
	return s, nil
}

func (s *Server) bind(name string) (socket, error) {
	path := s.staged(name)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return socket{}, fmt.Errorf("bind control socket: %w", err)
	}
	l.SetUnlinkOnClose(false) // the name changes at publication; Withdraw removes it
	file, err := claim.Identify(path)
	if err != nil {
		_ = l.Close()
		return socket{}, err
	}
	file.Path = filepath.Join(s.dir, name)
	return socket{UnixListener: l, file: file}, nil
}

func (s *Server) staged(name string) string { return claim.Staged(s.dir, s.self.Generation, name) }

// Sockets are the two as Publish leaves them, for the record. Enrolment comes
// last, as in publication.
func (s *Server) Sockets() []claim.File { return []claim.File{s.control.file, s.enroll.file} }

// Publish makes the sockets findable, after they are on record; it replaces
// nothing that is there. Enrolment goes last: whoever can enrol can connect.
func (s *Server) Publish() error {
	for _, file := range s.Sockets() {
		if err := claim.Move(s.staged(filepath.Base(file.Path)), file.Path); err != nil {
			return fmt.Errorf("publish control socket: %w", err)
		}
		faults.Point("start.hc.half-published")
	}
	return nil
}

// Withdraw removes the sockets' names, in the reverse order, and nothing that
// has been put in their place.
func (s *Server) Withdraw() {
	for _, file := range []claim.File{s.enroll.file, s.control.file} {
		_ = claim.Remove(file, true)
		faults.Point("end.hc.half-withdrawn")
		_ = claim.Unlink(s.staged(filepath.Base(file.Path)))
	}
}

// Close stops listening and waits for the handlers. What they have to say to
// their clients is said first, within the given time; then every connection is
// ended.
func (s *Server) Close(grace time.Duration) {
	_ = s.enroll.Close()
	_ = s.control.Close()
	s.Withdraw()
	timer := time.AfterFunc(grace, s.cancel)
	s.wg.Wait()
	timer.Stop()
	s.cancel()
}

func (s *Server) accept(l *net.UnixListener, serve func(*net.UnixConn)) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of descriptors or memory: what is open may end and free some.
			select {
			case <-s.ctx.Done():
				return
			case <-time.After(50 * time.Millisecond):
				continue
			}
		}
		s.wg.Go(func() {
			defer c.Close()
			stop := context.AfterFunc(s.ctx, func() { _ = c.Close() })
			defer stop()
			serve(c)
		})
	}
}

// serveEnroll issues a client certificate to a process of the same user in the
// same user namespace. The kernel says who the peer is, before anything that
// the peer says is read: a process inside the generation's user namespace
// (supervisor, runsc, sentry) is no client, whatever it sends.
func (s *Server) serveEnroll(c *net.UnixConn) {
	_ = c.SetDeadline(time.Now().Add(greetTimeout))
	reply := control.EnrollReply{Version: control.Version}
	if err := checkPeer(c, s.handlers.NoClients); err != nil {
		reply.Error = err.Error()
	} else if err := s.issue(c, &reply); err != nil {
		reply.Error = err.Error()
	}
	if err := json.NewEncoder(c).Encode(reply); err != nil || c.CloseWrite() != nil {
		return
	}
	// Closing with unread input would throw the answer away: the peer is heard
	// out, within bounds.
	_ = c.SetDeadline(time.Now().Add(time.Second))
	_, _ = io.CopyN(io.Discard, c, 8*control.MaxEnroll)
}

func (s *Server) issue(c *net.UnixConn, reply *control.EnrollReply) error {
	var req control.EnrollRequest
	b, err := readLine(c, control.MaxEnroll)
	if err != nil {
		return err
	}
	if err := control.Decode(b, &req); err != nil {
		return err
	}
	if req.Version != control.Version {
		return fmt.Errorf("this Domain was started by another version of lazaret (protocol %d, not %d)", control.Version, req.Version)
	}
	id := s.self
	id.Role = identity.RoleClient
	if id.Component, err = NewID(); err != nil {
		return err
	}
	if reply.Certificate, err = s.anchor.Issue(id, ed25519.PublicKey(req.PublicKey)); err != nil {
		return err
	}
	faults.Point("join.hc.certified")
	reply.Anchor = s.anchor.Certificate()
	reply.Coordinator = s.self.Component
	reply.Generation = s.self.Generation
	return nil
}

// readLine reads up to a newline, at most limit bytes.
func readLine(r io.Reader, limit int) ([]byte, error) {
	var line []byte
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		line = append(line, buf[:n]...)
		if i := bytes.IndexByte(line, '\n'); i >= 0 {
			return line[:i], nil
		}
		if len(line) > limit {
			return nil, errors.New("message is larger than the limit")
		}
		if err != nil {
			return nil, fmt.Errorf("read enrolment: %w", err)
		}
	}
}

// peerCred is who is at the other end: who connected, or began to listen
// (SO_PEERCRED, unix(7)).
func peerCred(c *net.UnixConn) (*unix.Ucred, error) {
	rc, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	var cerr error
	if err := rc.Control(func(fd uintptr) {
		cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return nil, err
	}
	return cred, os.NewSyscallError("getsockopt SO_PEERCRED", cerr)
}

// checkPeer demands the same user, the same user namespace, and none of the
// programs that are no clients.
func checkPeer(c *net.UnixConn, noClients []string) error {
	cred, err := peerCred(c)
	if err != nil {
		return err
	}
	if int(cred.Uid) != os.Getuid() {
		return fmt.Errorf("peer is of user %d", cred.Uid)
	}
	ours, err := os.Readlink("/proc/self/ns/user")
	if err != nil {
		return err
	}
	theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/user", cred.Pid))
	if err != nil || theirs != ours {
		return errors.New("peer is not in the coordinator's user namespace")
	}
	exe, err := os.Stat(fmt.Sprintf("/proc/%d/exe", cred.Pid))
	if err != nil {
		return fmt.Errorf("identify peer: %w", err)
	}
	for _, name := range noClients {
		if fi, err := os.Stat(name); err == nil && os.SameFile(fi, exe) {
			return fmt.Errorf("peer is a process of the sandbox's: %s", filepath.Base(name))
		}
	}
	return nil
}

// serveControl authenticates a client and gives it to the handler.
func (s *Server) serveControl(raw *net.UnixConn) {
	_ = raw.SetDeadline(time.Now().Add(greetTimeout))
	t := tls.Server(raw, s.anchor.ServerConfig())
	if err := t.HandshakeContext(s.ctx); err != nil {
		return
	}
	c := newConn(t)
	typ, payload, err := c.Read()
	if err != nil {
		return
	}
	s.dispatch(raw, c, typ, payload)
	c.closeWrite()
}

// dispatch does what a client's first frame asks for; one that asks for nothing
// known is left without an answer.
func (s *Server) dispatch(raw *net.UnixConn, c *Conn, typ wire.FrameType, payload []byte) {
	switch typ {
	case control.FrameOpen:
		var req control.OpenRequest
		if control.Decode(payload, &req) != nil {
			return
		}
		_ = raw.SetDeadline(time.Time{})
		s.handlers.Open(s.ctx, c, req)
	case control.FrameAsk:
		_ = c.WriteJSON(control.FrameStatus, s.handlers.Status())
	case control.FrameIgnored:
		var req isolation.Request
		if control.Decode(payload, &req) != nil {
			return
		}
		_ = raw.SetDeadline(time.Now().Add(answerTimeout))
		_ = c.WriteJSON(control.FrameAnswer, s.handlers.Ignored(s.ctx, req))
	case control.FrameStop:
		var req control.StopRequest
		if control.Decode(payload, &req) != nil {
			return
		}
		_ = raw.SetDeadline(time.Time{})
		s.handlers.Stop(s.ctx, req)
	}
}

// Conn is one authenticated connection. Write methods are safe for concurrent
// use; Read belongs to one goroutine.
type Conn struct {
	t       *tls.Conn
	sockets []claim.File // a client's: where it found the coordinator
	*wire.FrameReader
	*wire.FrameWriter
}

func newConn(t *tls.Conn) *Conn {
	return &Conn{t: t, FrameReader: wire.NewFrameReader(t), FrameWriter: wire.NewFrameWriter(t)}
}

// Peer is the identity of the connection's other side, as its certificate says.
func (c *Conn) Peer() (identity.Identity, error) { return trust.Peer(c.t.ConnectionState()) }

// Close closes the connection at once; a blocked Read or Write returns.
func (c *Conn) Close() error { return c.t.NetConn().Close() }

// SetWriteDeadline bounds writes from now on.
func (c *Conn) SetWriteDeadline(t time.Time) { _ = c.t.NetConn().SetWriteDeadline(t) }

// closeWrite sends the end of the stream and waits, briefly, for the client to
// have read it: closing with unread input would throw away what was written.
func (c *Conn) closeWrite() {
	_ = c.t.NetConn().SetDeadline(time.Now().Add(2 * time.Second))
	if c.t.CloseWrite() != nil {
		return
	}
	for {
		if _, _, err := c.Read(); err != nil {
			return
		}
	}
}

// NewID returns a fresh random identifier of 128 bits.
func NewID() (string, error) {
	b := make([]byte, 16)
	if _, err := rand.Read(b); err != nil {
		return "", fmt.Errorf("random id: %w", err)
	}
	return hex.EncodeToString(b), nil
}
