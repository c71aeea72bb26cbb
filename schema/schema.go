// Package schema owns the shape of a Domain's durable store: its numbered
// migrations and the level that a file records.
//
// It does not open files, choose a driver, set pragmas of a connection or know
// what the rows mean; package store of the host does. It imports nothing of
// Lazaret's and runs in the Host Coordinator only, which holds the Domain lock.
//
// A released migration is never edited: a change of shape is the next number,
// with a fixture database of its level (package schematest).
package schema

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// ApplicationID is the application_id that level 1 writes into the file. It
// tells Lazaret's stores from every other SQLite database.
const ApplicationID = 0x4c5a5254

//go:embed migrations/*.sql
var migrations embed.FS

// NewerError reports a store that a newer Lazaret has written.
type NewerError struct {
	Found int // the level of the file
	Known int // the newest level of this build
}

// Error implements error.
func (e *NewerError) Error() string {
	return fmt.Sprintf("the store is of level %d, and this lazaret knows only levels up to %d", e.Found, e.Known)
}

// Hint says what the user can do.
func (e *NewerError) Hint() string {
	return "a newer lazaret has used this project: run that one, or upgrade this one (nothing was changed)"
}

// Latest is the newest level that this build knows.
func Latest() int {
	files, err := list()
	if err != nil {
		return 0
	}
	return len(files)
}

// Check returns a *NewerError when a file of that level is beyond this build.
func Check(level int) error {
	if known := Latest(); level > known {
		return &NewerError{Found: level, Known: known}
	}
	return nil
}

// querier is what Level needs: *sql.DB, *sql.Conn and *sql.Tx have it.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Level returns the level that the database records; an empty one has 0.
func Level(ctx context.Context, db querier) (int, error) {
	var level int
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&level); err != nil {
		return 0, fmt.Errorf("read the store's level: %w", err)
	}
	return level, nil
}

// Apply brings the database to the latest level. All missing migrations and
// the new level are one transaction: after a failure or a crash the file is
// still of its old level. A newer level is refused with a *NewerError before
// anything is written. The caller holds the Domain lock.
func Apply(ctx context.Context, db *sql.DB) error {
	return apply(ctx, db, migrations)
}

func apply(ctx context.Context, db *sql.DB, dir fs.FS) (err error) {
	files, err := listIn(dir)
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin the migration: %w", err)
	}
	defer func() {
		// After a commit this reports ErrTxDone, which says nothing new.
		if e := tx.Rollback(); e != nil && !errors.Is(e, sql.ErrTxDone) {
			err = errors.Join(err, fmt.Errorf("roll the migration back: %w", e))
		}
	}()
	level, err := Level(ctx, tx)
	switch {
	case err != nil:
		return err
	case level > len(files):
		return &NewerError{Found: level, Known: len(files)}
	case level < 0:
		return fmt.Errorf("the store's level is %d", level)
	case level == len(files):
		return nil
	}
	for i, name := range files[level:] {
		script, err := fs.ReadFile(dir, name)
		if err != nil {
			return fmt.Errorf("read migration %s: %w", name, err)
		}
		if _, err := tx.ExecContext(ctx, string(script)); err != nil {
			return fmt.Errorf("migrate to level %d: %w", level+i+1, err)
		}
	}
	// A pragma takes no parameters; the number is ours.
	if _, err := tx.ExecContext(ctx, "PRAGMA user_version = "+strconv.Itoa(len(files))); err != nil {
		return fmt.Errorf("record level %d: %w", len(files), err)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit the migration: %w", err)
	}
	return nil
}

func list() ([]string, error) { return listIn(migrations) }

// listIn returns the migrations' names in order. It refuses gaps and doubles:
// the file numbered n is the step from level n-1 to level n.
func listIn(dir fs.FS) ([]string, error) {
	files, err := fs.Glob(dir, "migrations/*.sql")
	if err != nil {
		return nil, fmt.Errorf("list the migrations: %w", err)
	}
	for i, name := range files {
		number, _, ok := strings.Cut(strings.TrimPrefix(name, "migrations/"), "_")
		n, err := strconv.Atoi(number)
		if !ok || err != nil || len(number) != 4 || n != i+1 {
			return nil, fmt.Errorf("migration %s: its number must be %04d", name, i+1)
		}
	}
	return files, nil
}
