package e2etest

import (
	"bufio"
	"context"
	"io"
	"strings"
	"syscall"
	"time"
)

// Hold keeps the home's Domain running with a session of its own, which ends
// with the returned function or with the test. The session's shell runs script
// first.
func (h *Home) Hold(script string, args ...string) (release func()) {
	h.tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	late := time.AfterFunc(Timeout, cancel) // the start is bounded, the session is not
	argv := append(append([]string{"run", "--quiet"}, args...), "--", "sh", "-c", script+"\necho held; read -r line")
	cmd := h.Command(ctx, argv...)
	in, err := cmd.StdinPipe()
	if err != nil {
		h.tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		h.tb.Fatal(err)
	}
	var errb strings.Builder
	cmd.Stderr = &errb
	if err := cmd.Start(); err != nil {
		h.tb.Fatal(err)
	}
	over := false
	release = func() {
		if over {
			return
		}
		over = true
		defer time.AfterFunc(Timeout, cancel).Stop() // and its end
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait() // how it ended is not what the test is about
		cancel()
	}
	h.tb.Cleanup(func() {
		if !over {
			_ = cmd.Process.Signal(syscall.SIGTERM)
		}
		release()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if lines.Text() == "held" && late.Stop() {
			return release
		}
	}
	release()
	h.tb.Fatalf("the session that holds the Domain did not start: %s", errb.String())
	return nil
}
