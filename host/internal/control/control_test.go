package control_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lazaret.dev/lazaret/host/internal/control"
	"lazaret.dev/lazaret/host/internal/trust"
	pc "lazaret.dev/lazaret/protocol/control"
	"lazaret.dev/lazaret/protocol/identity"
	"lazaret.dev/lazaret/protocol/testgate"
)

const (
	profile = "shell"
	domain  = "0123456789ab"
)

// listen serves a Domain's sockets in a fresh directory.
func listen(t *testing.T, h control.Handler) (dir string, s *control.Server) {
	t.Helper()
	dir = t.TempDir()
	self := identity.Identity{
		Role: identity.RoleCoordinator, Profile: profile, DomainID: domain, Generation: "g1", Component: strings.Repeat("c", 32),
	}
	anchor, err := trust.NewAnchor(self, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if s, err = control.Listen(t.Context(), dir, self, anchor, control.Handlers{Open: h}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(time.Second) })
	return dir, s
}

func echo(_ context.Context, c *control.Conn, req pc.OpenRequest) {
	_ = c.WriteJSON(pc.FrameAdmitted, pc.Admitted{Session: strings.Join(req.Argv, " ")})
	for {
		typ, p, err := c.Read()
		if err != nil {
			return
		}
		if typ == pc.FrameStdin {
			_ = c.Write(pc.FrameStdout, p)
		}
		if typ == pc.FrameStdinEOF {
			_ = c.WriteJSON(pc.FrameExit, pc.Exit{Status: 7})
			return
		}
	}
}

func TestConversation(t *testing.T) {
	dir, s := listen(t, echo)
	if _, err := control.Dial(t.Context(), dir, profile, domain); !errors.Is(err, control.ErrNotPublished) {
		t.Fatalf("before the publication: %v", err)
	}
	if err := s.Publish(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		c, err := control.Dial(t.Context(), dir, profile, domain)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.WriteJSON(pc.FrameOpen, pc.OpenRequest{Argv: []string{"a", "b"}}); err != nil {
			t.Fatal(err)
		}
		if typ, p, err := c.Read(); typ != pc.FrameAdmitted || string(p) != `{"session":"a b"}` || err != nil {
			t.Fatalf("%q %s %v", typ, p, err)
		}
		_ = c.Write(pc.FrameStdin, []byte{0, '\n', 0xff})
		if typ, p, err := c.Read(); typ != pc.FrameStdout || !bytes.Equal(p, []byte{0, '\n', 0xff}) || err != nil {
			t.Fatalf("%q %q %v", typ, p, err)
		}
		_ = c.Write(pc.FrameStdinEOF, nil)
		if typ, _, err := c.Read(); typ != pc.FrameExit || err != nil {
			t.Fatalf("%q %v", typ, err)
		}
		if _, _, err := c.Read(); !errors.Is(err, io.EOF) {
			t.Fatalf("at the end: %v", err)
		}
		_ = c.Close()
	}
	s.Withdraw()
	if _, err := control.Dial(t.Context(), dir, profile, domain); !errors.Is(err, control.ErrNotPublished) {
		t.Fatalf("after the withdrawal: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left in the directory: %v %v", left, err)
	}
}

// What a handler still has to say at the end is said.
func TestCloseLetsHandlersFinish(t *testing.T) {
	closing := make(chan struct{})
	dir, s := listen(t, func(_ context.Context, c *control.Conn, _ pc.OpenRequest) {
		<-closing
		_ = c.WriteJSON(pc.FrameExit, pc.Exit{Failed: true, Reason: "lost"})
	})
	if err := s.Publish(); err != nil {
		t.Fatal(err)
	}
	c, err := control.Dial(t.Context(), dir, profile, domain)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.WriteJSON(pc.FrameOpen, pc.OpenRequest{}); err != nil {
		t.Fatal(err)
	}
	go func() {
		time.Sleep(50 * time.Millisecond) // so that Close is on its way
		close(closing)
	}()
	go s.Close(5 * time.Second)
	if typ, p, err := c.Read(); typ != pc.FrameExit || !bytes.Contains(p, []byte("lost")) || err != nil {
		t.Errorf("%q %s %v", typ, p, err)
	}
}

// A coordinator that goes between the connection and the question is no longer
// published, which is no failure of whoever asks.
func TestAskTheLeaving(t *testing.T) {
	dir, s := listen(t, echo)
	if err := s.Publish(); err != nil {
		t.Fatal(err)
	}
	c, err := control.Dial(t.Context(), dir, profile, domain)
	if err != nil {
		t.Fatal(err)
	}
	s.Close(0)
	if _, err := control.Ask(t.Context(), c); !errors.Is(err, control.ErrNotPublished) {
		t.Errorf("ask: %v", err)
	}
}

// Whoever listens and does not answer is named by its process, and waited for no
// longer than the caller wants.
func TestUnanswered(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, name := range []string{pc.EnrollSocket, pc.ControlSocket} {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, name), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			_, _ = c.Read(make([]byte, 1))
			cancel()
			_, _ = io.Copy(io.Discard, c)
		}()
	}
	began := time.Now()
	_, err := control.Dial(ctx, dir, profile, domain)
	silent, ok := errors.AsType[*control.UnansweredError](err)
	if !ok || silent.PID != os.Getpid() || silent.Socket != filepath.Join(dir, pc.EnrollSocket) || time.Since(began) > 8*time.Second {
		t.Fatalf("after %s: %v", time.Since(began), err)
	}
	if hint := silent.Hint(); !strings.HasSuffix(hint, fmt.Sprintf("kill -9 %d", os.Getpid())) {
		t.Errorf("hint: %q", hint)
	}
	silent.PID = 0 // in another pid namespace: that is no pid to kill
	if text := silent.Error() + silent.Hint(); strings.Contains(text, "process 0") || strings.Contains(text, "kill") || !strings.Contains(text, silent.Socket) {
		t.Errorf("%q", text)
	}
}

