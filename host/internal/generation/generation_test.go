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

	"lazaret.dev/lazaret/host/internal/config"
	"lazaret.dev/lazaret/host/internal/generation"
	"lazaret.dev/lazaret/protocol/control"
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
func TestClearRuntime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "domain")
	fill := func() {
		t.Helper()
		for _, d := range []string{generation.RunscDir + "/sub", generation.ScratchDir} {
			if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for _, f := range []string{control.ControlSocket, "." + control.EnrollSocket, generation.RunscDir + "/sub/state"} {
			if err := os.WriteFile(filepath.Join(dir, f), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill()
	if err := generation.ClearRuntime(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory is left: %v", err)
	}
	if err := generation.ClearRuntime(dir); err != nil {
		t.Errorf("nothing to clear: %v", err)
	}

	fill()
	foreign := filepath.Join(dir, "notes")
	kept := filepath.Join(dir, generation.ScratchDir, "something")
	for _, f := range []string{foreign, kept} {
		if err := os.WriteFile(f, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := generation.ClearRuntime(dir); err == nil {
		t.Error("a scratch directory that is not empty was passed over in silence")
	}
	for _, f := range []string{foreign, kept} {
		if b, err := os.ReadFile(f); err != nil || string(b) != "mine" {
			t.Errorf("%s: %q, %v", f, b, err)
		}
	}
}
