package coordinator

import (
	"context"
	"errors"
	"sync"

	"lazaret.dev/lazaret/host/internal/control"
	"lazaret.dev/lazaret/host/internal/session"
	pc "lazaret.dev/lazaret/protocol/control"
)

// errWindow reports a client that sends more than its window.
var errWindow = errors.New("client exceeds its window")

// input is a session's way in. Frames from the client are always read; the
// bytes wait in buf, at most one window of them, until the command takes them.
type input struct {
	sess *session.Session
	conn *control.Conn

	mu     sync.Mutex
	cond   *sync.Cond
	buf    []byte
	held   int  // bytes sent by the client and not yet returned as credit
	eof    bool // the client's input has ended
	closed bool // the session is over
}

func newInput(sess *session.Session, conn *control.Conn) *input {
	in := &input{sess: sess, conn: conn}
	in.cond = sync.NewCond(&in.mu)
	return in
}

// close ends feed; what is left in the buffer is dropped.
func (in *input) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	in.cond.Broadcast()
}

// receive reads frames until the client leaves or breaks the rules.
func (in *input) receive(ctx context.Context) {
	for {
		typ, payload, err := in.conn.Read()
		if err != nil || in.handle(ctx, typ, payload) != nil {
			return
		}
	}
}

func (in *input) put(p []byte, eof bool) error {
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
func (in *input) take() (p []byte, eof bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.buf) == 0 && !in.eof && !in.closed {
		in.cond.Wait()
	}
	p, in.buf = in.buf, nil
	return p, in.closed || (in.eof && len(p) == 0)
}

func (in *input) credit(n int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.held -= n
}

// feed gives the command its input and returns credit for what it has taken.
// Input that the command refuses is dropped, as at a closed pipe: the command
// may still have something to say.
func (in *input) feed() {
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
