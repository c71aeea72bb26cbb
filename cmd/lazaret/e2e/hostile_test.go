package e2e_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/cmd/lazaret/e2etest"
)

// What a sandbox leaves where Lazaret itself writes and reads at the next start
// does not keep it from starting.
func TestHostileBundle(t *testing.T) {
	h := e2etest.New(t)
	const bundle = "/etc/ssl/certs/ca-certificates.crt"
	for name, script := range map[string]string{
		"directories in the way": "mkdir -p /etc/ssl/certs/.lazaret-new/x; : >" + bundle,
		"too large, no accounts": "truncate -s 1T " + bundle + "; rm /etc/passwd; mkfifo /etc/passwd",
	} {
		t.Run(name, func(t *testing.T) {
			project := filepath.Join(h.Project, name)
			if err := os.Mkdir(project, 0o700); err != nil {
				t.Fatal(err)
			}
			if r := h.Lazaret("", "run", "--quiet", "--workspace", project, "--", "sh", "-euc", script); r.Status != 0 {
				t.Fatalf("%+v", r)
			}
			if r := h.Lazaret("", "run", "--quiet", "--workspace", project, "--", "echo", "fine"); r.Stdout != "fine\n" || r.Status != 0 {
				t.Errorf("the next start: %+v", r)
			}
		})
	}
}

// A runtime directory that goes while a start waits for the lock, as where old
// files are cleared away, is made again. Whoever waits makes none for the Domain.
func TestRuntimeDirectoryGoesWhileAStartWaits(t *testing.T) {
	h := e2etest.New(t)
	h.Must("true") // makes the Domain Root
	h.NothingLeft(10 * time.Second)
	lock, err := os.OpenFile(filepath.Join(domainDir(t, h), "lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	runtime := filepath.Join(h.Runtime, "lazaret")
	if err := os.Remove(runtime); err != nil {
		t.Fatal(err)
	}
	done := make(chan e2etest.Result)
	go func() { done <- h.Run("echo", "fine") }()
	eventually(t, "the start looks for its runtime directory", func() bool { return os.Remove(runtime) == nil })
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if r := <-done; r.Stdout != "fine\n" || r.Status != 0 {
		t.Errorf("%+v", r)
	}
}

// Descriptors that the CLI was started with are its own: nothing that it leaves
// running, and nothing of the sandbox, holds them.
func TestInheritedDescriptors(t *testing.T) {
	h := e2etest.New(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	ctx, cancel := context.WithTimeout(context.Background(), e2etest.Timeout)
	defer cancel()
	first := h.Command(ctx, "run", "--quiet", "--", "sh", "-c", "echo up; cat")
	first.ExtraFiles = []*os.File{nil, nil, nil, nil, nil, nil, nil, w}
	stdin, err := first.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := first.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(stdout, make([]byte, len("up\n"))); err != nil {
		t.Fatal(err)
	}
	release := h.Hold("") // keeps the Domain when the first terminal leaves
	defer release()
	_ = w.Close()
	_ = stdin.Close()
	if err := first.Wait(); err != nil {
		t.Fatal(err)
	}
	_ = r.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := r.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("somebody still holds the first terminal's pipe: %v", err)
	}
}

// A name is quoted, and never acts on the terminal: in errors, hints, notices.
func TestNamesDoNotActOnTheTerminal(t *testing.T) {
	h := e2etest.New(t)
	dir := filepath.Join(h.Dir, "a\x1b]0;owned\x07\rlazaret: fine")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for i, e := range h.Env {
		if strings.HasPrefix(e, "XDG_RUNTIME_DIR=") {
			h.Env[i] = "XDG_RUNTIME_DIR=" + dir // open to others: a notice
		}
	}
	h.Config(fmt.Sprintf("[profiles.x]\nimage = %q\n", "oci:"+dir))
	results := []e2etest.Result{h.Lazaret("", "run", "--", "true"), h.Lazaret("", "doctor")}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	data := h.Data
	defer func() { h.Data = data }()
	h.Data = dir // writable for others: an error with a hint
	h.Config("")
	results = append(results, h.Lazaret("", "run", "--", "true"))
	for _, r := range results {
		if strings.ContainsAny(r.Stdout+r.Stderr, "\x1b\a\r") {
			t.Errorf("raw: %q", r.Stdout+r.Stderr)
		}
	}
	if r := results[2]; r.Status != 125 || !strings.Contains(r.Stderr, "lazaret: hint: ") {
		t.Errorf("%+v", r)
	}
}

// A coordinator that is asked to end during a start says that, and not what it
// does to the start's steps.
func TestAskedToEndWhileStarting(t *testing.T) {
	h := e2etest.New(t)
	for i := range 4 {
		done := make(chan e2etest.Result)
		go func() { done <- h.Run("true") }()
		c := h.Find("lazaret _coordinator")
		time.Sleep(time.Duration(i) * 100 * time.Millisecond) // at different steps
		if err := unix.Kill(c.PID, unix.SIGTERM); err != nil {
			t.Fatal(err)
		}
		r := <-done
		said := strings.Contains(r.Stderr, "lazaret: error: the coordinator was asked to end\n") ||
			// It had not got as far as to hear.
			i == 0 && strings.Contains(r.Stderr, "lazaret: error: the Host Coordinator ended while it started")
		if r.Status == 125 && !said || r.Status != 125 && i == 0 {
			t.Errorf("after %d00 ms: %+v", i, r)
		}
		h.NothingLeft(10 * time.Second)
	}
}

// Programs of the host are not taken from where a sandbox can write, though the
// developer's PATH leads there: a virtual environment of this project or of
// another one that has been a workspace.
func TestProgramsOfASandboxDoNotRunOnTheHost(t *testing.T) {
	h := e2etest.New(t)
	ran := filepath.Join(h.Dir, "ran")
	h.Must("sh", "-euc", fmt.Sprintf(`mkdir -p .venv/bin
for p in slirp4netns newuidmap newgidmap getsubids runsc; do
	printf '#!/bin/sh\necho "$0" >>%s; exec /usr/bin/$(basename "$0") "$@"\n' >.venv/bin/$p
	chmod 755 .venv/bin/$p
done`, ran))
	h.NothingLeft(10 * time.Second)
	h.Setenv("PATH", filepath.Join(h.Project, ".venv/bin")+":"+os.Getenv("PATH"))
	other := filepath.Join(h.Dir, "other")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, workspace := range []string{h.Project, other} {
		if r := h.Lazaret("", "run", "--quiet", "--workspace", workspace, "--", "echo", "fine"); r.Stdout != "fine\n" || r.Status != 0 {
			t.Errorf("%+v", r)
		}
	}
	h.Lazaret("", "doctor")
	if b, err := os.ReadFile(ran); err == nil {
		t.Errorf("programs that the sandbox has put there ran on the host:\n%s", b)
	}
}
