package attach_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/attach"
	"lazaret.dev/lazaret/host/internal/control"
	"lazaret.dev/lazaret/host/internal/trust"
	"lazaret.dev/lazaret/protocol"
	pc "lazaret.dev/lazaret/protocol/control"
	"lazaret.dev/lazaret/protocol/identity"
)

// dial connects to a coordinator that does what h says.
func dial(t *testing.T, h control.Handler) *control.Conn {
	t.Helper()
	dir := t.TempDir()
	self := identity.Identity{
		Role: identity.RoleCoordinator, Profile: "shell", DomainID: "0123456789ab", Generation: "g1", Component: strings.Repeat("c", 32),
	}
	anchor, err := trust.NewAnchor(self, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	s, err := control.Listen(t.Context(), dir, self, anchor, control.Handlers{Open: h})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(0) })
	if err := s.Publish(); err != nil {
		t.Fatal(err)
	}
	c, err := control.Dial(t.Context(), dir, self.Profile, self.DomainID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// admitting is a coordinator that admits the session before it does f.
func admitting(f func(c *control.Conn)) control.Handler {
	return func(_ context.Context, c *control.Conn, _ pc.OpenRequest) {
		_ = c.WriteJSON(pc.FrameAdmitted, pc.Admitted{Session: "s1"})
		f(c)
	}
}

// hold waits for the client to leave.
func hold(c *control.Conn) {
	for {
		if _, _, err := c.Read(); err != nil {
			return
		}
	}
}

// terminal is a user's terminal; what it draws is read only when asked for.
type terminal struct {
	t             *testing.T
	master, slave *os.File
	before        unix.Termios
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	m, s, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = m.Close(), s.Close() })
	tt := &terminal{t: t, master: m, slave: s}
	tt.before = tt.mode()
	tt.resize(24, 80)
	return tt
}

func (tt *terminal) mode() unix.Termios {
	tt.t.Helper()
	m, err := unix.IoctlGetTermios(int(tt.slave.Fd()), unix.TCGETS)
	if err != nil {
		tt.t.Fatal(err)
	}
	return *m
}

func (tt *terminal) raw() bool { return tt.mode().Lflag&unix.ICANON == 0 }

func (tt *terminal) resize(rows, cols uint16) {
	tt.t.Helper()
	if err := pty.Setsize(tt.master, &pty.Winsize{Rows: rows, Cols: cols}); err != nil {
		tt.t.Fatal(err)
	}
}

func (tt *terminal) stdio() attach.Stdio {
	return attach.Stdio{In: tt.slave, Out: tt.slave, Err: tt.slave, Notice: func(string) {}}
}

// drawn reads what was drawn, up to the given end.
func (tt *terminal) drawn(end string) string {
	tt.t.Helper()
	var got strings.Builder
	b := make([]byte, 1)
	for !strings.HasSuffix(got.String(), end) {
		if _, err := tt.master.Read(b); err != nil {
			tt.t.Fatalf("%v after %q", err, got.String())
		}
		got.Write(b)
	}
	return got.String()
}

func (tt *terminal) restored() {
	tt.t.Helper()
	if got := tt.mode(); got != tt.before {
		tt.t.Errorf("the terminal's mode is %+v, was %+v", got, tt.before)
	}
}

var request = pc.OpenRequest{TTY: true, Size: pc.Size{Rows: 24, Cols: 80}}

const (
	modes = "\x1b[?1049h\x1b[?25l\x1b[?2004h"
	off   = "\x1b[?2004l\x1b[?1049l\x1b[?25h"
)

// Case 19: what was switched on inside is switched off, and the terminal's mode
// is as before, unless the command has come to its own end.
func TestTerminalIsGivenBack(t *testing.T) {
	for _, tc := range []struct {
		name   string
		last   func(c *control.Conn)
		off    bool
		status int
		check  func(error) bool
	}{
		{
			"command ends", func(c *control.Conn) { _ = c.WriteJSON(pc.FrameExit, pc.Exit{Status: 3}) }, false, 3,
			func(err error) bool { return err == nil },
		},
		{
			"Domain is stopped", func(c *control.Conn) { _ = c.WriteJSON(pc.FrameExit, pc.Exit{Status: 143, Reason: "stopped"}) }, true, 143,
			func(err error) bool { return err == nil },
		},
		{
			"Domain fails", func(c *control.Conn) { _ = c.WriteJSON(pc.FrameExit, pc.Exit{Failed: true, Reason: "why", Log: "/l"}) }, true, 0,
			func(err error) bool {
				var lost *attach.LostError
				return errors.As(err, &lost) && lost.Reason == "why" && !lost.Gone && strings.Contains(lost.Hint(), "/l")
			},
		},
		{
			"coordinator vanishes", func(c *control.Conn) { _ = c.Close() }, true, 0,
			func(err error) bool {
				var lost *attach.LostError
				return errors.As(err, &lost) && lost.Gone
			},
		},
		{
			"nonsense", func(c *control.Conn) { _ = c.Write('?', nil) }, true, 0,
			func(err error) bool { return err != nil && strings.Contains(err.Error(), "unexpected frame") },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			term := newTerminal(t)
			wasRaw := make(chan bool, 1)
			c := dial(t, admitting(func(c *control.Conn) {
				_ = c.Write(pc.FrameStdout, []byte(modes+"|"))
				term.drawn("|")
				wasRaw <- term.raw()
				tc.last(c)
			}))
			status, err := attach.Run(t.Context(), c, request, term.stdio())
			if status != tc.status || !tc.check(err) {
				t.Errorf("status %d, error %v", status, err)
			}
			if !<-wasRaw {
				t.Error("the terminal was not raw during the session")
			}
			term.restored()
			_, _ = term.slave.WriteString("$")
			want := "$"
			if tc.off {
				want = off + "$"
			}
			if got := term.drawn("$"); got != want {
				t.Errorf("drawn at the end: %q, want %q", got, want)
			}
		})
	}
}

