package generation_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"lazaret.dev/lazaret/host/internal/generation"
)

func TestHolder(t *testing.T) {
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := generation.ReadHolder(f); got != (generation.Holder{}) || got.String() != "another process" {
		t.Errorf("empty file: %+v", got)
	}
	want := generation.Holder{PID: 4242, Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), RuntimeDir: "/run/a \"b\"\nc"}
	if err := generation.NoteHolder(f, want); err != nil {
		t.Fatal(err)
	}
	if got := generation.ReadHolder(f); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if _, err := f.WriteAt([]byte("7 2026-01-02T03:04:05Z\n"), 0); err != nil {
		t.Fatal(err)
	}
	if got := generation.ReadHolder(f).String(); got != "process 7 since 2026-01-02T03:04:05Z" {
		t.Errorf("what follows the first line counts: %q", got)
	}
	for _, text := range []string{"x", "12", "12 yesterday", "\x00\x00", "12 2026-01-02T03:04:05Z not-quoted"} {
		if err := f.Truncate(0); err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte(text), 0); err != nil {
			t.Fatal(err)
		}
		if got := generation.ReadHolder(f); got.RuntimeDir != "" {
			t.Errorf("%q: %+v", text, got)
		}
	}
}
