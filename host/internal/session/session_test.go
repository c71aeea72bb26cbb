package session_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"lazaret.dev/lazaret/host/internal/session"
	"lazaret.dev/lazaret/protocol/control"
)

// fake is a runsc that does in place of `exec` what a script says. It tells its
// guest pid first, as runsc does, and notes how Lazaret's own programs were
// called in the file "calls".
func fake(t *testing.T, script string) session.Sandbox {
	t.Helper()
	dir := t.TempDir()
	text := fmt.Sprintf(`#!/bin/sh
PATH=/usr/bin:/bin
cd %s
case "$*" in
*--internal-pid-file*) cat <&3 >process; echo 42 >&4; exec 3<&- ;;
*) echo "$@" >>calls; [ -e leftover ] && kill $(cat leftover) && rm leftover; exit 0 ;;
esac
%s
`, dir, script)
	runsc := filepath.Join(dir, "runsc")
	if err := os.WriteFile(runsc, []byte(text), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	return session.Sandbox{Runsc: runsc, StateDir: dir, ID: "lztest"}
}

// sink collects a session's output.
type sink struct {
	mu       sync.Mutex
	out, err bytes.Buffer
	wait     func() // before each piece
	fail     error
}

func (s *sink) put(b *bytes.Buffer, p []byte) error {
	if s.wait != nil {
		s.wait()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b.Write(p)
	return s.fail
}

func (s *sink) Stdout(p []byte) error { return s.put(&s.out, p) }
func (s *sink) Stderr(p []byte) error { return s.put(&s.err, p) }

func (s *sink) stdout() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String()
}

func start(t *testing.T, sb session.Sandbox, spec session.Spec, out session.Output) *session.Session {
	t.Helper()
	s, err := session.Start(t.Context(), sb, spec, out)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// within fails the test when f takes longer.
func within(t *testing.T, d time.Duration, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(d):
		t.Fatalf("it takes longer than %s", d)
	}
}

func TestPipes(t *testing.T) {
	var out sink
	s := start(t, fake(t, "cat; echo err >&2; exit 7"), session.Spec{ID: "s1", Argv: []string{"x"}}, &out)
	in := []byte("in\x00\r\n\xff")
	if err := s.Write(in); err != nil {
		t.Fatal(err)
	}
	s.CloseStdin()
	if err := s.Write(in); err == nil {
		t.Error("input is taken after its end")
	}
	if status := s.Wait(context.Background()); status != 7 {
		t.Errorf("status %d", status)
	}
	if !bytes.Equal(out.out.Bytes(), in) || out.err.String() != "err\n" {
		t.Errorf("stdout %q, stderr %q", out.out.Bytes(), out.err.String())
	}
}

// What the process is, and that its environment is on no command line.
func TestProcess(t *testing.T) {
	for _, tc := range []struct {
		spec session.Spec
		want []string
	}{
		{
			session.Spec{ID: "s1", Argv: []string{"a", "b c"}, Env: []string{"K=secret"}, Cwd: "/workspace"},
			[]string{`"args":["/run/lazaret/escalate","_exec","--","a","b c"]`, `"env":["LAZARET_SESSION_ID=s1","K=secret"]`, `"cwd":"/workspace"`},
		},
		{session.Spec{ID: "s2", Cwd: "/"}, []string{`"args":["/run/lazaret/escalate","_exec","--login","--"]`}},
		{
			session.Spec{ID: "s3", Cwd: "/", TTY: true, Size: control.Size{Rows: 3, Cols: 5}, Argv: []string{"a"}},
			[]string{`"terminal":true`, `"consoleSize":{"height":3,"width":5}`, `"_exec","--tty","--","a"`},
		},
	} {
		sb := fake(t, "true")
		start(t, sb, tc.spec, &sink{}).Wait(context.Background())
		got, err := os.ReadFile(filepath.Join(sb.StateDir, "process"))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range tc.want {
			if !strings.Contains(string(got), want) {
				t.Errorf("no %s in %s", want, got)
			}
		}
		for _, never := range []string{"CAP_SYS_ADMIN", "CAP_NET_ADMIN", "CAP_NET_RAW"} {
			if strings.Contains(string(got), never) {
				t.Errorf("%s is given", never)
			}
		}
	}
}

// Case 11: the size is there before the command is. Case 10: a new one raises
// SIGWINCH in the exec client, whose controlling terminal it is.
func TestTerminal(t *testing.T) {
	var out sink
	s := start(t, fake(t, `stty size; trap 'stty size; exit 3' WINCH; echo ready; while :; do sleep 0.05; done`),
		session.Spec{ID: "s1", Argv: []string{"x"}, TTY: true, Size: control.Size{Rows: 41, Cols: 97}}, &out)
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(out.stdout(), "ready"); {
		if time.Now().After(deadline) {
			t.Fatalf("not ready: %q", out.stdout())
		}
		time.Sleep(time.Millisecond)
	}
	if err := s.Resize(control.Size{Rows: 40, Cols: 120}); err != nil {
		t.Fatal(err)
	}
	within(t, 10*time.Second, func() {
		if status := s.Wait(context.Background()); status != 3 {
			t.Errorf("status %d", status)
		}
	})
	if got := out.stdout(); got != "41 97\r\nready\r\n40 120\r\n" {
		t.Errorf("got %q", got)
	}
}

// Keys are the inner terminal's affair: the outer one passes them on.
func TestTerminalPassesBytesOn(t *testing.T) {
	var out sink
	keys := "\x03\x1a\x1c\x04\x13\x11\r\n\x00\xff"
	s := start(t, fake(t, fmt.Sprintf("echo ready; head -c %d | od -An -tx1 | tr -d ' \\n'", len(keys))),
		session.Spec{ID: "s1", Argv: []string{"x"}, TTY: true, Size: control.Size{Rows: 24, Cols: 80}}, &out)
	if err := s.Write([]byte(keys)); err != nil {
		t.Fatal(err)
	}
	within(t, 10*time.Second, func() { s.Wait(context.Background()) })
	if got, want := out.stdout(), fmt.Sprintf("ready\r\n%x", keys); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A slow client gets all of the output, however long after the command's end.
func TestSlowOutput(t *testing.T) {
	release := make(chan struct{})
	out := sink{wait: func() { <-release }}
	s := start(t, fake(t, "head -c 100000 /dev/zero"), session.Spec{ID: "s1", Argv: []string{"x"}}, &out)
	time.AfterFunc(time.Second, func() { close(release) })
	within(t, 10*time.Second, func() { s.Wait(context.Background()) })
	if n := out.out.Len(); n != 100000 {
		t.Errorf("%d bytes", n)
	}
}

// What a command leaves behind does not hold its session open: it is ended.
func TestLeftover(t *testing.T) {
	for _, tty := range []bool{false, true} {
		var out sink
		sb := fake(t, "trap '' HUP; sleep 60 & echo $! >leftover; echo done; exit 4")
		s := start(t, sb, session.Spec{ID: "s1", Argv: []string{"x"}, TTY: tty, Size: control.Size{Rows: 24, Cols: 80}}, &out)
		within(t, 10*time.Second, func() {
			if status := s.Wait(context.Background()); status != 4 {
				t.Errorf("status %d", status)
			}
		})
		if got := strings.TrimRight(out.stdout(), "\r\n"); got != "done" {
			t.Errorf("terminal %t: got %q", tty, got)
		}
		calls, err := os.ReadFile(filepath.Join(sb.StateDir, "calls"))
		if err != nil || !strings.Contains(string(calls), "exec --process /proc/self/fd/3 lztest") {
			t.Errorf("terminal %t: nothing was ended: %q %v", tty, calls, err)
		}
	}
}

// A leftover that cannot be ended does not hold the session open either.
func TestStubbornLeftover(t *testing.T) {
	for _, tty := range []bool{false, true} {
		sb := fake(t, "trap '' HUP; sleep 8 & exit 5")
		s := start(t, sb, session.Spec{ID: "s1", Argv: []string{"x"}, TTY: tty, Size: control.Size{Rows: 24, Cols: 80}}, &sink{})
		within(t, 4*time.Second, func() {
			if status := s.Wait(context.Background()); status != 5 {
				t.Errorf("terminal %t: status %d", tty, status)
			}
		})
	}
}

// A client that is gone does not block the command.
func TestOutputNobodyWants(t *testing.T) {
	out := sink{fail: os.ErrClosed}
	s := start(t, fake(t, "head -c 1000000 /dev/zero; exit 6"), session.Spec{ID: "s1", Argv: []string{"x"}}, &out)
	within(t, 10*time.Second, func() {
		if status := s.Wait(context.Background()); status != 6 {
			t.Errorf("status %d", status)
		}
	})
}

func TestStatusOfSignal(t *testing.T) {
	s := start(t, fake(t, "kill -9 $$"), session.Spec{ID: "s1", Argv: []string{"x"}}, &sink{})
	if status := s.Wait(context.Background()); status != 137 {
		t.Errorf("status %d", status)
	}
}

// A start that leads to no guest process is an error, and leaves nothing.
func TestStartFails(t *testing.T) {
	for name, text := range map[string]string{
		"ends":     "#!/bin/sh\nexit 128\n",
		"nonsense": "#!/bin/sh\necho hello >&4\n/bin/sleep 60\n",
		"negative": "#!/bin/sh\necho -1 >&4\n/bin/sleep 60\n",
	} {
		t.Run(name, func(t *testing.T) {
			runsc := filepath.Join(t.TempDir(), "runsc")
			if err := os.WriteFile(runsc, []byte(text), 0o700); err != nil { //nolint:gosec // a program
				t.Fatal(err)
			}
			within(t, 10*time.Second, func() {
				_, err := session.Start(t.Context(), session.Sandbox{Runsc: runsc}, session.Spec{Argv: []string{"x"}}, &sink{})
				if err == nil || !strings.Contains(err.Error(), "started no process") {
					t.Errorf("got %v", err)
				}
			})
		})
	}
	if _, err := session.Start(t.Context(), session.Sandbox{Runsc: "/nonexistent"}, session.Spec{}, &sink{}); err == nil {
		t.Error("a runsc that does not exist starts")
	}
}

// Every call has an end, and its error repeats no raw bytes of the guest's.
func TestSignal(t *testing.T) {
	sb := fake(t, "sleep 60")
	s := start(t, sb, session.Spec{ID: "s1", Argv: []string{"x"}}, &sink{})
	if err := s.Signal(t.Context(), control.SignalInterrupt); err != nil {
		t.Error(err)
	}
	calls, err := os.ReadFile(filepath.Join(sb.StateDir, "calls"))
	if err != nil || !strings.Contains(string(calls), "kill --pgid 42 lztest INT") {
		t.Errorf("calls %q, %v", calls, err)
	}
	s.Kill()
	within(t, 10*time.Second, func() {
		if status := s.Wait(context.Background()); status != 137 {
			t.Errorf("status %d", status)
		}
	})
}
