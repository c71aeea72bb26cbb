package killmatrix_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A start that its coordinator refuses leaves nothing either, not even the
// directory that it was to run in.
func TestFailedStartLeavesNothing(t *testing.T) {
	w := newWorld(t)
	if err := w.clean(time.Now()); err != nil {
		t.Fatal(err)
	}
	stores, err := filepath.Glob(filepath.Join(w.h.Data, "domains/*/store.db"))
	if err != nil || len(stores) != 1 {
		t.Fatal(stores, err)
	}
	whole, err := os.ReadFile(stores[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(stores[0], []byte("no database\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := w.run("true")
	if err := c.ends(gone); err != nil {
		t.Fatal(err)
	}
	if c.status() != 125 || !strings.Contains(c.stderr.String(), "lazaret: error: ") {
		t.Errorf("status %d, stderr %q", c.status(), c.stderr.String())
	}
	if err := os.WriteFile(stores[0], whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.clean(time.Now()); err != nil {
		t.Error(err)
	}
	if _, err := w.next(map[string]string{kept: kept}); err != nil {
		t.Error(err)
	}
}
