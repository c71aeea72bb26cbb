package schema

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"testing/fstest"

	_ "modernc.org/sqlite" // the driver under test
)

// An interrupted or failing migration leaves the old level, and nothing of the
// steps before the failing one.
func TestFailedMigrationLeavesOldLevel(t *testing.T) {
	ctx := context.Background()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "s.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	dir := fstest.MapFS{
		"migrations/0001_a.sql": {Data: []byte("CREATE TABLE a (x);")},
	}
	if err := apply(ctx, db, dir); err != nil {
		t.Fatal(err)
	}
	dir["migrations/0002_b.sql"] = &fstest.MapFile{Data: []byte("CREATE TABLE b (x); INSERT INTO a VALUES (1);")}
	dir["migrations/0003_c.sql"] = &fstest.MapFile{Data: []byte("CREATE TABLE c (x); SELECT nonsense(;")}
	if err := apply(ctx, db, dir); err == nil {
		t.Fatal("a broken migration was applied")
	}
	level, err := Level(ctx, db)
	if err != nil || level != 1 {
		t.Fatalf("level = %d, %v; want 1", level, err)
	}
	var n int
	if err := db.QueryRow("SELECT (SELECT count(*) FROM sqlite_schema) + (SELECT count(*) FROM a)").Scan(&n); err != nil || n != 1 {
		t.Fatalf("%d objects, %v: a part of the migration stayed", n, err)
	}
	dir["migrations/0003_c.sql"] = &fstest.MapFile{Data: []byte("CREATE TABLE c (x);")}
	if err := apply(ctx, db, dir); err != nil {
		t.Fatal(err)
	}
	if level, err = Level(ctx, db); err != nil || level != 3 {
		t.Fatalf("level = %d, %v; want 3", level, err)
	}
}

func TestMigrationNumbersHaveNoGaps(t *testing.T) {
	if _, err := list(); err != nil {
		t.Fatal(err)
	}
	for _, names := range [][]string{
		{"0002_a.sql"}, {"0001_a.sql", "0003_b.sql"}, {"0001_a.sql", "0001_b.sql"}, {"1_a.sql"}, {"0001.sql"},
	} {
		dir := fstest.MapFS{}
		for _, n := range names {
			dir["migrations/"+n] = &fstest.MapFile{}
		}
		if files, err := listIn(dir); err == nil {
			t.Errorf("%v accepted as %v", names, files)
		}
	}
}
