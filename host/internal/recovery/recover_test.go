package recovery_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/claim"
	"lazaret.dev/lazaret/host/internal/generation"
	"lazaret.dev/lazaret/host/internal/recovery"
	"lazaret.dev/lazaret/host/internal/store"
	"lazaret.dev/lazaret/protocol"
	"lazaret.dev/lazaret/protocol/handoff"
	"lazaret.dev/lazaret/protocol/testgate"
	"lazaret.dev/lazaret/protocol/trace"
)

const (
	dead     = "g0123456789abcdef01234"
	domain   = "0123456789ab"
	prepared = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
)

// world is a Domain whose coordinator has died; the test is the next holder of
// its lock.
type world struct {
	t       testing.TB
	root    string // the Domain Root
	data    string
	runtime string
	store   *store.Store
	lock    *os.File
	log     bytes.Buffer
	said    []string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t, data: dir, root: filepath.Join(dir, "domains", domain), runtime: filepath.Join(dir, "run", domain)}
	for _, d := range []string{w.root, w.runtime} {
		must(t, os.MkdirAll(d, 0o700))
	}
	w.open()
	return w
}

func (w *world) open() {
	w.t.Helper()
	var err error
	w.lock, err = os.OpenFile(filepath.Join(w.root, store.LockName), os.O_RDWR|os.O_CREATE, 0o600)
	must(w.t, err, unix.Flock(int(w.lock.Fd()), unix.LOCK_EX))
	w.store, err = store.Open(context.Background(), w.root, w.lock)
	must(w.t, err)
	w.t.Cleanup(w.close)
}

func (w *world) close() { _, _ = w.store.Close(), w.lock.Close() }

func (w *world) domain() recovery.Domain {
	return recovery.Domain{ID: domain, DataRoot: w.data, Root: w.root, RuntimeDirs: []string{w.runtime}}
}

