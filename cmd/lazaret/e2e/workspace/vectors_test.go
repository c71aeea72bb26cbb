package workspace_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lazaret.dev/lazaret/cmd/lazaret/e2etest"
	"lazaret.dev/lazaret/protocol/testgate"
)

// beyond are the vectors that no rule on paths can stop, and why.
var beyond = map[string]string{
	"h_wrapper":     "the developer's own hook runs a tracked script, which is the project's content",
	"t_bare_commit": "a commit holds what Git takes for a repository, and the developer checks it out",
	"t_inc_commit":  "a commit changes a tracked file that the developer's configuration includes",
	"h_home":        "the developer's home lies in the workspace: such a start is refused, this one has another home",
}

// SR-4: 215 ways from a workspace to what the developer's Git executes, reads
// or writes, planted inside; then the developer's commands run on the host. A
// sample in an ordinary run, and all of them in a long one.
func TestAttackGitVectors(t *testing.T) {
	random := dice(t)
	script, err := filepath.Abs("testdata/git-vectors.sh")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		config string
		env    []string
	}{
		"isolated": {"", []string{"VEC_SHOWN=1"}},
		"shared":   {profile + "isolate_gitignored = false\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Config(tt.config)
			base := filepath.Join(w.Dir, "base")
			w.Project = filepath.Join(base, "ws")
			all := vectors(t, script)
			// The control: it shows that payloads reach the host.
			ids, env := []string{"h_wrapper"}, tt.env
			if whole := os.Getenv("LAZARET_TEST_VECTORS"); whole == "all" || whole == "" && long() {
				ids = all
			} else if whole != "" {
				ids = append(ids, strings.Fields(whole)...)
			} else {
				env = append(env, "VEC_TRIGGERS=8")
				for _, i := range random.Perm(len(all))[:5] {
					ids = append(ids, all[i])
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
			defer cancel()
			cmd := exec.CommandContext(ctx, "bash", append([]string{script, "run", "-b", base}, ids...)...)
			cmd.Env = append(append(w.hostEnv(), env...), "VEC_ENTER="+w.enter(base), "VEC_WS=/workspace", "VEC_TIMEOUT=20")
			if n := os.Getenv("LAZARET_TEST_TRIGGERS"); n != "" {
				cmd.Env = append(cmd.Env, "VEC_TRIGGERS="+n)
			}
			cmd.WaitDelay = 5 * time.Second
			var errb strings.Builder
			cmd.Stderr = &errb
			out, err := cmd.Output()
			if err != nil && !strings.Contains(string(out), "# fired: ") {
				t.Fatalf("%v\n%s%s", err, out, errb.String())
			}
			fired, tried := map[string]bool{}, map[string]bool{}
			for line := range strings.Lines(string(out)) {
				f := strings.Split(strings.TrimSpace(line), "\t")
				if len(f) < 4 {
					continue
				}
				id, class, command, result := f[0], f[1], f[2], strings.Join(f[3:], " ")
				tried[id] = true
				if strings.Contains(command, "refused") {
					t.Logf("%s: the start is refused", id)
				}
				if result == "-" {
					continue
				}
				if !strings.Contains(result, "RAN") && !strings.Contains(result, "LEAK") && !strings.Contains(result, "WROTE") {
					t.Logf("%s (%s), %s: %s", id, class, command, result)
					continue
				}
				fired[id] = true
				if _, ok := beyond[id]; !ok && strings.Contains("xlwn", class) {
					t.Errorf("%s, host command %q: %s", id, command, result)
				}
			}
			t.Logf("%d vectors tried, fired: %v", len(tried), slices.Sorted(maps.Keys(fired)))
			if !fired["h_wrapper"] {
				plant, _ := os.ReadFile(filepath.Join(base, "plant.log"))
				t.Errorf("what nothing stops did not fire: nothing has been planted\n%s\n%s", out, plant)
			}
		})
	}
}

// vectors are the ids of all vectors.
func vectors(t *testing.T, script string) []string {
	t.Helper()
	testgate.Need(t, testgate.Git)
	out, err := exec.Command("bash", script, "list").Output()
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for line := range strings.Lines(string(out)) {
		id, _, _ := strings.Cut(line, "\t")
		ids = append(ids, id)
	}
	if len(ids) < 200 {
		t.Fatalf("%d vectors", len(ids))
	}
	return ids
}

// enter writes the program that runs a command in a fresh sandbox of the
// project: what the sandbox before has left is gone. The home is the base's,
// whose Git configuration belongs to the vectors.
func (w *world) enter(base string) string {
	w.t.Helper()
	w.t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+rwX", base).Run() })
	name := filepath.Join(w.Dir, "enter")
	text := fmt.Sprintf(`#!/bin/sh
for d in %[1]s/domains/*/; do
	grep -qsF '"%[2]s"' "$d/domain.json" || continue
	flock "$d/lock" unshare --user --map-auto --map-root-user rm -rf "$d"
done
cd %[2]s && HOME=%[3]s/home XDG_CONFIG_HOME=%[4]s/.config XDG_RUNTIME_DIR=%[5]s exec %[6]s run --quiet -- "$@"
`, w.Data, w.Project, base, w.Dir, w.Runtime, e2etest.Binary())
	if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
		w.t.Fatal(err)
	}
	return name
}

// A home or a directory of configuration in the workspace would let the sandbox
// write the developer's Git configuration: such a start is refused.
func TestHomeInsideIsRefused(t *testing.T) {
	w := newWorld(t)
	w.host("git init -q")
	config := filepath.Join(w.Dir, ".config")
	w.Setenv("HOME", w.Project)
	w.Setenv("XDG_CONFIG_HOME", config)
	if r := w.inside("true"); r.Status != 125 || !strings.Contains(r.Stderr, "cannot use") {
		t.Errorf("HOME: %+v", r)
	}
	w.Setenv("HOME", w.Dir)
	w.Setenv("XDG_CONFIG_HOME", filepath.Join(w.Project, "config"))
	w.host(`mkdir -p config; cp -r "$1/lazaret" config/`, config)
	if r := w.inside("true"); r.Status != 125 || !strings.Contains(r.Stderr, "cannot use") {
		t.Errorf("XDG_CONFIG_HOME: %+v", r)
	}
}