// A bug in the client leaves no broken terminal either.
func TestPanicGivesTheTerminalBack(t *testing.T) {
	term := newTerminal(t)
	c := dial(t, admitting(func(c *control.Conn) {
		_ = c.Write(pc.FrameStdout, []byte(modes+"|"))
		_ = c.WriteJSON(pc.FrameNotice, pc.Notice{Text: "boom"})
		hold(c)
	}))
	stdio := term.stdio()
	stdio.Notice = func(string) { panic("boom") }
	func() {
		defer func() {
			if p := recover(); p != "boom" {
				t.Errorf("recovered %v", p)
			}
		}()
		_, _ = attach.Run(t.Context(), c, request, stdio)
	}()
	term.restored()
	_, _ = term.slave.WriteString("$")
	if got := term.drawn("$"); !strings.HasSuffix(got, off+"$") {
		t.Errorf("drawn: %q", got)
	}
}

// A terminal that takes no output (^S, a frozen window) does not hold a client
// that is asked to go.
func TestStoppedTerminal(t *testing.T) {
	term := newTerminal(t)
	c := dial(t, admitting(func(c *control.Conn) {
		_ = c.Write(pc.FrameStdout, []byte(modes))
		_ = c.Write(pc.FrameStdout, bytes.Repeat([]byte("x"), 128<<10))
		// More than a terminal holds is on its way: the client is stuck in it.
		time.AfterFunc(300*time.Millisecond, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGTERM) })
		hold(c)
	}))
	start := time.Now()
	_, err := attach.Run(t.Context(), c, request, term.stdio())
	var status interface{ ExitStatus() int }
	if !errors.As(err, &status) || status.ExitStatus() != 143 {
		t.Errorf("error %v", err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	term.restored()
}

func TestResize(t *testing.T) {
	term := newTerminal(t)
	sizes := make(chan pc.Size, 8)
	c := dial(t, admitting(func(c *control.Conn) {
		for {
			typ, p, err := c.Read()
			if err != nil {
				return
			}
			if typ != pc.FrameResize {
				continue
			}
			var s pc.Size
			if pc.Decode(p, &s) != nil {
				return
			}
			sizes <- s
			if s.Rows == 50 {
				_ = c.WriteJSON(pc.FrameExit, pc.Exit{})
				return
			}
		}
	}))
	// It was another size when the request was made.
	term.resize(30, 90)
	resized := make(chan struct{})
	go func() {
		defer close(resized)
		if got := <-sizes; got != (pc.Size{Rows: 30, Cols: 90}) {
			t.Errorf("first %+v", got)
		}
		term.resize(50, 100)
		_ = syscall.Kill(os.Getpid(), syscall.SIGWINCH)
	}()
	if status, err := attach.Run(t.Context(), c, request, term.stdio()); status != 0 || err != nil {
		t.Errorf("status %d, error %v", status, err)
	}
	<-resized
	if got := <-sizes; got != (pc.Size{Rows: 50, Cols: 100}) {
		t.Errorf("then %+v", got)
	}
}

// Case 11.
func TestSize(t *testing.T) {
	term := newTerminal(t)
	for _, tc := range []struct{ rows, cols, wantRows, wantCols uint16 }{
		{41, 97, 41, 97}, {0, 0, 24, 80}, {0, 80, 24, 80}, {24, 0, 24, 80}, {1, 1, 1, 1},
	} {
		term.resize(tc.rows, tc.cols)
		if got := attach.Size(term.slave); got != (pc.Size{Rows: tc.wantRows, Cols: tc.wantCols}) {
			t.Errorf("%d by %d: %+v", tc.rows, tc.cols, got)
		}
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if got := attach.Size(null); got != (pc.Size{Rows: 24, Cols: 80}) {
		t.Errorf("no terminal: %+v", got)
	}
}

// pipes is a session without a terminal: the client's ends, and the user's.
func pipes(t *testing.T) (stdio attach.Stdio, in, out *os.File) {
	t.Helper()
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, f := range []*os.File{inR, inW, outR, outW} {
			_ = f.Close()
		}
	})
	return attach.Stdio{In: inR, Out: outW, Err: outW, Notice: func(string) {}}, inW, outR
}

