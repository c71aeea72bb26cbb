package control

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"lazaret.dev/lazaret/host/internal/claim"
	"lazaret.dev/lazaret/host/internal/trust"
	"lazaret.dev/lazaret/protocol/control"
	"lazaret.dev/lazaret/protocol/faults"
	"lazaret.dev/lazaret/protocol/identity"
	"lazaret.dev/lazaret/protocol/isolation"
)

// ErrNotPublished means that no coordinator answers in a directory.
var ErrNotPublished = errors.New("no coordinator is published")

// Dial enrols at the coordinator in dir and opens an authenticated connection.
// The profile and Domain ID are the ones that the caller resolved; a coordinator
// of another Domain is refused. ErrNotPublished says that there is none to talk
// to, now.
func Dial(ctx context.Context, dir, profile, domainID string) (*Conn, error) {
	var sockets []claim.File
	for _, name := range []string{control.EnrollSocket, control.ControlSocket} {
		file, err := claim.Identify(filepath.Join(dir, name))
		if err != nil {
			return nil, notPublished(err)
		}
		sockets = append(sockets, file)
	}
	reply, key, err := enroll(ctx, sockets[0].Path)
	if err != nil {
		return nil, err
	}
	faults.Point("join.cli.enrolled")
	cfg, err := trust.ClientConfig(key, reply.Certificate, reply.Anchor, identity.Identity{
		Role: identity.RoleCoordinator, Profile: profile, DomainID: domainID,
		Generation: reply.Generation, Component: reply.Coordinator,
	})
	if err != nil {
		return nil, err
	}
	raw, err := dial(ctx, sockets[1].Path)
	if err != nil {
		return nil, err
	}
	t := tls.Client(raw, cfg)
	hctx, cancel := context.WithTimeout(ctx, greetTimeout)
	defer cancel()
	if err := t.HandshakeContext(hctx); err != nil {
		_ = raw.Close()
		if gone(err) {
			return nil, fmt.Errorf("%w: %w", ErrNotPublished, err)
		}
		return nil, fmt.Errorf("authenticate coordinator: %w", raw.unanswered(err))
	}
	faults.Point("join.cli.authenticated")
	c := newConn(t)
	c.sockets = sockets
	return c, nil
}

// Sweep removes the sockets through which this connection was made, and nothing
// that has been put in their place. Their coordinator is dead: the caller holds
// the Domain lock.
func (c *Conn) Sweep() {
	for _, file := range c.sockets {
		_ = claim.Remove(file, true)
	}
}

// Ask asks a coordinator what runs in its Domain, and closes the connection.
// ErrNotPublished says that the coordinator has ended meanwhile.
func Ask(ctx context.Context, c *Conn) (*control.Status, error) {
	defer c.Close()
	defer bound(ctx, c.t.NetConn())()
	if err := c.Write(control.FrameAsk, nil); err != nil {
		return nil, fmt.Errorf("ask coordinator: %w", notPublished(err))
	}
	typ, payload, err := c.Read()
	if err != nil {
		return nil, fmt.Errorf("ask coordinator: %w", notPublished(err))
	}
	if typ != control.FrameStatus {
		return nil, fmt.Errorf("ask coordinator: unexpected frame %q", typ)
	}
	var st control.Status
	if err := control.Decode(payload, &st); err != nil {
		return nil, err
	}
	return &st, nil
}

// Ignored asks a coordinator about ignored paths, and closes the connection.
func Ignored(c *Conn, req isolation.Request) (*isolation.Answer, error) {
	defer c.Close()
	_ = c.t.NetConn().SetDeadline(time.Now().Add(answerTimeout))
	if err := c.WriteJSON(control.FrameIgnored, req); err != nil {
		return nil, fmt.Errorf("ask coordinator: %w", err)
	}
	typ, payload, err := c.Read()
	if err != nil {
		return nil, fmt.Errorf("ask coordinator: %w", err)
	}
	if typ != control.FrameAnswer {
		return nil, fmt.Errorf("ask coordinator: unexpected frame %q", typ)
	}
	var a isolation.Answer
	if err := control.Decode(payload, &a); err != nil {
		return nil, err
	}
	return &a, nil
}

