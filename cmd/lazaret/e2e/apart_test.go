package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lazaret.dev/lazaret/cmd/lazaret/e2etest"
	"lazaret.dev/lazaret/protocol/control"
)

// SR-11: two Domains, of another project or of another profile on the same one,
// share no process, no file that they have written outside the workspace, and no
// end.
func TestDomainsAreApart(t *testing.T) {
	h := e2etest.New(t)
	h.Config("[profiles.one]\n[profiles.two]\n")
	elsewhere := filepath.Join(h.Dir, "elsewhere")
	if err := os.Mkdir(elsewhere, 0o700); err != nil {
		t.Fatal(err)
	}
	domains := []struct {
		name      string
		args      []string
		workspace string // what it holds
	}{
		{"one", []string{"one"}, "one\ntwo\n"},
		{"two", []string{"two"}, "one\ntwo\n"},
		{"elsewhere", []string{"one", "--workspace", elsewhere}, "elsewhere\n"},
	}
	files := []string{"/root/mine", "/tmp/mine", "/usr/local/mine", "/srv/mine", "/dev/shm/mine"}
	for i, d := range domains {
		h.Hold(fmt.Sprintf("for f in %s /workspace/%s; do echo %[2]s >$f; done; sleep 1234.%[3]d &", strings.Join(files, " "), d.name, i), d.args...)
	}
	in := func(args []string, script string) string {
		t.Helper()
		r := h.Lazaret("", append(append([]string{"run", "--quiet"}, args...), "--", "sh", "-euc", script)...)
		if r.Status != 0 {
			t.Fatalf("%q: %+v", args, r)
		}
		return r.Stdout
	}
	check := func() {
		t.Helper()
		for i, d := range domains {
			if got := in(d.args, "cat "+strings.Join(files, " ")); got != strings.Repeat(d.name+"\n", len(files)) {
				t.Errorf("%s: its files hold %q", d.name, got)
			}
			if got := in(d.args, "ps -e -o args | grep '^sleep' || :"); got != fmt.Sprintf("sleep 1234.%d\n", i) {
				t.Errorf("%s: processes %q", d.name, got)
			}
			if got := in(d.args, "ls /workspace"); got != d.workspace {
				t.Errorf("%s: the workspace holds %q", d.name, got)
			}
		}
	}
	check()
	// The end of one is that of no other.
	var running []control.Status
	if err := json.Unmarshal([]byte(h.Lazaret("", "ps", "--json").Stdout), &running); err != nil {
		t.Fatal(err)
	}
	last := slices.IndexFunc(running, func(s control.Status) bool { return s.Workspace == elsewhere })
	if len(running) != len(domains) || last < 0 {
		t.Fatalf("%+v", running)
	}
	if r := h.Lazaret("", "stop", "--yes", running[last].DomainID); r.Status != 0 {
		t.Fatalf("%+v", r)
	}
	domains = domains[:2]
	check()
}
