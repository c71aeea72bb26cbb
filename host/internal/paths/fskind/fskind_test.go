package fskind_test

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/paths/fskind"
)

// Case 103
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	typ, err := fskind.Type(dir)
	if err != nil || typ == "" {
		t.Fatalf("%q, %v", typ, err)
	}
	err = fskind.Check(dir)
	var e *fskind.Error
	if err != nil && (!errors.As(err, &e) || e.Path != dir || e.Type != typ || !strings.Contains(e.Hint(), "data_root")) {
		t.Errorf("a temporary directory on %s: %v", typ, err)
	}
	if n, err := unix.Listxattr(dir, nil); err == nil && n > 0 {
		buf := make([]byte, n)
		if n, err = unix.Listxattr(dir, buf); err == nil && strings.Contains(string(buf[:n]), "lazaret") {
			t.Errorf("left behind: %q", buf[:n])
		}
	}
	// proc has no attributes and takes none, whatever its number is called.
	if err := fskind.Check("/proc/self"); err == nil {
		t.Error("proc was taken")
	}
	if err := fskind.Check(dir + "/none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing directory: %v", err)
	}
}

// Many processes look at one data root at once, and none disturbs another.
func TestCheckAtOnce(t *testing.T) {
	dir := t.TempDir()
	if fskind.Check(dir) != nil {
		dir = "."
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if err := fskind.Check(dir); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
