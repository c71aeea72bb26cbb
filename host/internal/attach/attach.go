// Package attach is the Client CLI's side of a session: the user's terminal or
// pipes on one end, the authenticated connection to the Host Coordinator on
// the other.
//
// It owns the terminal's mode for as long as it runs and gives it back on
// every way out. It runs in the CLI and talks to no sandbox itself.
package attach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"lazaret.dev/lazaret/host/internal/control"
	pc "lazaret.dev/lazaret/protocol/control"
	"lazaret.dev/lazaret/protocol/faults"
)

// Stdio is what the session is attached to.
type Stdio struct {
	In, Out, Err *os.File

	// Notice prints a line of Lazaret's own on the user's stderr, without mixing
	// it into a screen that the session draws.
	Notice func(text string)
}

// RefusedError is the coordinator's answer to a session that it does not admit.
type RefusedError struct{ pc.Refused }

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the coordinator refuses the session (%s)", e.Why)
}

// UnansweredError reports a coordinator that ended before it answered: nothing
// of the session has begun.
type UnansweredError struct{ Err error }

func (e *UnansweredError) Error() string { return "open session: " + e.Err.Error() }

func (e *UnansweredError) Unwrap() error { return e.Err }

// LostError reports a session that Lazaret could not carry to its end.
type LostError struct {
	Reason string
	Log    string // directory of the generation's logs, or empty
	Gone   bool   // the coordinator has ended without a word
}

func (e *LostError) Error() string { return e.Reason }

// Hint names the logs.
func (e *LostError) Hint() string {
	if e.Log == "" {
		return ""
	}
	return "see the logs in " + e.Log
}

// termGrace is how long a command may take to end after SIGTERM or SIGHUP were
// passed on, before the client leaves, which ends the session.
const termGrace = 5 * time.Second

// Size reads a terminal's size. Where the terminal says 0 by 0 it is 24 by 80:
// programs divide by it.
func Size(f *os.File) pc.Size {
	ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || ws.Row == 0 || ws.Col == 0 {
		return pc.Size{Rows: 24, Cols: 80}
	}
	return pc.Size{Rows: ws.Row, Cols: ws.Col}
}

// Run opens a session on c and carries it to its end. It returns the command's
// exit status; a *RefusedError when the session was not admitted, a *LostError
// when Lazaret failed under it. The connection is closed when it returns.
func Run(ctx context.Context, c *control.Conn, req pc.OpenRequest, stdio Stdio) (int, error) {
	defer c.Close()
	if err := c.WriteJSON(pc.FrameOpen, req); err != nil {
		return 0, &UnansweredError{err}
	}
	faults.Point("join.cli.opened")
	typ, payload, err := c.Read()
	switch {
	case err != nil:
		return 0, &UnansweredError{err}
	case typ == pc.FrameRefused:
		var r pc.Refused
		if err := pc.Decode(payload, &r); err != nil {
			return 0, err
		}
		return 0, &RefusedError{r}
	case typ != pc.FrameAdmitted:
		return 0, fmt.Errorf("open session: unexpected frame %q", typ)
	}

	faults.Point("join.cli.admitted")
	a := &attachment{conn: c, stdio: stdio, tty: req.TTY, credit: make(chan int, 16), left: make(chan struct{})}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// From before the terminal is raw until after it is given back, no signal
	// ends this process by itself.
	signals := a.catchSignals()
	defer signal.Stop(signals)
	if req.TTY {
		if a.screen, err = takeScreen(stdio); err != nil {
			return 0, err
		}
	}
	stopped := a.forwardSignals(ctx, signals, req.Size)
	defer func() {
		cancel()
		<-stopped
	}()
	orderly := false
	var late []string
	// What is said after the end is for the terminal as it was before.
	defer func() {
		for _, text := range late {
			stdio.Notice(text)
		}
	}()
	// Every way out of this function gives the terminal back, a panic included.
	defer func() { a.screen.giveBack(orderly) }()

	go func() {
		defer a.guard()
		a.forwardInput(ctx) // ends with the connection or, in a Read, with the process
	}()
	faults.Point("join.cli.attached")
	end := a.await(ctx)
	orderly, late = end.orderly, end.late
	return end.status, end.err
}

