package killmatrix_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite" // looks into stores whose coordinators are gone

	"lazaret.dev/lazaret/cmd/lazaret/e2etest"
	"lazaret.dev/lazaret/cmd/lazaret/e2etest/faulttest"
)

const (
	// gone is how long after any death the next command may take, and anything
	// may be left.
	gone = 10 * time.Second

	// patience bounds what is no requirement, on a machine that is busy.
	patience = 60 * time.Second

	poll = 2 * time.Millisecond
)

// world is one user with one project, whose state lives through many deaths.
type world struct {
	t      *testing.T
	h      *e2etest.Home
	f      *faulttest.Faults
	family family
}

// kept is what lies in the persistent state and in the workspace from the
// beginning, and must never change.
const kept = "kept"

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, h: e2etest.New(t)}
	w.h.Data = dataRoot(t)
	w.h.Config(fmt.Sprintf("[profiles.small]\nimage = %q\n", e2etest.SmallImage(t)))
	w.f = faulttest.New(t, w.h)
	w.family.begin(t)
	w.settle()
	return w
}

// settle puts something into the workspace and into the persistent state.
func (w *world) settle() {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.h.Project, kept), []byte(kept+"\n"), 0o600); err != nil {
		w.t.Fatal(err)
	}
	c := w.run("echo " + kept + " >/root/" + kept + "; sync")
	if err := c.ends(patience); err != nil || c.status() != 0 {
		w.t.Fatalf("the first run: %v, status %d: %s", err, c.status(), c.stderr.String())
	}
}

// dataRoot makes a data root of the test's own, where those of other tests are.
func dataRoot(t *testing.T) string {
	t.Helper()
	base := e2etest.DataRoot(t)
	if err := os.MkdirAll(filepath.Dir(base), 0o700); err != nil {
		t.Fatal(err)
	}
	//nolint:usetesting // the temporary directory may be none that takes an overlay's upper layer
	dir, err := os.MkdirTemp(filepath.Dir(base), filepath.Base(base)+"-kill")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// buffer is what a client writes, readable while it does.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// client is a lazaret that runs beside the test.
type client struct {
	name           string // of the files with its mark
	cmd            *exec.Cmd
	stdin          *os.File
	stdout, stderr buffer
	ended          chan struct{} // closed after err was set
	err            error
	began          time.Time
}

// start starts a lazaret whose stdin stays open.
func (w *world) start(args ...string) *client {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), e2etest.Timeout)
	c := &client{cmd: w.h.Command(ctx, args...), ended: make(chan struct{}), began: time.Now()}
	in, stdin, err := os.Pipe()
	if err != nil {
		w.t.Fatal(err)
	}
	c.stdin = stdin
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = in, &c.stdout, &c.stderr
	if err := w.family.start(c.cmd); err != nil {
		w.t.Fatal(err)
	}
	_ = in.Close()
	go func() {
		defer cancel()
		defer close(c.ended)
		c.err = c.cmd.Wait()
		w.family.forget(c.cmd.Process.Pid)
	}()
	return c
}

// run starts a session with a shell script.
func (w *world) run(script string) *client {
	w.t.Helper()
	return w.start("run", "--quiet", "--", "sh", "-c", script)
}

// session starts a session that leaves a mark in the persistent state and in
// the workspace, in files of that name, says so, and goes on until its stdin
// ends.
func (w *world) session(name, mark string) *client {
	w.t.Helper()
	c := w.run(fmt.Sprintf("echo %[1]s >/root/%[2]s; echo %[1]s >/workspace/%[2]s; sync; echo ready; cat; echo bye", mark, name))
	c.name = name
	return c
}

// ready waits until the client's session has left its mark.
func (c *client) ready() error {
	for deadline := time.Now().Add(patience); !c.isReady(); time.Sleep(poll) {
		if c.over() || time.Now().After(deadline) {
			return fmt.Errorf("the session did not start: %s", c.stderr.String())
		}
	}
	return nil
}

func (c *client) isReady() bool { return strings.HasPrefix(c.stdout.String(), "ready\n") }

func (c *client) over() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// ends waits for the client's end.
func (c *client) ends(within time.Duration) error {
	select {
	case <-c.ended:
		return nil
	case <-time.After(within):
		return fmt.Errorf("lazaret %q (pid %d) has not ended after %s; stdout %q, stderr %q",
			c.cmd.Args[1:], c.cmd.Process.Pid, within, c.stdout.String(), c.stderr.String())
	}
}

// status is the exit status of a client that has ended.
func (c *client) status() int {
	ws, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return c.cmd.ProcessState.ExitCode()
}

// next is the command after a death: it starts at once, works within ten
// seconds, and finds everything as it was. marks are what sessions have left
// before the death, by the files' names.
func (w *world) next(marks map[string]string) (took time.Duration, err error) {
	script, want := "cat", ""
	for name, mark := range marks {
		script += fmt.Sprintf(" /root/%[1]s /workspace/%[1]s", name)
		want += mark + "\n" + mark + "\n"
	}
	c := w.run(script)
	_ = c.stdin.Close()
	err = c.ends(gone)
	took = time.Since(c.began)
	if err != nil {
		w.unstick(c)
		return took, fmt.Errorf("the next command: %w", err)
	}
	if c.status() != 0 || c.stdout.String() != want {
		return took, fmt.Errorf("the next command: status %d, stdout %q, want %q, stderr %q", c.status(), c.stdout.String(), want, c.stderr.String())
	}
	for name, mark := range marks {
		b, err := os.ReadFile(filepath.Join(w.h.Project, name))
		if err != nil || string(b) != mark+"\n" {
			return took, fmt.Errorf("%s in the workspace: %q, %w", name, b, err)
		}
	}
	return took, nil
}

