package e2e_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"lazaret.dev/lazaret/cmd/lazaret/e2etest"
)

// repository is a Git repository on the host, used there as by its developer.
type repository struct {
	t   *testing.T
	h   *e2etest.Home
	dir string
}

// newRepository makes the project a repository of a few files, all older than
// its index, so that Git has no reason to read them again.
func newRepository(t *testing.T, h *e2etest.Home) *repository {
	t.Helper()
	r := &repository{t: t, h: h, dir: h.Project}
	if err := os.Chmod(h.Project, 0o755); err != nil {
		t.Fatal(err)
	}
	r.write(filepath.Join(h.Dir, ".gitconfig"), "[user]\n\tname = Ada Lovelace\n\temail = ada@example.org\n")
	r.git("init", "-q", "-b", "main")
	old := time.Now().Add(-time.Hour)
	for i := range 20 {
		name := filepath.Join(r.dir, fmt.Sprintf("f%d", i))
		r.write(name, name)
		if err := os.Chtimes(name, old, old); err != nil {
			t.Fatal(err)
		}
	}
	r.git("add", ".")
	r.git("commit", "-qm", "first")
	return r
}

func (r *repository) write(path, text string) {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// git runs Git on the host.
func (r *repository) git(args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "git", args...)
	cmd.Dir = r.dir
	cmd.Env = []string{"HOME=" + r.h.Dir, "PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// index is the index's bytes and its identity: a Git that writes it makes a
// new file.
func (r *repository) index() string {
	r.t.Helper()
	name := filepath.Join(r.dir, ".git/index")
	b, err := os.ReadFile(name)
	if err != nil {
		r.t.Fatal(err)
	}
	fi, err := os.Stat(name)
	if err != nil {
		r.t.Fatal(err)
	}
	return fmt.Sprintf("%s %x", fi.ModTime().Format(time.RFC3339Nano), b)
}

// FR-3, DX-3, case 30: Git inside knows who its developer is and what they
// ignore, in every environment and for every user, and nothing that is secret.
func TestGitKnowsTheDeveloper(t *testing.T) {
	h := e2etest.New(t)
	r := newRepository(t, h)
	r.write(filepath.Join(h.Dir, ".gitconfig"), `[user]
	name = Ada Lovelace
	signingKey = /keys/hunter2
[includeIf "gitdir:`+h.Project+`/"]
	path = work
[commit]
	gpgSign = true
[credential]
	helper = store --file=/hunter2
[url "https://hunter2@host/"]
	insteadOf = https://host/
[http]
	extraHeader = Authorization: hunter2
[core]
	sshCommand = ssh -i hunter2
	hooksPath = /hunter2
	excludesFile = ~/ignored
`)
	r.write(filepath.Join(h.Dir, "work"), "[user]\n\temail = ada@work.example\n")
	r.write(filepath.Join(h.Dir, "ignored"), "*.swp\n")
	// Case 61
	h.Setenv("GIT_DIR", filepath.Join(h.Dir, "elsewhere"))
	h.Setenv("GIT_INDEX_FILE", filepath.Join(h.Dir, "index"))
	h.Setenv("GIT_AUTHOR_NAME", "hunter2")
	defer h.Hold("")()

	out := h.Must("sh", "-ec", "echo new >new; touch x.swp; git add -A; git commit -qm inside; git status --porcelain")
	if out != "" {
		t.Errorf("status after a commit: %q", out)
	}
	if got := r.git("log", "-1", "--format=%an <%ae> %cn <%ce>%n", "--name-only"); got != "Ada Lovelace <ada@work.example> Ada Lovelace <ada@work.example>\n\n\nnew\n" {
		t.Errorf("the commit is %q", got)
	}
	for _, command := range []string{
		"env -i /usr/bin/git log --format=%s",
		"env -i su -s /bin/sh nobody -c 'cd /workspace && /usr/bin/git log --format=%s'",
		"env -i sh -c '/usr/bin/git var GIT_COMMITTER_IDENT >/dev/null && /usr/bin/git status --porcelain && /usr/bin/git log --format=%s'",
	} {
		if got := h.Must("sh", "-c", command); got != "inside\nfirst\n" {
			t.Errorf("%s: %q", command, got)
		}
	}
	if got := h.Must("sh", "-c", "env; cat /etc/gitconfig /run/lazaret/git/*; git config --list; find /etc /root /run -xdev -type f -exec grep -l hunter2 {} +; true"); strings.Contains(got, "hunter2") {
		t.Errorf("a secret of the host is inside:\n%s", got)
	}
	for line := range strings.Lines(h.Must("env")) {
		if strings.HasPrefix(line, "GIT_") && !strings.HasPrefix(line, "GIT_CONFIG_") {
			t.Errorf("inside: %s", line)
		}
	}
	if res := h.Run("sh", "-c", "echo x >/run/lazaret/git/config"); res.Status == 0 {
		t.Error("the configuration can be changed inside")
	}
}

// What users inside configure is theirs, and stays.
func TestGitConfigurationInside(t *testing.T) {
	h := e2etest.New(t)
	r := newRepository(t, h)
	h.Must("sh", "-ec", "git config --global user.name Inside; git config --system pull.rebase true")
	h.Must("sh", "-ec", "echo 1 >new; git add new; git commit -qm m; test $(git config pull.rebase) = true")
	if got := r.git("log", "-1", "--format=%an <%ae>"); got != "Inside <ada@example.org>\n" {
		t.Errorf("the commit is %q", got)
	}
	// A name that changes on the host is the new one at the next start, though
	// /etc/gitconfig has been written inside.
	r.git("config", "--global", "user.email", "new@example.org")
	if got := h.Must("git", "config", "user.email"); got != "new@example.org\n" {
		t.Errorf("the address is %q", got)
	}
}

// An image's own /etc/gitconfig is still there.
func TestGitConfigurationOfTheImage(t *testing.T) {
	h := e2etest.New(t)
	const own = "[core]\n\tabbrev = 12\n"
	img := e2etest.Small(t, v1.Config{},
		tar.Header{Name: "etc/", Typeflag: tar.TypeDir, Mode: 0o755},
		tar.Header{Name: "etc/gitconfig", Typeflag: tar.TypeReg, Mode: 0o644, Linkname: own})
	h.Config(fmt.Sprintf("[profiles.small]\nimage = %q\n", e2etest.Archive(t, img)))
	want := "[include]\n\tpath = /run/lazaret/git/config\n" + own
	if got := h.Must("cat", "/etc/gitconfig"); got != want {
		t.Errorf("/etc/gitconfig is %q", got)
	}
	link := e2etest.Small(t, v1.Config{},
		tar.Header{Name: "etc/", Typeflag: tar.TypeDir, Mode: 0o755},
		tar.Header{Name: "etc/gitconfig", Typeflag: tar.TypeSymlink, Linkname: "other"},
		tar.Header{Name: "etc/other", Typeflag: tar.TypeReg, Mode: 0o644, Linkname: own})
	h.Config(fmt.Sprintf("[profiles.small]\nimage = %q\n", e2etest.Archive(t, link)))
	if got := h.Must("cat", "/etc/gitconfig"); got != own {
		t.Errorf("a link at /etc/gitconfig leads to %q", got)
	}
}

// Host and sandbox look in turn, and neither makes the other read the project
// again: no index is written.
func TestGitIndexIsNotPingPong(t *testing.T) {
	h := e2etest.New(t)
	r := newRepository(t, h)
	defer h.Hold("")()
	r.git("status")
	before := r.index()
	for range 3 {
		if got := h.Must("git", "status", "--porcelain"); got != "" {
			t.Errorf("status inside: %q", got)
		}
		if r.index() != before {
			t.Fatal("git status inside has written the index")
		}
		if got := r.git("status", "--porcelain"); got != "" {
			t.Errorf("status outside: %q", got)
		}
		if r.index() != before {
			t.Fatal("git status outside has written the index")
		}
	}
	// Every environment, not the sessions' alone.
	h.Must("env", "-i", "/usr/bin/git", "status")
	if r.index() != before {
		t.Error("git status without an environment has written the index")
	}
}

// Case 8: worktrees of the host that are not visible inside are not pruned.
func TestGitKeepsTheHostsWorktrees(t *testing.T) {
	h := e2etest.New(t)
	r := newRepository(t, h)
	for _, name := range []string{"one", "two"} {
		r.git("worktree", "add", "-q", filepath.Join(h.Dir, name))
	}
	// Git prunes those that have been gone for three months.
	old := time.Now().AddDate(-1, 0, 0)
	err := filepath.WalkDir(filepath.Join(r.dir, ".git/worktrees"), func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, old, old)
	})
	if err != nil {
		t.Fatal(err)
	}
	before := r.git("worktree", "list", "--porcelain")
	if strings.Count(before, "worktree ") != 3 {
		t.Fatalf("worktrees: %q", before)
	}
	defer h.Hold("")()
	for _, command := range []string{"git gc -q", "git maintenance run", "env -i /usr/bin/git gc -q", "git worktree list"} {
		h.Must("sh", "-c", command)
		if d := cmp.Diff(before, r.git("worktree", "list", "--porcelain")); d != "" {
			t.Fatalf("after %s:\n%s", command, d)
		}
	}
}