// attachment is one session of this process.
type attachment struct {
	conn   *control.Conn
	stdio  Stdio
	tty    bool
	screen *screen // nil without a terminal
	credit chan int
	left   chan struct{} // closed when a signal makes this client leave

	mu     sync.Mutex
	killed syscall.Signal // the signal that made it leave
}

// end is how a session ended for its client.
type end struct {
	status   int
	err      error
	orderly  bool     // the command came to its own end
	late     []string // notices that came after the exit status
	panicked any
}

// maxLate bounds how many notices are kept for the end.
const maxLate = 1000

// leaveGrace is how long a client that leaves waits for a terminal or a pipe
// that takes no more output.
const leaveGrace = time.Second

// await returns the session's end. A signal that makes this client leave does
// not wait for a terminal that has stopped reading.
func (a *attachment) await(ctx context.Context) end {
	ch := make(chan end, 1)
	go func() {
		var e end
		defer func() {
			if p := recover(); p != nil {
				e = end{panicked: p}
			}
			ch <- e
		}()
		e = a.receive(ctx)
	}()
	var e end
	select {
	case e = <-ch:
	case <-a.left:
		select {
		case e = <-ch:
		case <-time.After(leaveGrace):
			e = end{err: &signalError{a.leaving()}}
		}
	}
	if e.panicked != nil {
		panic(e.panicked)
	}
	return e
}

// guard gives the terminal back when the goroutine that it is deferred in
// panics; the panic then ends the process.
func (a *attachment) guard() {
	if p := recover(); p != nil {
		a.screen.giveBack(false)
		panic(p)
	}
}

// receive carries output to the user until the session's end. After the exit
// status it waits for the connection's end: for the last session of a Domain
// that is when everything is torn down.
func (a *attachment) receive(ctx context.Context) end {
	stop := context.AfterFunc(ctx, func() { _ = a.conn.Close() })
	defer stop()
	var exit *pc.Exit
	var late []string
	for {
		typ, payload, err := a.conn.Read()
		if err != nil {
			status, err := a.ended(ctx, exit, err)
			// An exit with a reason is one that the command did not choose.
			return end{status: status, err: err, orderly: err == nil && exit.Reason == "", late: late}
		}
		switch typ {
		case pc.FrameStdout:
			a.screen.watch(payload)
			err = a.write(a.stdio.Out, payload)
		case pc.FrameStderr:
			err = a.write(a.stdio.Err, payload)
		case pc.FrameCredit:
			var n int
			if n, err = pc.DecodeCredit(payload); err == nil {
				select {
				case a.credit <- n:
				case <-ctx.Done():
				}
			}
		case pc.FrameNotice:
			var n pc.Notice
			err = pc.Decode(payload, &n)
			switch {
			case err != nil:
			case exit == nil:
				a.notice(n.Text)
			case len(late) < maxLate:
				late = append(late, n.Text)
			}
		case pc.FrameExit:
			exit = new(pc.Exit)
			err = pc.Decode(payload, exit)
			faults.Point("session.cli.exit-received")
		default:
			err = fmt.Errorf("unexpected frame %q", typ)
		}
		if err != nil {
			return end{err: err}
		}
	}
}

// write copies to one of the user's streams. A reader that has gone (`| head`)
// ends this client, as it would end a command that runs on the host.
func (a *attachment) write(f *os.File, p []byte) error {
	if _, err := f.Write(p); err != nil {
		if errors.Is(err, syscall.EPIPE) {
			return &signalError{syscall.SIGPIPE}
		}
		return fmt.Errorf("write to %s: %w", f.Name(), err)
	}
	return nil
}

// notice prints a line of Lazaret's own. In raw mode the terminal does not
// return the carriage, so that the line does.
func (a *attachment) notice(text string) {
	if a.tty {
		text = strings.ReplaceAll(text, "\n", "\r\n") + "\r"
	}
	a.stdio.Notice(text)
}

// ended decides what the end of the connection means.
func (a *attachment) ended(ctx context.Context, exit *pc.Exit, cause error) (int, error) {
	killed := a.leaving()
	switch {
	case exit != nil && exit.Failed:
		return 0, &LostError{Reason: exit.Reason, Log: exit.Log}
	case exit != nil:
		if exit.Reason != "" {
			a.notice(exit.Reason)
		}
		return exit.Status, nil
	case killed != 0:
		return 0, &signalError{killed}
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case errors.Is(cause, io.EOF), errors.Is(cause, io.ErrUnexpectedEOF), errors.Is(cause, syscall.ECONNRESET):
		return 0, &LostError{Reason: "the Host Coordinator has gone; the session is over", Gone: true}
	default:
		return 0, fmt.Errorf("session: %w", cause)
	}
}

