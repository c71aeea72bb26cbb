package generation_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lazaret.dev/lazaret/host/internal/claim"
	"lazaret.dev/lazaret/host/internal/config"
	"lazaret.dev/lazaret/host/internal/generation"
)

func TestIDsSortByTimeAndAreUnique(t *testing.T) {
	seen := map[string]bool{}
	last := ""
	for i := range 200 {
		id, err := generation.NewID(time.UnixMilli(1_700_000_000_000 + int64(i)*7))
		if err != nil {
			t.Fatal(err)
		}
		if seen[id] || id <= last {
			t.Fatalf("%q after %q", id, last)
		}
		seen[id], last = true, id
	}
}

func TestRequestIsReadStrictly(t *testing.T) {
	req := generation.Request{Domain: config.Domain{
		ID: "0123456789ab", Profile: "shell", User: config.UserRoot, Watch: config.WatchOff,
		Desktop: config.Desktop{Approve: config.DesktopOff},
	}, Generation: "g1"}
	b, err := req.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := generation.DecodeRequest(bytes.NewReader(b), int64(len(b)))
	if err != nil || got.Domain.ID != req.Domain.ID || got.Generation != "g1" {
		t.Fatalf("%+v, %v", got, err)
	}
	for name, tc := range map[string]struct {
		text string
		size int64
	}{
		"cut":           {string(b[:len(b)-1]), int64(len(b))},
		"longer":        {string(b) + " ", int64(len(b))},
		"unknown field": {`{"generation":"g1","surprise":1}`, 32},
		"no size":       {string(b), 0},
		"too large":     {string(b), 1 << 40},
	} {
		if _, err := generation.DecodeRequest(strings.NewReader(tc.text), tc.size); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// What a generation has put into its runtime directory goes with it; what
// somebody else has put there stays, and keeps the directory.
func TestRuntimeDirectories(t *testing.T) {
	const id = "g0123456789abcdef01234"
	dir := filepath.Join(t.TempDir(), "domain")
	settle := func() generation.Dirs {
		t.Helper()
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := generation.CheckRuntime(dir); err != nil {
			t.Fatal(err)
		}
		d, err := generation.StageDirs(dir, id)
		if err == nil {
			err = d.Settle(id)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d.Runsc.Path, "state"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return d
	}
	leave := func(d generation.Dirs) error {
		return d.Leave(dir, id)
	}
	if err := leave(settle()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory is left: %v", err)
	}
	if err := leave(generation.Dirs{}); err != nil {
		t.Errorf("nothing to clear: %v", err)
	}

	d := settle()
	foreign := filepath.Join(dir, "notes")
	kept := filepath.Join(d.Scratch.Path, "something")
	replaced := filepath.Join(d.Runsc.Path, "mine")
	if err := os.Rename(d.Runsc.Path, filepath.Join(dir, "moved")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(d.Runsc.Path, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{foreign, kept, replaced} {
		if err := os.WriteFile(f, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := leave(d); err == nil {
		t.Error("a scratch directory that is not empty was passed over in silence")
	}
	for _, f := range []string{foreign, kept, replaced} {
		if b, err := os.ReadFile(f); err != nil || string(b) != "mine" {
			t.Errorf("%s: %q, %v", f, b, err)
		}
	}

	// A generation that finds the places taken replaces nothing.
	var taken *claim.TakenError
	if err := generation.CheckRuntime(dir); !errors.As(err, &taken) {
		t.Errorf("CheckRuntime = %v", err)
	}
	const other = "g0123456789abcdef56789"
	staged, err := generation.StageDirs(dir, other)
	if err != nil {
		t.Fatal(err)
	}
	if err := staged.Settle(other); !errors.As(err, &taken) || taken.Path != d.Runsc.Path {
		t.Errorf("Settle = %v", err)
	}
	if err := leave(staged); err != nil {
		t.Error(err)
	}
	if err := generation.RemoveStaged(dir, other); err != nil {
		t.Error(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, ".g*"))
	if err != nil || len(left) != 0 {
		t.Errorf("staged directories are left: %q, %v", left, err)
	}
}
