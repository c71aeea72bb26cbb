// Package e2e_test runs the built product as its user would: one file for each
// topic, one home for each test.
package e2e_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"

	"lazaret.dev/lazaret/cmd/lazaret/e2etest"
)

// Case 82: streams apart, nothing added, the status passed on.
func TestStreamsAndStatus(t *testing.T) {
	h := e2etest.New(t)
	r := h.Run("sh", "-c", "echo out; echo err >&2; exit 7")
	if r.Stdout != "out\n" || r.Stderr != "err\n" || r.Status != 7 {
		t.Errorf("stdout %q, stderr %q, status %d", r.Stdout, r.Stderr, r.Status)
	}
	r = h.Lazaret("", "run", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
	if r.Stdout != "out\n" || r.Status != 7 {
		t.Errorf("without --quiet: stdout %q, status %d", r.Stdout, r.Status)
	}
	for line := range strings.Lines(r.Stderr) {
		if line != "err\n" && !strings.HasPrefix(line, "lazaret: ") {
			t.Errorf("without --quiet: a line of ours has no prefix: %q", line)
		}
	}
	h.NothingLeft(10 * time.Second)
}

func TestInputIsPassedOn(t *testing.T) {
	h := e2etest.New(t)
	var in strings.Builder
	for i := range 100000 {
		fmt.Fprintln(&in, i+1)
	}
	r := h.Lazaret(in.String(), "run", "--quiet", "--", "sha256sum")
	if want := fmt.Sprintf("%x  -\n", sha256.Sum256([]byte(in.String()))); r.Stdout != want {
		t.Errorf("got %q, want %q (status %d, stderr %q)", r.Stdout, want, r.Status, r.Stderr)
	}
}

// What a short command prints at its very end must not be lost, nor its status.
func TestJoinedRunsLoseNothing(t *testing.T) {
	h := e2etest.New(t)
	h.Hold("")
	var want strings.Builder
	for i := range 200 {
		fmt.Fprintln(&want, i+1)
	}
	for n := range 50 {
		r := h.Lazaret("", "run", "--", "sh", "-c", "seq 200; exit 3")
		if r.Stdout != want.String() || r.Status != 3 || r.Stderr != "" {
			t.Fatalf("run %d: %d lines, status %d, stderr %q", n, strings.Count(r.Stdout, "\n"), r.Status, r.Stderr)
		}
	}
}

// Every byte value passes in both directions, in a size that no buffer holds.
func TestBytesAreNotTouched(t *testing.T) {
	h := e2etest.New(t)
	h.Hold("")
	in := make([]byte, 3<<20)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range in {
		in[i] = byte(random.Uint32())
	}
	copy(in, "\r\n\x00\x03\x04\x1a\x1c\xff\xfe")
	r := h.Lazaret(string(in), "run", "--", "sh", "-c", "tee /dev/stderr")
	if !bytes.Equal([]byte(r.Stdout), in) || !bytes.Equal([]byte(r.Stderr), in) || r.Status != 0 {
		t.Errorf("%d bytes came back as %d and %d, status %d", len(in), len(r.Stdout), len(r.Stderr), r.Status)
	}
}

// Case 84: the statuses of a shell. 125, 126 and 127 are said by Lazaret.
func TestStatuses(t *testing.T) {
	h := e2etest.New(t)
	h.Hold("")
	for _, tt := range []struct {
		command []string
		status  int
		says    string
	}{
		{[]string{"true"}, 0, ""},
		{[]string{"sh", "-c", "exit 1"}, 1, ""},
		{[]string{"sh", "-c", "exit 125"}, 125, ""},
		{[]string{"sh", "-c", "exit 128"}, 128, ""},
		{[]string{"sh", "-c", "exit 255"}, 255, ""},
		{[]string{"/etc/passwd"}, 126, `lazaret: error: cannot execute "/etc/passwd"`},
		{[]string{"/etc"}, 126, `lazaret: error: cannot execute "/etc"`},
		{[]string{"no-such-command"}, 127, `lazaret: error: cannot find "no-such-command"`},
		{[]string{"/no/such/command"}, 127, `lazaret: error: cannot find "/no/such/command"`},
		{[]string{""}, 127, `lazaret: error: cannot find ""`},
		{[]string{"sh", "-c", "kill -HUP $$"}, 129, ""},
		{[]string{"sh", "-c", "kill -INT $$"}, 130, ""},
		{[]string{"sh", "-c", "kill -KILL $$"}, 137, ""},
		{[]string{"sh", "-c", "kill -SEGV $$"}, 139, ""},
		{[]string{"sh", "-c", "kill -TERM $$"}, 143, ""},
	} {
		r := h.Run(tt.command...)
		if r.Status != tt.status || !strings.HasPrefix(r.Stderr, tt.says) || tt.says == "" && r.Stderr != "" || r.Stdout != "" {
			t.Errorf("%q: status %d, want %d; stdout %q, stderr %q", tt.command, r.Status, tt.status, r.Stdout, r.Stderr)
		}
	}
	for _, args := range [][]string{
		{"run", "--no-such-flag"},
		{"run", "--quiet", "--verbose", "--", "true"},
		{"run", "--tty", "--no-tty"},
		{"run", "--"},
		{"run", "a", "b"},
		{"no-such-command"},
		{"net", "no-such-command"},
		{"doctor", "x"},
	} {
		if r := h.Lazaret("", args...); r.Status != 2 || !strings.HasPrefix(r.Stderr, "lazaret: error: ") || r.Stdout != "" {
			t.Errorf("%q: %+v", args, r)
		}
	}
}

// Without a terminal, without input, without a descriptor 0.
func TestWithoutTerminal(t *testing.T) {
	h := e2etest.New(t)
	h.Hold("")
	run := e2etest.Binary() + " run --quiet -- "
	const inside = `sh -c 'tty; printf "a\nb\n"; cat; echo end'`
	for name, line := range map[string]string{
		"no controlling terminal": "setsid -w " + run + inside + " </dev/null | cat",
		"null device":             run + inside + " </dev/null | cat",
		"closed input":            run + inside + " <&- | cat",
		"closed pipe":             ": | " + run + inside + " | cat",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), e2etest.Timeout)
		cmd := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", line)
		cmd.Dir, cmd.Env = h.Project, h.Env
		out, err := cmd.Output()
		cancel()
		// tty fails, and no carriage return is anywhere.
		if err != nil || string(out) != "not a tty\na\nb\nend\n" {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
	// A closed standard output is the command's affair, and ends nothing else.
	cmd := exec.Command("bash", "-c", run+"sh -c 'echo x; exit 4' >&-")
	cmd.Dir, cmd.Env = h.Project, h.Env
	if err := cmd.Run(); e2etest.Status(t, err) != 4 {
		t.Errorf("closed output: %v, want status 4", err)
	}
	if got := h.Must("echo", "still here"); got != "still here\n" {
		t.Errorf("afterwards: %q", got)
	}
}
