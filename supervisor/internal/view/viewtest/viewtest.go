// Package viewtest mounts a workspace view for tests, in a user and mount
// namespace of an ordinary user.
//
// It runs in test processes.
package viewtest

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/testgate"
	"lazaret.dev/lazaret/supervisor/internal/view"
)

// watchdog is how long a test may have a view mounted.
const watchdog = time.Minute

// insideEnv names the test that runs in the namespaces that Inside makes.
const insideEnv = "LAZARET_TEST_INSIDE"

// Inside runs the calling test again, alone, as uid 0 in new user and mount
// namespaces, and tells whether this is that run.
func Inside(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideEnv) == t.Name() {
		return true
	}
	testgate.Need(t, testgate.UserNS, testgate.FUSE)
	args := []string{"-test.run=^" + t.Name() + "$", "-test.v"}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), insideEnv+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   unix.SIGKILL,
	}
	// The parent-death signal is bound to this thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("in the namespace: %v\n%s", err, out)
	}
	return false
}

// World is a mounted view and its stores.
type World struct {
	Mount, Host, Domain, Private, Transient string
	View                                    *view.View
}

// New mounts a view. change, when given, completes its configuration.
func New(t testing.TB, change func(*view.Config)) *World {
	t.Helper()
	unix.Umask(0)
	base := t.TempDir()
	w := &World{
		Mount: filepath.Join(base, "mnt"), Host: filepath.Join(base, "host"), Domain: filepath.Join(base, "domain"),
		Private: filepath.Join(base, "private"), Transient: filepath.Join(base, "transient"),
	}
	for _, d := range []string{w.Mount, w.Host, w.Domain, w.Private, w.Transient} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.Serve(t, change)
	return w
}

func open(t testing.TB, path string) int {
	t.Helper()
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("open %s: %v", path, err)
	}
	return fd
}

// Serve mounts the view over the world's directories, as a generation does.
func (w *World) Serve(t testing.TB, change func(*view.Config)) {
	t.Helper()
	target := open(t, w.Mount)
	defer func() { _ = unix.Close(target) }()
	fuseFD, err := view.Mount(target)
	if err != nil {
		t.Fatal(err)
	}
	c := view.Config{
		FUSE:   fuseFD,
		Stores: view.Stores{Host: open(t, w.Host), Domain: open(t, w.Domain), Private: open(t, w.Private), Transient: open(t, w.Transient)},
		Log:    slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&c)
	}
	if w.View, err = view.Start(c); err != nil {
		t.Fatal(err)
	}
	v := w.View
	// A process that waits for a server in itself cannot even be killed.
	mount := w.Mount
	dog := time.AfterFunc(watchdog, func() { _ = unix.Unmount(mount, unix.MNT_FORCE|unix.MNT_DETACH) })
	refusePoll(t, w.Mount)
	t.Cleanup(func() {
		dog.Stop()
		Stop(t, mount, v)
	})
}

// refusePoll makes the kernel learn that the view has no POLL. The Go runtime
// would ask for it otherwise when a test opens a file, at a moment at which this
// process, which is also the server, cannot answer.
func refusePoll(t testing.TB, mount string) {
	t.Helper()
	fd, err := unix.Open(filepath.Join(mount, ".go-fuse-epoll-hack"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0); err != nil {
		t.Fatal(err)
	}
}

// Stop unmounts a view and waits for its end.
func Stop(t testing.TB, mount string, v *view.View) {
	t.Helper()
	if err := unix.Unmount(mount, unix.MNT_DETACH); err != nil {
		return // it was done before
	}
	if err := v.Close(10 * time.Second); err != nil {
		t.Error(err)
	}
	if err := v.Err(); err != nil {
		t.Error(err)
	}
}

type testWriter struct{ tb testing.TB }

func (w testWriter) Write(b []byte) (int, error) {
	w.tb.Logf("%s", strings.TrimSuffix(string(b), "\n"))
	return len(b), nil
}
