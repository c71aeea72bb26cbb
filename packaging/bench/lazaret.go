package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// lazaret is the product on a scratch project, with places of its own so that
// the user's configuration and Domains stay as they are.
type lazaret struct {
	binary  string
	project string
	env     []string
}

func newLazaret(tree, state string) (*lazaret, error) {
	l := &lazaret{
		binary:  filepath.Join(tree, "bin/lazaret"),
		project: filepath.Join(state, "project"),
		env:     os.Environ(),
	}
	for _, dir := range []string{"project", "config"} {
		if err := os.MkdirAll(filepath.Join(state, dir), 0o755); err != nil {
			return nil, err
		}
	}
	// The built-in profile, in the user's own data root: an image that has been
	// prepared there is used again.
	l.env = append(l.env, "XDG_CONFIG_HOME="+filepath.Join(state, "config"))
	return l, nil
}

func (l *lazaret) command(ctx context.Context, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, l.binary, append([]string{"run", "--quiet", "--"}, argv...)...)
	cmd.Dir = l.project
	cmd.Env = l.env
	return cmd
}

// run starts or joins the Domain for `true` and waits for the session's end.
func (l *lazaret) run(ctx context.Context) (time.Duration, error) {
	return timed(l.command(ctx, "true"))
}

// hold keeps the Domain running until the returned function is called.
func (l *lazaret) hold(ctx context.Context) (func(), error) {
	cmd := l.command(ctx, "sh", "-c", "echo ready; exec sleep 3600")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	end := func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}
	ready := make([]byte, len("ready\n"))
	if _, err := out.Read(ready); err != nil || string(ready) != "ready\n" {
		end()
		return nil, fmt.Errorf("%s: it said %q: %w", cmd, ready, errors.Join(err, cmd.Err))
	}
	return end, nil
}

// memory reads the peak resident sizes of the coordinator and the supervisor
// of this tree, in kB: the largest, where there are several.
func (l *lazaret) memory() (coordinator, supervisor int64, err error) {
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, 0, err
	}
	for _, name := range commands {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		var info syscall.Stat_t
		if syscall.Stat(filepath.Dir(name), &info) != nil || info.Uid != uint32(os.Getuid()) {
			continue // another user's
		}
		argv := strings.Split(string(bytes.TrimRight(b, "\x00")), "\x00")
		hwm := peak(filepath.Dir(name))
		switch {
		case len(argv) > 1 && filepath.Base(argv[0]) == "lazaret" && argv[1] == "_coordinator":
			coordinator = max(coordinator, hwm)
		case filepath.Base(argv[0]) == "lazaret-supervisor":
			supervisor = max(supervisor, hwm)
		}
	}
	if coordinator == 0 || supervisor == 0 {
		return 0, 0, errors.New("no running coordinator and supervisor were found")
	}
	return coordinator, supervisor, nil
}

// peak is VmHWM in kB, 0 where it cannot be read.
func peak(proc string) int64 {
	b, err := os.ReadFile(filepath.Join(proc, "status"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				return 0
			}
			return n
		}
	}
	return 0
}
