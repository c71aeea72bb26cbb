package schema

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"modernc.org/sqlite"

	"lazaret.dev/lazaret/schema/schematest"
)

var writeFixture = flag.Bool("write-fixture", false, "write the newest level's fixture, where there is none")

// openAs opens the database at path as the Domain store does.
func openAs(path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=locking_mode(EXCLUSIVE)&_pragma=foreign_keys(1)&_pragma=journal_mode(WAL)")
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, err
}

// migrate brings the database at path to the level that dir ends with.
func migrate(t *testing.T, path string, dir fs.FS) {
	t.Helper()
	db, err := openAs(path)
	if err == nil {
		err = apply(context.Background(), db, dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// upTo are the migrations up to a level.
func upTo(t *testing.T, level int) fs.FS {
	t.Helper()
	files, err := list()
	if err != nil {
		t.Fatal(err)
	}
	dir := fstest.MapFS{}
	for _, name := range files[:level] {
		b, err := migrations.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		dir[name] = &fstest.MapFile{Data: b}
	}
	return dir
}

// moved is what a migration has put elsewhere, and another test looks for there.
var moved = map[string]bool{"participant.path": true, "participant.dev": true, "participant.ino": true}

// FR-21: the store of every released level becomes one of the newest, with its
// content kept. A released migration was not edited: it still makes the very
// tables that the fixture of its level has.
func TestFixtures(t *testing.T) {
	newest := Latest()
	if *writeFixture {
		path := filepath.Join(t.TempDir(), "s.db")
		schematest.Write(t, path, newest-1)
		migrate(t, path, migrations)
		name := filepath.Join("schematest/testdata", schematest.Name(newest))
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(schematest.Dump(t, path)); err != nil || f.Close() != nil {
			t.Fatal(err)
		}
		t.Log("wrote " + name)
		return // it is part of the next build
	}
	for level := 1; level <= newest; level++ {
		t.Run(strconv.Itoa(level), func(t *testing.T) {
			dir := t.TempDir()
			path, empty := filepath.Join(dir, "s.db"), filepath.Join(dir, "empty.db")
			schematest.Write(t, path, level)
			if d := cmp.Diff(schematest.SQL(t, level), schematest.Dump(t, path)); d != "" {
				t.Errorf("the fixture is not what its database says (-fixture +database):\n%s", d)
			}
			migrate(t, empty, upTo(t, level))
			if d := cmp.Diff(schematest.Schema(t, empty), schematest.Schema(t, path)); d != "" {
				t.Errorf("the migrations up to this level make other tables than it had (-migrations +fixture):\n%s", d)
			}
			before := schematest.Read(t, path)
			migrate(t, path, migrations)
			if got, want := schematest.Schema(t, path), fmt.Sprintf("PRAGMA user_version = %d;", newest); !strings.Contains(got, want) {
				t.Errorf("no %s in\n%s", want, got)
			}
			for table, rows := range before {
				if len(rows) == 0 {
					t.Errorf("table %s of the fixture is empty: the test is worth nothing", table)
				}
				after := schematest.Read(t, path)[table]
				for _, row := range rows {
					if !kept(table, row, after) {
						t.Errorf("%s has lost %v", table, row)
					}
				}
			}
		})
	}
}

// kept reports whether one of the rows has all that row had.
func kept(table string, row map[string]string, rows []map[string]string) bool {
next:
	for _, r := range rows {
		for name, value := range row {
			if r[name] != value && !moved[table+"."+name] {
				continue next
			}
		}
		return true
	}
	return false
}

// What level 2 has moved.
func TestLevel2(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	schematest.Write(t, path, 1)
	migrate(t, path, upTo(t, 2))
	const live = "'g018f00000002a1b2c3d4e5'"
	file := func(role, path, ino string) map[string]string {
		return map[string]string{
			"generation": live, "role": role, "path": path, "dev": "26", "ino": ino, "type": "0", "born": "0",
		}
	}
	want := []map[string]string{
		file("'publication'", "'/run/user/1000/lazaret/0123456789ab/control.sock'", "4712"),
		file("'supervisor'", "'/run/user/1000/lazaret/0123456789ab/m'", "-1"),
	}
	got := schematest.Read(t, path)
	if d := cmp.Diff(want, got["participant_file"]); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	for _, row := range got["participant"] {
		if row["path"] != "NULL" || row["dev"] != "NULL" || row["ino"] != "NULL" {
			t.Errorf("level 1's columns are still in use: %v", row)
		}
	}
}

const (
	dieEnv  = "LAZARET_SCHEMA_TEST_DIE" // after so many statements
	pathEnv = "LAZARET_SCHEMA_TEST_PATH"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if after, err := strconv.Atoi(os.Getenv(dieEnv)); err == nil {
		fmt.Fprintln(os.Stderr, dieInMigration(os.Getenv(pathEnv), after))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// statements splits a migration.
func statements(text string) []string {
	var out []string
	for s := range strings.SplitSeq(text, ";\n") {
		if strings.TrimSpace(s) != "" {
			out = append(out, s+";\n")
		}
	}
	return out
}

// dieInMigration migrates a store of level 1, and dies of SIGKILL after some of
// the statements that lead to level 2, with nothing of them in its own memory.
func dieInMigration(path string, after int) error {
	err := sqlite.RegisterFunction("die", &sqlite.FunctionImpl{
		Scalar: func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		},
	})
	if err != nil {
		return err
	}
	files, err := list()
	if err != nil {
		return err
	}
	dir := fstest.MapFS{}
	for i, name := range files[:2] {
		b, err := migrations.ReadFile(name)
		if err != nil {
			return err
		}
		text := string(b)
		if i == 1 {
			parts := statements(text)
			text = strings.Join(parts[:after], "") + "SELECT die();\n" + strings.Join(parts[after:], "")
		}
		dir[name] = &fstest.MapFile{Data: []byte(text)}
	}
	db, err := openAs(path)
	if err != nil {
		return err
	}
	if _, err := db.Exec("PRAGMA cache_size = 1"); err != nil { // what is written goes out at once
		return err
	}
	return fmt.Errorf("it lives: %w", apply(context.Background(), db, dir))
}

// FR-21, case 39: a migration that kill -9 interrupts between any two of its
// statements leaves the old level and its content, and can be done again.
func TestKilledMigrationLeavesOldLevel(t *testing.T) {
	files, err := list()
	if err != nil {
		t.Fatal(err)
	}
	text, err := migrations.ReadFile(files[1])
	if err != nil {
		t.Fatal(err)
	}
	n := len(statements(string(text)))
	if n < 5 {
		t.Fatalf("%d statements", n)
	}
	for after := range n + 1 {
		path := filepath.Join(t.TempDir(), "s.db")
		schematest.Write(t, path, 1)
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), dieEnv+"="+strconv.Itoa(after), pathEnv+"="+path)
		out, err := cmd.CombinedOutput()
		if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || ws.Signal() != syscall.SIGKILL {
			t.Fatalf("after %d statements: %v: %s", after, err, out)
		}
		if d := cmp.Diff(schematest.SQL(t, 1), schematest.Dump(t, path)); d != "" {
			t.Fatalf("killed after %d statements (-before +after):\n%s", after, d)
		}
		migrate(t, path, upTo(t, 2))
		if got := schematest.Schema(t, path); !strings.Contains(got, "PRAGMA user_version = 2;") {
			t.Fatalf("killed after %d statements, then migrated:\n%s", after, got)
		}
	}
}
