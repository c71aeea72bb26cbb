package e2e_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lazaret.dev/lazaret/cmd/lazaret/e2etest"
	"lazaret.dev/lazaret/protocol/trace"
)

// small makes a home whose sandbox is quick to start.
func small(t *testing.T) *e2etest.Home {
	t.Helper()
	h := e2etest.New(t)
	h.Config(fmt.Sprintf("[profiles.small]\nimage = %q\n", e2etest.SmallImage(t)))
	return h
}

// crash kills all of a serving Domain at once, so that nobody can clean up.
func crash(t *testing.T, h *e2etest.Home) {
	t.Helper()
	release := h.Hold("")
	were := h.Processes()
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for _, p := range were {
			_ = syscall.Kill(p.PID, sig)
		}
	}
	release()
	h.Gone(were, gone)
}

// runtimeDir is the runtime directory of the home's one Domain.
func runtimeDir(t *testing.T, h *e2etest.Home) string {
	t.Helper()
	return filepath.Join(h.Runtime, "lazaret", filepath.Base(domainDir(t, h)))
}

// snapshot describes a tree so that whatever touches it shows.
func snapshot(t *testing.T, root string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := os.Lstat(path)
		if err != nil {
			return err
		}
		st := fi.Sys().(*syscall.Stat_t)
		text := ""
		if fi.Mode().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = string(b)
		}
		rel, err := filepath.Rel(root, path)
		fmt.Fprintf(&out, "%s %v %d:%d %d %d.%d %q\n", rel, fi.Mode(), st.Uid, st.Gid, st.Ino, st.Mtim.Sec, st.Mtim.Nsec, text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// hinted runs the command that the error's hint gives.
func hinted(t *testing.T, r e2etest.Result) {
	t.Helper()
	i := strings.LastIndex(r.Stderr, ": ")
	if i < 0 || !strings.Contains(r.Stderr, "lazaret: hint: ") {
		t.Fatalf("no hint with a command: %q", r.Stderr)
	}
	command := r.Stderr[i+2:]
	if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
		t.Fatalf("the hint's command %q: %v: %s", command, err, out)
	}
}

// FR-7: whatever lies where a generation's own would, after an orderly end or
// after a crash, is left alone and named, and the start refused; once it is out
// of the way, all goes on.
func TestForeignLeftovers(t *testing.T) {
	kinds := map[string]func(path string) error{
		"file":            func(path string) error { return os.WriteFile(path, []byte("mine"), 0o600) },
		"empty directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"directory": func(path string) error {
			return errors.Join(os.Mkdir(path, 0o700), os.WriteFile(filepath.Join(path, "state"), []byte("mine"), 0o600))
		},
		"link": func(path string) error { return os.Symlink("/nonexistent", path) },
		"socket": func(path string) error {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
			if err == nil {
				l.SetUnlinkOnClose(false)
				err = l.Close()
			}
			return err
		},
	}
	for place, some := range map[string][]string{
		"control.sock": {"file", "socket"}, "enroll.sock": {"empty directory", "socket"},
		"r": {"file", "empty directory", "directory"}, "m": {"directory", "link"},
	} {
		t.Run(place, func(t *testing.T) {
			h := small(t)
			for i, kind := range some {
				crashed := i%2 == 1
				if crashed {
					crash(t, h)
				} else {
					h.Must("true")
				}
				h.Gone(h.Processes(), gone)
				path := filepath.Join(runtimeDir(t, h), place)
				if err := errors.Join(os.RemoveAll(path), os.MkdirAll(filepath.Dir(path), 0o700), kinds[kind](path)); err != nil {
					t.Fatal(err)
				}
				before := snapshot(t, path)
				for _, r := range []e2etest.Result{h.Run("true"), h.Lazaret("", "recover"), h.Run("true")} {
					if r.Status == 0 || !strings.Contains(r.Stderr, "lazaret: error: cannot ") || !strings.Contains(r.Stderr, fmt.Sprintf("%q", path)) {
						t.Errorf("%s (crashed: %t): status %d, %q", kind, crashed, r.Status, r.Stderr)
					}
				}
				if after := snapshot(t, path); after != before {
					t.Errorf("%s was touched:\n%s\nnow\n%s", kind, before, after)
				}
				hinted(t, h.Run("true"))
				h.Must("true")
				if after := snapshot(t, path+".foreign"); after != before {
					t.Errorf("%s, moved away, was touched:\n%s\nnow\n%s", kind, before, after)
				}
				if err := os.RemoveAll(path + ".foreign"); err != nil {
					t.Fatal(err)
				}
			}
			h.NothingLeft(gone)
		})
	}
}

