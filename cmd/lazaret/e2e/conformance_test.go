package e2e_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/cmd/lazaret/e2etest"
	"lazaret.dev/lazaret/protocol"
	"lazaret.dev/lazaret/protocol/trace"
)

var (
	parts    = regexp.MustCompile(`"(from|to|event|state|Session|Generation|Component|Prepared)":"([^"]+)"`)
	stepLine = []byte(`"msg":"event"`)
)

// Every end-to-end test replays the traces of its coordinators at its end. Here
// is what they find wrong: a real trace of which a line is left out, exchanged
// with the next, or altered.
func TestAlteredTracesAreRefused(t *testing.T) {
	h := e2etest.New(t)
	release := h.Hold("")
	h.Must("true")
	release()
	h.NothingLeft(10 * time.Second)
	all := h.Traces()
	if len(all) != 1 {
		t.Fatalf("%d traces", len(all))
	}
	r, err := trace.Replay(bytes.NewReader(all[0]))
	if err != nil || r.State.Phase != protocol.Absent || r.State.Previous == "" || r.Steps < 20 {
		t.Fatalf("%+v, %v", r, err)
	}
	var lines [][]byte
	for l := range bytes.Lines(all[0]) {
		if bytes.Contains(l, stepLine) {
			lines = append(lines, l)
		}
	}
	refused := func(what string, n int, changed ...[]byte) {
		t.Helper()
		text := append(append([][]byte{}, lines[:n]...), changed...)
		if r, err := trace.Replay(bytes.NewReader(bytes.Join(text, nil))); err == nil {
			t.Errorf("%s is replayed in %d steps: %s", what, r.Steps, lines[n])
		}
	}
	rest := func(n int) []byte { return bytes.Join(lines[n:], nil) }
	for n, l := range lines[:len(lines)-1] {
		refused("left out", n, rest(n+1))
		refused("exchanged", n, lines[n+1], l, rest(n+2))
		for _, m := range parts.FindAllSubmatchIndex(l, -1) {
			altered := append(append(append([]byte{}, l[:m[4]]...), "x"...), l[m[5]:]...)
			refused("altered", n, altered, rest(n+1))
		}
	}
}

// A killed coordinator's trace ends where it was killed, and the next one begins
// its own.
func TestTraceOfAKilledCoordinator(t *testing.T) {
	h := e2etest.New(t)
	h.Hold("")
	c := h.Find("lazaret _coordinator")
	if err := unix.Kill(c.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	h.Must("true")
	var ended []string
	for _, b := range h.Traces() {
		r, err := trace.Replay(bytes.NewReader(b))
		if err != nil {
			t.Error(err)
		}
		ended = append(ended, string(r.State.Phase))
	}
	if got := strings.Join(ended, " "); len(ended) != 2 || !strings.Contains(got, "Ready") {
		t.Errorf("the traces end in %q", got)
	}
}
