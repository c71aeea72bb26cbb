// Package e2etest runs the built product as a user would: real binaries, real
// runsc, a private home, and a data root whose prepared image is shared.
//
// It is used by end-to-end tests only and runs in their processes. It touches
// nothing outside the directories that it makes.
package e2etest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lazaret.dev/lazaret/cmd/lazaret/e2etest/tracetest"
	"lazaret.dev/lazaret/protocol/testgate"
)

// Timeout bounds one command, in tests that set none of their own. The first
// command of a test process may have to unpack the image.
const Timeout = 90 * time.Second

// Home is one user's world: home, configuration, runtime directory and one
// project. Tests that share nothing use one each.
type Home struct {
	tb      testing.TB
	Dir     string // $HOME
	Runtime string // $XDG_RUNTIME_DIR
	Project string // the Agent Workspace
	Data    string // the data root
	Tree    string // the installation whose lazaret runs; empty: the built tree
	Env     []string

	mu      sync.Mutex
	leaders map[int]bool // the terminals' session leaders, which are no processes of ours

	traces *tracetest.Logs
}

// Need gates what every end-to-end test needs.
func Need(tb testing.TB) {
	tb.Helper()
	testgate.Need(tb, testgate.UserNS, testgate.Runsc, testgate.Slirp, testgate.SubIDs, testgate.FUSE, testgate.Tun, testgate.BaseImage)
}

// DataRoot is the data root that all tests of one user share: unpacking the
// base image takes seconds, and Domains are apart by their workspaces.
func DataRoot(tb testing.TB) string {
	tb.Helper()
	if d := os.Getenv("LAZARET_TEST_DATA"); d != "" {
		return d
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		tb.Fatal(err)
	}
	return filepath.Join(cache, "lazaret-e2e")
}

// New makes a home with an empty project. It gates the test first. When the test
// ends, what its coordinators have done is replayed through the protocol.
func New(tb testing.TB) *Home {
	tb.Helper()
	Need(tb)
	// Short: socket addresses lie in it.
	dir, err := os.MkdirTemp("", "lz")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	h := &Home{
		tb: tb, leaders: map[int]bool{}, Dir: filepath.Join(dir, "home"), Runtime: filepath.Join(dir, "run"),
		Project: filepath.Join(dir, "project"), Data: DataRoot(tb),
	}
	for _, d := range []string{h.Dir, h.Runtime, h.Project, filepath.Join(h.Dir, ".config/lazaret")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			tb.Fatal(err)
		}
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		tb.Fatal(err)
	}
	h.traces = tracetest.New(real)
	tb.Cleanup(h.conform)
	h.Config("")
	h.Env = []string{
		"HOME=" + h.Dir, "XDG_RUNTIME_DIR=" + h.Runtime, "PATH=" + os.Getenv("PATH"), "TERM=xterm", "USER=" + os.Getenv("USER"),
	}
	return h
}

// Config writes the configuration; the data root is set before the text, which
// may begin with tables.
func (h *Home) Config(text string) {
	h.tb.Helper()
	data, err := json.Marshal(h.Data) // a TOML string too
	if err != nil {
		h.tb.Fatal(err)
	}
	content := fmt.Sprintf("storage.data_root = %s\n%s", data, text)
	if err := os.WriteFile(filepath.Join(h.Dir, ".config/lazaret/config.toml"), []byte(content), 0o600); err != nil {
		h.tb.Fatal(err)
	}
}

// Binary is the built lazaret.
func Binary() string { return filepath.Join(testgate.Tree(), "bin/lazaret") }

func (h *Home) binary() string {
	if h.Tree != "" {
		return filepath.Join(h.Tree, "bin/lazaret")
	}
	return Binary()
}

// Result is what a command has done.
type Result struct {
	Stdout, Stderr string
	Status         int
}

// Command makes a command of the built lazaret in the project.
func (h *Home) Command(ctx context.Context, args ...string) *exec.Cmd {
	h.tb.Helper()
	h.collect()
	cmd := exec.CommandContext(ctx, h.binary(), args...)
	cmd.Dir = h.Project
	cmd.Env = h.Env
	// A lazaret that is killed by a test's end must not leave its terminal's or
	// pipes' copies behind.
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// Lazaret runs a command of the built lazaret and returns what it did.
func (h *Home) Lazaret(stdin string, args ...string) Result {
	h.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	cmd := h.Command(ctx, args...)
	var out, errb bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errb
	err := cmd.Run()
	if ctx.Err() != nil {
		h.tb.Fatalf("lazaret %q did not end within %s; stderr:\n%s", args, Timeout, errb.String())
	}
	return Result{Stdout: out.String(), Stderr: errb.String(), Status: Status(h.tb, err)}
}

// Run runs a command in the sandbox.
func (h *Home) Run(command ...string) Result {
	h.tb.Helper()
	return h.Lazaret("", append([]string{"run", "--quiet", "--"}, command...)...)
}

// Must runs a command in the sandbox that has to succeed, and returns what it
// printed.
func (h *Home) Must(command ...string) string {
	h.tb.Helper()
	r := h.Run(command...)
	if r.Status != 0 {
		h.tb.Fatalf("%q: status %d\nstdout: %s\nstderr: %s", command, r.Status, r.Stdout, r.Stderr)
	}
	return r.Stdout
}

// Status is a finished command's exit status as a shell gives it.
func Status(tb testing.TB, err error) int {
	tb.Helper()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			return 128 + int(ws.Signal())
		}
		return exit.ExitCode()
	default:
		tb.Fatal(err)
		return 0
	}
}

// collect notes the traces of the home's coordinators.
func (h *Home) collect() {
	h.tb.Helper()
	if err := h.traces.Collect(h.Data); err != nil {
		h.tb.Fatal(err)
	}
}

// conform replays what the home's coordinators have done through the protocol.
// Every end-to-end test fails that has seen one leave it.
func (h *Home) conform() {
	h.collect()
	logs, steps, wrong := h.traces.Replay()
	for _, err := range wrong {
		h.tb.Error(err)
	}
	h.tb.Logf("conformance: %d traces, %d steps", logs, steps)
}

// Traces returns the logs of all coordinators that the home has had until now.
func (h *Home) Traces() [][]byte {
	h.tb.Helper()
	h.collect()
	all, err := h.traces.All()
	if err != nil {
		h.tb.Fatal(err)
	}
	return all
}