// unstick lets a client that failed come to an end.
func (w *world) unstick(c *client) {
	_ = c.cmd.Process.Kill()
	<-c.ended
}

// clean waits until nothing is left of the home, and then looks into its store.
func (w *world) clean(since time.Time) error {
	for {
		left, err := w.left()
		if err != nil {
			return err
		}
		if len(left) == 0 {
			break
		}
		if time.Since(since) > gone {
			return fmt.Errorf("left after %s:\n%s", gone, strings.Join(left, "\n"))
		}
		time.Sleep(10 * poll)
	}
	dbs, err := filepath.Glob(filepath.Join(w.h.Data, "domains/*/store.db"))
	if err != nil || len(dbs) != 1 {
		return fmt.Errorf("stores: %q, %w", dbs, err)
	}
	return closed(dbs[0])
}

// left lists what is left: processes, mounts, sockets, leases, and trees that
// were being made.
func (w *world) left() ([]string, error) {
	var left []string
	for _, p := range w.h.Processes() {
		left = append(left, fmt.Sprintf("process %d %q", p.PID, p.Args))
	}
	children, err := w.family.orphans()
	if err != nil {
		return nil, err
	}
	for _, p := range children {
		left = append(left, fmt.Sprintf("orphan %d", p))
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, w.h.Runtime) || strings.Contains(line, w.h.Data) {
			left = append(left, "mount "+line)
		}
	}
	for _, pattern := range []string{
		filepath.Join(w.h.Runtime, "lazaret/*"),
		filepath.Join(w.h.Data, "prepared/*.intent"),
		filepath.Join(w.h.Data, "prepared/*/unpack-*"),
		filepath.Join(w.h.Data, "prepared/*/leases/*"),
		filepath.Join(w.h.Data, "prepared/*/leases/.*"),
		filepath.Join(w.h.Data, "prepared/.*"),
		filepath.Join(w.h.Data, "prepared/*/.*"),
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		left = append(left, found...)
	}
	return left, nil
}

// closed says whether a store is whole and its document closed: no generation,
// and nothing of one, without its end.
func closed(path string) error {
	db, closeAll, err := openStore(path)
	if err != nil {
		return err
	}
	defer closeAll()
	var whole string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&whole); err != nil || whole != "ok" {
		return fmt.Errorf("the store's integrity: %q, %w", whole, err)
	}
	for _, open := range []string{
		"SELECT count(*) FROM pragma_foreign_key_check",
		"SELECT count(*) FROM generation WHERE ended IS NULL",
		"SELECT count(*) FROM participant WHERE state <> 'released'",
		"SELECT count(*) FROM session WHERE ended IS NULL",
		"SELECT count(*) FROM publication WHERE withdrawn IS NULL",
		"SELECT count(*) FROM lease WHERE released IS NULL",
	} {
		var n int
		if err := db.QueryRow(open).Scan(&n); err != nil || n != 0 {
			return fmt.Errorf("the store: %s: %d, %w", open, n, err)
		}
	}
	return nil
}

// family knows the test's children. The test adopts every process of the
// product that loses its parent, and buries it as init would.
type family struct {
	mu   sync.Mutex
	mine map[int]bool // started here, and waited for by whoever did
}

func (f *family) begin(t *testing.T) {
	t.Helper()
	f.mine = map[int]bool{}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * poll):
				_, _ = f.orphans()
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-stopped
	})
}

func (f *family) start(cmd *exec.Cmd) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := cmd.Start()
	if err == nil {
		f.mine[cmd.Process.Pid] = true
	}
	return err
}

func (f *family) forget(pid int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.mine, pid)
}

// orphans buries the adopted children that have ended and lists the living.
func (f *family) orphans() ([]int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var out []int
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil || f.mine[pid] {
			continue
		}
		b, err := os.ReadFile(filepath.Join("/proc", d.Name(), "stat"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			return nil, err
		}
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if len(fields) < 2 || fields[1] != strconv.Itoa(os.Getpid()) {
			continue
		}
		var ws unix.WaitStatus
		if got, err := unix.Wait4(pid, &ws, unix.WNOHANG, nil); err == nil && got == pid {
			continue
		}
		out = append(out, pid)
	}
	slices.Sort(out)
	return out, nil
}

// generations is how many generations the home's Domain has had. Nothing runs.
func (w *world) generations() int {
	w.t.Helper()
	dbs, err := filepath.Glob(filepath.Join(w.h.Data, "domains/*/store.db"))
	if err != nil || len(dbs) != 1 {
		w.t.Fatal(dbs, err)
	}
	db, closeAll, err := openStore(dbs[0])
	if err != nil {
		w.t.Fatal(err)
	}
	defer closeAll()
	var n int
	if err := db.QueryRow("SELECT max(ordinal) FROM generation").Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// openStore opens a store that nobody else has open: whoever does holds the
// Domain lock.
func openStore(path string) (db *sql.DB, closeAll func(), err error) {
	lock, err := os.OpenFile(filepath.Join(filepath.Dir(path), "lock"), os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	for deadline := time.Now().Add(gone); ; time.Sleep(poll) {
		if err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			break
		}
		if time.Now().After(deadline) {
			_ = lock.Close()
			return nil, nil, fmt.Errorf("lock the Domain: %w", err)
		}
	}
	db, err = sql.Open("sqlite", "file:"+path+"?_pragma=locking_mode(EXCLUSIVE)")
	if err != nil {
		_ = lock.Close()
		return nil, nil, err
	}
	return db, func() { _, _ = db.Close(), lock.Close() }, nil
}