// Case 28: whatever a repository configures, Lazaret runs nothing of it on the
// host, and leaves the index alone.
func TestHostileRepositoryRunsNothing(t *testing.T) {
	h := e2etest.New(t)
	r := newRepository(t, h)
	canaries := filepath.Join(h.Dir, "canaries")
	if err := os.Mkdir(canaries, 0o700); err != nil {
		t.Fatal(err)
	}
	canary := func(name string) string {
		path := filepath.Join(h.Dir, "fire-"+name)
		r.write(path, "#!/bin/sh\n: >'"+filepath.Join(canaries, name)+"'\ncat\n")
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	r.write(filepath.Join(r.dir, ".gitattributes"), "* filter=x diff=x\n")
	r.write(filepath.Join(r.dir, "included"), "[core]\n\tfsmonitor = "+canary("include")+"\n")
	for key, name := range map[string]string{
		"filter.x.clean": "clean", "filter.x.process": "process", "diff.external": "external", "diff.x.textconv": "textconv",
		"core.pager": "pager", "core.sshCommand": "ssh", "core.hooksPath": "hooks", "core.editor": "editor",
	} {
		r.git("config", key, canary(name))
	}
	for _, command := range []string{"config", "status", "ls-files", "check-ignore", "var"} {
		r.git("config", "alias."+command, "!"+canary("alias"))
	}
	r.git("config", "core.fsmonitor", canary("fsmonitor"))
	r.git("config", "include.path", "../included")
	fired := func() string {
		names, err := filepath.Glob(canaries + "/*")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(names, " ")
	}
	if ran := fired(); ran != "" {
		t.Fatalf("the test's own preparation ran %s", ran)
	}
	before := r.index()
	if got := h.Lazaret("", "run", "--", "true"); got.Status != 0 {
		t.Errorf("%+v", got)
	}
	h.Lazaret("", "doctor")
	if ran := fired(); ran != "" {
		t.Errorf("lazaret ran %s", ran)
	}
	if r.index() != before {
		t.Error("lazaret has written the index")
	}
	r.git("status")
	if fired() == "" {
		t.Error("the repository is harmless")
	}
}

// R8, vector h_home: what Git on the host obeys must be out of reach.
func TestGitConfigurationInReach(t *testing.T) {
	h := e2etest.New(t)
	r := newRepository(t, h)
	file := filepath.Join(h.Dir, ".gitconfig")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string) {
		t.Helper()
		res := h.Lazaret("", "run", "--", "true")
		if res.Status != 125 || !strings.Contains(res.Stderr, what) || !strings.Contains(res.Stderr, "lazaret: hint: ") {
			t.Errorf("%s: %+v", what, res)
		}
		if left := h.Processes(); len(left) != 0 {
			t.Errorf("processes after a refusal: %v", left)
		}
	}
	// Dotfiles that are the project.
	r.write(filepath.Join(r.dir, "gitconfig"), string(text))
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(r.dir, "gitconfig"), file); err != nil {
		t.Fatal(err)
	}
	refused(".gitconfig")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	r.write(file, string(text)+"[alias]\n\tx = !"+r.dir+"/tool\n")
	refused("alias.x")
	r.write(file, string(text)+"[include]\n\tpath = "+r.dir+"/absent\n")
	refused("absent")
	xdg := filepath.Join(r.dir, "xdg")
	r.write(filepath.Join(xdg, "git/config"), "")
	r.write(file, string(text))
	h.Must("true")
	h.Env = slices.Concat(h.Env, []string{"XDG_CONFIG_HOME=" + xdg})
	// Without --config Lazaret's own would be there too.
	res := h.Lazaret("", "--config", filepath.Join(h.Dir, ".config/lazaret/config.toml"), "run", "--", "true")
	if res.Status != 125 || !strings.Contains(res.Stderr, xdg) {
		t.Errorf("XDG_CONFIG_HOME: %+v", res)
	}
	if b, err := os.ReadFile(file); err != nil || !bytes.Equal(b, text) {
		t.Errorf("the developer's configuration is now %q, %v", b, err)
	}
}
