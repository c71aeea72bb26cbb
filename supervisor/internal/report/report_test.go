package report_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/testgate"
	"lazaret.dev/lazaret/supervisor/internal/report"
)

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	testgate.Need(t, testgate.Git)
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=n", "-c", "user.email=e@x"}, args...)...)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_EDITOR=true"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

// What each operation of Git's leaves behind is told, and what only moves
// forward or was there before is not. R9.
func TestCompare(t *testing.T) {
	write := func(t *testing.T, dir, name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		do   func(t *testing.T, dir string)
		want []string
	}{
		"nothing":            {func(*testing.T, string) {}, nil},
		"forward":            {func(t *testing.T, d string) { git(t, d, "commit", "-q", "--allow-empty", "-m", "x") }, nil},
		"forward and packed": {func(t *testing.T, d string) { git(t, d, "merge", "-q", "side"); git(t, d, "gc", "-q") }, nil},
		"amended": {
			func(t *testing.T, d string) { git(t, d, "commit", "-q", "--amend", "--allow-empty", "-m", "x") },
			[]string{"ref_moved refs/heads/main"},
		},
		"gone":   {func(t *testing.T, d string) { git(t, d, "branch", "-q", "-D", "side") }, []string{"ref_gone refs/heads/side"}},
		"new":    {func(t *testing.T, d string) { git(t, d, "tag", "v2") }, []string{"ref_new refs/tags/v2"}},
		"hidden": {func(t *testing.T, d string) { git(t, d, "update-index", "--skip-worktree", "a", "b") }, []string{"hidden a"}},
		"merging": {
			func(t *testing.T, d string) { git(t, d, "merge", "-q", "--no-ff", "--no-commit", "side") },
			[]string{"halfway MERGE_HEAD"},
		},
		"in a commit of another branch": {
			func(t *testing.T, d string) {
				git(t, d, "checkout", "-q", "side")
				for _, name := range []string{"docs/HEAD", "docs/objects/x", "docs/refs/heads/x", "deep/er/.envrc", "filter/x", "plain"} {
					if err := os.MkdirAll(filepath.Join(d, filepath.Dir(name)), 0o755); err != nil {
						t.Fatal(err)
					}
					write(t, d, name, "x")
				}
				git(t, d, "add", "-A")
				git(t, d, "commit", "-q", "-m", "evil")
				git(t, d, "checkout", "-q", "main")
				git(t, d, "update-index", "--assume-unchanged", "b")
			},
			[]string{"committed deep/er/.envrc", "committed docs", "committed filter/x"},
		},
		"lock": {func(t *testing.T, d string) { write(t, d, ".git/index.lock", "") }, []string{"lock index.lock"}},
		"ref to nowhere": {
			func(t *testing.T, d string) { write(t, d, ".git/refs/heads/main", strings.Repeat("ab", 20)+"\n") },
			[]string{"committed ", "ref_moved refs/heads/main"},
		},
		"ref that is none": {
			func(t *testing.T, d string) { write(t, d, ".git/refs/heads/main", "\x1b[31m\n") },
			[]string{"ref_moved refs/heads/main"},
		},
		"index that is none": {func(t *testing.T, d string) { write(t, d, ".git/index", "DIRC\xff\xff\xff\xff") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			git(t, dir, "init", "-q", "-b", "main")
			write(t, dir, "a", "a")
			write(t, dir, "b", "b")
			git(t, dir, "add", "-A")
			git(t, dir, "commit", "-q", "-m", "first")
			git(t, dir, "branch", "other")
			git(t, dir, "checkout", "-q", "-b", "side")
			git(t, dir, "commit", "-q", "--allow-empty", "-m", "second")
			git(t, dir, "checkout", "-q", "main")
			git(t, dir, "pack-refs", "--all")
			git(t, dir, "update-index", "--assume-unchanged", "b") // there before
			root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = unix.Close(root) }()
			obeyed := func(path string) string {
				if path == "filter/x" {
					return "the host"
				}
				tool, _ := report.Obeyed(path)
				return tool
			}
			before := report.Take(t.Context(), root, []string{".git"})
			tc.do(t, dir)
			var got []string
			for _, f := range report.Compare(t.Context(), root, before, report.Take(t.Context(), root, []string{".git"}), nil, obeyed) {
				got = append(got, fmt.Sprintf("%s %s", f.Kind, f.Path))
			}
			slices.Sort(got)
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// Names are known in any letters' case and at any depth; ordinary ones are not.
func TestObeyed(t *testing.T) {
	for path, want := range map[string]string{
		".envrc": "direnv", "a/b/.ENVRC": "direnv", ".husky/pre-commit": "husky", "x/.vscode/tasks.json": "Visual Studio Code",
		".pre-commit-config.yaml": "pre-commit", "src/main.go": "", "husky/x": "", "envrc": "",
	} {
		if tool, byGit := report.Obeyed(path); tool != want || byGit {
			t.Errorf("%q: %q, %v", path, tool, byGit)
		}
	}
	for _, path := range []string{".gitattributes", "a/.gitmodules", ".lfsconfig"} {
		if tool, byGit := report.Obeyed(path); tool != "" || !byGit {
			t.Errorf("%q: %q, %v", path, tool, byGit)
		}
	}
}

// What is noted is bounded, and follows renames.
func TestTouched(t *testing.T) {
	var x report.Touched
	x.Note("a/.envrc")
	x.Note("a/plain")
	x.Moved("a", "b/c")
	if got, lost := x.Paths(); !slices.Equal(got, []string{"b/c/.envrc"}) || lost != 0 {
		t.Errorf("%q, %d", got, lost)
	}
	for i := range 3000 {
		x.Note(fmt.Sprintf("d%d/.envrc", i))
	}
	if got, lost := x.Paths(); len(got) != 1000 || lost != 2001 {
		t.Errorf("%d, %d", len(got), lost)
	}
}
