package view_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/view"
	"lazaret.dev/lazaret/supervisor/internal/view/policy"
	"lazaret.dev/lazaret/supervisor/internal/view/viewtest"
)

// gate publishes what is renamed to "index", once during has been called.
type gate struct {
	policy.Unguarded
	mu     sync.Mutex // of a test's thread and the view's
	during func() error
	wrote  error
}

func (g *gate) Check(op policy.Op) (bool, error) {
	return op.Kind == policy.Rename && op.To == "index", nil
}

func (g *gate) Publish(string, string, policy.Content, *policy.Content) (policy.Outcome, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wrote = g.during()
	return policy.Replace, nil
}

// From the moment at which a lock is looked at, nobody can write to it, and
// neither once it is published; a refused one is as it was.
func TestSeal(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	g := &gate{}
	w := viewtest.New(t, func(c *view.Config) { c.Guard = g })
	lock := filepath.Join(w.Mount, "index.lock")
	write(t, lock, "good")
	f, err := os.OpenFile(lock, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	attempt := func() error {
		_, err := f.WriteAt([]byte("evil"), 0)
		return err
	}
	// A write waits for the rename, which the kernel keeps apart; the pages of a
	// mapping do not.
	g.mu.Lock()
	m := viewtest.Map(t, lock, 4)
	if got := m.At(0); got != 'g' {
		t.Fatalf("it begins with %q", got)
	}
	g.during = func() error {
		if said := m.Put("evil"); said != "<nil>" {
			return unix.EROFS
		}
		return nil
	}
	g.mu.Unlock()
	if err := unix.Rename(lock, filepath.Join(w.Mount, "index")); err != nil {
		t.Fatal(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !errors.Is(g.wrote, unix.EROFS) {
		t.Errorf("a write while the content was looked at: %v", g.wrote)
	}
	if err := attempt(); !errors.Is(err, unix.EROFS) {
		t.Errorf("a write afterwards: %v", err)
	}
	if got, err := content(filepath.Join(w.Host, "index")); got != "good" || err != nil {
		t.Errorf("on the host: %q, %v", got, err)
	}
}
