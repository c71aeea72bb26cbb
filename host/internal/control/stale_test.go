package control_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lazaret.dev/lazaret/host/internal/control"
	"lazaret.dev/lazaret/host/internal/trust"
	pc "lazaret.dev/lazaret/protocol/control"
	"lazaret.dev/lazaret/protocol/identity"
	"lazaret.dev/lazaret/protocol/wire"
)

// world is a coordinator of a Domain generation and what it was made to do.
type world struct {
	dir    string
	self   identity.Identity
	anchor *trust.Anchor
	server *control.Server
	done   atomic.Int32 // calls of its handlers
}

func newWorld(t *testing.T, dir, profile, domain, generation string) *world {
	t.Helper()
	w := &world{dir: dir, self: identity.Identity{
		Role: identity.RoleCoordinator, Profile: profile, DomainID: domain, Generation: generation, Component: strings.Repeat("c", 32),
	}}
	var err error
	if w.anchor, err = trust.NewAnchor(w.self, time.Now); err != nil {
		t.Fatal(err)
	}
	w.server, err = control.Listen(t.Context(), dir, w.self, w.anchor, control.Handlers{
		Open:   func(context.Context, *control.Conn, pc.OpenRequest) { w.done.Add(1) },
		Status: func() pc.Status { w.done.Add(1); return pc.Status{Generation: generation} },
		Stop:   func(context.Context, pc.StopRequest) { w.done.Add(1) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.server.Publish(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.server.Close(time.Second) })
	return w
}

// enrolled is a client's credential of this generation, as enrolment gives it.
func (w *world) enrolled(t *testing.T) tls.Certificate {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(pc.EnrollRequest{Version: pc.Version, PublicKey: pub})
	if err != nil {
		t.Fatal(err)
	}
	reply := enrol(t, w.dir, append(b, '\n'))
	if reply.Error != "" {
		t.Fatal(reply.Error)
	}
	return tls.Certificate{Certificate: [][]byte{reply.Certificate}, PrivateKey: key}
}

// issued is a credential for a role that no enrolment gives.
func (w *world) issued(t *testing.T, role identity.Role) tls.Certificate {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id := w.self
	id.Role = role
	der, err := w.anchor.Issue(id, pub)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// say shows a credential to the control socket in dir, says one thing, and
// returns what is answered.
func say(t *testing.T, dir string, cert tls.Certificate, typ wire.FrameType, payload string) (wire.FrameType, error) {
	t.Helper()
	raw, err := net.Dial("unix", filepath.Join(dir, pc.ControlSocket)) //nolint:noctx // a local socket
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	_ = raw.SetDeadline(time.Now().Add(10 * time.Second))
	c := tls.Client(raw, &tls.Config{
		MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, //nolint:gosec // the server is what is tested
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil },
	})
	// A client that is refused hears of it when it reads.
	if err := wire.NewFrameWriter(c).Write(typ, []byte(payload)); err != nil {
		return 0, err
	}
	got, _, err := wire.NewFrameReader(c).Read()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("neither served nor refused")
	}
	return got, err
}

// asks are what a client may ask a control socket for: run, ps and stop.
var asks = []struct {
	name    string
	typ     wire.FrameType
	payload string
}{{"open", pc.FrameOpen, `{"fingerprint":"","shape":null,"env":null,"tty":false,"size":{"rows":0,"cols":0},"quiet":false}`}, {"ask", pc.FrameAsk, ""}, {"stop", pc.FrameStop, `{"by":"x"}`}}

// SR-9, SR-16: a credential of an earlier generation, of another Domain, of
// another profile or of another role opens, asks and stops nothing.
func TestStaleClients(t *testing.T) {
	dir := t.TempDir()
	first := newWorld(t, dir, profile, domain, "g1")
	credentials := map[string]tls.Certificate{"an earlier generation": first.enrolled(t)}
	// It was one, until its generation ended.
	if typ, err := say(t, dir, credentials["an earlier generation"], pc.FrameAsk, ""); typ != pc.FrameStatus || err != nil {
		t.Fatalf("in its own generation: %q, %v", typ, err)
	}
	first.server.Close(time.Second)
	now := newWorld(t, dir, profile, domain, "g2")
	credentials["another Domain"] = newWorld(t, t.TempDir(), profile, "ba9876543210", "g2").enrolled(t)
	credentials["another profile"] = newWorld(t, t.TempDir(), "other", domain, "g2").enrolled(t)
	credentials["the same names, another anchor"] = newWorld(t, t.TempDir(), profile, domain, "g2").enrolled(t)
	credentials["the sandbox"] = now.issued(t, identity.RoleSandbox)
	credentials["the coordinator"] = now.issued(t, identity.RoleCoordinator)
	credentials["nobody"] = tls.Certificate{}
	credentials["a key of its own"] = tls.Certificate{
		Certificate: now.issued(t, identity.RoleClient).Certificate, PrivateKey: credentials["the sandbox"].PrivateKey,
	}
	mine := now.enrolled(t)
	for name, cert := range credentials {
		for _, ask := range asks {
			if typ, err := say(t, dir, cert, ask.typ, ask.payload); err == nil {
				t.Errorf("%s: %s is answered with %q", name, ask.name, typ)
			}
		}
	}
	if n := now.done.Load(); n != 0 {
		t.Errorf("%d things were done for them", n)
	}
	for i, ask := range asks {
		_, _ = say(t, dir, mine, ask.typ, ask.payload) // the end of the connection is an answer too
		if n := now.done.Load(); int(n) != i+1 {
			t.Errorf("%s of a client of this generation: %d things were done", ask.name, n)
		}
	}
}

// impostor answers in a directory as a coordinator would: reply to whoever
// enrols, and cert to whoever connects.
func impostor(t *testing.T, reply pc.EnrollReply, cert tls.Certificate) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lz") //nolint:usetesting // short: sockets lie in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for name, serve := range map[string]func(net.Conn){
		pc.EnrollSocket: func(c net.Conn) {
			_, _ = c.Read(make([]byte, pc.MaxEnroll))
			_ = json.NewEncoder(c).Encode(reply)
		},
		pc.ControlSocket: func(c net.Conn) {
			_ = tls.Server(c, &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}}).Handshake() //nolint:noctx // it has a deadline
		},
	} {
		l, err := net.Listen("unix", filepath.Join(dir, name)) //nolint:noctx // a local socket
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		t.Cleanup(func() { _ = l.Close(); <-ended })
		go func() {
			defer close(ended)
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_ = c.SetDeadline(time.Now().Add(10 * time.Second))
				serve(c)
				_ = c.Close()
			}
		}()
	}
	return dir
}

