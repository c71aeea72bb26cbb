// Package schematest has one fixture database for each level of the store that
// was released, as the SQL text that makes it, and renders databases as such
// text. It is for tests alone, and imports nothing of Lazaret's.
//
// A fixture is never edited: it is what that level's Lazaret wrote. After a new
// migration, this makes the new level's from the one before it; rows for what is
// new are then added to it by hand, before it is released:
//
//	go test ./schema -run TestFixtures -args -write-fixture
package schematest

import (
	"database/sql"
	"embed"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // the driver
)

//go:embed testdata/*.sql
var fixtures embed.FS

// Name is the name of a level's fixture, in testdata.
func Name(level int) string { return fmt.Sprintf("level-%04d.sql", level) }

// SQL is the text of a level's fixture.
func SQL(tb testing.TB, level int) string {
	tb.Helper()
	b, err := fixtures.ReadFile("testdata/" + Name(level))
	if err != nil {
		tb.Fatalf("level %d has no fixture: %v", level, err)
	}
	return string(b)
}

// Write makes a level's fixture database at path.
func Write(tb testing.TB, path string, level int) {
	tb.Helper()
	Exec(tb, path, SQL(tb, level))
}

// Exec executes SQL in the database at path, which is made if it is missing.
func Exec(tb testing.TB, path, text string) {
	tb.Helper()
	db := open(tb, path)
	defer db.Close() //nolint:errcheck // an error of the statements is what counts
	if _, err := db.ExecContext(tb.Context(), text); err != nil {
		tb.Fatal(err)
	}
}

func open(tb testing.TB, path string) *sql.DB {
	tb.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		tb.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+abs)
	if err != nil {
		tb.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	return db
}

// Tables are the contents of a database: for each table its rows, for each row
// its columns as SQL literals.
type Tables map[string][]map[string]string

// Read reads the whole content of the database at path.
func Read(tb testing.TB, path string) Tables {
	tb.Helper()
	db := open(tb, path)
	defer db.Close() //nolint:errcheck // only read
	out := Tables{}
	for _, name := range column(tb, db, "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name") {
		cols := column(tb, db, "SELECT name FROM pragma_table_info('"+name+"')")
		out[name] = []map[string]string{}
		quoted := make([]string, len(cols))
		for i, c := range cols {
			quoted[i] = "quote(" + c + ")"
		}
		for _, values := range rows(tb, db, len(cols), "SELECT "+strings.Join(quoted, ", ")+" FROM "+name) {
			row := map[string]string{}
			for i, c := range cols {
				row[c] = values[i]
			}
			out[name] = append(out[name], row)
		}
	}
	return out
}

// Schema is the text of everything that the database at path defines.
func Schema(tb testing.TB, path string) string {
	tb.Helper()
	db := open(tb, path)
	defer db.Close() //nolint:errcheck // only read
	var b strings.Builder
	for _, name := range []string{"application_id", "user_version"} {
		for _, v := range column(tb, db, "PRAGMA "+name) {
			fmt.Fprintf(&b, "PRAGMA %s = %s;\n", name, v)
		}
	}
	for _, text := range column(tb, db, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid") {
		b.WriteString(text + ";\n")
	}
	return b.String()
}

// Dump renders the database at path as SQL text that makes it again.
func Dump(tb testing.TB, path string) string {
	tb.Helper()
	db := open(tb, path)
	order := column(tb, db, "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rowid")
	columns := map[string][]string{}
	for _, name := range order {
		columns[name] = column(tb, db, "SELECT name FROM pragma_table_info('"+name+"')")
	}
	if err := db.Close(); err != nil {
		tb.Fatal(err)
	}
	tables := Read(tb, path)
	var b strings.Builder
	b.WriteString(Schema(tb, path))
	for _, name := range order {
		var lines []string
		for _, row := range tables[name] {
			values := make([]string, len(columns[name]))
			for i, c := range columns[name] {
				values[i] = row[c]
			}
			lines = append(lines, fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s);\n", name, strings.Join(columns[name], ", "), strings.Join(values, ", ")))
		}
		slices.Sort(lines)
		b.WriteString(strings.Join(lines, ""))
	}
	return b.String()
}

// column returns the one column of a query's rows.
func column(tb testing.TB, db *sql.DB, query string) []string {
	tb.Helper()
	var out []string
	for _, row := range rows(tb, db, 1, query) {
		out = append(out, row[0])
	}
	return out
}

// rows returns the n columns of a query's rows as text.
func rows(tb testing.TB, db *sql.DB, n int, query string) [][]string {
	tb.Helper()
	found, err := db.QueryContext(tb.Context(), query)
	if err != nil {
		tb.Fatal(err)
	}
	defer found.Close() //nolint:errcheck // Err has what went wrong
	var out [][]string
	for found.Next() {
		values, into := make([]string, n), make([]any, n)
		for i := range values {
			into[i] = &values[i]
		}
		if err := found.Scan(into...); err != nil {
			tb.Fatal(err)
		}
		out = append(out, values)
	}
	if err := found.Err(); err != nil {
		tb.Fatal(err)
	}
	return out
}
