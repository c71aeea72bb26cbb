package e2e_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lazaret.dev/lazaret/cmd/lazaret/e2etest"
	"lazaret.dev/lazaret/protocol"
	"lazaret.dev/lazaret/protocol/control"
	"lazaret.dev/lazaret/protocol/testgate"
	"lazaret.dev/lazaret/protocol/trace"
	"lazaret.dev/lazaret/protocol/wire"
)

// socketDir is the runtime directory of the home's only Domain.
func socketDir(t *testing.T, h *e2etest.Home) string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(h.Runtime, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == control.EnrollSocket {
			found = append(found, filepath.Dir(path))
		}
		return nil
	})
	if err != nil || len(found) != 1 {
		t.Fatalf("enrolment sockets in %q, %v", found, err)
	}
	return found[0]
}

// enrol asks a coordinator for a client certificate, as a client does.
func enrol(t *testing.T, dir string) tls.Certificate {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("unix", filepath.Join(dir, control.EnrollSocket))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(gone))
	if err := json.NewEncoder(c).Encode(control.EnrollRequest{Version: control.Version, PublicKey: pub}); err != nil {
		t.Fatal(err)
	}
	var reply control.EnrollReply
	if err := json.NewDecoder(c).Decode(&reply); err != nil || reply.Error != "" {
		t.Fatalf("enrolment: %+v, %v", reply, err)
	}
	return tls.Certificate{Certificate: [][]byte{reply.Certificate}, PrivateKey: key}
}

// say shows a certificate to a coordinator, says one thing, and returns the
// answer.
func say(t *testing.T, dir string, cert tls.Certificate, typ wire.FrameType, payload string) (answer wire.FrameType, err error) {
	t.Helper()
	raw, err := net.Dial("unix", filepath.Join(dir, control.ControlSocket))
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	_ = raw.SetDeadline(time.Now().Add(gone))
	c := tls.Client(raw, &tls.Config{
		MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, //nolint:gosec // the server is what is tested
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil },
	})
	if err := wire.NewFrameWriter(c).Write(typ, []byte(payload)); err != nil {
		return 0, err
	}
	answer, _, err = wire.NewFrameReader(c).Read()
	return answer, err
}

// SR-9, SR-16: what was a client's certificate in one generation is none in the
// next, nor in another Domain: it runs, asks and stops nothing.
func TestStaleCertificates(t *testing.T) {
	h, other := e2etest.New(t), e2etest.New(t)
	release := h.Hold("")
	stale := map[string]tls.Certificate{"an earlier generation": enrol(t, socketDir(t, h))}
	if answer, err := say(t, socketDir(t, h), stale["an earlier generation"], control.FrameAsk, ""); answer != control.FrameStatus || err != nil {
		t.Fatalf("in its own generation: %q, %v", answer, err)
	}
	release()
	h.NothingLeft(gone)
	h.Hold("")
	other.Hold("")
	dir := socketDir(t, h)
	stale["another Domain"] = enrol(t, socketDir(t, other))
	stale["nobody"] = tls.Certificate{}
	for name, cert := range stale {
		for typ, payload := range map[wire.FrameType]string{
			control.FrameOpen: `{"argv":["true"]}`, control.FrameAsk: "", control.FrameStop: `{"by":"somebody"}`,
		} {
			if answer, err := say(t, dir, cert, typ, payload); err == nil {
				t.Errorf("%s: %q is answered with %q", name, typ, answer)
			}
		}
	}
	// Nothing was done for them: the generation is ready, and has one session.
	live := 0
	for _, b := range h.Traces() {
		r, err := trace.Replay(bytes.NewReader(b))
		if err != nil {
			t.Error(err)
		}
		if r.State.Phase != protocol.Ready {
			continue
		}
		live++
		if n := bytes.Count(b, []byte(`"event":"Register"`)); n != 1 || len(r.State.Sessions) != 1 {
			t.Errorf("%d registrations, %d sessions", n, len(r.State.Sessions))
		}
	}
	if live != 1 {
		t.Errorf("%d generations live", live)
	}
	if answer, err := say(t, dir, enrol(t, dir), control.FrameAsk, ""); answer != control.FrameStatus || err != nil {
		t.Errorf("a certificate of this generation: %q, %v", answer, err)
	}
}

// askFromPython asks for a client certificate with the right words.
const askFromPython = `import socket,sys
s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
s.sendall(b'{"version":%d,"public_key":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}\n')
sys.stdout.write(s.makefile().readline())`

// SR-9, SR-16, SR-17: the pid of a generation's own process is no credential.
// Supervisor, slirp4netns, runsc, gofer and sentry are in another user namespace
// than the coordinator, which none of their descendants can leave; whoever
// enrols from one of theirs is refused. The exec clients are in the
// coordinator's, and are refused for the program that they are
// (TestEnrolmentOfTheSandboxesPrograms).
func TestNoProcessOfTheSandboxEnrols(t *testing.T) {
	h := e2etest.New(t)
	h.Hold("")
	dir := socketDir(t, h)
	ask := fmt.Sprintf(askFromPython, control.Version)
	attempt := func(prefix ...string) control.EnrollReply {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), e2etest.Timeout)
		defer cancel()
		args := append(prefix, "python3", "-c", ask, filepath.Join(dir, control.EnrollSocket))
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%q: %v: %s", args, err, stderr.String())
		}
		var reply control.EnrollReply
		if err := json.Unmarshal(out, &reply); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		return reply
	}
	if reply := attempt(); reply.Error != "" {
		t.Fatalf("from the host: %q", reply.Error)
	}
	want := map[string]bool{"lazaret-supervisor": true, "slirp4netns": true, "runsc run": true, "runsc-gofer": true, "runsc-sandbox": true}
	ours, err := os.Readlink("/proc/self/ns/user")
	if err != nil {
		t.Fatal(err)
	}
	tried, clients := map[string]bool{}, 0
	for _, p := range h.Processes() {
		if strings.HasPrefix(p.Name, "lazaret ") {
			continue // coordinator and client
		}
		if slices.Contains(p.Args, "exec") {
			clients++
			if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.PID)); err != nil || exe != filepath.Join(testgate.Tree(), "libexec/lazaret/runsc") {
				t.Errorf("an exec client runs %q, %v", exe, err)
			}
			continue
		}
		delete(want, p.Name)
		theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/user", p.PID))
		if err != nil || theirs == ours {
			t.Errorf("%s: user namespace %q, %v", p.Name, theirs, err)
			continue
		}
		if tried[theirs] {
			continue
		}
		tried[theirs] = true
		reply := attempt("nsenter", "--target", strconv.Itoa(p.PID), "--user", "--preserve-credentials")
		if !strings.Contains(reply.Error, "user namespace") || len(reply.Certificate)+len(reply.Anchor) > 0 {
			t.Errorf("from the namespace of %s: %+v", p.Name, reply)
		}
	}
	if len(want) > 0 || clients == 0 {
		t.Errorf("there is no %v; %d exec clients", want, clients)
	}
}