// signalError says that a signal ended this client.
type signalError struct{ sig syscall.Signal }

func (e *signalError) Error() string { return "ended by signal: " + e.sig.String() }

// ExitStatus is the status that a shell gives to that death.
func (e *signalError) ExitStatus() int { return 128 + int(e.sig) }

// forwardInput carries the user's input, never more than the window allows.
func (a *attachment) forwardInput(ctx context.Context) {
	// A background job that reads its terminal would be stopped; it gets an
	// error instead, which is the end of its input. Nor is one stopped that gives
	// its terminal back.
	signal.Ignore(syscall.SIGTTIN, syscall.SIGTTOU)
	window := pc.Window
	buf := make([]byte, 32<<10)
	for {
		for window == 0 {
			select {
			case n := <-a.credit:
				window += n
			case <-ctx.Done():
				return
			}
		}
		n, err := a.stdio.In.Read(buf[:min(len(buf), window)])
		if n > 0 {
			if a.conn.Write(pc.FrameStdin, buf[:n]) != nil {
				return
			}
			window -= n
		}
		for more := true; more; {
			select {
			case n := <-a.credit:
				window += n
			default:
				more = false
			}
		}
		if err != nil {
			_ = a.conn.Write(pc.FrameStdinEOF, nil)
			a.dropCredit(ctx)
			return
		}
	}
}

// dropCredit keeps the receiver from waiting for somebody to take credit.
func (a *attachment) dropCredit(ctx context.Context) {
	for {
		select {
		case <-a.credit:
		case <-ctx.Done():
			return
		}
	}
}

// catchSignals begins to catch what forwardSignals passes on.
func (a *attachment) catchSignals() chan os.Signal {
	ch := make(chan os.Signal, 8)
	signals := []os.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT}
	if a.tty {
		signals = append(signals, syscall.SIGWINCH)
	}
	signal.Notify(ch, signals...)
	return ch
}

// forwardSignals passes window changes and termination on until the context
// ends. The returned channel is closed when it has stopped.
func (a *attachment) forwardSignals(ctx context.Context, ch <-chan os.Signal, size pc.Size) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer a.guard()
		if a.tty {
			// The terminal may have changed between the request and here.
			a.resize(&size)
		}
		for {
			select {
			case s := <-ch:
				if sig, ok := s.(syscall.Signal); ok {
					a.signal(sig, &size)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return done
}

// signal handles one signal to this process. With a terminal the keys are
// bytes, so that SIGTERM and SIGHUP mean this client, not the command; without
// one, the command gets what its client gets.
func (a *attachment) signal(s syscall.Signal, size *pc.Size) {
	switch s {
	case syscall.SIGWINCH:
		a.resize(size)
		return
	case syscall.SIGTERM, syscall.SIGHUP:
		if !a.leave(s) {
			return
		}
		if a.tty {
			a.disconnect()
			return
		}
		time.AfterFunc(termGrace, a.disconnect)
	default: // passed on below
	}
	name := map[syscall.Signal]pc.SignalName{
		syscall.SIGTERM: pc.SignalTerminate, syscall.SIGHUP: pc.SignalHangup,
		syscall.SIGINT: pc.SignalInterrupt, syscall.SIGQUIT: pc.SignalQuit,
	}[s]
	_ = a.conn.WriteJSON(pc.FrameSignal, pc.Signal{Name: name})
}

// leave notes the signal that makes this client leave. It reports false when
// another did before.
func (a *attachment) leave(s syscall.Signal) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.killed != 0 {
		return false
	}
	a.killed = s
	return true
}

// leaving is the signal that makes this client leave, or 0.
func (a *attachment) leaving() syscall.Signal {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.killed
}

// disconnect ends the session by leaving it.
func (a *attachment) disconnect() {
	_ = a.conn.Close()
	close(a.left)
}

// resize reports the terminal's size when it is another.
func (a *attachment) resize(last *pc.Size) {
	if now := Size(a.stdio.In); now != *last {
		*last = now
		_ = a.conn.WriteJSON(pc.FrameResize, now)
	}
}

// IsTerminal reports whether f is a terminal.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
