package store_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/google/go-cmp/cmp"

	"lazaret.dev/lazaret/host/internal/claim"
	"lazaret.dev/lazaret/host/internal/store"
	"lazaret.dev/lazaret/protocol"
	"lazaret.dev/lazaret/protocol/handoff"
	"lazaret.dev/lazaret/protocol/testgate"
	"lazaret.dev/lazaret/schema"
	"lazaret.dev/lazaret/schema/schematest"
)

// level1 is what the fixture of level 1 says of its live generation, as the
// newest level has it.
func level1() *store.Generation {
	const boot = "66666666-7777-4888-8999-aaaaaaaaaaaa"
	const run = "/run/user/1000/lazaret/0123456789ab/"
	proc := func(pid int) *handoff.Proc { return &handoff.Proc{PID: pid, Start: uint64(pid) + 2700, BootID: boot} }
	return &store.Generation{
		New: store.New{
			ID: "g018f00000002a1b2c3d4e5", Phase: protocol.Ready, BootID: boot, ConfigFingerprint: "sha256:bb",
			CoordinatorID: "c3", SandboxID: "lz0000000003", NetworkID: "n3",
		},
		Participants: []store.Participant{
			{Role: store.RoleCoordinator, State: store.Owned, Ownership: store.Ownership{Proc: proc(301)}},
			{Role: store.RoleSupervisor, State: store.Owned, Ownership: store.Ownership{
				Proc: proc(302), MntNS: 4026532003, Files: map[string]claim.Identity{run + "m": {Dev: 26, Ino: ^uint64(0)}},
			}},
			{Role: store.RoleAnchor, State: store.Owned, Ownership: store.Ownership{
				MountIDs: map[string]uint64{"/": 501, "/usr": ^uint64(1)}, PreparedID: "sha-prepared",
			}},
			{Role: store.RoleNetwork, State: store.Owned, Ownership: store.Ownership{NetNS: 1 << 63, NetworkFingerprint: "readiness"}},
			{Role: store.RoleHelper, State: store.Owned, Ownership: store.Ownership{Proc: proc(303)}},
			{Role: store.RoleSandbox, State: store.Intended},
			{Role: store.RolePublication, State: store.Owned, Ownership: store.Ownership{
				Files: map[string]claim.Identity{run + "control.sock": {Dev: 26, Ino: 4712}},
			}},
		},
		Sessions: []store.Session{
			{ID: "s2", Phase: protocol.SessionAttached},
			{ID: "s3", Phase: protocol.SessionRegistered, Interactive: true, Ended: true},
		},
		Publication: &store.Publication{Socket: run + "control.sock", Inode: store.Inode{Dev: 26, Ino: 4712}, TrustFingerprint: "sha256:t3"},
		Leases: []store.Lease{{
			PreparedID: "sha-prepared", Path: "/data/prepared/sha-prepared/leases/0123456789ab.g018f00000002a1b2c3d4e5",
		}},
	}
}

// FR-17, FR-21: a store of an older level is migrated by the holder of the Domain
// lock, and by nobody else; what it said is still said.
func TestOnlyTheLockHolderMigrates(t *testing.T) {
	for level := 1; level <= schema.Latest(); level++ {
		t.Run(strconv.Itoa(level), func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, store.FileName)
			schematest.Write(t, path, level)
			must(t, os.Chmod(path, 0o600))
			before, err := os.ReadFile(path)
			must(t, err)

			holder := lock(t, dir)
			other, err := os.OpenFile(holder.Name(), os.O_RDWR, 0)
			must(t, err)
			defer other.Close()
			for _, f := range []*os.File{nil, other} {
				if s, err := store.Open(context.Background(), dir, f); !errors.Is(err, store.ErrNotLocked) {
					t.Fatalf("Open without the lock = %v, %v", s, err)
				}
			}
			after, err := os.ReadFile(path)
			must(t, err)
			if names, _ := filepath.Glob(path + "*"); !bytes.Equal(before, after) || len(names) != 1 {
				t.Fatalf("without the lock the file was touched; there are %q", names)
			}

			s := open(t, dir, holder)
			defer s.Close()
			got, err := s.Current(context.Background())
			must(t, err)
			if d := cmp.Diff(level1(), got, ignoreTimes); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
		})
	}
}

