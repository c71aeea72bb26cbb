package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/cmd/lazaret/e2etest"
)

// gone is how long after any death nothing may be left.
const gone = 10 * time.Second

// client is a lazaret that runs beside the test.
type client struct {
	cmd    *exec.Cmd
	pipe   *os.File      // its stdout
	out    *bufio.Reader // on pipe
	stderr bytes.Buffer
	ended  chan struct{} // closed after err was set
	err    error
}

// start starts a lazaret whose stdin stays open.
func start(t *testing.T, h *e2etest.Home, args ...string) *client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), e2etest.Timeout)
	c := &client{cmd: h.Command(ctx, args...), ended: make(chan struct{})}
	in, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = in, out, &c.stderr
	c.pipe, c.out = outR, bufio.NewReader(outR)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = in.Close(), out.Close()
	go func() {
		c.err = c.cmd.Wait()
		close(c.ended)
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.ended
		cancel()
		_, _ = inW.Close(), outR.Close()
	})
	return c
}

// says waits for a line of the command's output.
func (c *client) says(t *testing.T, want string) {
	t.Helper()
	line, err := c.out.ReadString('\n')
	if line != want+"\n" {
		t.Fatalf("got %q (%v), want %q; stderr %q", line, err, want, c.stderr.String())
	}
}

// status waits for the client's end.
func (c *client) status(t *testing.T, within time.Duration) int {
	t.Helper()
	select {
	case <-c.ended:
		return e2etest.Status(t, c.err)
	case <-time.After(within):
		t.Fatalf("the client did not end within %s", within)
		return 0
	}
}

// Two terminals, one sandbox; closing one leaves the other.
func TestTwoTerminals(t *testing.T) {
	h := e2etest.New(t)
	one := h.Terminal(24, 80, inside("sh", "-c", "echo ready; sleep 1001; echo never")...)
	one.Expect("ready", starts)
	two := h.Terminal(24, 80, inside("sh", "-c", "echo ready; sleep 1002; echo never")...)
	two.Expect("ready", starts)
	ps := h.Must("ps", "-e", "-o", "args")
	for _, want := range []string{"sleep 1001", "sleep 1002"} {
		if !strings.Contains(ps, want+"\n") {
			t.Errorf("ps does not show %q:\n%s", want, ps)
		}
	}
	one.Hangup()
	e2etest.Eventually(t, gone, func() bool { return !strings.Contains(h.Must("ps", "-e", "-o", "args"), "sleep 1001\n") },
		func() string { return "the closed terminal's command still runs" })
	if ps := h.Must("ps", "-e", "-o", "args"); !strings.Contains(ps, "sleep 1002\n") {
		t.Errorf("the other terminal's command is gone:\n%s", ps)
	}
	if strings.Contains(two.Output(), "exit") {
		t.Errorf("the other terminal: %q", two.Output())
	}
	were := h.Processes()
	two.Hangup()
	h.Gone(were, gone)
	h.NothingLeft(gone)
}

// A client that leaves takes its background processes along, whatever they did
// to stay (case 24, FR-15).
func TestBackgroundEndsWithItsSession(t *testing.T) {
	h := e2etest.New(t)
	h.Hold("")
	for name, script := range map[string]string{
		"command ends": "sleep 999 & echo ready",
		"no hangup":    "nohup sleep 999 >/dev/null 2>&1 & echo ready",
		"own session":  "setsid sleep 999 >/dev/null 2>&1 & echo ready",
	} {
		t.Run(name, func(t *testing.T) {
			for _, tty := range []bool{false, true} {
				if tty {
					term := h.Terminal(24, 80, inside("bash", "-c", script)...)
					if s := term.Status(starts); s != 0 {
						t.Errorf("on a terminal: status %d: %q", s, term.Output())
					}
				} else if out := h.Must("bash", "-c", script); out != "ready\n" {
					t.Errorf("got %q", out)
				}
				e2etest.Eventually(t, gone, func() bool { return !strings.Contains(h.Must("ps", "-e", "-o", "args"), "sleep 999") },
					func() string { return fmt.Sprintf("it still runs (terminal: %t)", tty) })
			}
		})
	}
}

// Two at the same instant from cold: one sandbox, both working (OR-1).
func TestStartedAtOnce(t *testing.T) {
	h := e2etest.New(t)
	for range rounds(2, 20) {
		var wg sync.WaitGroup
		boots := make([]string, 2)
		for i := range boots {
			wg.Go(func() {
				// Both are there until both have looked: the sandbox's own file says so.
				r := h.Run("sh", "-c", fmt.Sprintf("touch /run/started.%d; "+
					"for i in $(seq 100); do [ -e /run/started.0 ] && [ -e /run/started.1 ] && echo both && exit 0; sleep 0.1; done; exit 1", i))
				boots[i] = fmt.Sprintf("%s%s%d", r.Stdout, r.Stderr, r.Status)
			})
		}
		wg.Wait()
		for i, got := range boots {
			if got != "both\n0" {
				t.Errorf("client %d: %q", i, got)
			}
		}
		h.NothingLeft(gone)
	}
}

