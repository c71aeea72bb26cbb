package workspace_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// profile begins a profile, which is the only one.
const profile = "[profiles.own]\n"

// isolate_gitignored = false: ignored paths are shared both ways, and Git's
// own files stay guarded.
func TestWithoutIsolation(t *testing.T) {
	w := newWorld(t)
	w.withSecrets()
	w.Config(profile + "isolate_gitignored = false\n")
	release := w.Hold("")
	if got := w.must("cat .env private/deep/key mixed/own.txt"); strings.Count(got, secret) != 3 {
		t.Errorf("inside: %q", got)
	}
	w.must("echo mine >.env; mkdir -p private/new; echo x >private/new/f; rm excluded.txt")
	if got := w.host("cat .env private/new/f; ls excluded.txt 2>/dev/null || echo gone"); got != "mine\nx\ngone\n" {
		t.Errorf("on the host: %q", got)
	}
	w.guarded(t)
	release()

	// What the sandbox makes while it is isolated is not the host's.
	w.NothingLeft(10 * time.Second)
	w.Config(profile)
	if r := w.inside("cat .env && exit 1; echo own >.env"); r.Status != 0 {
		t.Errorf("isolated again: %+v", r)
	}
	w.NothingLeft(10 * time.Second)
	w.Config(profile + "isolate_gitignored = false\n")
	if got := w.must("cat .env"); got != "mine\n" {
		t.Errorf("shared again: %q", got)
	}
}

// guarded fails the test unless what Git would execute is out of reach.
func (w *world) guarded(t *testing.T) {
	t.Helper()
	before := w.read(".git/config")
	r := w.inside(`set +e
git config a.b c; echo '[core]' >>.git/config; echo x >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; ln -s /etc .git/link; mkdir -p n; git init -q n; mv .git g`)
	if !strings.Contains(r.Stderr, "Read-only file system") {
		t.Errorf("nothing is refused: %+v", r)
	}
	if got := w.read(".git/config"); got != before {
		t.Errorf("the configuration is now %q", got)
	}
	if got := w.host("ls -d .git/hooks/pre-commit .git/link .git/*.lock n/.git g 2>/dev/null || :"); got != "" {
		t.Errorf("on the host there is now\n%s", indent(got))
	}
}

// expose: a path is readable, is not writable, and nothing else appears.
func TestExpose(t *testing.T) {
	w := newWorld(t)
	w.withSecrets()
	w.Config(profile + "expose = [\".env\", \"private/deep\"]\n")
	defer w.Hold("")()
	if got := w.must("cat .env private/deep/key; ls -A private private/deep"); got != secret+" .env\n"+secret+" private/deep/key\nprivate:\ndeep\n\nprivate/deep:\nkey\n" {
		t.Errorf("inside: %q", got)
	}
	// To append opens well, and what is written then is refused: the shell's own
	// words for that are an I/O error.
	r := w.inside(`set +e
for n in .env private/deep/key; do
	echo x >$n; echo x >>$n; truncate -s 0 $n; chmod 600 $n; touch $n; rm -f $n; mv $n moved; ln $n linked; echo x >o; mv o $n
done 2>&1 | grep -v -e 'Read-only file system' -e 'echo: I/O error'
echo x >private/deep/new; mkdir private/deep/d; mv private/deep p; rmdir private/deep`)
	if r.Stdout != "" || strings.Count(r.Stderr, "Read-only file system") != 4 {
		t.Errorf("not all is refused as read-only: %+v", r)
	}
	for _, name := range []string{".env", "private/deep/key"} {
		if got := w.read(name); got != secret+" "+name+"\n" {
			t.Errorf("on the host %s is %q", name, got)
		}
	}
	for line := range strings.Lines(w.search("moved", "linked", "p/key")) {
		if at := strings.Fields(line)[1]; at != "/workspace/.env" && at != "/workspace/private/deep/key" {
			t.Errorf("also inside: %s", line)
		}
	}
	w.write(".env", "new\n")
	p := w.poll(".env")
	p.until(".env", "new\n")
	w.write(".env", "newer\n")
	p.until(".env", "newer\n")
}

// Bad values are refused before anything starts.
func TestBadWorkspaceOptions(t *testing.T) {
	w := newWorld(t)
	for _, line := range []string{
		`isolate_gitignored = "no"`, `isolate_gitignored = 1`, `hide_editor_dirs = "yes"`, `expose = ".env"`, `expose = [1]`,
		`expose = ["/etc/passwd"]`, `expose = ["../other"]`, `expose = ["a/../../other"]`, `expose = [""]`, `expose = ["a\u0000b"]`, `git_config_gate = "on"`,
	} {
		w.Config(profile + line + "\n")
		key, _, _ := strings.Cut(line, " ")
		if r := w.inside("true"); r.Status != 125 || !strings.Contains(r.Stderr, key) {
			t.Errorf("%s: %+v", line, r)
		}
	}
}

// hide_editor_dirs: the root's editor directories are empty inside, what is put
// there does not last, and on the host they are as they were.
func TestHiddenEditorDirectories(t *testing.T) {
	w := newWorld(t)
	w.write(".vscode/tasks.json", "{}\n")
	w.write("sub/.vscode/kept.json", "{}\n")
	w.host("git init -q; git add .; git commit -qm first")
	before := listing(t, filepath.Join(w.Project, ".vscode"), aspects{mtime: true, content: true}, nil)
	w.Config(profile + "hide_editor_dirs = true\n")
	for range 2 {
		if got := w.must("ls -A .vscode .idea; cat sub/.vscode/kept.json"); got != ".idea:\n\n.vscode:\n{}\n" {
			t.Errorf("inside: %q", got)
		}
		if got := w.must("echo evil >.vscode/tasks.json; mkdir -p .idea/x; echo evil >.idea/x/y; cat .vscode/tasks.json .idea/x/y"); got != "evil\nevil\n" {
			t.Errorf("inside, written: %q", got)
		}
		w.inside("rm -rf .vscode .idea; mv .vscode v; mkdir .vscode; echo evil >.vscode/settings.json")
		same(t, "on the host", before, listing(t, filepath.Join(w.Project, ".vscode"), aspects{mtime: true, content: true}, nil))
		if got := w.host("ls -d .idea v 2>/dev/null || :"); got != "" {
			t.Errorf("on the host there is now %q", got)
		}
		w.NothingLeft(10 * time.Second)
	}
	w.Config(profile)
	if got := w.must("cat .vscode/tasks.json"); got != "{}\n" {
		t.Errorf("without the option: %q", got)
	}
}
