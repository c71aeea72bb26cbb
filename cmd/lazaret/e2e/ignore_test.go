package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lazaret.dev/lazaret/cmd/lazaret/e2etest"
)

// expect runs lazaret and wants its status, and texts on stdout and stderr.
func expect(t *testing.T, h *e2etest.Home, status int, stdout, stderr string, args ...string) e2etest.Result {
	t.Helper()
	r := h.Lazaret("", args...)
	if r.Status != status || !strings.Contains(r.Stdout, stdout) || !strings.Contains(r.Stderr, stderr) {
		t.Errorf("%q: %+v\nwant %d, %q, %q", args, r, status, stdout, stderr)
	}
	return r
}

// SR-13, issue 4, to build 4: what the sandbox relaxes stays isolated until the
// developer accepts it, by a command that shows what that is; here while the
// sandbox does not run.
func TestIgnoreAtRest(t *testing.T) {
	h := e2etest.New(t)
	commits(t, h, map[string]string{".gitignore": "secret\nout/\n", "secret": "host's\n", "out/host": "x\n"})
	expect(t, h, 1, "", "has not run in", "ignore", "ls")
	if got := h.Must("sh", "-c", "test ! -e secret && test ! -e out && mkdir out && echo mine >out/own && echo mine >'a\tb'; echo -n >.gitignore; ls"); got != "a\tb\nout\n" {
		t.Errorf("inside: %q", got)
	}
	expect(t, h, 0, `"out" (directory)`+"\n", "", "ignore", "ls")
	r := expect(t, h, 0, `accept would show to the sandbox: "secret"`, "", "ignore", "review")
	for _, want := range []string{`changed: ".gitignore", where "secret" counts as before`, `sandbox: "out"`} {
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("review does not say %q: %s", want, r.Stdout)
		}
	}
	var review struct {
		Changes []struct{ File string }
		Shares  []string
	}
	r = expect(t, h, 0, "{", "", "ignore", "review", "--json")
	if err := json.Unmarshal([]byte(r.Stdout), &review); err != nil || len(review.Shares) != 2 || len(review.Changes) != 1 || review.Changes[0].File != ".gitignore" {
		t.Errorf("%v: %s", err, r.Stdout)
	}
	expect(t, h, 1, `"secret"`, "not accepted", "ignore", "accept")
	if got := h.Must("sh", "-c", "cat secret 2>/dev/null; ls out"); got != "own\n" {
		t.Errorf("before it is accepted: %q", got)
	}
	expect(t, h, 0, `"secret"`, "lazaret: accepted", "ignore", "accept", "--yes")
	expect(t, h, 0, "", "nothing to accept", "ignore", "accept", "--yes")
	expect(t, h, 0, `"out/own" (unused`, "", "ignore", "ls")
	if got := h.Must("sh", "-c", "cat secret; ls out"); got != "host's\nhost\n" {
		t.Errorf("after it was accepted: %q", got)
	}
	if b, err := os.ReadFile(filepath.Join(h.Project, "secret")); err != nil || string(b) != "host's\n" {
		t.Errorf("on the host: %q, %v", b, err)
	}
	h.NothingLeft(10 * time.Second)
}

// The same while a session is attached: what is accepted appears in it.
func TestIgnoreWhileRunning(t *testing.T) {
	h := e2etest.New(t)
	commits(t, h, map[string]string{".gitignore": "secret\n.env\n", "secret": "host's\n", ".env": "key\n"})
	release := h.Hold("cat secret 2>/dev/null; echo .env >.gitignore")
	defer release()
	expect(t, h, 0, `"secret"`, "", "ignore", "review")
	if got := h.Must("sh", "-c", "cat secret || echo nothing"); got != "nothing\n" {
		t.Errorf("before: %q", got)
	}
	expect(t, h, 0, `"secret"`, "lazaret: accepted", "ignore", "accept", "--yes")
	e2etest.Eventually(t, 2*time.Second, func() bool {
		return h.Must("sh", "-c", "cat secret || echo nothing") == "host's\n"
	}, func() string { return "what was accepted is not seen" })
	if got := h.Must("sh", "-c", "cat .env 2>/dev/null || echo nothing"); got != "nothing\n" {
		t.Errorf("what is ignored still: %q", got)
	}
}