// Whatever is killed, nothing is left, a client whose Domain failed says so, and
// the next run works (OR-6).
func TestKilled(t *testing.T) {
	for _, tc := range []struct {
		name   string
		victim string
		status int
		says   string // regular expression
	}{
		{"client", "lazaret run", 137, "^$"},
		{"coordinator", "lazaret _coordinator", 125, `lazaret: error: the Host Coordinator has gone`},
		{"supervisor", "lazaret-supervisor", 125, `lazaret: error: the Runtime Supervisor has gone`},
		{"runsc", "runsc run", 125, `lazaret: error: runsc was killed`},
		{"sentry", "runsc-sandbox", 125, `lazaret: error: runsc `},
		{"gofer", "runsc-gofer", 125, `lazaret: error: runsc `},
		{"slirp4netns", "slirp4netns", 125, `lazaret: error: slirp4netns was killed`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := e2etest.New(t)
			// The command reads no input: its client's end must be seen all the same.
			c := start(t, h, inside("sh", "-c", "echo kept >/root/kept.$$; sleep 999 & echo ready; exec sleep 999")...)
			c.says(t, "ready")
			were := h.Processes()
			_ = syscall.Kill(h.Find(tc.victim).PID, syscall.SIGKILL)
			if s := c.status(t, gone); s != tc.status {
				t.Errorf("status %d, want %d", s, tc.status)
			}
			if !regexp.MustCompile(tc.says).MatchString(c.stderr.String()) {
				t.Errorf("the client says %q", c.stderr.String())
			}
			h.Gone(were, gone)
			h.NothingLeft(gone)
			if out := h.Must("sh", "-c", "cat /root/kept.*"); out != "kept\n" {
				t.Errorf("the next run: %q", out)
			}
		})
	}
}

// What a coordinator that was killed before its publication has left in the
// runtime directory is no obstacle, and what is none of ours is passed by.
func TestLeftInTheRuntimeDirectory(t *testing.T) {
	h := e2etest.New(t)
	h.Must("true")
	h.NothingLeft(gone)
	dir := runtimeDir(t, h)
	notes := filepath.Join(dir, ".control.sock")
	for _, seen := range []string{"store.db-wal", "r", "r/runsc-*.sock"} {
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(notes, []byte("mine"), 0o600)); err != nil {
			t.Fatal(err)
		}
		c := start(t, h, inside("sleep", "999")...)
		within := dir
		if strings.HasPrefix(seen, "store") {
			within = domainDir(t, h)
		}
		eventually(t, "the start has come to "+seen, func() bool {
			found, _ := filepath.Glob(filepath.Join(within, seen))
			return len(found) > 0
		})
		_ = syscall.Kill(h.Find("lazaret _coordinator").PID, syscall.SIGKILL)
		if s := c.status(t, gone); s != 125 {
			t.Errorf("at %s: status %d, %q", seen, s, c.stderr.String())
		}
		h.Must("true")
		h.NothingLeft(gone)
		left, err := os.ReadDir(dir)
		if err != nil || len(left) != 1 {
			t.Errorf("at %s: left %v, %v", seen, left, err)
		}
		if b, err := os.ReadFile(notes); err != nil || string(b) != "mine" {
			t.Errorf("at %s: %q, %v", seen, b, err)
		}
	}
}