// A mount on one of the Domain's directories is nobody's but the developer's.
func TestForeignMounts(t *testing.T) {
	h := small(t)
	h.Data = filepath.Join(h.Dir, "data")
	h.Config(fmt.Sprintf("[profiles.small]\nimage = %q\n", e2etest.SmallImage(t)))
	none, foreign := filepath.Join(h.Dir, "none"), filepath.Join(h.Dir, "foreign")
	if err := errors.Join(os.WriteFile(none, nil, 0o644), os.Mkdir(foreign, 0o700), os.WriteFile(filepath.Join(foreign, "x"), []byte("mine"), 0o600)); err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, foreign)
	elsewhere := func(setup string, args ...string) e2etest.Result {
		t.Helper()
		// Subordinate ids have no effect there.
		return h.Elsewhere(fmt.Sprintf("mount --bind %s /etc/subuid && mount --bind %[1]s /etc/subgid && %s", none, setup), args...)
	}
	if r := elsewhere(":", "run", "--quiet", "--", "true"); r.Status != 0 {
		t.Fatalf("status %d, %q", r.Status, r.Stderr)
	}
	h.Gone(h.Processes(), gone)
	dir, rt := domainDir(t, h), runtimeDir(t, h)
	for _, place := range []string{rt, filepath.Join(rt, "r"), filepath.Join(rt, "m"), filepath.Join(dir, "anchors"), filepath.Join(dir, "transient")} {
		if err := os.MkdirAll(place, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"run", "--quiet", "--", "true"}, {"recover"}} {
			r := elsewhere(fmt.Sprintf("mount --bind %s %s", foreign, place), args...)
			if r.Status == 0 || !strings.Contains(r.Stderr, fmt.Sprintf("%q", place)) || !strings.Contains(r.Stderr, "lazaret: hint: unmount it: umount '"+place+"'") {
				t.Errorf("%s: status %d, %q", place, r.Status, r.Stderr)
			}
		}
		if after := snapshot(t, foreign); after != before {
			t.Errorf("what is mounted on %s was touched:\n%s\nnow\n%s", place, before, after)
		}
		if strings.HasPrefix(place, rt) {
			if err := os.Remove(place); err != nil {
				t.Fatal(err)
			}
		}
	}
	if r := elsewhere(":", "run", "--quiet", "--", "true"); r.Status != 0 {
		t.Errorf("status %d, %q", r.Status, r.Stderr)
	}
	h.NothingLeft(gone)
	removeMapped(t, h.Data)
}

// What a mount hides is not gone: recovery waits until it can be seen.
func TestHiddenLeftovers(t *testing.T) {
	h := small(t)
	crash(t, h)
	rt := runtimeDir(t, h)
	before := snapshot(t, rt)
	for _, over := range []string{rt, filepath.Dir(rt), h.Runtime} {
		r := h.Elsewhere(fmt.Sprintf("mount -t tmpfs -o mode=700 none %s && mkdir -m 700 -p %s", over, filepath.Dir(rt)), "recover", filepath.Base(rt))
		if r.Status == 0 || !strings.Contains(r.Stderr, "lazaret: hint: unmount it: umount '"+over+"'") {
			t.Errorf("%s: status %d, %q", over, r.Status, r.Stderr)
		}
	}
	if after := snapshot(t, rt); after != before {
		t.Errorf("what is hidden was touched:\n%s\nnow\n%s", before, after)
	}
	h.Must("true")
	h.NothingLeft(gone)
}

// A client in another XDG_RUNTIME_DIR joins what runs, and recovers what is dead;
// in neither place is anything left.
func TestAnotherRuntimeDirectory(t *testing.T) {
	h := small(t)
	second := filepath.Join(h.Dir, "run2")
	if err := os.Mkdir(second, 0o700); err != nil {
		t.Fatal(err)
	}
	empty := func(runtime string) {
		t.Helper()
		if left, err := os.ReadDir(filepath.Join(runtime, "lazaret")); err != nil || len(left) > 0 {
			t.Errorf("in %s: %v, %v", runtime, left, err)
		}
	}
	release := h.Hold("")
	h.Setenv("XDG_RUNTIME_DIR", second)
	h.Must("true")
	empty(second)
	release()
	h.Gone(h.Processes(), gone)

	h.Setenv("XDG_RUNTIME_DIR", h.Runtime)
	crash(t, h)
	h.Setenv("XDG_RUNTIME_DIR", second)
	h.Must("true")
	h.Gone(h.Processes(), gone)
	empty(h.Runtime)
	empty(second)
}

