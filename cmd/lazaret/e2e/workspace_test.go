package e2e_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/cmd/lazaret/e2etest"
	"lazaret.dev/lazaret/protocol/testgate"
)

// put writes a file of the project, on the host.
func put(t *testing.T, h *e2etest.Home, name, text string) {
	t.Helper()
	path := filepath.Join(h.Project, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// gitProject makes the project a Git repository, whose first commit has the
// files.
func gitProject(t *testing.T, h *e2etest.Home, files map[string]string) {
	t.Helper()
	testgate.Need(t, testgate.Git)
	for name, text := range files {
		put(t, h, name, text)
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"},
		{"add", "-A"},
		{"-c", "user.name=n", "-c", "user.email=e@x", "commit", "-q", "--allow-empty", "-m", "first"},
	} {
		hostGit(t, h, args...)
	}
}

func hostGit(t *testing.T, h *e2etest.Home, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir, cmd.Env = h.Project, append(h.Env, "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q on the host: %v\n%s", args, err, out)
	}
	return string(out)
}

// projectTree describes the project on the host, but for .git: names, types,
// modes, times and contents.
func projectTree(t *testing.T, h *e2etest.Home) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(h.Project, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case d.Name() == ".git":
			return filepath.SkipDir
		case path == h.Project:
			return nil // something may have been there for a while
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %v %d", strings.TrimPrefix(path, h.Project), fi.Mode(), fi.ModTime().UnixNano())
		if fi.Mode().IsRegular() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %x", sha256.Sum256(text))
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// observer answers questions about files from inside one session.
const observer = `
import os, sys
held = {}
for line in sys.stdin:
    verb, path = line.rstrip("\n").split(" ", 1)
    try:
        if verb == "hold":
            held[path] = open(path, "rb")
            print("held", flush=True)
            continue
        f = held[path] if verb == "held" else open(path, "rb")
        f.seek(0)
        text, size = f.read(), os.fstat(f.fileno()).st_size
        print(len(text) == size and os.stat(path).st_size == size or verb == "held", size, text.decode()[:40].encode("unicode_escape").decode(), flush=True)
    except OSError as e:
        print(e.strerror, flush=True)
`

// asker starts a session that answers.
func asker(t *testing.T, h *e2etest.Home) func(line string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := h.Command(ctx, "run", "--quiet", "--", "python3", "-uc", observer)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
		cancel()
	})
	answers := bufio.NewReader(out)
	return func(line string) string {
		t.Helper()
		if _, err := io.WriteString(in, line+"\n"); err != nil {
			t.Fatal(err)
		}
		answer, err := answers.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSuffix(answer, "\n")
	}
}

// FR-3, case 51, must-show 7: a host edit is seen inside within a second, size
// and content agreeing, also through a file that is open.
func TestHostEditsInside(t *testing.T) {
	h := e2etest.New(t)
	put(t, h, "d/held", "one")
	ask := asker(t, h)
	if got := ask("hold d/held"); got != "held" {
		t.Fatal(got)
	}
	soon := func(what, question, want string) {
		t.Helper()
		got := ""
		for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			if got = ask(question); got == want {
				return
			}
		}
		t.Errorf("%s: after a second %q says %q, want %q", what, question, got, want)
	}
	const gone = "No such file or directory"
	for i := range 4 {
		name := fmt.Sprint("d/f", i)
		soon("missing", "read "+name, gone)
		put(t, h, name, "made")
		soon("created", "read "+name, "True 4 made")
		f, err := os.OpenFile(filepath.Join(h.Project, name), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(" longer"); err != nil {
			t.Fatal(err)
		}
		soon("appended", "read "+name, "True 11 made longer")
		if err := errors.Join(f.Truncate(2), f.Close()); err != nil {
			t.Fatal(err)
		}
		soon("truncated", "read "+name, "True 2 ma")
		put(t, h, "tmp", "replaced")
		if err := os.Rename(filepath.Join(h.Project, "tmp"), filepath.Join(h.Project, name)); err != nil {
			t.Fatal(err)
		}
		soon("replaced", "read "+name, "True 8 replaced")
		if err := os.Remove(filepath.Join(h.Project, name)); err != nil {
			t.Fatal(err)
		}
		soon("removed", "read "+name, gone)
		put(t, h, "d/held", strings.Repeat("x", i+1))
		soon("held open", "held d/held", fmt.Sprintf("True %d %s", i+1, strings.Repeat("x", i+1)))
	}
}

// SR-13, FR-4, DX-2, must-show 5: what Git ignores is the Domain's own. The usual
// tools work on it, the next generation has it, and the host's is untouched.
func TestIgnoredWorkspaceState(t *testing.T) {
	h := e2etest.New(t)
	gitProject(t, h, map[string]string{
		".gitignore": "node_modules/\ntarget/\n.venv/\n.env\n*.db*\n", "package.json": "{}", "a/b/code": "x",
	})
	for _, name := range []string{"node_modules/m/host", "target/host", ".venv/host", ".env", "a/b/node_modules/host"} {
		put(t, h, name, "the host's secret")
	}
	before := projectTree(t, h)
	h.Must("sh", "-ec", `
		! grep -rq 'secret' . ; ! [ -e .env ]; ! [ -e node_modules ]; ! [ -e a/b/node_modules ]
		mkdir node_modules; echo x >node_modules/x; rm -rf node_modules && mkdir node_modules; echo own >node_modules/own
		mkdir target; echo t >target/t; mv target target.old; mv target.old target
		python3 -m venv --without-pip .venv; python3 -m venv --without-pip --clear .venv; .venv/bin/python -c pass
		mkdir a/b/node_modules; ln -s ../code a/b/node_modules/link; cat a/b/node_modules/link
		git -c safe.directory='*' status --porcelain
		python3 - <<-'P'
			import sqlite3
			c = sqlite3.connect("x.db")
			c.execute("pragma journal_mode=wal")
			c.execute("create table t (n)")
			for i in range(200):
			    with c:
			        c.execute("insert into t values (?)", (i,))
			assert c.execute("select count(*) from t").fetchone() == (200,)
			assert c.execute("pragma integrity_check").fetchone() == ("ok",)
		P
	`)
	if after := projectTree(t, h); after != before {
		t.Errorf("the host has changed:\n%s\nbefore:\n%s", after, before)
	}
	if out := h.Must("sh", "-ec", "cat node_modules/own target/t; ls .venv/bin/python x.db"); out != "own\nt\n.venv/bin/python\nx.db\n" {
		t.Errorf("in the next generation: %q", out)
	}
	h.Must("sh", "-ec", "git -c safe.directory='*' clean -fdxq; ! [ -e node_modules ]; ! [ -e .venv ]")
	if after := projectTree(t, h); after != before {
		t.Errorf("the host has changed:\n%s\nbefore:\n%s", after, before)
	}
}

