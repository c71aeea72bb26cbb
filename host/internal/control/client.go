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

	"lazaret.dev/lazaret/host/internal/trust"
	"lazaret.dev/lazaret/protocol/control"
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
	reply, key, err := enroll(ctx, filepath.Join(dir, control.EnrollSocket))
	if err != nil {
		return nil, err
	}
	cfg, err := trust.ClientConfig(key, reply.Certificate, reply.Anchor, identity.Identity{
		Role: identity.RoleCoordinator, Profile: profile, DomainID: domainID,
		Generation: reply.Generation, Component: reply.Coordinator,
	})
	if err != nil {
		return nil, err
	}
	raw, err := dial(ctx, filepath.Join(dir, control.ControlSocket))
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
		return nil, fmt.Errorf("authenticate coordinator: %w", err)
	}
	return newConn(t), nil
}

// Ask asks a coordinator what runs in its Domain, and closes the connection.
func Ask(c *Conn) (*control.Status, error) {
	defer c.Close()
	_ = c.t.NetConn().SetDeadline(time.Now().Add(greetTimeout))
	if err := c.Write(control.FrameAsk, nil); err != nil {
		return nil, fmt.Errorf("ask coordinator: %w", err)
	}
	typ, payload, err := c.Read()
	if err != nil {
		return nil, fmt.Errorf("ask coordinator: %w", err)
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
// coordinator has gone.
func Stop(ctx context.Context, c *Conn, req control.StopRequest) error {
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	if err := c.WriteJSON(control.FrameStop, req); err != nil {
		return fmt.Errorf("stop the Domain: %w", err)
	}
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
	_ = c.SetDeadline(time.Now().Add(greetTimeout))
	if err := json.NewEncoder(c).Encode(control.EnrollRequest{Version: control.Version, PublicKey: pub}); err != nil {
		return nil, nil, notPublished(err)
	}
	b, err := readLine(c, control.MaxEnroll)
	if err != nil {
		return nil, nil, notPublished(err)
	}
	var reply control.EnrollReply
	if err := control.Decode(b, &reply); err != nil {
		return nil, nil, err
	}
	if reply.Error != "" {
		return nil, nil, fmt.Errorf("the coordinator refuses to enrol this client: %s", reply.Error)
	}
	return &reply, key, nil
}

func dial(ctx context.Context, path string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, notPublished(err)
	}
	return c, nil
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
	for _, e := range []error{os.ErrNotExist, syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, net.ErrClosed} {
		if errors.Is(err, e) {
			return true
		}
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
