package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lazaret.dev/lazaret/cmd/lazaret/e2etest"
	"lazaret.dev/lazaret/protocol/testgate"
)

// commits makes the project a Git repository with two commits of these files.
func commits(t *testing.T, h *e2etest.Home, files map[string]string) {
	t.Helper()
	testgate.Need(t, testgate.Git)
	for name, text := range files {
		path := filepath.Join(h.Project, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	onHost(t, h, "git", "init", "-q", "-b", "main")
	onHost(t, h, "git", "add", "-A")
	for _, m := range []string{"first", "second"} {
		onHost(t, h, "git", "-c", "user.name=n", "-c", "user.email=e@x", "commit", "-q", "--allow-empty", "-m", m)
	}
}

// onHost runs a command in the project, on the host.
func onHost(t *testing.T, h *e2etest.Home, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir, cmd.Env = h.Project, append(h.Env, "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q on the host: %v\n%s", args, err, out)
	}
	return string(out)
}

// identity is what Git inside needs to commit.
const identity = "git config --global user.name n; git config --global user.email e@x; git config --global safe.directory '*'\n"

// R9: the run that ends a sandbox says what it left behind, each of it by name,
// and nothing where there is nothing to say. Names cannot steer the terminal.
func TestReport(t *testing.T) {
	h := e2etest.New(t)
	commits(t, h, map[string]string{"a.txt": "a\n", ".gitignore": "secret\n", "secret": "s\n"})
	old := strings.TrimSpace(onHost(t, h, "git", "rev-parse", "HEAD"))
	onHost(t, h, "git", "tag", "v1")

	r := h.Lazaret("", "run", "--", "bash", "-ec", identity+"echo b >>a.txt; git commit -qam third; git status --porcelain; echo ok")
	if r.Status != 0 || !strings.HasSuffix(r.Stdout, "ok\n") || strings.Contains(r.Stderr, "report") {
		t.Fatalf("work that moves forward: %+v", r)
	}

	r = h.Lazaret("", "run", "--", "bash", "-c", identity+`
git branch side
git switch -q side; mkdir -p docs/objects docs/refs filter; echo 'ref: refs/heads/main' >docs/HEAD; touch docs/objects/x docs/refs/x filter/run
git add -A 2>/dev/null; git update-index --add --cacheinfo 100644,$(git hash-object -w a.txt),look/HEAD --cacheinfo 100644,$(git hash-object -w a.txt),look/objects/x --cacheinfo 100644,$(git hash-object -w a.txt),look/refs/x
git commit -qm evil; git switch -qf main
git reset -q --hard HEAD~2
git tag -d v1 >/dev/null
git replace HEAD HEAD~1 2>/dev/null || git replace -f HEAD $(git rev-parse side)
git update-index --assume-unchanged a.txt
cp .git/HEAD .git/x; git rev-parse side >.git/MERGE_HEAD
echo 'echo pwned' >.envrc
mkdir -p .vscode '`+"d\x1b[31m"+`'; echo {} >.vscode/tasks.json; echo x >'`+"d\x1b[31m/.envrc"+`'
echo '* binary' >.gitattributes
: >.gitignore
git init -q sub
git config core.hooksPath /tmp 2>/dev/null
echo done`)
	if r.Status != 0 || r.Stdout != "done\n" {
		t.Fatalf("%+v", r)
	}
	for _, want := range []string{
		`lazaret:   "MERGE_HEAD": a merge was left half-way`,
		`lazaret:   "refs/replace/`,
		`git status does not show changes of "a.txt" (assume-unchanged)`,
		`lazaret:   "refs/heads/main" was moved from `,
		`lazaret:   "refs/tags/v1" was removed; it was ` + old[:12],
		`lazaret:   ".envrc" was written: direnv may run it`,
		`lazaret:   "d\x1b[31m/.envrc" was written: direnv`,
		`lazaret:   ".vscode/tasks.json" was written: Visual Studio Code`,
		`lazaret:   commits of "refs/heads/side" bring "look": a checkout of it is obeyed or run by Git, which takes it for a repository`,
		`lazaret:   ".gitattributes" was written`,
		`lazaret:   ".gitignore" no longer ignores what it ignored (secret)`,
		`lazaret:   "sub/.git" was made inside`,
		`lazaret:   new refs: "refs/heads/side"`,
		`lazaret:   refused to `,
		`".git/config" decides what the host's Git runs or uses`,
	} {
		if !strings.Contains(r.Stderr, want) {
			t.Errorf("no %q in the report", want)
		}
	}
	if strings.ContainsAny(r.Stderr, "\x1b\r") {
		t.Errorf("a terminal would obey this: %q", r.Stderr)
	}
	if t.Failed() {
		t.Logf("stderr:\n%s\nstdout:\n%s", r.Stderr, r.Stdout)
	}
	h.NothingLeft(10 * time.Second)
}

// Issue 4, to build 8: report = false turns it off, and so does --quiet.
func TestReportOff(t *testing.T) {
	h := e2etest.New(t)
	h.Config("[profiles.loud]\n[profiles.still]\nreport = false\n")
	for _, tc := range []struct {
		args []string
		says bool
	}{
		{[]string{"run", "loud"}, true},
		{[]string{"run", "still"}, false},
		{[]string{"run", "loud", "--quiet"}, false},
	} {
		r := h.Lazaret("", append(tc.args, "--", "bash", "-c", "echo x >.envrc")...)
		if r.Status != 0 || strings.Contains(r.Stderr, `".envrc" was written`) != tc.says {
			t.Errorf("%q: %+v", tc.args, r)
		}
	}
}

// The session that ends the sandbox is told, and on a terminal it is told after
// that was given back.
func TestReportGoesToTheLast(t *testing.T) {
	h := e2etest.New(t)
	release := h.Hold("true")
	if r := h.Lazaret("", "run", "--", "sh", "-c", "echo x >.envrc"); r.Status != 0 || r.Stderr != "" {
		t.Errorf("the first to leave: %+v", r)
	}
	term := h.Terminal(24, 100, "run", "--", "sh", "-c", "printf '\\033[?1049hfull\\n'; read -r line")
	term.Expect("full", 20*time.Second)
	release()
	expect(t, h, 0, "", "stopped", "stop", "--yes")
	if got := term.Status(20 * time.Second); got != 143 {
		t.Errorf("status %d", got)
	}
	term.Restored()
	// The screen that the command drew on is gone, and the report is not on it.
	term.Expect(`lazaret:   "\.envrc" was written: direnv`, time.Second)
	out := term.Output()
	if end := strings.Index(out, "\x1b[?1049l"); end < 0 || end > strings.Index(out, "lazaret: report") {
		t.Errorf("the report is not after the end of the screen: %q", out)
	}
}