// FR-9, must-show 11: isolation can be switched off, single files exposed, and
// editors' directories hidden.
func TestIsolationSettings(t *testing.T) {
	h := e2etest.New(t)
	gitProject(t, h, map[string]string{".gitignore": ".env\nother\nbuild/\n", ".vscode/tasks.json": "{}"})
	for _, name := range []string{".env", "other", "build/out", ".idea/x"} {
		put(t, h, name, "host's "+name)
	}
	before := projectTree(t, h)
	h.Config("[profiles.some]\nexpose = [\".env\"]\nhide_editor_dirs = true\n")
	out := h.Must("sh", "-c", `cat .env; echo; echo x >>.env; rm .env; mv .env e; chmod 600 .env; ls -A .vscode .idea; echo mine >.vscode/tasks.json; cat .vscode/tasks.json; cat other build/out; ls -A`)
	if want := "host's .env\n.idea:\n\n.vscode:\nmine\n.env\n.git\n.gitignore\n.idea\n.vscode\n"; out != want {
		t.Errorf("inside: %q, want %q", out, want)
	}
	if after := projectTree(t, h); after != before {
		t.Errorf("the host has changed:\n%s\nbefore:\n%s", after, before)
	}
	h.Config("[profiles.some]\nisolate_gitignored = false\n")
	if out := h.Must("sh", "-ec", "cat other; echo changed >other; echo new >build/new; ls -A .vscode; ! (echo x >>.git/config) 2>/dev/null"); out != "host's othertasks.json\n" {
		t.Errorf("inside: %q", out)
	}
	for name, want := range map[string]string{"other": "changed\n", "build/new": "new\n"} {
		if b, err := os.ReadFile(filepath.Join(h.Project, name)); err != nil || string(b) != want {
			t.Errorf("%s on the host: %q, %v", name, b, err)
		}
	}
	for _, bad := range []string{"expose = [\"/etc/passwd\"]", "expose = [\"../x\"]", "expose = 1", "isolate_gitignored = \"no\"", "hide_editor_dirs = 2"} {
		h.Config("[profiles.some]\n" + bad + "\n")
		if r := h.Run("true"); r.Status != 125 {
			t.Errorf("%s: status %d, %s", bad, r.Status, r.Stderr)
		}
	}
}

// Case 74: sockets and FIFOs made inside work inside and are not on the host;
// the host's lead nowhere and hold nobody up.
func TestSocketsAndFIFOs(t *testing.T) {
	h := e2etest.New(t)
	t.Chdir(h.Project)
	l, err := net.Listen("unix", "live")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if err := unix.Mkfifo("fifo", 0o666); err != nil {
		t.Fatal(err)
	}
	h.Must("python3", "-c", `
import os, socket
for name in ("live", "fifo"):
    try:
        open(name).read()
        raise SystemExit(name + " opens")
    except OSError:
        pass
s = socket.socket(socket.AF_UNIX)
try:
    s.connect("live")
    raise SystemExit("the host is reached")
except OSError:
    pass
l = socket.socket(socket.AF_UNIX)
l.bind("own")
l.listen()
s = socket.socket(socket.AF_UNIX)
s.connect("own")
l.accept()
os.mkfifo("mine")
if os.fork() == 0:
    open("mine", "w").write("through")
    os._exit(0)
assert open("mine").read() == "through"
`)
	for _, name := range []string{"own", "mine"} {
		if _, err := os.Lstat(name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is on the host: %v", name, err)
		}
	}
}

// On the host everything is the developer's, whatever a program inside gives
// files to; and no set-id bit gets there.
func TestOwnersInside(t *testing.T) {
	h := e2etest.New(t)
	out := h.Must("sh", "-ec", `
		mkdir /tmp/x; echo a >/tmp/x/a; chmod 4755 /tmp/x/a; chown 1234:1234 /tmp/x/a; tar -C /tmp -cf /tmp/x.tar x
		tar -xpf /tmp/x.tar; stat -c '%u:%g %a' x/a; chown -R 65534:65534 x; stat -c %u x x/a; cp -a x y; stat -c %u y/a`)
	if out != "1234:1234 755\n65534\n65534\n65534\n" {
		t.Errorf("inside: %q", out)
	}
	err := filepath.WalkDir(h.Project, func(path string, _ os.DirEntry, err error) error {
		var st unix.Stat_t
		if err := errors.Join(err, unix.Lstat(path, &st)); err != nil {
			return err
		}
		if int(st.Uid) != os.Getuid() || int(st.Gid) != os.Getgid() || st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
			t.Errorf("%s: owner %d:%d, mode %o", path, st.Uid, st.Gid, st.Mode)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