// The client sends no more than its window, and goes on when it has credit.
func TestWindow(t *testing.T) {
	stdio, in, _ := pipes(t)
	const total = 2*pc.Window + 1000
	go func() {
		_, _ = in.Write(bytes.Repeat([]byte("x"), total))
		_ = in.Close()
	}()
	var mu sync.Mutex
	got, beyond := 0, false
	c := dial(t, admitting(func(c *control.Conn) {
		outstanding := 0
		for {
			typ, p, err := c.Read()
			if err != nil {
				return
			}
			switch typ {
			case pc.FrameStdin:
				mu.Lock()
				got += len(p)
				mu.Unlock()
				outstanding += len(p)
				beyond = beyond || outstanding > pc.Window
				if outstanding == pc.Window {
					time.Sleep(100 * time.Millisecond) // whoever sends on does it now
					_ = c.Write(pc.FrameCredit, pc.EncodeCredit(outstanding))
					outstanding = 0
				}
			case pc.FrameStdinEOF:
				_ = c.WriteJSON(pc.FrameExit, pc.Exit{Status: 9})
				return
			}
		}
	}))
	status, err := attach.Run(t.Context(), c, pc.OpenRequest{}, stdio)
	if status != 9 || err != nil {
		t.Errorf("status %d, error %v", status, err)
	}
	if got != total || beyond {
		t.Errorf("%d bytes of %d, beyond the window: %t", got, total, beyond)
	}
}

// A reader that has gone ends the client as SIGPIPE would.
func TestReaderGone(t *testing.T) {
	stdio, _, out := pipes(t)
	_ = out.Close()
	c := dial(t, admitting(func(c *control.Conn) {
		_ = c.Write(pc.FrameStdout, []byte("x"))
		hold(c)
	}))
	_, err := attach.Run(t.Context(), c, pc.OpenRequest{}, stdio)
	var status interface{ ExitStatus() int }
	if !errors.As(err, &status) || status.ExitStatus() != 141 {
		t.Errorf("error %v", err)
	}
}

// Without a terminal a signal to the client is the command's.
func TestSignalsWithoutTerminal(t *testing.T) {
	stdio, in, _ := pipes(t)
	_, _ = in.WriteString("x") // input comes from a client that already catches signals
	c := dial(t, admitting(func(c *control.Conn) {
		for {
			typ, p, err := c.Read()
			if err != nil {
				return
			}
			if typ == pc.FrameStdin {
				_ = syscall.Kill(os.Getpid(), syscall.SIGINT)
			}
			if typ == pc.FrameSignal {
				var s pc.Signal
				if pc.Decode(p, &s) == nil && s.Name == pc.SignalInterrupt {
					_ = c.WriteJSON(pc.FrameExit, pc.Exit{Status: 130})
				}
				return
			}
		}
	}))
	if status, err := attach.Run(t.Context(), c, pc.OpenRequest{}, stdio); status != 130 || err != nil {
		t.Errorf("status %d, error %v", status, err)
	}
}

func TestRefused(t *testing.T) {
	term := newTerminal(t)
	c := dial(t, func(_ context.Context, c *control.Conn, _ pc.OpenRequest) {
		_ = c.WriteJSON(pc.FrameRefused, pc.Refused{Why: protocol.RefusedFingerprint, Detail: []string{"image"}})
	})
	_, err := attach.Run(t.Context(), c, request, term.stdio())
	var refused *attach.RefusedError
	if !errors.As(err, &refused) || refused.Why != protocol.RefusedFingerprint || len(refused.Detail) != 1 {
		t.Errorf("error %v", err)
	}
	term.restored()
}

// A coordinator that ends before it answers is told from one that ends later:
// nothing of the session has begun.
func TestUnanswered(t *testing.T) {
	stdio, _, _ := pipes(t)
	c := dial(t, func(context.Context, *control.Conn, pc.OpenRequest) {})
	_, err := attach.Run(t.Context(), c, pc.OpenRequest{}, stdio)
	if _, ok := errors.AsType[*attach.UnansweredError](err); !ok {
		t.Errorf("before the answer: %v", err)
	}
	c = dial(t, admitting(func(*control.Conn) {}))
	_, err = attach.Run(t.Context(), c, pc.OpenRequest{}, stdio)
	if lost, ok := errors.AsType[*attach.LostError](err); !ok || !lost.Gone {
		t.Errorf("after it: %v", err)
	}
}

func TestEndsWithItsContext(t *testing.T) {
	stdio, _, _ := pipes(t)
	ctx, cancel := context.WithCancel(t.Context())
	c := dial(t, admitting(func(c *control.Conn) {
		cancel()
		hold(c)
	}))
	if _, err := attach.Run(ctx, c, pc.OpenRequest{}, stdio); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if _, _, err := c.Read(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the connection is open: %v", err)
	}
}
