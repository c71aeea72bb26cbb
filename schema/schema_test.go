package schema_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // the driver under test

	"lazaret.dev/lazaret/schema"
)

func open(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=foreign_keys(1)")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// FR-21: the level is recorded in the file, and a second run changes nothing.
func TestApplyReachesLatestOnce(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "s.db")
	db := open(t, path)
	for range 2 {
		if err := schema.Apply(ctx, db); err != nil {
			t.Fatal(err)
		}
		level, err := schema.Level(ctx, db)
		if err != nil || level != schema.Latest() || level < 1 {
			t.Fatalf("level = %d, %v; want %d", level, err, schema.Latest())
		}
	}
	var app int
	if err := db.QueryRow("PRAGMA application_id").Scan(&app); err != nil || app != schema.ApplicationID {
		t.Fatalf("application_id = %#x, %v", app, err)
	}
}

// FR-21: unknown newer levels fail closed, with words for the user.
func TestNewerLevelIsRefused(t *testing.T) {
	ctx := context.Background()
	db := open(t, filepath.Join(t.TempDir(), "s.db"))
	if _, err := db.Exec("PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	err := schema.Apply(ctx, db)
	var newer *schema.NewerError
	if !errors.As(err, &newer) || newer.Found != 99 || newer.Known != schema.Latest() {
		t.Fatalf("Apply = %v", err)
	}
	if !strings.Contains(newer.Hint(), "upgrade") {
		t.Errorf("hint %q names no way out", newer.Hint())
	}
	var tables int
	if err := db.QueryRow("SELECT count(*) FROM sqlite_schema").Scan(&tables); err != nil || tables != 0 {
		t.Fatalf("%d tables, %v: the refused file was changed", tables, err)
	}
	if err := schema.Check(schema.Latest()); err != nil {
		t.Errorf("Check(latest) = %v", err)
	}
	if err := schema.Check(schema.Latest() + 1); !errors.As(err, &newer) {
		t.Errorf("Check(newer) = %v", err)
	}
}

// The schema itself holds that no two generations live at once.
func TestTwoLiveGenerationsAreImpossible(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "s.db"))
	if err := schema.Apply(context.Background(), db); err != nil {
		t.Fatal(err)
	}
	insert := func(id string) error {
		_, err := db.Exec(`INSERT INTO generation (id, phase, boot_id, config_fingerprint, coordinator_id,
			sandbox_id, network_id, created) VALUES (?, 'Starting', 'b', 'f', 'c', 's', 'n', 0)`, id)
		return err
	}
	if err := insert("one"); err != nil {
		t.Fatal(err)
	}
	if err := insert("two"); err == nil {
		t.Fatal("a second live generation was accepted")
	}
	if _, err := db.Exec("UPDATE generation SET ended = 1"); err != nil {
		t.Fatal(err)
	}
	if err := insert("two"); err != nil {
		t.Fatalf("after the first one ended: %v", err)
	}
}