// SR-9: a client, which run, ps and stop are, gets no connection to a
// coordinator of an earlier generation, of another Domain, of another profile or
// of another role, and does not take it for none at all: it would start one
// beside it.
func TestStaleCoordinators(t *testing.T) {
	now := newWorld(t, t.TempDir(), profile, domain, "g2")
	earlier := newWorld(t, t.TempDir(), profile, domain, "g1")
	elsewhere := newWorld(t, t.TempDir(), profile, "ba9876543210", "g2")
	otherProfile := newWorld(t, t.TempDir(), "other", domain, "g2")
	reply := func(w *world) pc.EnrollReply {
		return pc.EnrollReply{
			Version: pc.Version, Certificate: w.issued(t, identity.RoleClient).Certificate[0], Anchor: w.anchor.Certificate(),
			Coordinator: w.self.Component, Generation: w.self.Generation,
		}
	}
	with := func(change func(*pc.EnrollReply)) pc.EnrollReply {
		r := reply(now)
		change(&r)
		return r
	}
	for _, tc := range []struct {
		name  string
		reply pc.EnrollReply
		cert  tls.Certificate
		want  string // empty: accepted
	}{
		{"this generation", reply(now), now.issued(t, identity.RoleCoordinator), ""},
		{"an earlier generation behind this one's enrolment", reply(now), earlier.issued(t, identity.RoleCoordinator), "unknown authority"},
		{"this generation behind an earlier one's enrolment", reply(earlier), now.issued(t, identity.RoleCoordinator), "unknown authority"},
		{"another generation's name", with(func(r *pc.EnrollReply) { r.Generation = "g1" }), now.issued(t, identity.RoleCoordinator), "of generation g1 of Domain " + domain + " with profile " + profile},
		{"another coordinator's name", with(func(r *pc.EnrollReply) { r.Coordinator = "other" }), now.issued(t, identity.RoleCoordinator), ", not coordinator other of"},
		{"another anchor", with(func(r *pc.EnrollReply) { r.Anchor = earlier.anchor.Certificate() }), now.issued(t, identity.RoleCoordinator), "unknown authority"},
		{"no anchor", with(func(r *pc.EnrollReply) { r.Anchor = nil }), now.issued(t, identity.RoleCoordinator), "parse trust anchor"},
		{"another Domain", reply(elsewhere), elsewhere.issued(t, identity.RoleCoordinator), "of Domain ba9876543210 with profile " + profile + ", not coordinator"},
		{"another profile", reply(otherProfile), otherProfile.issued(t, identity.RoleCoordinator), "with profile other, not coordinator"},
		{"the sandbox", reply(now), now.issued(t, identity.RoleSandbox), "incompatible key usage"},
		{"a client", reply(now), now.issued(t, identity.RoleClient), "incompatible key usage"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := control.Dial(t.Context(), impostor(t, tc.reply, tc.cert), profile, domain)
			if tc.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				_ = c.Close()
				return
			}
			if err == nil || errors.Is(err, control.ErrNotPublished) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one of %q", err, tc.want)
			}
		})
	}
}