// A sentry that is stopped answers nothing, and does not hold the end up for
// ever.
func TestStoppedSentry(t *testing.T) {
	h := e2etest.New(t)
	c := start(t, h, inside("sh", "-c", "echo ready; exec sleep 999")...)
	c.says(t, "ready")
	were := h.Processes()
	if err := syscall.Kill(h.Find("runsc-sandbox").PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	h.Gone(were, 3*gone)
	h.NothingLeft(gone)
	h.Must("true")
}

// ^C while the Domain starts leaves nothing.
func TestInterruptedStart(t *testing.T) {
	for _, step := range []string{"", "setting up the network", "starting the sandbox"} {
		t.Run("at "+step, func(t *testing.T) {
			h := e2etest.New(t)
			term := h.Terminal(24, 80, "run", "--", "sleep", "999")
			term.Client()
			if step != "" {
				term.Expect(step, starts)
			}
			term.Type("\x03")
			switch s := term.Status(starts); s {
			case 125:
				term.Expect("lazaret: error: interrupted", soon)
			case 130: // it came so late, or so early, that it met no start
			default:
				t.Errorf("status %d: %q", s, term.Output())
			}
			term.Restored()
			h.NothingLeft(gone)
		})
	}
}

// A client with another configuration is refused, and told what differs.
func TestFingerprintMismatch(t *testing.T) {
	h := e2etest.New(t)
	release := h.Hold("")
	h.Config("[profiles.shell]\nallow_egress = [\"10.222.0.0/16\"]\n")
	r := h.Run("true")
	if r.Status != 125 || !strings.Contains(r.Stderr, "lazaret: error: this Domain runs with another configuration") ||
		!strings.Contains(r.Stderr, "10.222.0.0/16") || !strings.Contains(r.Stderr, "lazaret: hint: ") {
		t.Errorf("status %d, stderr %q", r.Status, r.Stderr)
	}
	release()
	h.NothingLeft(gone)
	h.Must("true")
}

// holdLock holds the Domain lock as a coordinator does that is not published.
func holdLock(t *testing.T, h *e2etest.Home) {
	t.Helper()
	h.Must("true") // makes the Domain Root
	roots, err := filepath.Glob(filepath.Join(h.Data, "domains/*/domain.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range roots {
		if b, err := os.ReadFile(file); err != nil || !bytes.Contains(b, []byte(`"`+h.Project+`"`)) {
			continue
		}
		lock, err := os.OpenFile(filepath.Join(filepath.Dir(file), "lock"), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = lock.Close() })
		e2etest.Eventually(t, gone, func() bool { return unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil },
			func() string { return "the last coordinator keeps the lock" })
		if _, err := lock.WriteAt([]byte("4242 2026-01-02T03:04:05Z\n"), 0); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatal("no Domain Root")
}

// The loser of the Domain lock waits, and takes no for an answer only after a
// minute; then it names the holder. A wait can be left.
func TestLoserWaits(t *testing.T) {
	h := e2etest.New(t)
	holdLock(t, h)
	c := start(t, h, inside("true")...)
	select {
	case <-c.ended:
		t.Fatalf("it did not wait: %q", c.stderr.String())
	case <-time.After(time.Second):
	}
	if os.Getenv("LAZARET_TEST_LONG") == "" {
		if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if s := c.status(t, gone); s != 125 || !strings.Contains(c.stderr.String(), "interrupted") {
			t.Errorf("status %d, stderr %q", s, c.stderr.String())
		}
		return
	}
	if s := c.status(t, 70*time.Second); s != 125 {
		t.Errorf("status %d", s)
	}
	if got := c.stderr.String(); !strings.Contains(got, "4242") || !strings.Contains(got, "2026-01-02T03:04:05Z") || !strings.Contains(got, "1m0s") {
		t.Errorf("the holder is not named: %q", got)
	}
}

// A reader that goes away ends the command, on either side of the boundary.
func TestReaderGone(t *testing.T) {
	h := e2etest.New(t)
	h.Hold("")
	if out := h.Must("sh", "-c", "yes | head -1"); out != "y\n" {
		t.Errorf("inside: %q", out)
	}
	c := start(t, h, inside("yes")...)
	c.says(t, "y")
	_ = c.pipe.Close() // as head does
	if s := c.status(t, gone); s != 128+int(syscall.SIGPIPE) {
		t.Errorf("status %d, stderr %q", s, c.stderr.String())
	}
	e2etest.Eventually(t, gone, func() bool { return !strings.Contains(h.Must("ps", "-e", "-o", "comm"), "yes") },
		func() string { return "yes still runs" })
}

// A slow reader gets everything, also what it reads after the command's end.
func TestSlowReader(t *testing.T) {
	h := e2etest.New(t)
	h.Hold("")
	const size = 200_000
	c := start(t, h, inside("head", "-c", fmt.Sprint(size), "/dev/zero")...)
	// The command has long ended before the first byte is taken.
	e2etest.Eventually(t, starts, func() bool { return !strings.Contains(h.Must("ps", "-e", "-o", "comm"), "head") },
		func() string { return "head still runs" })
	time.Sleep(2 * time.Second) // more than every grace of the coordinator's
	n, err := io.Copy(io.Discard, c.out)
	if n != size || err != nil {
		t.Errorf("%d bytes (%v), want %d", n, err, size)
	}
	if s := c.status(t, gone); s != 0 {
		t.Errorf("status %d", s)
	}
}

// A Domain that was started without XDG_RUNTIME_DIR, as from cron, is joined by
// a client that has one (case 100).
func TestJoinsAcrossRuntimeDirectories(t *testing.T) {
	h := e2etest.New(t)
	with := h.Env
	var without []string
	for _, kv := range with {
		if !strings.HasPrefix(kv, "XDG_RUNTIME_DIR=") {
			without = append(without, kv)
		}
	}
	for name, env := range map[string][2][]string{
		"started without": {without, with},
		"started with":    {with, without},
	} {
		t.Run(name, func(t *testing.T) {
			h.Env = env[0]
			release := h.Hold("touch /run/here")
			defer release()
			h.Env = env[1]
			if out := h.Must("sh", "-c", "ls /run/here"); out != "/run/here\n" {
				t.Errorf("it is another sandbox: %q", out)
			}
		})
	}
}
