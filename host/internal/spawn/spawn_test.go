package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/spawn"
)

func TestSealedFile(t *testing.T) {
	f, err := spawn.SealedFile("x", []byte("content"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if b, err := io.ReadAll(f); string(b) != "content" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := f.WriteAt([]byte("C"), 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("written to: %v", err)
	}
	if err := f.Truncate(0); !errors.Is(err, unix.EPERM) {
		t.Errorf("cut: %v", err)
	}
}

// program writes a program that stands for another.
func program(t *testing.T, script string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(p, fmt.Appendf(nil, "#!/bin/sh\nPATH=/usr/bin:/bin\n%s\n", script), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	return p
}

// A supervisor that does not say hello as it must is an error, soon, and leaves
// no process.
func TestSuperviseRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ script, want string }{
		"ends":          {"exit 1", "before it said hello"},
		"nonsense":      {`printf nonsense >&3; exec sleep 60`, "start supervisor"},
		"wrong kind":    {`printf '{"kind":"stopped","body":{"component":"sandbox"}}' >&3; exec sleep 60`, "start supervisor"},
		"other version": {`printf '{"kind":"hello","body":{"version":999}}' >&3; exec sleep 60`, "different builds"},
		"does not end":  {"exec 3>&-; exec sleep 60", "before it said hello"},
	} {
		t.Run(name, func(t *testing.T) {
			pid := filepath.Join(t.TempDir(), "pid")
			log, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			start := time.Now()
			_, err = spawn.Supervise(t.Context(), program(t, "echo $$ >"+pid+"\n"+tc.script), spawn.Mapping{}, "g1", log)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("it took %s", took)
			}
			b, err := os.ReadFile(pid)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat("/proc/" + strings.TrimSpace(string(b))); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("process %s is left: %v", b, err)
			}
		})
	}
}

func TestSuperviseCancelled(t *testing.T) {
	log, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := spawn.Supervise(ctx, program(t, "exec sleep 60"), spawn.Mapping{}, "g1", log); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestEnter(t *testing.T) {
	e := spawn.Enter{Supervisor: program(t, `echo "$@"; cat; echo why >&2; exit 3`), Executable: "/lazaret"}
	var out strings.Builder
	err := e.Run(t.Context(), "_unpack", []byte("request"), nil, &out)
	if err == nil || !strings.Contains(err.Error(), "_unpack") || !strings.Contains(err.Error(), "why") {
		t.Errorf("got %v", err)
	}
	if got := out.String(); got != "enter -- /lazaret _unpack\nrequest" {
		t.Errorf("called as %q", got)
	}
}