// A coordinator of another Domain is none.
func TestDialDemandsItsDomain(t *testing.T) {
	dir, s := listen(t, echo)
	if err := s.Publish(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range [][2]string{{profile, "ba9876543210"}, {"other", domain}} {
		if c, err := control.Dial(t.Context(), dir, tc[0], tc[1]); err == nil || errors.Is(err, control.ErrNotPublished) {
			t.Errorf("%v: %v %v", tc, c, err)
		}
	}
}

// enrol sends bytes to the enrolment socket and returns the answer.
func enrol(t *testing.T, dir string, send []byte) pc.EnrollReply {
	t.Helper()
	c, err := net.Dial("unix", filepath.Join(dir, pc.EnrollSocket)) //nolint:noctx // a local socket
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	go func() {
		_, _ = c.Write(send)
		_ = c.(*net.UnixConn).CloseWrite()
	}()
	var reply pc.EnrollReply
	if err := json.NewDecoder(c).Decode(&reply); err != nil {
		t.Fatalf("no answer: %v", err)
	}
	return reply
}

// SR-9: what cannot be enrolled gets an answer and no certificate.
func TestEnrolmentRefusals(t *testing.T) {
	dir, s := listen(t, echo)
	if err := s.Publish(); err != nil {
		t.Fatal(err)
	}
	key := make([]byte, ed25519.PublicKeySize)
	encode := func(r pc.EnrollRequest) []byte {
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return append(b, '\n')
	}
	for name, tc := range map[string]struct {
		send []byte
		want string
	}{
		"well-formed":   {encode(pc.EnrollRequest{Version: pc.Version, PublicKey: key}), ""},
		"empty":         {nil, "read enrolment"},
		"no newline":    {[]byte(`{"version":1`), "read enrolment"},
		"no JSON":       {[]byte("hello\n"), "malformed"},
		"two requests":  {append(bytes.TrimSuffix(encode(pc.EnrollRequest{Version: pc.Version, PublicKey: key}), []byte("\n")), "{}\n"...), "trailing"},
		"unknown field": {[]byte(`{"version":1,"role":"coordinator"}` + "\n"), "malformed"},
		"version":       {encode(pc.EnrollRequest{Version: pc.Version + 1, PublicKey: key}), "another version of lazaret"},
		"short key":     {encode(pc.EnrollRequest{Version: pc.Version, PublicKey: key[1:]}), "public key"},
		"no key":        {encode(pc.EnrollRequest{Version: pc.Version}), "public key"},
		"too large":     {bytes.Repeat([]byte("x"), 4*pc.MaxEnroll), "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			reply := enrol(t, dir, tc.send)
			if tc.want == "" {
				if reply.Error != "" || len(reply.Certificate) == 0 {
					t.Errorf("%+v", reply)
				}
				return
			}
			if !strings.Contains(reply.Error, tc.want) {
				t.Errorf("error %q, want %q", reply.Error, tc.want)
			}
			if len(reply.Certificate)+len(reply.Anchor) > 0 || reply.Generation != "" {
				t.Errorf("a refusal carries trust: %+v", reply)
			}
		})
	}
}

// askFromPython asks for a client certificate with the right words.
const askFromPython = `import socket,sys
s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
s.sendall(b'{"version":1,"public_key":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}\n')
sys.stdout.write(s.makefile().readline())`

// SR-9: a process in another user namespace, as in the sandbox, is no client,
// though it is of the same user and asks as one.
func TestEnrolmentFromAnotherUserNamespace(t *testing.T) {
	testgate.Need(t, testgate.UserNS)
	if _, err := exec.LookPath("python3"); err != nil {
		t.Fatal(err) // part of what the tests are run with
	}
	dir, s := listen(t, echo)
	if err := s.Publish(); err != nil {
		t.Fatal(err)
	}
	for _, prefix := range [][]string{nil, {"unshare", "--user", "--map-root-user"}} {
		args := append(append([]string{}, prefix...), "python3", "-c", askFromPython, filepath.Join(dir, pc.EnrollSocket))
		out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).Output()
		if err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		var reply pc.EnrollReply
		if err := json.Unmarshal(out, &reply); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		if prefix == nil {
			if reply.Error != "" {
				t.Errorf("here: %q", reply.Error)
			}
		} else if !strings.Contains(reply.Error, "user namespace") || len(reply.Certificate) > 0 {
			t.Errorf("in another namespace: %+v", reply)
		}
	}
}

// A client without a certificate of this generation does not get as far as a
// frame.
func TestControlSocketDemandsTrust(t *testing.T) {
	handled := make(chan struct{}, 1)
	dir, s := listen(t, func(context.Context, *control.Conn, pc.OpenRequest) { handled <- struct{}{} })
	if err := s.Publish(); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("unix", filepath.Join(dir, pc.ControlSocket)) //nolint:noctx // a local socket
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	_, _ = c.Write([]byte("O\x00\x00\x00\x02{}"))
	if _, err := io.ReadAll(c); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !strings.Contains(err.Error(), "reset") {
		t.Error(err)
	}
	select {
	case <-handled:
		t.Error("a session was opened without trust")
	default:
	}
}