// SR-16: a process that runs for the sandbox is no client, though it is of the
// same user and the same user namespace, as the exec clients of runsc are.
func TestEnrolmentOfTheSandboxesPrograms(t *testing.T) {
	// It may be found through a link or a script.
	found, err := exec.CommandContext(t.Context(), "python3", "-c", "import os; print(os.readlink('/proc/self/exe'), end='')").Output()
	if err != nil {
		t.Fatal(err) // part of what the tests are run with
	}
	python := string(found)
	self := identity.Identity{Role: identity.RoleCoordinator, Profile: profile, DomainID: domain, Generation: "g1", Component: "c"}
	anchor, err := trust.NewAnchor(self, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "runsc")
	if err := os.Symlink(python, link); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		noClients []string
		want      string // empty: enrolled
	}{
		{nil, ""},
		{[]string{"/nonexistent", "/bin/sh"}, ""},
		{[]string{"/nonexistent", python}, "a process of the sandbox's"},
		{[]string{link}, "a process of the sandbox's: runsc"},
	} {
		dir := t.TempDir()
		s, err := control.Listen(t.Context(), dir, self, anchor, control.Handlers{NoClients: tc.noClients})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Publish(); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), python, "-c", askFromPython, filepath.Join(dir, pc.EnrollSocket)).Output()
		s.Close(time.Second)
		if err != nil {
			t.Fatal(err)
		}
		var reply pc.EnrollReply
		if err := json.Unmarshal(out, &reply); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		if tc.want == "" && (reply.Error != "" || len(reply.Certificate) == 0) ||
			tc.want != "" && (!strings.Contains(reply.Error, tc.want) || len(reply.Certificate)+len(reply.Anchor) > 0) {
			t.Errorf("without clients %q: error %q, a certificate of %d bytes", tc.noClients, reply.Error, len(reply.Certificate))
		}
	}
}
