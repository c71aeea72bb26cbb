package coordinator

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"lazaret.dev/lazaret/host/internal/generation"
	"lazaret.dev/lazaret/host/internal/recovery"
	"lazaret.dev/lazaret/protocol/handoff"
)

// newsGrace is how long the news of a death that can be seen already may take
// to arrive.
const newsGrace = 2 * time.Second

// awaitNews waits for the generation's end where something is dead that it
// cannot live without: its death is seen here before it is reported, and a
// session that were admitted meanwhile would fail with it. Whoever asks once
// more, as a client that is refused does, finds the next generation.
func (hc *coordinator) awaitNews() {
	if hc.vital() {
		return
	}
	select {
	case <-hc.over:
	case <-hc.done:
	case <-time.After(newsGrace):
	}
}

// vital reports whether everything lives that the generation needs: the
// processes on record, and the sandbox itself, which listens.
func (hc *coordinator) vital() bool {
	var procs []handoff.Proc
	known := make(chan struct{})
	hc.do(func() {
		procs = slices.Clone(hc.vitals)
		close(known)
	})
	select {
	case <-known:
	case <-hc.done:
		return false
	}
	for _, p := range procs {
		if now, err := recovery.ProcOf(p.PID); err != nil || now != p {
			return false
		}
	}
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{
		Name: filepath.Join(hc.req.RuntimeDir, generation.RunscSocket(hc.sandbox.ID)), Net: "unix",
	})
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// lookAtSandbox adds the processes that the runsc client has made, without
// either of which no sandbox works, to those that must live. They are found by
// what they are called with, which is for nothing but this.
func (hc *coordinator) lookAtSandbox() {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		hc.log.Warn("cannot look for the sandbox's processes", "err", err)
		return
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil {
			continue // it has ended, or is another user's
		}
		args := strings.Split(string(b), "\x00")
		if args[0] != "runsc-sandbox" && args[0] != "runsc-gofer" || !slices.Contains(args, "--root="+hc.sandbox.StateDir) {
			continue
		}
		if p, err := recovery.ProcOf(pid); err == nil {
			hc.do(func() { hc.vitals = append(hc.vitals, p) })
		}
	}
}
