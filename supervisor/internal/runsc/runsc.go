package runsc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/faults"
	"lazaret.dev/lazaret/protocol/launch"
	"lazaret.dev/lazaret/supervisor/internal/mounts"
	"lazaret.dev/lazaret/supervisor/internal/proc"
)

// Timeouts. A start takes a tenth of a second on an idle machine; the others
// bound what a stopped sentry can cost, and together stay below the ten
// seconds within which everything must be gone.
const (
	startTimeout = 60 * time.Second
	killTimeout  = 2 * time.Second
	exitTimeout  = 2 * time.Second
)

// Client is the attached runsc client.
type Client struct {
	Child *proc.Child
	plan  *launch.Plan
}

// globals renders the flags of every runsc call on the plan's sandbox.
func globals(r *launch.Runsc) []string {
	return []string{
		"--root=" + r.StateDir,
		"--log=" + r.LogPath,
		"--log-format=text",
	}
}

// RunArgs renders the arguments of the attached client. It is pure.
func RunArgs(p *launch.Plan, l mounts.Layout) []string {
	args := append([]string{"runsc"}, globals(&p.Runsc)...)
	return append(args,
		"--ignore-cgroups",
		// kvm is faster where it works and hangs where it does not.
		"--platform=systrap",
		"--network=sandbox",
		// A namespace of its own, empty, for the process that touches files.
		"--gofer-network-namespace=new",
		// What is written must really be in the upper layers.
		"--overlay2=none",
		"--host-uds=none",
		"--dcache="+strconv.Itoa(p.Runsc.Dcache),
		"run", "--bundle="+l.Bundle, p.SandboxID)
}

// recordPath is the file in which runsc records the sandbox's state. runsc
// names it after the container and the sandbox, which are one here.
func recordPath(p *launch.Plan, extension string) string {
	return filepath.Join(p.Runsc.StateDir, p.SandboxID+"_sandbox:"+p.SandboxID+extension)
}

// Start writes the bundle and starts the client. The caller must be on a
// locked thread that lives as long as the process: the parent-death signal is
// bound to it.
func Start(p *launch.Plan, l mounts.Layout) (*Client, error) {
	// An old record would be taken for the new sandbox's.
	if _, err := os.Lstat(recordPath(p, ".state")); !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("the runsc state directory %s is not fresh: it knows the sandbox %s already", p.Runsc.StateDir, p.SandboxID)
	}
	text, err := encode(Spec(p, l))
	if err != nil {
		return nil, fmt.Errorf("render bundle: %w", err)
	}
	if err := os.WriteFile(filepath.Join(l.Bundle, "config.json"), text, 0o600); err != nil {
		return nil, fmt.Errorf("write bundle: %w", err)
	}
	faults.Point("start.rs.bundle-written")
	// The sentry keeps a descriptor for each cached file. The runtime hands its
	// own children the soft limit that it was started with, unless it was set
	// explicitly.
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return nil, os.NewSyscallError("getrlimit", err)
	}
	lim.Cur = lim.Max
	if err := syscall.Setrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return nil, os.NewSyscallError("setrlimit", err)
	}
	// All three are the null device: they become those of the sandbox's first
	// process, and whatever they led to, the sandbox could fill.
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = null.Close() }()
	pid, err := syscall.ForkExec(p.Runsc.Path, RunArgs(p, l), &syscall.ProcAttr{
		Dir:   "/",
		Env:   environment(),
		Files: []uintptr{null.Fd(), null.Fd(), null.Fd()},
		Sys:   &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL},
	})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Runsc.Path, err)
	}
	child, err := proc.Watch(pid)
	if err != nil {
		return nil, err
	}
	return &Client{Child: child, plan: p}, nil
}

func environment() []string { return []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"} }

// Running is closed to say that the sandbox answers: runsc records it as
// running only after the sentry has acknowledged the start of its first
// process. It returns an error when the client ends or time runs out before.
func (c *Client) Running(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout,
		fmt.Errorf("the sandbox did not answer within %s", startTimeout))
	defer cancel()
	path := recordPath(c.plan, ".state")
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if status(path) == "running" {
			return nil
		}
		select {
		case <-tick.C:
		case <-c.Child.Done():
			return &ExitError{Exit: c.Child.Exit(), Log: c.plan.Runsc.LogPath, Text: lastError(c.plan.Runsc.LogPath)}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// status reads the state that runsc has recorded. The file is rewritten in
// place, so that a half-written one is simply no state yet.
func status(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	var s struct {
		Status string `json:"status"`
	}
	if json.Unmarshal(b, &s) != nil {
		return ""
	}
	return s.Status
}

// ExitError reports that runsc ended before its sandbox ran.
type ExitError struct {
	Exit proc.Exit
	Log  string // where more is written
	Text string // runsc's last error, or empty
}

func (e *ExitError) Error() string {
	s := "runsc " + e.Exit.String()
	if e.Text != "" {
		s += ": " + e.Text
	}
	return s
}

// Hint names the log.
func (e *ExitError) Hint() string { return "see " + e.Log }

// lastError finds the last error in runsc's log.
func lastError(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	const tail = 16 << 10
	if end, err := f.Seek(0, io.SeekEnd); err != nil || end > tail {
		if _, err := f.Seek(-tail, io.SeekEnd); err != nil {
			return ""
		}
	} else if _, err := f.Seek(0, io.SeekStart); err != nil {
		return ""
	}
	b, err := io.ReadAll(io.LimitReader(f, tail))
	if err != nil {
		return ""
	}
	i := bytes.LastIndex(b, []byte(`{"msg":`))
	if i < 0 {
		return ""
	}
	var e struct {
		Msg string `json:"msg"`
	}
	if json.NewDecoder(bytes.NewReader(b[i:])).Decode(&e) != nil {
		return ""
	}
	return strings.TrimSpace(e.Msg)
}

// Stop ends the sandbox and the client and returns when both are gone: first
// by asking runsc, which leaves its state directory clean, then by killing the
// client, with which the sentry and the gofer die.
func (c *Client) Stop(ctx context.Context) error {
	kctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	kerr := c.call(kctx, "kill", c.plan.SandboxID, "KILL")
	if kerr == nil {
		if c.Child.Wait(exitTimeout) == nil {
			return nil
		}
	}
	c.Child.Kill(unix.SIGKILL)
	if err := c.Child.Wait(exitTimeout); err != nil {
		return errors.Join(fmt.Errorf("end runsc: %w", err), kerr)
	}
	return nil
}

// call runs one runsc command to its end.
func (c *Client) call(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, c.plan.Runsc.Path, append(globals(&c.plan.Runsc), args...)...)
	cmd.Dir = "/"
	cmd.Env = environment()
	cmd.WaitDelay = 200 * time.Millisecond
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("runsc %s: %w: %s", args[0], err, strings.TrimSpace(string(out)))
	}
	return nil
}