// The Domain lock's and the runtime directory's own places.
func TestForeignAtTheDomainsDirectories(t *testing.T) {
	h := small(t)
	h.Must("true")
	h.Gone(h.Processes(), gone)
	lock := filepath.Join(domainDir(t, h), "lock")
	for _, path := range []string{lock, runtimeDir(t, h)} {
		for name, put := range map[string]func() error{
			"directory": func() error {
				return errors.Join(os.Mkdir(path, 0o755), os.WriteFile(filepath.Join(path, "x"), []byte("mine"), 0o600), os.Chmod(path, 0o755))
			},
			"link": func() error { return os.Symlink(t.TempDir(), path) },
			"pipe": func() error { return syscall.Mkfifo(path, 0o600) },
		} {
			if err := errors.Join(os.RemoveAll(path), put()); err != nil {
				t.Fatal(err)
			}
			before := snapshot(t, path)
			r := h.Run("true")
			if r.Status != 125 || !strings.Contains(r.Stderr, fmt.Sprintf("%q", path)) {
				t.Errorf("%s, %s: status %d, %q", path, name, r.Status, r.Stderr)
			}
			if after := snapshot(t, path); after != before {
				t.Errorf("%s, %s was touched:\n%s\nnow\n%s", path, name, before, after)
			}
		}
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		h.Must("true")
	}
}

// Somebody who listens where a coordinator would is not believed.
func TestForeignListener(t *testing.T) {
	h := small(t)
	h.Must("true")
	h.Gone(h.Processes(), gone)
	path := filepath.Join(runtimeDir(t, h), "enroll.sock")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("{\"version\":1}\n"))
			_ = c.Close()
		}
	}()
	r := h.Run("true")
	if r.Status != 125 || !strings.Contains(r.Stderr, path) {
		t.Errorf("status %d, %q", r.Status, r.Stderr)
	}
	if c, err := net.Dial("unix", path); err != nil {
		t.Errorf("the listener: %v", err)
	} else {
		_ = c.Close()
	}
}

// FR-7: a process that has entered the sandbox's mounts keeps them when all of
// ours are dead. Mounting the layers again would lose them.
func TestForeignProcessHoldsTheMounts(t *testing.T) {
	h := small(t)
	release := h.Hold("echo kept >/root/kept")
	were := h.Processes()
	super := h.Find("lazaret-supervisor")
	// The shell says so once it is inside.
	holder := exec.Command("nsenter", "--target", fmt.Sprint(super.PID), "--user", "--preserve-credentials", "--mount", "--",
		"sh", "-c", "echo inside; exec sleep 600")
	out, err := holder.StdoutPipe()
	if err == nil {
		err = holder.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = holder.Process.Kill()
		_ = holder.Wait()
	}()
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for _, p := range were {
			_ = syscall.Kill(p.PID, sig)
		}
	}
	release()
	h.Gone(were, gone)

	r := h.Run("cat", "/root/kept")
	if r.Status != 125 || !strings.Contains(r.Stderr, fmt.Sprintf("process %d holds the generation's mounts", holder.Process.Pid)) {
		t.Fatalf("status %d, %q", r.Status, r.Stderr)
	}
	hinted(t, r)
	_ = holder.Wait()
	if got := h.Must("cat", "/root/kept"); got != "kept\n" {
		t.Errorf("got %q", got)
	}
	h.NothingLeft(gone)
}

// FR-7: processes that are stopped do not notice that their coordinator is dead.
// They outlive their lease, and are ended one by one.
func TestStoppedProcesses(t *testing.T) {
	h := small(t)
	release := h.Hold("echo kept >/root/kept; sync")
	were := h.Processes()
	_ = syscall.Kill(h.Find("lazaret-supervisor").PID, syscall.SIGSTOP)
	_ = syscall.Kill(h.Find("slirp4netns").PID, syscall.SIGSTOP)
	_ = syscall.Kill(h.Find("lazaret _coordinator").PID, syscall.SIGKILL)
	release()
	r := h.Lazaret("", "recover")
	if r.Status != 0 || !strings.Contains(r.Stderr, "killing the supervisor") && !strings.Contains(r.Stderr, "killing the helper") ||
		!strings.Contains(r.Stderr, "recovered: generation") {
		t.Errorf("status %d, %q", r.Status, r.Stderr)
	}
	h.Gone(were, gone)
	h.NothingLeft(time.Second)
	if got := h.Must("cat", "/root/kept"); got != "kept\n" {
		t.Errorf("got %q", got)
	}
}

