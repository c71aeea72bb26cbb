package hostfacts_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/hostfacts"
	"lazaret.dev/lazaret/protocol/handoff"
	"lazaret.dev/lazaret/protocol/testgate"
)

// The version that is demanded is the one that is built.
func TestPinMatchesPackaging(t *testing.T) {
	b, err := os.ReadFile("../../../packaging/runsc/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), "gvisor.dev/gvisor "+hostfacts.PinnedRunsc) {
		t.Errorf("packaging/runsc/go.mod does not pin %s", hostfacts.PinnedRunsc)
	}
}

// The real runsc of the built tree passes the check, on the real system.
func TestBuiltRunscIsAccepted(t *testing.T) {
	testgate.Need(t, testgate.Runsc)
	e, err := hostfacts.Current(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	e.Exe = filepath.Join(testgate.Tree(), "bin/lazaret")
	for _, c := range hostfacts.Examine(context.Background(), e).Checks {
		if c.ID == "runsc" && (c.Status != hostfacts.OK || !strings.HasSuffix(c.Found, hostfacts.PinnedRunsc)) {
			t.Errorf("%+v", c)
		}
	}
}

// The real system's answers: this test's own programs, devices and limits.
func TestRealSystem(t *testing.T) {
	e, err := hostfacts.Current(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	out, err := e.System.Run(ctx, "/bin/sh", "-c", "echo out; echo err >&2; exit 3")
	if want := (hostfacts.Output{Stdout: "out\n", Stderr: "err\n", Status: 3}); err != nil || out != want {
		t.Errorf("Run = %+v, %v", out, err)
	}
	if _, err := e.System.Run(ctx, "/nonexistent"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Run of nothing: %v", err)
	}
	start := time.Now()
	if _, err := e.System.Run(ctx, "/bin/sh", "-c", "sleep 20 & wait"); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 3*time.Second {
		t.Errorf("Run of a hanging program: %v after %v", err, time.Since(start))
	}
	if err := e.System.Open("/dev/null"); err != nil {
		t.Errorf("Open(/dev/null) = %v", err)
	}
	if err := e.System.Open("/dev/nonexistent"); !errors.Is(err, unix.ENOENT) {
		t.Errorf("Open of nothing = %v", err)
	}
	if m, err := e.System.FSType("/proc"); err != nil || m != unix.PROC_SUPER_MAGIC {
		t.Errorf("FSType(/proc) = %#x, %v", m, err)
	}
	if r, err := e.System.Release(); err != nil || !strings.Contains(r, ".") {
		t.Errorf("Release = %q, %v", r, err)
	}
}

// A start spends no more than this on looking at the host.
func BenchmarkQuick(b *testing.B) {
	e, _ := good(b)
	put(b, e, "dev/fuse", "", 0o666)
	put(b, e, "dev/net/tun", "", 0o666)
	this, err := hostfacts.Current("")
	if err != nil {
		b.Fatal(err)
	}
	e.System, e.DataRoot = this.System, e.Root+"/home/none"
	for b.Loop() {
		if _, err := hostfacts.Quick(context.Background(), e); err != nil {
			b.Fatal(err)
		}
	}
}

// A host that has everything passes every check, through the real supervisor.
func TestThisHostIsGood(t *testing.T) {
	testgate.Need(t, testgate.Runsc, testgate.UserNS, testgate.SubIDs, testgate.Slirp, testgate.FUSE, testgate.Tun)
	e, err := hostfacts.Current(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	e.Exe = filepath.Join(testgate.Tree(), "bin/lazaret")
	if r := hostfacts.Examine(context.Background(), e); r.Blocked() {
		t.Errorf("\n%s", text(t, r))
	}
	f, err := hostfacts.Quick(context.Background(), e)
	if err != nil || f.Mapping.Mode != handoff.MappingFull || len(f.Warnings) != 0 {
		t.Errorf("%+v, %v", f, err)
	}
}