// A store that a newer Lazaret has left behind in the middle of its work is
// refused and keeps its level and its content, whether or not they are still in
// the write-ahead log.
func TestNewerLevelInTheLog(t *testing.T) {
	ctx := context.Background()
	newer := t.TempDir()
	path := filepath.Join(newer, store.FileName)
	schematest.Write(t, path, schema.Latest())
	db, err := sql.Open("sqlite", "file:"+path)
	must(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	level := schema.Latest() + 1
	_, err = db.Exec(fmt.Sprintf("PRAGMA journal_mode = WAL; CREATE TABLE new (x); INSERT INTO new VALUES (7); PRAGMA user_version = %d", level))
	must(t, err)

	dir := t.TempDir()
	held := lock(t, dir)
	for _, name := range []string{store.FileName, store.FileName + "-wal"} {
		b, err := os.ReadFile(filepath.Join(newer, name))
		must(t, err, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	for range 2 {
		s, err := store.Open(ctx, dir, held)
		if e, ok := errors.AsType[*schema.NewerError](err); !ok || e.Found != level {
			t.Fatalf("Open = %v, %v", s, err)
		}
	}
	must(t, db.Close())
	if d := cmp.Diff(schematest.Dump(t, path), schematest.Dump(t, filepath.Join(dir, store.FileName))); d != "" {
		t.Errorf("-newer +refused\n%s", d)
	}
}

// openWithLock is a second process that goes by the rules, in the words of
// what became of it; openWithoutLock one that does not.
func openWithLock(dir string) string {
	held, err := lockIn(dir)
	if err != nil {
		return "no lock: " + err.Error()
	}
	s, err := store.Open(context.Background(), dir, held)
	if err != nil {
		return "no store: " + err.Error()
	}
	_ = s.Close()
	return "opened"
}

func openWithoutLock(dir string) string {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, store.FileName))
	if err == nil {
		defer db.Close()
		_, err = db.Exec("INSERT INTO lease VALUES ('g', 'p', '/', 0, 0)")
	}
	if err != nil {
		return "no store: " + err.Error()
	}
	return "opened"
}

// FR-17: it is the Domain lock that keeps a second process from the store, from
// before it is opened until after it is closed, and not the luck that the first
// one is just in a transaction. One that ignores the lock is kept out while the
// store is open.
func TestTheLockKeepsOthersOut(t *testing.T) {
	dir := t.TempDir()
	try := func(role string) string {
		t.Helper()
		cmd := exec.Command(os.Args[0], dir)
		cmd.Env = append(os.Environ(), roleEnv+"="+role)
		out, err := cmd.CombinedOutput()
		must(t, err)
		return strings.TrimSpace(string(out))
	}
	expect := func(when, role, want string) {
		t.Helper()
		if got := try(role); !strings.Contains(got, want) {
			t.Errorf("%s: %s: %q, want %q", when, role, got, want)
		}
	}
	const locked = "no lock: resource temporarily unavailable"
	held := lock(t, dir)
	expect("before the store is there", "with-lock", locked)
	s := open(t, dir, held)
	must(t, s.BeginGeneration(context.Background(), newGeneration("g")))
	for range 3 { // idle: no transaction is under way
		expect("while it is open", "with-lock", locked)
		expect("while it is open", "without-lock", "database is locked")
	}
	must(t, s.Close())
	expect("after it was closed", "with-lock", locked)
	// What the lock keeps out is what would get in without it.
	expect("after it was closed", "without-lock", "opened")
	must(t, held.Close())
	expect("after the lock was given up", "with-lock", "opened")
}

// Case 39: a disk that is full in the middle of a migration leaves the old level
// and its content; with space it goes on.
func TestMigrationOnFullFilesystem(t *testing.T) {
	testgate.Need(t, testgate.UserNS)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "fixture.sql"), []byte(schematest.SQL(t, 1)), 0o600))
	mount := filepath.Join(dir, "small")
	must(t, os.Mkdir(mount, 0o700))
	onTmpfs(t, "migrate-small-filesystem", mount)
}

func migrateOnSmallFilesystem(dir string) error {
	ctx := context.Background()
	size := func(flags uintptr, s string) error {
		return unix.Mount("tmpfs", dir, "tmpfs", flags, "mode=0700,size="+s)
	}
	if err := size(0, "1m"); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, "../fixture.sql"))
	if err != nil {
		return err
	}
	path := filepath.Join(dir, store.FileName)
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		return err
	}
	if _, err := db.Exec(string(text)); err != nil {
		return err
	}
	if err := errors.Join(db.Close(), os.Chmod(path, 0o600)); err != nil {
		return err
	}
	fi, err := os.Stat(path)
	if err != nil {
		return err
	}
	// Room for the log's beginning, and not for all of it.
	if err := size(unix.MS_REMOUNT, strconv.FormatInt(fi.Size()+16<<10, 10)); err != nil {
		return err
	}
	held, err := lockIn(dir)
	if err != nil {
		return err
	}
	_, err = store.Open(ctx, dir, held)
	if e, ok := errors.AsType[*store.Error](err); !ok || e.Kind != store.NoSpace || e.Hint() == "" {
		return fmt.Errorf("open: %w; want kind %s", err, store.NoSpace)
	}
	head, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if level := head[63]; level != 1 {
		return fmt.Errorf("the file is of level %d", level)
	}
	if err := size(unix.MS_REMOUNT, "1m"); err != nil {
		return err
	}
	s, err := store.Open(ctx, dir, held)
	if err != nil {
		return fmt.Errorf("open after space was made: %w", err)
	}
	got, err := s.Current(ctx)
	if err != nil {
		return err
	}
	if d := cmp.Diff(level1(), got, ignoreTimes); d != "" {
		return fmt.Errorf("-want +got\n%s", d)
	}
	return s.Close()
}