// OR-6: lazaret recover clears a crash away and starts nothing, needs no
// workspace, and leaves a running Domain alone.
func TestRecoverCommand(t *testing.T) {
	h := small(t)
	if r := h.Lazaret("", "recover"); r.Status != 1 || !strings.Contains(r.Stderr, "lazaret: error: this directory has no Domain") {
		t.Errorf("before the first run: status %d, %q", r.Status, r.Stderr)
	}
	crash(t, h)
	id := filepath.Base(domainDir(t, h))
	rt := runtimeDir(t, h)
	if left, _ := os.ReadDir(rt); len(left) < 4 {
		t.Fatalf("a crash leaves %v: the test is worth nothing", left)
	}
	r := h.Lazaret("", "recover")
	for _, want := range []string{"cleaned: the publication of", "cleaned: the supervisor of", "released: the lease of", "recovered: generation g"} {
		if r.Status != 0 || !strings.Contains(r.Stderr, "lazaret: "+want) {
			t.Errorf("status %d, %q; want %q", r.Status, r.Stderr, want)
		}
	}
	if _, err := os.Lstat(rt); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the Domain's runtime directory is left: %v", err)
	}
	leases, err := filepath.Glob(filepath.Join(h.Data, "prepared/*/leases", id+".*"))
	if err != nil || len(leases) != 0 || len(h.Processes()) != 0 {
		t.Errorf("left: %q, %v, %v", leases, err, h.Processes())
	}
	logs, err := filepath.Glob(filepath.Join(domainDir(t, h), "log/*/recover-*.log"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("logs: %q, %v", logs, err)
	}
	b, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	if r, err := trace.Replay(bytes.NewReader(b)); err != nil || r.Recoveries != 1 || r.Steps < 8 || r.State.Record != nil {
		t.Errorf("the recovery's trace: %+v, %v", r, err)
	}
	if r := h.Lazaret("", "recover", id[:8]); r.Status != 0 || !strings.Contains(r.Stderr, "no generation of Domain "+id) {
		t.Errorf("again: status %d, %q", r.Status, r.Stderr)
	}

	release := h.Hold("")
	pid := h.Find("lazaret _coordinator").PID
	if r := h.Lazaret("", "recover"); r.Status != 1 || !strings.Contains(r.Stderr, fmt.Sprintf("in use, by process %d since ", pid)) ||
		!strings.Contains(r.Stderr, "lazaret: hint: lazaret stop "+id) {
		t.Errorf("a running Domain: status %d, %q", r.Status, r.Stderr)
	}
	h.Must("true")
	release()

	// The project has moved; its Domain is named.
	crash(t, h)
	moved := h.Project + ".moved"
	if err := errors.Join(os.Rename(h.Project, moved), os.Mkdir(h.Project, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(h.Project); err != nil {
		t.Fatal(err)
	}
	h.Project = moved
	if r := h.Lazaret("", "recover"); r.Status != 1 || !strings.Contains(r.Stderr, "lazaret: hint: lazaret recover ") {
		t.Errorf("elsewhere: status %d, %q", r.Status, r.Stderr)
	}
	if r := h.Lazaret("", "recover", id); r.Status != 0 || !strings.Contains(r.Stderr, "recovered: generation g") {
		t.Errorf("status %d, %q", r.Status, r.Stderr)
	}
	h.NothingLeft(gone)
	if r := h.Lazaret("", "__complete", "recover", id[:6]); !strings.Contains(r.Stdout, id+"\tsmall ") {
		t.Errorf("completion: %q", r.Stdout)
	}
}

// A project that was replaced by another of the same path is the same Domain: its
// dead generation is recovered, and nothing of it depended on the old directory.
func TestReplacedWorkspace(t *testing.T) {
	h := small(t)
	crash(t, h)
	if err := errors.Join(os.Rename(h.Project, h.Project+".old"), os.Mkdir(h.Project, 0o700),
		os.WriteFile(filepath.Join(h.Project, "new"), []byte("new"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if got := h.Must("cat", "new"); got != "new" {
		t.Errorf("got %q", got)
	}
	h.NothingLeft(gone)
}
