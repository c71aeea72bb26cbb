// Package inbound carries a client's frames into its session: input, within the
// window, and terminal sizes and signals, which never wait behind it. A client
// that breaks the rules is no client. It runs in the Host Coordinator.
package inbound

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"lazaret.dev/lazaret/host/internal/control"
	"lazaret.dev/lazaret/host/internal/session"
	pc "lazaret.dev/lazaret/protocol/control"
	"lazaret.dev/lazaret/protocol/wire"
)

// errWindow reports a client that sends more than its window.
var errWindow = errors.New("client exceeds its window")

// Input is a session's way in. Frames from the client are always read; the
// bytes wait in buf, at most one window of them, until the command takes them.
type Input struct {
	sess *session.Session
	conn *control.Conn

	mu     sync.Mutex
	cond   *sync.Cond
	buf    []byte
	held   int  // bytes sent by the client and not yet returned as credit
	eof    bool // the client's input has ended
	closed bool // the session is over
}

// New returns the way into a session for a client.
func New(sess *session.Session, conn *control.Conn) *Input {
	in := &Input{sess: sess, conn: conn}
	in.cond = sync.NewCond(&in.mu)
	return in
}

// Close ends Feed; what is left in the buffer is dropped.
func (in *Input) Close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	in.cond.Broadcast()
}

// Receive reads frames until the client leaves or breaks the rules.
func (in *Input) Receive(ctx context.Context) {
	for {
		typ, payload, err := in.conn.Read()
		if err != nil || in.handle(ctx, typ, payload) != nil {
			return
		}
	}
}

func (in *Input) put(p []byte, eof bool) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.held+len(p) > pc.Window {
		return errWindow
	}
	in.held += len(p)
	in.buf = append(in.buf, p...)
	in.eof = in.eof || eof
	in.cond.Broadcast()
	return nil
}

// take waits for bytes, or for the end of them.
func (in *Input) take() (p []byte, eof bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.buf) == 0 && !in.eof && !in.closed {
		in.cond.Wait()
	}
	p, in.buf = in.buf, nil
	return p, in.closed || (in.eof && len(p) == 0)
}

func (in *Input) credit(n int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.held -= n
}

// Feed gives the command its input and returns credit for what it has taken.
// Input that the command refuses is dropped, as at a closed pipe: the command
// may still have something to say.
func (in *Input) Feed() {
	for {
		p, eof := in.take()
		if eof {
			in.sess.CloseStdin()
			return
		}
		_ = in.sess.Write(p)
		in.credit(len(p))
		if in.conn.Write(pc.FrameCredit, pc.EncodeCredit(len(p))) != nil {
			return
		}
	}
}

// handle takes one frame of a client. An error ends the session: a client that
// breaks the rules is no client.
func (in *Input) handle(ctx context.Context, typ wire.FrameType, payload []byte) error {
	switch typ {
	case pc.FrameStdin:
		return in.put(payload, false)
	case pc.FrameStdinEOF:
		return in.put(nil, true)
	case pc.FrameResize:
		var size pc.Size
		if err := pc.Decode(payload, &size); err != nil {
			return err
		}
		if size.Rows == 0 || size.Cols == 0 {
			return errors.New("a terminal of no size")
		}
		// The command may have ended; then there is nothing to resize.
		_ = in.sess.Resize(size)
		return nil
	case pc.FrameSignal:
		var sig pc.Signal
		if err := pc.Decode(payload, &sig); err != nil {
			return err
		}
		// Likewise: a signal to a command that has just ended is late, not wrong.
		_ = in.sess.Signal(ctx, sig.Name)
		return nil
	default:
		return fmt.Errorf("unexpected frame %q", typ)
	}
}
