package durable_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"lazaret.dev/lazaret/host/internal/image/durable"
)

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f, err := durable.TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := durable.TryLock(path); !errors.Is(err, durable.ErrHeld) {
		t.Errorf("held: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	waited := 0
	if _, err := durable.Lock(ctx, path, func() { waited++ }); !errors.Is(err, context.DeadlineExceeded) || waited != 1 {
		t.Errorf("waiting: %v, said %d times", err, waited)
	}
	// The file goes while another waits: what it gets is the one at the path.
	done := make(chan error, 1)
	go func() {
		g, err := durable.Lock(context.Background(), path, func() { _ = os.Remove(path); _ = f.Close() })
		if err == nil {
			a, _ := g.Stat()
			b, e := os.Stat(path)
			if e != nil || !os.SameFile(a, b) {
				err = errors.New("the lock is on a file that is gone")
			}
			_ = g.Close()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := durable.TryLock(link); err == nil {
		t.Error("a link was locked")
	}
}

// What a writer that was killed has left goes with the next one; what a living
// one writes stays.
func TestDeadWriters(t *testing.T) {
	dir := t.TempDir()
	living, err := durable.TryLock(filepath.Join(dir, durable.TempPrefix+"living"))
	if err != nil {
		t.Fatal(err)
	}
	defer living.Close()
	for _, name := range []string{durable.TempPrefix + "dead", "other"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := durable.WriteJSON(filepath.Join(dir, "f.json"), "one"); err != nil {
		t.Fatal(err)
	}
	es, err := os.ReadDir(dir)
	if err != nil || len(es) != 3 || es[0].Name() != durable.TempPrefix+"living" || es[1].Name() != "f.json" || es[2].Name() != "other" {
		t.Errorf("left: %v, %v", es, err)
	}
}

// Writers of one file do not take each other for dead.
func TestWritersAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.json")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 20 {
				if err := durable.WriteJSON(path, i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func TestWriteJSON(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f.json")
	for _, v := range []string{"one", "two"} {
		if err := durable.WriteJSON(path, v); err != nil {
			t.Fatal(err)
		}
	}
	var got string
	if err := durable.ReadJSON(path, &got); err != nil || got != "two" {
		t.Errorf("%q, %v", got, err)
	}
	if err := durable.WriteJSON(path, make(chan int)); err == nil {
		t.Error("a channel was written")
	}
	if es, err := os.ReadDir(dir); err != nil || len(es) != 1 {
		t.Errorf("left: %v, %v", es, err)
	}
	if err := durable.ReadJSON(filepath.Join(dir, "none"), &got); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("x", 10)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := durable.ReadJSON(path, &got); err == nil {
		t.Error("broken file was read")
	}
}
