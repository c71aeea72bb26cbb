// Package faulttest is the test's end of the fault points (protocol/faults): an
// installation that has them, and requests to it. It is used by end-to-end
// tests only and runs in their processes.
package faulttest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"lazaret.dev/lazaret/cmd/lazaret/e2etest"
	"lazaret.dev/lazaret/protocol/testgate"
)

// Faults is an installation with fault points.
type Faults struct {
	tb   testing.TB
	dir  string
	word int // of the newest Hold
}

// New gives a home an installation that has fault points.
func New(tb testing.TB, h *e2etest.Home) *Faults {
	tb.Helper()
	testgate.Need(tb, testgate.Faults)
	h.Tree = filepath.Join(h.Dir, "tree")
	f := &Faults{tb: tb, dir: filepath.Join(h.Tree, "faults")}
	for _, d := range []string{"bin", "libexec/lazaret", "faults"} {
		if err := os.MkdirAll(filepath.Join(h.Tree, d), 0o755); err != nil {
			tb.Fatal(err)
		}
	}
	built := func(name string) string { return filepath.Join(testgate.Tree(), name) }
	faulty := func(name string) string { return filepath.Join(os.Getenv("LAZARET_TEST_FAULTY"), name) }
	// Copies of what looks for its neighbours or may be no link, links to the
	// rest.
	for to, from := range map[string]string{
		"bin/lazaret":                        faulty("lazaret"),
		"libexec/lazaret/lazaret-supervisor": faulty("lazaret-supervisor"),
		"libexec/lazaret/lazaret-escalate":   built("libexec/lazaret/lazaret-escalate"),
	} {
		b, err := os.ReadFile(from)
		if err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(h.Tree, to), b, 0o755); err != nil {
			tb.Fatal(err)
		}
	}
	for _, name := range []string{"libexec/lazaret/runsc", "image"} {
		from, err := filepath.Abs(built(name))
		if err != nil {
			tb.Fatal(err)
		}
		if err := os.Symlink(from, filepath.Join(h.Tree, name)); err != nil {
			tb.Fatal(err)
		}
	}
	return f
}

// Ask asks for a fault.
func (f *Faults) Ask(name, text string) {
	f.tb.Helper()
	// Whole at once: a process reads it at any time.
	temp := filepath.Join(f.dir, ".new")
	err := os.WriteFile(temp, []byte(text), 0o600)
	if err == nil {
		err = os.Rename(temp, filepath.Join(f.dir, name))
	}
	if err != nil {
		f.tb.Fatal(err)
	}
}

// TakeBack takes every request back, and lets go whoever waits at a point.
func (f *Faults) TakeBack() {
	f.tb.Helper()
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		f.tb.Fatal(err)
	}
	for _, e := range entries {
		if err := os.Remove(filepath.Join(f.dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			f.tb.Fatal(err)
		}
	}
}

// Hold asks that the next process that comes to a point waits there. reached
// returns its pid, and 0 as long as none has come.
func (f *Faults) Hold(point string) (reached func() int) {
	f.tb.Helper()
	f.word++
	word := strconv.Itoa(f.word)
	f.Ask(point, word)
	return func() int {
		b, err := os.ReadFile(filepath.Join(f.dir, point+"."+word))
		if errors.Is(err, fs.ErrNotExist) {
			return 0
		}
		pid, perr := strconv.Atoi(string(b))
		if err = errors.Join(err, perr); err != nil {
			f.tb.Fatal(err)
		}
		return pid
	}
}
