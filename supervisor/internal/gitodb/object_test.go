package gitodb_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"lazaret.dev/lazaret/supervisor/internal/gitodb"
)

// TestDescends asks about the history that Git knows, loose and packed, with
// commits as deltas of each other.
func TestDescends(t *testing.T) {
	for _, format := range []struct {
		name string
		size int
	}{{"sha1", 20}, {"sha256", 32}} {
		base := t.TempDir()
		dir := filepath.Join(base, "r")
		git(t, base, "", "init", "-q", "-b", "main", "--object-format="+format.name, "r")
		git(t, dir, "", "config", "user.name", "n")
		git(t, dir, "", "config", "user.email", "e@x")
		for i := range 12 {
			git(t, dir, strings.Repeat("a long text that compresses against its like ", 40)+fmt.Sprint(i), "commit", "-q", "--allow-empty", "-F", "-")
		}
		git(t, dir, "", "checkout", "-q", "-b", "side", "HEAD~6")
		git(t, dir, "", "commit", "-q", "--allow-empty", "-m", "side")
		git(t, dir, "", "merge", "-q", "-m", "both", "main~3")
		ids := strings.Fields(git(t, dir, "", "rev-list", "--all"))
		check := func(state string) {
			t.Helper()
			s := store(t, dir, format.size)
			for _, a := range ids {
				ancestors := " " + strings.ReplaceAll(git(t, dir, "", "rev-list", a), "\n", " ") + " "
				for _, b := range ids {
					want := strings.Contains(ancestors, " "+b+" ")
					if got, err := s.Descends(t.Context(), raw(t, a), raw(t, b)); err != nil || got != want {
						t.Fatalf("%s, %s: %s from %s: %v, %v, want %v", format.name, state, a, b, got, err, want)
					}
				}
			}
			missing := raw(t, strings.Repeat("ab", format.size))
			if _, err := s.Descends(t.Context(), missing, raw(t, ids[0])); !errors.Is(err, gitodb.ErrUnknown) {
				t.Errorf("%s, %s: a commit that is not there: %v", format.name, state, err)
			}
		}
		check("loose")
		git(t, dir, "", "repack", "-q", "-a", "-d", "-f", "--depth=20", "--window=20")
		check("packed")
		git(t, dir, "", "-c", "repack.useDeltaBaseOffset=false", "repack", "-q", "-a", "-d", "-f")
		check("with deltas by name")
	}
}

func raw(t *testing.T, id string) []byte {
	t.Helper()
	b, err := hex.DecodeString(id)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