// Stop asks a coordinator to end its generation, and returns when the
// coordinator has gone. ErrNotPublished says that it had before it was asked.
func Stop(ctx context.Context, c *Conn, req control.StopRequest) error {
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	if err := c.WriteJSON(control.FrameStop, req); err != nil {
		return fmt.Errorf("stop the Domain: %w", notPublished(err))
	}
	faults.Point("stop.cli.asked")
	for {
		if _, _, err := c.Read(); err != nil {
			return ctx.Err() // the end of the connection is the answer
		}
	}
}

func enroll(ctx context.Context, path string) (*control.EnrollReply, ed25519.PrivateKey, error) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generate key: %w", err)
	}
	c, err := dial(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	defer c.Close()
	defer bound(ctx, c)()
	if err := json.NewEncoder(c).Encode(control.EnrollRequest{Version: control.Version, PublicKey: pub}); err != nil {
		return nil, nil, c.unanswered(err)
	}
	b, err := readLine(c, control.MaxEnroll)
	if err != nil {
		return nil, nil, c.unanswered(err)
	}
	var reply control.EnrollReply
	if err := control.Decode(b, &reply); err != nil {
		return nil, nil, c.unanswered(err)
	}
	if reply.Error != "" {
		return nil, nil, fmt.Errorf("the coordinator refuses to enrol this client: %s", reply.Error)
	}
	return &reply, key, nil
}

// peer is a connection to whoever listens at a socket.
type peer struct {
	*net.UnixConn
	socket string
	pid    int // of the process that began to listen; 0 where it is in another pid namespace
}

// dial connects to a process of this user's, and to no other's.
func dial(ctx context.Context, path string) (*peer, error) {
	var d net.Dialer
	c, err := d.DialUnix(ctx, "unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, notPublished(err)
	}
	cred, err := peerCred(c)
	if err == nil && int(cred.Uid) != os.Getuid() {
		err = fmt.Errorf("user %d listens at %q", cred.Uid, path)
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return &peer{UnixConn: c, socket: path, pid: int(cred.Pid)}, nil
}

// unanswered names the peer as one that does not answer, unless it is just not
// there.
func (p *peer) unanswered(err error) error {
	if gone(err) {
		return notPublished(err)
	}
	return &UnansweredError{PID: p.pid, Socket: p.socket, Err: err}
}

// bound gives a conversation until greetTimeout, and no longer than its context
// lives. The function that it returns ends that.
func bound(ctx context.Context, c net.Conn) (release func() bool) {
	_ = c.SetDeadline(time.Now().Add(greetTimeout))
	return context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
}

// UnansweredError reports a process that listens where a Domain's coordinator
// does, and does not answer as one: it is stopped, or something else.
type UnansweredError struct {
	PID    int // of the process that began to listen; 0 where it cannot be seen
	Socket string
	Err    error
}

// Error implements error.
func (e *UnansweredError) Error() string {
	who := "what listens"
	if e.PID != 0 {
		who = fmt.Sprintf("process %d, which listens", e.PID)
	}
	return fmt.Sprintf("%s at %q does not answer as a Host Coordinator: %v", who, e.Socket, e.Err)
}

// Unwrap returns what came instead of the answer.
func (e *UnansweredError) Unwrap() error { return e.Err }

// Hint says what to do about it.
func (e *UnansweredError) Hint() string {
	if e.PID == 0 {
		return claim.MoveAway(e.Socket)
	}
	return fmt.Sprintf("look at it, and end it: kill -9 %d", e.PID)
}

// notPublished tells a coordinator that is not there from a real failure.
func notPublished(err error) error {
	if gone(err) {
		return fmt.Errorf("%w: %w", ErrNotPublished, err)
	}
	return err
}

// gone reports errors of a coordinator that is not there, or is just leaving.
func gone(err error) bool {
	for _, e := range []error{os.ErrNotExist, syscall.ENOTDIR, syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, net.ErrClosed} {
		if errors.Is(err, e) {
			return true
		}
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
