package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/claim"
	"lazaret.dev/lazaret/host/internal/store"
	"lazaret.dev/lazaret/protocol"
	"lazaret.dev/lazaret/protocol/handoff"
)

// lock takes the exclusive flock of a fresh lock file in dir.
func lock(t testing.TB, dir string) *os.File {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	return f
}

func open(t testing.TB, dir string, held *os.File) *store.Store {
	t.Helper()
	s, err := store.Open(context.Background(), dir, held)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newGeneration(id string) store.New {
	return store.New{
		ID: id, Phase: protocol.Starting, BootID: "boot", ConfigFingerprint: "fp",
		CoordinatorID: "c-" + id, SandboxID: "s-" + id, NetworkID: "n-" + id, RuntimeDir: "/run/" + id,
	}
}

// Full life of a generation, reopened in the middle: what one process recorded,
// the next one reads.
func TestGenerationDocumentSurvivesReopening(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	held := lock(t, dir)
	s := open(t, dir, held)
	if g, err := s.Current(ctx); g != nil || err != nil {
		t.Fatalf("Current of a new store = %+v, %v", g, err)
	}
	const gen = "g1"
	big := ^uint64(0) // every bit of an inode number survives
	own := store.Ownership{
		Proc: &handoff.Proc{PID: 42, Start: 99, BootID: "boot"}, Files: map[string]claim.Identity{"/x": {Dev: 1, Ino: big, Type: unix.S_IFSOCK, Born: 7}, "/y": {Dev: big, Ino: 2}},
		MntNS: 4026531840, NetNS: big, MountIDs: map[string]uint64{"/": big, "/usr": 2},
		PreparedID: "p", NetworkFingerprint: "nf",
	}
	must(t,
		s.BeginGeneration(ctx, newGeneration(gen)),
		s.RecordIntent(ctx, gen, store.RoleSupervisor),
		s.RecordIntent(ctx, gen, store.RoleAnchor),
		s.RecordOwned(ctx, gen, store.RoleAnchor, own),
		s.AddLease(ctx, gen, "p", "/prepared/p/leases/d.g1"),
		s.Publish(ctx, gen, store.Publication{Socket: "/run/s", Inode: store.Inode{Dev: 3, Ino: big}, TrustFingerprint: "t"}),
		s.AddSession(ctx, gen, "one", true),
		s.SetSession(ctx, gen, "one", protocol.SessionAttached, &handoff.Proc{PID: 7, Start: 8, BootID: "boot"}),
		s.SetSession(ctx, gen, "one", protocol.SessionClosing, nil),
		s.Close(),
	)

	s = open(t, dir, held)
	defer s.Close()
	got, err := s.Current(ctx)
	must(t, err)
	want := &store.Generation{
		New: newGeneration(gen),
		Participants: []store.Participant{
			{Role: store.RoleSupervisor, State: store.Intended},
			{Role: store.RoleAnchor, State: store.Owned, Ownership: own},
		},
		Sessions: []store.Session{{
			ID: "one", Phase: protocol.SessionClosing, Interactive: true,
			Client: &handoff.Proc{PID: 7, Start: 8, BootID: "boot"},
		}},
		Publication: &store.Publication{Socket: "/run/s", Inode: store.Inode{Dev: 3, Ino: big}, TrustFingerprint: "t"},
		Leases:      []store.Lease{{PreparedID: "p", Path: "/prepared/p/leases/d.g1"}},
	}
	want.Phase = protocol.Ready
	if d := cmp.Diff(want, got, ignoreTimes); d != "" {
		t.Fatalf("-want +got\n%s", d)
	}

	var outstanding *store.OutstandingError
	if err := s.EndGeneration(ctx, gen, "stopped"); !errors.As(err, &outstanding) || len(outstanding.What) != 4 {
		t.Fatalf("EndGeneration with everything open = %v", err)
	}
	status := 7
	must(t,
		s.Withdraw(ctx, gen, protocol.Stopping),
		s.EndSession(ctx, gen, "one", &status),
		s.RecordReleased(ctx, gen, store.RoleAnchor),
		s.RecordReleased(ctx, gen, store.RoleSupervisor),
		s.ReleaseLease(ctx, gen, "p"),
		s.EndGeneration(ctx, gen, "stopped"),
	)
	if g, err := s.Current(ctx); g != nil || err != nil {
		t.Fatalf("Current after the end = %+v, %v", g, err)
	}
	for id, want := range map[string]bool{gen: true, "never": true} {
		if over, err := s.Over(ctx, id); over != want || err != nil {
			t.Errorf("Over(%s) = %v, %v", id, over, err)
		}
	}
}

var ignoreTimes = cmp.Options{
	cmpopts.IgnoreFields(store.Generation{}, "Created"),
	cmpopts.IgnoreFields(store.Session{}, "Started"),
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// No service on stale identities: after the end, and for another's id, every
// mutation is refused, and a second generation beside a live one too.
func TestStaleGenerationsAreRefused(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s := open(t, dir, lock(t, dir))
	defer s.Close()
	must(t, s.BeginGeneration(ctx, newGeneration("live")))
	var live *store.LiveError
	if err := s.BeginGeneration(ctx, newGeneration("second")); !errors.As(err, &live) || live.Generation != "live" {
		t.Fatalf("second live generation: %v", err)
	}
	for name, err := range map[string]error{
		"SetPhase":       s.SetPhase(ctx, "old", protocol.Failed),
		"RecordIntent":   s.RecordIntent(ctx, "old", store.RoleAnchor),
		"RecordOwned":    s.RecordOwned(ctx, "old", store.RoleAnchor, store.Ownership{}),
		"RecordReleased": s.RecordReleased(ctx, "old", store.RoleAnchor),
		"Publish":        s.Publish(ctx, "old", store.Publication{}),
		"Withdraw":       s.Withdraw(ctx, "old", protocol.Stopping),
		"AddSession":     s.AddSession(ctx, "old", "x", false),
		"SetSession":     s.SetSession(ctx, "old", "x", protocol.SessionAttached, nil),
		"EndSession":     s.EndSession(ctx, "old", "x", nil),
		"AddLease":       s.AddLease(ctx, "old", "p", ""),
		"ReleaseLease":   s.ReleaseLease(ctx, "old", "p"),
		"EndGeneration":  s.EndGeneration(ctx, "old", ""),
	} {
		var stale *store.StaleError
		if !errors.As(err, &stale) || stale.Generation != "old" {
			t.Errorf("%s on a stale generation = %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"phase":   s.SetPhase(ctx, "live", "Odd"),
		"absent":  s.SetPhase(ctx, "live", protocol.Absent),
		"role":    s.RecordIntent(ctx, "live", "odd"),
		"session": s.SetSession(ctx, "live", "x", "Odd", nil),
	} {
		if err == nil {
			t.Errorf("an unknown %s was accepted", name)
		}
	}
}

// The file keeps a bounded number of ended generations.
func TestEndedGenerationsArePruned(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	held := lock(t, dir)
	s := open(t, dir, held)
	var size int64
	for i := range 60 {
		id := strings.Repeat("x", i+1)
		must(t, s.BeginGeneration(ctx, newGeneration(id)), s.AddSession(ctx, id, "s", false), s.EndGeneration(ctx, id, "done"))
		if i == 20 || i == 59 {
			must(t, s.Close())
			fi, err := os.Stat(filepath.Join(dir, store.FileName))
			must(t, err)
			if size != 0 && fi.Size() > size+8192 {
				t.Errorf("the file grew from %d to %d over 39 generations", size, fi.Size())
			}
			size = fi.Size()
			s = open(t, dir, held)
		}
	}
	must(t, s.Close())
}

// FR-17, OR-1: without the held Domain lock nothing is opened or made.
func TestOpenDemandsTheLock(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "lock")
	first, err := os.Create(path)
	must(t, err)
	defer first.Close()
	refused := func(why string, f *os.File) {
		t.Helper()
		if s, err := store.Open(context.Background(), dir, f); !errors.Is(err, store.ErrNotLocked) {
			t.Errorf("%s: Open = %v, %v", why, s, err)
		}
		if _, err := os.Stat(filepath.Join(dir, store.FileName)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the store was touched: %v", why, err)
		}
	}
	refused("no lock", nil)
	refused("not locked", first)
	must(t, unix.Flock(int(first.Fd()), unix.LOCK_SH))
	refused("shared lock", first)
	must(t, unix.Flock(int(first.Fd()), unix.LOCK_EX))
	second, err := os.Open(path)
	must(t, err)
	defer second.Close()
	refused("another's lock", second)
	another := t.TempDir()
	refused("another Domain's lock", lock(t, another))
	closed, err := os.Open(path)
	must(t, err, closed.Close())
	refused("closed", closed)

	s := open(t, dir, first)
	must(t, s.Close())
	dup, err := unix.Dup(int(first.Fd()))
	must(t, err)
	inherited := os.NewFile(uintptr(dup), "lock")
	defer inherited.Close()
	must(t, open(t, dir, inherited).Close())
}

// A path of any bytes is a path, not a part of the connection string.
func TestOddDirectories(t *testing.T) {
	for _, name := range []string{"a b", "q?mode=memory", "h#x", "p%41%", "quote'\"", "new\nline", "back\\slash", "ü", "k&v=1"} {
		dir := filepath.Join(t.TempDir(), name)
		must(t, os.Mkdir(dir, 0o700))
		s := open(t, dir, lock(t, dir))
		must(t, s.BeginGeneration(context.Background(), newGeneration("g")), s.Close())
		fi, err := os.Stat(filepath.Join(dir, store.FileName))
		if err != nil || fi.Size() == 0 || fi.Mode().Perm() != 0o600 {
			t.Errorf("%q: %v, %v", name, fi, err)
		}
	}
}

func BenchmarkOpenFresh(b *testing.B) {
	dir := b.TempDir()
	held := lock(b, dir)
	for b.Loop() {
		s := open(b, dir, held)
		b.StopTimer()
		must(b, s.Close(), os.Remove(filepath.Join(dir, store.FileName)))
		b.StartTimer()
	}
}

func BenchmarkOpenExisting(b *testing.B) {
	dir := b.TempDir()
	held := lock(b, dir)
	must(b, open(b, dir, held).Close())
	for b.Loop() {
		s := open(b, dir, held)
		b.StopTimer()
		must(b, s.Close())
		b.StartTimer()
	}
}

func BenchmarkBeginGeneration(b *testing.B) {
	dir := b.TempDir()
	s := open(b, dir, lock(b, dir))
	ctx := context.Background()
	for i := 0; b.Loop(); i++ {
		id := strconv.Itoa(i)
		must(b, s.BeginGeneration(ctx, newGeneration(id)))
		b.StopTimer()
		must(b, s.EndGeneration(ctx, id, ""))
		b.StartTimer()
	}
	must(b, s.Close())
}

func BenchmarkSession(b *testing.B) {
	dir := b.TempDir()
	s := open(b, dir, lock(b, dir))
	ctx := context.Background()
	must(b, s.BeginGeneration(ctx, newGeneration("g")), s.AddSession(ctx, "g", "s", false))
	for b.Loop() {
		must(b, s.SetSession(ctx, "g", "s", protocol.SessionAttached, nil))
	}
	must(b, s.Close())
}
