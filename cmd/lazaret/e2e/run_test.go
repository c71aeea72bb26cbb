package e2e_test

import (
	"crypto/sha256"
	"fmt"
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
