package tidy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lazaret.dev/lazaret/host/internal/tidy"
	"lazaret.dev/lazaret/host/internal/unpack/unpacktest"
	"lazaret.dev/lazaret/protocol/testgate"
)

// TestMain lets the test binary be the program that the user namespace runs.
func TestMain(m *testing.M) {
	if status, isProgram := unpacktest.Main(); isProgram {
		os.Exit(status)
	}
	os.Exit(m.Run())
}

func gen(n int) string { return fmt.Sprintf("g%021x", n) }

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func mkdir(t *testing.T, parts ...string) string {
	t.Helper()
	dir := filepath.Join(parts...)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestLogsKeepsTheNewestTheLiveOneAndWhatIsNotOurs(t *testing.T) {
	dir := t.TempDir()
	for n := range 9 {
		write(t, filepath.Join(mkdir(t, dir, gen(n)), "runsc.log"), "x")
	}
	mkdir(t, dir, "notes")
	write(t, filepath.Join(dir, gen(99)+".txt"), "mine")
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, gen(0)[:21]+"f")); err != nil {
		t.Fatal(err)
	}
	if err := tidy.Logs(dir, gen(1), 5); err != nil {
		t.Fatal(err)
	}
	want := []string{gen(0)[:21] + "f", gen(1), gen(4), gen(5), gen(6), gen(7), gen(8), gen(99) + ".txt", "notes"}
	sort.Strings(want)
	if d := cmp.Diff(want, names(t, dir)); d != "" {
		t.Errorf("left (-want +got):\n%s", d)
	}
}

func TestWhereNothingIsThereNothingIsDone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	if err := errors.Join(
		tidy.Logs(dir, gen(1), 5),
		tidy.DeadTransients(t.Context(), noRunner{}, dir, gen(1)),
		tidy.Transient(t.Context(), noRunner{}, dir, gen(1)),
	); err != nil {
		t.Error(err)
	}
}

// A link in the place of a directory leads to somebody else's files.
func TestLinksAreNotFollowed(t *testing.T) {
	other := t.TempDir()
	mkdir(t, other, gen(0))
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(other, link); err != nil {
		t.Fatal(err)
	}
	if err := tidy.Logs(link, gen(1), 0); err == nil {
		t.Error("logs behind a link were accepted")
	}
	if err := tidy.DeadTransients(t.Context(), noRunner{}, link, gen(1)); err == nil {
		t.Error("transient directories behind a link were accepted")
	}
	dir := t.TempDir()
	sub := mkdir(t, dir, gen(3), "upper")
	if err := os.Symlink(other, filepath.Join(sub, "out")); err != nil {
		t.Fatal(err)
	}
	if err := tidy.DeadTransients(t.Context(), noRunner{}, dir, gen(1)); err != nil {
		t.Error(err)
	}
	if got := names(t, other); len(got) != 1 {
		t.Errorf("behind the links there is %q, want what was there", got)
	}
}

// noRunner is for trees that need no user namespace.
type noRunner struct{}

func (noRunner) Run(context.Context, string, []byte, []*os.File, io.Writer) error {
	return errors.New("a user namespace was asked for")
}

// What a user of the sandbox has closed goes too, and the live one stays.
func TestDeadTransients(t *testing.T) {
	testgate.Need(t, testgate.UserNS, testgate.SubIDs)
	dir := t.TempDir()
	for n := range 3 {
		closed := mkdir(t, dir, gen(n), "upper", "closed")
		write(t, filepath.Join(closed, "f"), "x")
		if err := os.Chmod(closed, 0); err != nil {
			t.Fatal(err)
		}
	}
	mkdir(t, dir, "notes")
	if err := tidy.DeadTransients(t.Context(), noRunner{}, dir, gen(1)); err == nil {
		t.Error("closed directories were removed without a user namespace: the test is worth nothing")
	}
	if err := tidy.DeadTransients(t.Context(), &unpacktest.Runner{}, dir, gen(1)); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff([]string{gen(1), "notes"}, names(t, dir)); d != "" {
		t.Errorf("left (-want +got):\n%s", d)
	}
	if err := tidy.Transient(t.Context(), &unpacktest.Runner{}, dir, gen(1)); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff([]string{"notes"}, names(t, dir)); d != "" {
		t.Errorf("left (-want +got):\n%s", d)
	}
}

func TestCut(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "small.log"), "0123456789")
	write(t, filepath.Join(dir, "other.txt"), strings.Repeat("x", 100))
	big := filepath.Join(dir, "big.log")
	w, err := os.OpenFile(big, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, round := range []string{"first", "second"} {
		if _, err := w.WriteString(strings.Repeat("x", 100) + round); err != nil {
			t.Fatal(err)
		}
		if err := tidy.Cut(dir, 10, int64(len(round))); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(big + ".1"); err != nil || string(b) != round {
			t.Errorf("kept %q, %v; want the last bytes, %q", b, err, round)
		}
		// A writer that appends goes on at the start.
		if _, err := w.WriteString(round); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(big); err != nil || string(b) != round {
			t.Errorf("log has %q, %v; want only what came after the cut", b, err)
		}
	}
	for name, want := range map[string]int{"small.log": 10, "other.txt": 100} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || len(b) != want {
			t.Errorf("%s has %d bytes, %v; want %d", name, len(b), err, want)
		}
	}
}
