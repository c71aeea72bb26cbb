package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lazaret.dev/lazaret/cmd/lazaret/e2etest"
)

// what `lazaret ps --json` prints.
type listed struct {
	DomainID  string `json:"domain_id"`
	Profile   string
	Workspace string
	Phase     string
	Sessions  []struct {
		Phase   string
		Command []string
		TTY     bool
	}
}

func ps(t *testing.T, h *e2etest.Home) []listed {
	t.Helper()
	r := h.Lazaret("", "ps", "--json")
	var out []listed
	if err := json.Unmarshal([]byte(r.Stdout), &out); err != nil || r.Status != 0 {
		t.Fatalf("%v, status %d, stdout %q, stderr %q", err, r.Status, r.Stdout, r.Stderr)
	}
	return out
}

func TestListAndStop(t *testing.T) {
	h := e2etest.New(t)
	if got := ps(t, h); len(got) != 0 {
		t.Errorf("nothing runs: %+v", got)
	}
	if r := h.Lazaret("", "stop"); r.Status != 1 || !strings.Contains(r.Stderr, "no Domain") {
		t.Errorf("nothing to stop: status %d, %q", r.Status, r.Stderr)
	}

	piped := start(t, h, "run", "--", "sh", "-c", "echo ready; exec sleep 999")
	piped.says(t, "ready")
	term := h.Terminal(24, 80, inside("sh", "-c", "echo ready; exec sleep 998")...)
	term.Expect("ready", starts)

	got := ps(t, h)
	if len(got) != 1 || got[0].Workspace != h.Project || got[0].Phase != "Ready" || len(got[0].Sessions) != 2 {
		t.Fatalf("%+v", got)
	}
	ttys := 0
	for _, s := range got[0].Sessions {
		if s.TTY {
			ttys++
		}
		if s.Phase != "Attached" || len(s.Command) == 0 || s.Command[0] != "sh" {
			t.Errorf("%+v", s)
		}
	}
	if ttys != 1 {
		t.Errorf("%d sessions on terminals", ttys)
	}
	if r := h.Lazaret("", "ps"); !strings.Contains(r.Stdout, got[0].DomainID) || !strings.Contains(r.Stdout, "sleep 999") {
		t.Errorf("ps prints %q", r.Stdout)
	}

	// It asks, and where nobody can answer it does nothing.
	if r := h.Lazaret("", "stop"); r.Status != 1 || !strings.Contains(r.Stderr, "2 sessions") || !strings.Contains(r.Stderr, "--yes") {
		t.Errorf("without --yes: status %d, %q", r.Status, r.Stderr)
	}
	if r := h.Lazaret("", "stop", "ffffffffffff", "--yes"); r.Status != 1 {
		t.Errorf("another Domain: status %d, %q", r.Status, r.Stderr)
	}
	were := h.Processes()
	r := h.Lazaret("", "stop", got[0].DomainID[:6], "--yes")
	if r.Status != 0 || !strings.Contains(r.Stderr, "stopped Domain "+got[0].DomainID) {
		t.Errorf("status %d, %q", r.Status, r.Stderr)
	}
	for name, status := range map[string]func() int{
		"pipes":    func() int { return piped.status(t, gone) },
		"terminal": func() int { return term.Status(gone) },
	} {
		if s := status(); s != 143 {
			t.Errorf("%s: status %d", name, s)
		}
	}
	if !strings.Contains(piped.stderr.String(), "stopped by lazaret stop, process ") {
		t.Errorf("the session is not told: %q", piped.stderr.String())
	}
	term.Restored()
	h.Gone(were, 2*time.Second)
	h.NothingLeft(2 * time.Second)
	h.Must("true")
}

// A person who says no stops nothing.
func TestStopAsks(t *testing.T) {
	h := e2etest.New(t)
	release := h.Hold("")
	defer release()
	term := h.Terminal(24, 100, "stop")
	term.Expect(`Stop it\? \[y/N\] `, soon)
	term.Type("\r")
	if s := term.Status(soon); s != 1 {
		t.Errorf("status %d", s)
	}
	if got := ps(t, h); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}

// One Domain that does not answer, since its coordinator is stopped or something
// else listens in its place, hides no other from ps and stop, and is named with
// the process that is there.
func TestOneUnansweringDomain(t *testing.T) {
	h := small(t)
	h.Must("true")
	h.Gone(h.Processes(), gone)
	silent := filepath.Base(domainDir(t, h))
	dir := filepath.Join(h.Runtime, "lazaret", silent)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var asked net.Listener
	for _, name := range []string{"control.sock", "enroll.sock"} {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, name), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		asked = l
	}

	other := t.TempDir()
	piped := start(t, h, "run", "--workspace", other, "--", "sh", "-c", "echo ready; exec sleep 999")
	piped.says(t, "ready")
	who := fmt.Sprintf("process %d, which listens at %q does not answer", os.Getpid(), filepath.Join(dir, "enroll.sock"))
	named := func(r e2etest.Result) {
		t.Helper()
		if r.Status != 1 || strings.Count(r.Stderr, "lazaret: error: ") != 1 || !strings.Contains(r.Stderr, "Domain "+silent) ||
			!strings.Contains(r.Stderr, who) || !strings.Contains(r.Stderr, fmt.Sprintf("lazaret: hint: look at it, and end it: kill -9 %d\n", os.Getpid())) {
			t.Errorf("status %d, %q", r.Status, r.Stderr)
		}
	}
	r := h.Lazaret("", "ps", "--json")
	named(r)
	var got []listed
	if err := json.Unmarshal([]byte(r.Stdout), &got); err != nil || len(got) != 1 || got[0].Workspace != other {
		t.Errorf("%v: ps lists %q", err, r.Stdout)
	}
	go func() { // from here on it answers, with something else
		for {
			c, err := asked.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("hello\n"))
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}
	}()
	named(h.Lazaret("", "stop", silent))
	if r := h.Run("true"); r.Status != 125 || !strings.Contains(r.Stderr, who) {
		t.Errorf("run: status %d, %q", r.Status, r.Stderr)
	}
	r = h.Lazaret("", "stop", "--all", "--yes")
	named(r)
	if !strings.Contains(r.Stderr, "stopped Domain "+got[0].DomainID) {
		t.Errorf("stop: %q", r.Stderr)
	}
}
