package hostfacts_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lazaret.dev/lazaret/host/internal/hostfacts"
)

// No program is taken from where a sandbox can write: not by name, not through
// a link that lies there, not through one that leads there.
func TestProgramsOfASandbox(t *testing.T) {
	e, _ := good(t)
	project := filepath.Join(e.Root, "project")
	put(t, e, "project/.venv/bin/slirp4netns", "", 0o755)
	put(t, e, "linked/bin/keep", "", 0o755)
	for link, to := range map[string]string{
		"project/sys":            filepath.Join(e.Root, "usr/bin"),
		"in":                     filepath.Join(project, ".venv/bin"),
		"through":                filepath.Join(project, "sys"),
		"linked/bin/slirp4netns": filepath.Join(project, ".venv/bin/slirp4netns"),
	} {
		if err := os.Symlink(to, filepath.Join(e.Root, link)); err != nil {
			t.Fatal(err)
		}
	}
	system := filepath.Join(e.Root, "usr/bin")
	e.Path = []string{
		filepath.Join(project, ".venv/bin"), filepath.Join(project, "missing"), filepath.Join(project, "sys"),
		filepath.Join(e.Root, "in"), filepath.Join(e.Root, "through"), filepath.Join(e.Root, "linked/bin"), system,
	}
	if got := hostfacts.Locate(e).Slirp4netns; got != filepath.Join(project, ".venv/bin/slirp4netns") {
		t.Fatalf("without a sandbox that can write there: %q", got)
	}
	e.Untrusted = []string{project}
	if got := hostfacts.Locate(e).Slirp4netns; got != filepath.Join(system, "slirp4netns") {
		t.Errorf("slirp4netns is %q", got)
	}
	if d := cmp.Diff([]string{filepath.Join(e.Root, "linked/bin"), system}, e.SearchPath()); d != "" {
		t.Error(d)
	}
}

func TestInstallationInAWorkspace(t *testing.T) {
	e, _ := good(t)
	for untrusted, want := range map[string]bool{filepath.Join(e.Root, "opt"): true, filepath.Join(e.Root, "home"): false} {
		e.Untrusted = []string{untrusted}
		f, err := hostfacts.Quick(context.Background(), e)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(strings.Join(f.Warnings, "\n"), "lazaret itself lies in"); got != want {
			t.Errorf("a sandbox that writes to %s: %q", untrusted, f.Warnings)
		}
	}
}