func (w *world) recover(ctx context.Context) (protocol.State, error) {
	log := slog.New(slog.NewJSONHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return recovery.Recover(ctx, w.domain(), w.store, trace.New(log), log, func(s string) { w.said = append(w.said, s) })
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func bootID(t testing.TB) string {
	t.Helper()
	self, err := recovery.ProcOf(os.Getpid())
	must(t, err)
	return self.BootID
}

// begin puts the dead generation on record, with intents for the roles.
func (w *world) begin(boot string, roles ...store.Role) {
	w.t.Helper()
	ctx := context.Background()
	must(w.t, w.store.BeginGeneration(ctx, store.New{
		ID: dead, Phase: protocol.Starting, BootID: boot, ConfigFingerprint: "f",
		CoordinatorID: "c", SandboxID: "lz0123456789", NetworkID: "n", RuntimeDir: w.runtime,
	}))
	for _, r := range append([]store.Role{store.RoleCoordinator}, roles...) {
		must(w.t, w.store.RecordIntent(ctx, dead, r))
	}
}

func (w *world) own(r store.Role, o store.Ownership) {
	w.t.Helper()
	must(w.t, w.store.RecordOwned(context.Background(), dead, r, o))
}

// everything puts a generation on record that was killed while it served, with
// all that it has left on the disk.
func (w *world) everything(boot string) {
	w.t.Helper()
	ctx := context.Background()
	w.begin(boot, store.RoleSupervisor, store.RoleAnchor, store.RoleNetwork, store.RoleHelper, store.RoleSandbox, store.RolePublication)
	gone := gone(w.t)
	gone.BootID = boot
	dirs, err := generation.StageDirs(w.runtime, dead)
	must(w.t, err, dirs.Settle(dead), os.WriteFile(filepath.Join(dirs.Runsc.Path, "state"), nil, 0o600))
	w.own(store.RoleSupervisor, store.Ownership{Proc: &gone, MntNS: 1, Files: claim.Identities(dirs.Files())})
	w.own(store.RoleAnchor, store.Ownership{MountIDs: map[string]uint64{"/": 1}})
	w.own(store.RoleHelper, store.Ownership{Proc: &gone})
	w.own(store.RoleNetwork, store.Ownership{NetNS: 1, NetworkFingerprint: "f"})
	w.own(store.RoleSandbox, store.Ownership{Proc: &gone})
	var files []claim.File
	for _, p := range generation.SocketPlaces(w.runtime) {
		files = append(files, socket(w.t, p))
	}
	w.own(store.RolePublication, store.Ownership{Files: claim.Identities(files)})
	lease := filepath.Join(w.data, "prepared", prepared, "leases", domain+"."+dead)
	must(w.t,
		w.store.Publish(ctx, dead, store.Publication{Socket: files[1].Path, Inode: store.Inode{Dev: files[1].Dev, Ino: files[1].Ino}, TrustFingerprint: "t"}),
		w.store.AddLease(ctx, dead, prepared, lease),
		os.MkdirAll(filepath.Dir(lease), 0o700), os.WriteFile(lease, nil, 0o600))
}

// socket makes one that nobody listens on, as a killed process leaves it.
func socket(t testing.TB, path string) claim.File {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must(t, err)
	l.SetUnlinkOnClose(false)
	must(t, l.Close())
	file, err := claim.Identify(path)
	must(t, err)
	return file
}

// gone is a process of this boot that has ended.
func gone(t testing.TB) handoff.Proc {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	must(t, cmd.Start())
	p, err := recovery.ProcOf(cmd.Process.Pid)
	must(t, err, cmd.Process.Kill())
	_ = cmd.Wait() // killed, as meant
	return p
}

// clean demands that nothing of the generation is left, and that the next one
// can begin.
func (w *world) clean(s protocol.State) {
	w.t.Helper()
	ctx := context.Background()
	if old, err := w.store.Current(ctx); err != nil || old != nil {
		w.t.Fatalf("on record: %+v, %v", old, err)
	}
	left, err := os.ReadDir(w.runtime)
	if err != nil || len(left) != 0 {
		w.t.Errorf("in the runtime directory: %v, %v", left, err)
	}
	if left, _ := filepath.Glob(filepath.Join(w.data, "prepared/*/leases/*")); len(left) != 0 {
		w.t.Errorf("leases: %q", left)
	}
	if s.Phase != protocol.Absent || s.Record != nil {
		w.t.Errorf("state %+v", s)
	}
	start := protocol.Start{
		Generation: dead, Fingerprint: "f", Confined: true, Isolated: true,
		IDs: protocol.ComponentIDs{Coordinator: "c", Sandbox: "s", Network: "n"},
	}
	if _, _, err := protocol.Next(s, start); s.Previous != dead || !errors.Is(err, protocol.ErrIllegal) {
		w.t.Errorf("the dead generation's id can be used again: %+v, %v", s, err)
	}
	start.Generation = "g1"
	if _, _, err := protocol.Next(s, start); err != nil {
		w.t.Error(err)
	}
}

// replay takes the logged trace through the protocol and returns its events.
func replay(t testing.TB, log []byte) []string {
	t.Helper()
	r, err := trace.Replay(bytes.NewReader(log))
	must(t, err)
	var names []string
	for line := range bytes.Lines(log) {
		var l struct {
			Msg, Event string
			Detail     struct{ Role, Finding string }
		}
		must(t, json.Unmarshal(line, &l))
		switch {
		case l.Msg != "event":
		case l.Detail.Finding != "":
			names = append(names, l.Detail.Role+" "+l.Detail.Finding)
		default:
			names = append(names, l.Event)
		}
	}
	if len(names) != r.Steps || r.Recoveries != 1 {
		t.Errorf("%d events, %+v", len(names), r)
	}
	return names
}

// FR-7: recovery is the protocol's: its order, its events, its end.
func TestRecoveryIsTheProtocols(t *testing.T) {
	w := newWorld(t)
	w.everything(bootID(t))
	s, err := w.recover(t.Context())
	must(t, err)
	w.clean(s)
	want := []string{
		"Recover", "publication Matching", "Cleaned", "sandbox Gone", "helper Gone", "network Gone", "anchor Gone",
		"supervisor Matching", "Cleaned", "LeaseReleased",
	}
	if got := replay(t, w.log.Bytes()); !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
	if !slices.Contains(w.said, "recovered: generation "+dead) {
		t.Errorf("said: %q", w.said)
	}
	// Nothing is left to recover.
	if s, err := w.recover(t.Context()); err != nil || s.Previous != "" {
		t.Errorf("%+v, %v", s, err)
	}
}

// A coordinator that died before anything could be told apart has left at most
// what carries its generation's id.
func TestIntentsAlone(t *testing.T) {
	w := newWorld(t)
	w.begin(bootID(t), store.RoleSupervisor, store.RoleAnchor, store.RoleNetwork, store.RoleHelper, store.RoleSandbox, store.RolePublication)
	_, err := generation.StageDirs(w.runtime, dead)
	must(t, err)
	socket(t, claim.Staged(w.runtime, dead, "control.sock"))
	s, err := w.recover(t.Context())
	must(t, err)
	w.clean(s)
}

// Nothing lives on from another boot, and a pid on its record is anybody's. What
// lies on a disk is known by its inode; devices are numbered anew.
func TestAnotherBoot(t *testing.T) {
	w := newWorld(t)
	w.everything("00000000-0000-0000-0000-000000000000")
	ctx := t.Context()
	self, err := recovery.ProcOf(os.Getpid())
	must(t, err)
	self.BootID = "00000000-0000-0000-0000-000000000000"
	must(t, w.store.RecordReleased(ctx, dead, store.RoleSandbox), w.store.RecordIntent(ctx, dead, store.RoleSandbox))
	w.own(store.RoleSandbox, store.Ownership{Proc: &self})
	old, err := w.store.Current(ctx)
	must(t, err)
	for _, p := range old.Participants {
		if p.Role == store.RolePublication {
			for path, id := range p.Ownership.Files {
				id.Dev++
				p.Ownership.Files[path] = id
			}
			must(t, w.store.RecordReleased(ctx, dead, p.Role), w.store.RecordIntent(ctx, dead, p.Role))
			w.own(p.Role, p.Ownership)
		}
	}
	s, err := w.recover(ctx)
	must(t, err) // and this process lives
	w.clean(s)
}

// FR-7: what is in the place of something on record is left alone and named,
// and so is everything that comes after it in the protocol's order.
func TestMismatch(t *testing.T) {
	put := func(t *testing.T, path string) {
		t.Helper()
		must(t, os.RemoveAll(path), os.WriteFile(path, []byte("mine"), 0o600))
	}
	for _, c := range []struct {
		name  string
		place string // in the runtime directory
		begin func(w *world)
		want  []string
	}{
		{"socket replaced", "control.sock", func(w *world) { w.everything(bootID(t)) }, []string{"Recover", "publication Mismatch"}},
		{"socket with intent alone", "enroll.sock", func(w *world) { w.begin(bootID(t), store.RolePublication) }, []string{"Recover", "publication Mismatch"}},
		{"directory replaced", "r", func(w *world) { w.everything(bootID(t)) }, []string{
			"Recover", "publication Matching", "Cleaned", "sandbox Gone", "helper Gone", "network Gone", "anchor Gone", "supervisor Mismatch",
		}},
		{"scratch in use", "m/x", func(w *world) { w.everything(bootID(t)) }, []string{
			"Recover", "publication Matching", "Cleaned", "sandbox Gone", "helper Gone", "network Gone", "anchor Gone", "supervisor Mismatch",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.begin(w)
			path := filepath.Join(w.runtime, c.place)
			put(t, path)
			var mismatch *recovery.MismatchError
			for range 2 { // the second one finds what the first has left
				w.log.Reset()
				_, err := w.recover(t.Context())
				if !errors.As(err, &mismatch) || !strings.Contains(err.Error(), strconv.Quote(path)) || !strings.Contains(mismatch.Hint(), "mv '"+path+"'") {
					t.Fatalf("%v; hint: %+v", err, mismatch)
				}
				if b, err := os.ReadFile(path); err != nil || string(b) != "mine" {
					t.Fatalf("the foreign file: %q, %v", b, err)
				}
				events := replay(t, w.log.Bytes())
				if !slices.Equal(events, c.want) && events[len(events)-1] != c.want[len(c.want)-1] {
					t.Errorf("events %q, want %q", events, c.want)
				}
			}
			_, command, _ := strings.Cut(mismatch.Hint(), ": ")
			if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", command, err, out)
			}
			if _, err := w.recover(t.Context()); err != nil && !errors.As(err, new(*recovery.MismatchError)) {
				t.Fatal(err)
			} else if err != nil { // m/x.foreign is still in the scratch directory
				must(t, os.Remove(path+".foreign"))
				_, err := w.recover(t.Context())
				must(t, err)
			}
			if old, err := w.store.Current(t.Context()); old != nil || err != nil {
				t.Fatalf("%+v, %v", old, err)
			}
		})
	}
}

// A place that something foreign has taken is refused before anything is made,
// and nothing of it is touched.
func TestForeignPlaces(t *testing.T) {
	w := newWorld(t)
	for _, path := range generation.Places(w.runtime) {
		must(t, os.Mkdir(path, 0o700)) // empty: rename would replace it
		_, err := w.recover(t.Context())
		var taken *claim.TakenError
		if !errors.As(err, &taken) || taken.Path != path {
			t.Errorf("%s: %v", path, err)
		}
		must(t, os.Remove(path))
	}
}

// OR-6: a recovery that dies at any step is gone on with by the next one.
func TestRecoveryDiesAtEveryStep(t *testing.T) {
	for step := 1; ; step++ {
		w := newWorld(t)
		w.everything(bootID(t))
		foreign := filepath.Join(w.runtime, "notes")
		must(t, os.WriteFile(foreign, []byte("mine"), 0o600))
		w.close()
		cmd := exec.Command(os.Args[0], w.data)
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", dieEnv, step))
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		died := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
		if err != nil && !died {
			t.Fatalf("step %d: %v: %s", step, err, out)
		}
		w.open()
		s, err := w.recover(t.Context())
		must(t, err)
		if b, err := os.ReadFile(foreign); err != nil || string(b) != "mine" {
			t.Errorf("step %d: a foreign file: %q, %v", step, b, err)
		}
		must(t, os.Remove(foreign))
		if s.Previous == "" {
			s = protocol.Left(protocol.Record{Generation: dead}) // all was done already
			s.Record = nil
		}
		w.clean(s)
		if !died {
			if step < 15 {
				t.Errorf("a recovery has %d steps: the test is worth nothing", step)
			}
			return
		}
	}
}

// dieEnv makes the test binary a recovery that dies at that step: at each line
// of its log, which comes before what it is about, and at each thing that it
// says, which comes after.
const dieEnv = "LAZARET_RECOVERY_TEST_STEP"

func TestMain(m *testing.M) {
	if step, err := strconv.Atoi(os.Getenv(dieEnv)); err == nil {
		if err := dieAt(step, os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// mortal counts steps down and ends its process.
type mortal struct{ left int }

func (m *mortal) step() {
	if m.left--; m.left == 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

func (m *mortal) Write(p []byte) (int, error) { m.step(); return len(p), nil }

func dieAt(step int, data string) error {
	ctx := context.Background()
	d := recovery.Domain{
		ID: domain, DataRoot: data, Root: filepath.Join(data, "domains", domain),
		RuntimeDirs: []string{filepath.Join(data, "run", domain)},
	}
	lock, err := os.OpenFile(filepath.Join(d.Root, store.LockName), os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return err
	}
	st, err := store.Open(ctx, d.Root, lock)
	if err != nil {
		return err
	}
	m := &mortal{left: step}
	log := slog.New(slog.NewJSONHandler(m, &slog.HandlerOptions{Level: slog.LevelDebug}))
	_, err = recovery.Recover(ctx, d, st, trace.New(log), log, func(string) { m.step() })
	return errors.Join(err, st.Close())
}

// FR-7, FR-16: a process that outlives its lease is killed when it is exactly
// the one on record. One with a reused pid, and one that only names the
// generation, are left alone; the second is in the way.
func TestProcessesThatStay(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T, cmd *exec.Cmd) handoff.Proc {
		t.Helper()
		must(t, cmd.Start())
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
		p, err := recovery.ProcOf(cmd.Process.Pid)
		must(t, err)
		return p
	}
	t.Run("on record", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.begin(bootID(t), store.RoleSupervisor, store.RoleHelper, store.RoleSandbox)
		super, helper := start(t, exec.Command("sleep", "600")), start(t, exec.Command("sleep", "600"))
		reused := start(t, exec.Command("sleep", "600"))
		w.own(store.RoleSupervisor, store.Ownership{Proc: &super})
		w.own(store.RoleHelper, store.Ownership{Proc: &helper})
		other := reused
		other.Start--
		w.own(store.RoleSandbox, store.Ownership{Proc: &other})
		s, err := w.recover(t.Context())
		must(t, err)
		w.clean(s)
		if recovery.Alive(super) || recovery.Alive(helper) {
			t.Error("a process on record lives")
		}
		if !recovery.Alive(reused) || !strings.Contains(strings.Join(w.said, "\n"), fmt.Sprintf("process %d is another one", reused.PID)) {
			t.Errorf("a process with a reused pid lives: %t; said: %q", recovery.Alive(reused), w.said)
		}
		if got := replay(t, w.log.Bytes()); !slices.Contains(got, "helper Matching") || !slices.Contains(got, "sandbox Gone") {
			t.Errorf("events %q", got)
		}
	})
	t.Run("on no record", func(t *testing.T) {
		testgate.Need(t, testgate.UserNS)
		t.Parallel()
		w := newWorld(t)
		w.begin(bootID(t), store.RoleSupervisor)
		cmd := exec.Command("sleep", "600")
		cmd.Env = []string{handoff.Mark(dead)}
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
		p := start(t, cmd)
		_, err := w.recover(t.Context())
		var mismatch *recovery.MismatchError
		if !errors.As(err, &mismatch) || !strings.Contains(err.Error(), fmt.Sprintf("process %d (sleep)", p.PID)) {
			t.Fatal(err)
		}
		if !recovery.Alive(p) {
			t.Error("it was killed")
		}
		_, command, _ := strings.Cut(mismatch.Hint(), ": ")
		if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
		s, err := w.recover(t.Context())
		must(t, err)
		w.clean(s)
	})
	t.Run("interrupted wait", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.begin(bootID(t), store.RoleSupervisor)
		super := start(t, exec.Command("sleep", "600"))
		w.own(store.RoleSupervisor, store.Ownership{Proc: &super})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := w.recover(ctx); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if got := replay(t, w.log.Bytes()); !slices.Equal(got, []string{"Recover", "StopRequested"}) || !recovery.Alive(super) {
			t.Errorf("events %q; alive: %t", got, recovery.Alive(super))
		}
		if old, err := w.store.Current(t.Context()); err != nil || old == nil {
			t.Errorf("on record: %+v, %v", old, err)
		}
	})
}

// A runtime directory that is gone, as after a logout, or that is a file now, has
// nothing of ours in it.
func TestRuntimeDirectoryIsGone(t *testing.T) {
	w := newWorld(t)
	w.everything(bootID(t))
	must(t, os.RemoveAll(w.runtime), os.WriteFile(w.runtime, []byte("mine"), 0o600))
	_, err := w.recover(t.Context())
	var taken *claim.TakenError
	if !errors.As(err, &taken) || taken.Path != w.runtime {
		t.Errorf("a file in its place: %v", err)
	}
	if b, err := os.ReadFile(w.runtime); err != nil || string(b) != "mine" {
		t.Fatalf("%q, %v", b, err)
	}
	if old, err := w.store.Current(t.Context()); old != nil || err != nil {
		t.Fatalf("%+v, %v", old, err)
	}
}

// The runtime directory of an earlier login is gone with its filesystem, whose
// number is another's by now: that hides nothing.
func TestFilesystemIsGone(t *testing.T) {
	other, err := claim.Identify("/proc")
	must(t, err)
	w := newWorld(t)
	w.begin(bootID(t), store.RolePublication)
	w.own(store.RolePublication, store.Ownership{Files: map[string]claim.Identity{
		filepath.Join(w.runtime, "control.sock"): {Dev: other.Dev, Ino: 7},
	}})
	if _, err := w.recover(t.Context()); err != nil {
		t.Error(err)
	}
}
