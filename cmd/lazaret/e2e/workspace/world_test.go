package workspace_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lazaret.dev/lazaret/cmd/lazaret/e2etest"
	"lazaret.dev/lazaret/protocol/testgate"
)

// patience bounds one script, inside or on the host.
const patience = 5 * time.Minute

// identity is who commits, on both sides: commits of the same content at the
// same place in history have the same names.
const identity = `export GIT_AUTHOR_NAME=Dev GIT_AUTHOR_EMAIL=dev@example.org GIT_COMMITTER_NAME=Dev GIT_COMMITTER_EMAIL=dev@example.org
export GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000' GIT_EDITOR=true GIT_PAGER=cat GIT_TERMINAL_PROMPT=0
`

// world is a developer's home with one project that Git knows.
type world struct {
	*e2etest.Home
	t *testing.T
}

// newWorld makes a home whose project is empty.
func newWorld(t *testing.T) *world {
	t.Helper()
	testgate.Need(t, testgate.Git)
	w := &world{Home: e2etest.New(t), t: t}
	w.write(filepath.Join(w.Dir, ".gitconfig"), "[user]\n\tname = Dev\n\temail = dev@example.org\n[init]\n\tdefaultBranch = main\n"+
		"[gc]\n\tautoDetach = false\n[maintenance]\n\tautoDetach = false\n[advice]\n\tdetachedHead = false\n[protocol \"file\"]\n\tallow = always\n")
	return w
}

// write writes a file of the host's; a relative name lies in the project.
func (w *world) write(name, text string) {
	w.t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(w.Project, name)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// read reads a file of the host's.
func (w *world) read(name string) string {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(w.Project, name))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

// hostEnv is the environment of the developer's own commands.
func (w *world) hostEnv() []string {
	return []string{
		"HOME=" + w.Dir, "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "TERM=dumb", "GIT_CONFIG_NOSYSTEM=1", "TMPDIR=" + os.TempDir(),
	}
}

// try runs a shell script of the developer's on the host, in a directory.
func (w *world) try(dir, script string, args ...string) e2etest.Result {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-euc", identity + script, "sh"}, args...)...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, w.hostEnv(), 5*time.Second
	var out, errb bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errb
	err := cmd.Run()
	if ctx.Err() != nil {
		w.t.Fatalf("on the host, did not end within %s: %s\n%s%s", patience, script, out.String(), errb.String())
	}
	return e2etest.Result{Stdout: out.String(), Stderr: errb.String(), Status: e2etest.Status(w.t, err)}
}

// host runs a script on the host, in the project, which has to succeed.
func (w *world) host(script string, args ...string) string {
	w.t.Helper()
	r := w.try(w.Project, script, args...)
	if r.Status != 0 {
		w.t.Fatalf("on the host: %s\nstatus %d\nstdout: %s\nstderr: %s", script, r.Status, r.Stdout, r.Stderr)
	}
	return r.Stdout
}

// inside runs a script in the sandbox.
func (w *world) inside(script string, args ...string) e2etest.Result {
	w.t.Helper()
	return w.command(append([]string{"sh", "-euc", identity + script, "sh"}, args...)...)
}

// command runs a command in the sandbox.
func (w *world) command(args ...string) e2etest.Result {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := w.Command(ctx, append([]string{"run", "--quiet", "--"}, args...)...)
	var out, errb bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errb
	err := cmd.Run()
	if ctx.Err() != nil {
		w.t.Fatalf("inside, did not end within %s: %q\n%s%s", patience, args, out.String(), errb.String())
	}
	return e2etest.Result{Stdout: out.String(), Stderr: errb.String(), Status: e2etest.Status(w.t, err)}
}

// must runs a script in the sandbox that has to succeed.
func (w *world) must(script string, args ...string) string {
	w.t.Helper()
	r := w.inside(script, args...)
	if r.Status != 0 {
		w.t.Fatalf("inside: %s\nstatus %d\nstdout: %s\nstderr: %s", script, r.Status, r.Stdout, r.Stderr)
	}
	return r.Stdout
}

// in makes an empty directory the project.
func (w *world) in(name string) {
	w.t.Helper()
	w.Project = filepath.Join(filepath.Dir(w.Dir), name)
	if err := os.Mkdir(w.Project, 0o755); err != nil {
		w.t.Fatal(err)
	}
}

// long tells whether sampled tests run in full.
func long() bool { return os.Getenv("LAZARET_TEST_LONG") != "" }

// dice makes the random numbers of a run that can be repeated.
func dice(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano()) & (1<<53 - 1)
	if s := os.Getenv("LAZARET_TEST_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	t.Logf("LAZARET_TEST_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// aspects is what a listing tells of an entry.
type aspects struct{ mtime, content bool }

// listing lists everything below dir: name, type and mode, and what is asked
// for. A directory for which skip is true is left out with all below it.
func listing(t *testing.T, dir string, a aspects, skip func(rel string) bool) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) {
			out = append(out, fmt.Sprintf("%q cannot be read", name))
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		if skip != nil && skip(rel) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%q %v", rel, fi.Mode())
		if st := fi.Sys().(*syscall.Stat_t); !d.IsDir() {
			line += fmt.Sprintf(" links %d size %d", st.Nlink, st.Size)
		}
		if a.mtime {
			line += " " + fi.ModTime().Format(time.RFC3339Nano)
		}
		if a.content && fi.Mode().IsRegular() {
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %x", sha256.Sum256(b))
		}
		if fi.Mode()&fs.ModeSymlink != 0 {
			to, err := os.Readlink(name)
			if err != nil {
				return err
			}
			line += " -> " + to
		}
		out = append(out, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// indent makes a text that fits below a line.
func indent(s string) string {
	return "\t" + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n\t")
}
