package network_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lazaret.dev/lazaret/cmd/lazaret/e2etest"
	"lazaret.dev/lazaret/packaging/testnet/nettest"
)

// Issue 2, must show 5: with slirp4netns dead not one packet more leaves, and
// the session ends with the reason. The supervisor is stopped meanwhile, so
// that the sandbox lives on for long enough to try. That it does is seen in what
// it prints: its workspace is the supervisor's.
func TestSlirpKilled(t *testing.T) {
	n, h := world(t)
	ctx, cancel := context.WithTimeout(context.Background(), e2etest.Timeout)
	defer cancel()
	cmd := h.Command(ctx, "run", "--", "python3", "-c", `
import socket, time
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
i = 0
while True:
    i += 1
    for address in ("203.0.113.5", "10.1.1.1"):
        try: u.sendto(b"x", (address, 9999))
        except OSError: pass
    print(i, flush=True)
    time.sleep(0.005)
`)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	printed, err := os.Create(filepath.Join(t.TempDir(), "printed"))
	if err != nil {
		t.Fatal(err)
	}
	defer printed.Close()
	cmd.Stdout = printed
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	arrived := func() bool { return n.Counts(t).To(nettest.Public) > 10 }
	e2etest.Eventually(t, e2etest.Timeout, arrived, func() string { return "nothing arrives: " + stderr.String() })

	supervisor, slirp := h.Find("lazaret-supervisor"), h.Find("slirp4netns")
	if err := syscall.Kill(supervisor.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(supervisor.PID, syscall.SIGCONT) }()
	if err := syscall.Kill(slirp.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	e2etest.Eventually(t, 10*time.Second, func() bool { return !slirp.Alive() }, func() string { return "slirp4netns lives" })
	n.Reset(t)
	sent := func() int64 {
		info, err := printed.Stat()
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before := sent()
	e2etest.Eventually(t, 10*time.Second, func() bool { return sent() > before }, func() string { return "the sandbox does not run" })
	time.Sleep(300 * time.Millisecond) // for what must not happen
	if err := syscall.Kill(supervisor.PID, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	status := e2etest.Status(t, cmd.Wait())
	if c := n.Counts(t); len(c) > 0 && c.To(nettest.Public)+c.To(nettest.Private10) > 0 {
		t.Errorf("packets after slirp4netns's end: %v", c)
	}
	if status != 125 || !strings.Contains(stderr.String(), "slirp4netns was killed by signal 9") {
		t.Errorf("status %d: %s", status, stderr.String())
	}
	h.NothingLeft(10 * time.Second)
	if out := h.Must("echo", "again"); out != "again\n" {
		t.Errorf("after it: %q", out)
	}
}
