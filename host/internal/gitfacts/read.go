package gitfacts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/launch"
)

const (
	// limit is how long one question may take. A repository can make Git wait
	// for ever, with a named pipe that its configuration includes.
	limit = 2 * time.Second

	// maxListing bounds an answer, in bytes.
	maxListing = 4 << 20
)

// entry is one line of configuration.
type entry struct {
	scope  launch.GitScope
	origin string // the file, absolute
	key    string // section and name in lower case
	value  string
	flag   bool // no value at all, which means true
}

// last returns the value that counts.
func last(entries []entry, key string) (string, bool) {
	for _, e := range slices.Backward(entries) {
		if e.key == key && !e.flag {
			return e.value, true
		}
	}
	return "", false
}

// reader asks Git for the developer's and the system's configuration.
type reader struct {
	o        Options
	places   places
	outside  bool // do not look at the workspace's repository any more
	warnings []string
}

// readAll reads all files, with what they include under the conditions that
// hold in the workspace.
func (r *reader) readAll(ctx context.Context) []entry {
	out := r.read(ctx, launch.GitSystem, "--system")
	for _, f := range r.places.global {
		if s, err := readFile(f); err != nil || len(s.Text) == 0 {
			continue // Git complains of a file that is not there
		}
		out = append(out, r.read(ctx, launch.GitGlobal, "--file", f)...)
	}
	return out
}

// read reads one file. A repository whose own configuration cannot be read
// makes every question in it fail: then conditions count as not fulfilled.
func (r *reader) read(ctx context.Context, scope launch.GitScope, which ...string) []entry {
	var first error // in the project; the second try is outside
	for {
		dir, env := r.o.Workspace, r.places.env
		if r.outside {
			// Git looks into the other files too, and fails where one is broken.
			dir, env = "/", append(slices.Clone(env), "GIT_CONFIG_GLOBAL=/dev/null")
			if scope != launch.GitSystem {
				env = append(env, "GIT_CONFIG_SYSTEM=/dev/null")
			}
		}
		text, err := r.list(ctx, dir, env, which...)
		switch {
		case err == nil:
			if first != nil {
				r.warnings = append(r.warnings, fmt.Sprintf(
					"Git cannot read all configuration in this project (%v): the parts of yours that depend on the project are not used inside", first))
			}
			return parse(scope, text)
		case errors.Is(err, unix.ENOENT):
			return nil
		case r.outside:
			r.warnings = append(r.warnings, fmt.Sprintf("your Git configuration is not used inside: %v", err))
			if first != nil {
				r.outside = false // it was not the repository's fault
			}
			return nil
		}
		first, r.outside = err, true
	}
}

// list runs `git config --list` for dir, in an environment of our own.
func (r *reader) list(ctx context.Context, dir string, env []string, which ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	// Not by the working directory: in many a PATH git is a shim that would look
	// for its own configuration there.
	args := []string{"-C", dir, "--no-pager", "-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null", "config"}
	args = append(append(args, which...), "--includes", "--show-origin", "-z", "--list")
	cmd := exec.CommandContext(ctx, r.o.Git, args...)
	cmd.Dir = "/"
	cmd.Env = append([]string{
		"PATH=" + r.o.SearchPath, "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_PAGER=cat",
	}, env...)
	stdout, stderr := bounded{room: maxListing}, bounded{room: 4 << 10}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// What it may have started ends with it, and cannot hold the pipes open.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = 100 * time.Millisecond
	err := cmd.Run()
	switch said := strings.TrimSpace(stderr.String()); {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("git config took longer than %s", limit)
	case stdout.room < 0:
		return nil, fmt.Errorf("git config printed more than %d bytes", maxListing)
	case err == nil:
		return stdout.Bytes(), nil
	case which[0] == "--system" && strings.HasSuffix(strings.ToLower(said), unix.ENOENT.Error()):
		return nil, unix.ENOENT // there is no such file
	default:
		line, _, _ := strings.Cut(said, "\n")
		return nil, fmt.Errorf("git says %q", line)
	}
}

// bounded keeps what fits and swallows the rest.
type bounded struct {
	bytes.Buffer
	room int // negative: something was swallowed
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.room >= 0 {
		b.Buffer.Write(p[:min(len(p), b.room)])
		b.room -= len(p)
	}
	return len(p), nil
}

// parse reads the answer: origin NUL key [LF value] NUL, and so on.
func parse(scope launch.GitScope, text []byte) []entry {
	var out []entry
	for len(text) > 0 {
		var origin, item []byte
		origin, text, _ = bytes.Cut(text, []byte{0})
		item, text, _ = bytes.Cut(text, []byte{0})
		file, ok := strings.CutPrefix(string(origin), "file:")
		key, value, valued := strings.Cut(string(item), "\n")
		if !ok || key == "" {
			continue // what has no file is of no scope that was asked for
		}
		out = append(out, entry{scope: scope, origin: filepath.Clean(file), key: key, value: value, flag: !valued})
	}
	return out
}
