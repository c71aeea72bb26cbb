package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/attach"
	"lazaret.dev/lazaret/host/internal/config"
	"lazaret.dev/lazaret/host/internal/config/sessionenv"
	"lazaret.dev/lazaret/host/internal/control"
	"lazaret.dev/lazaret/host/internal/generation"
	"lazaret.dev/lazaret/host/internal/hostfacts"
	"lazaret.dev/lazaret/host/internal/netpolicy"
	"lazaret.dev/lazaret/host/internal/paths"
	"lazaret.dev/lazaret/host/internal/paths/fskind"
	"lazaret.dev/lazaret/host/internal/recovery"
	"lazaret.dev/lazaret/host/internal/resolve"
	"lazaret.dev/lazaret/host/internal/spawn"
	"lazaret.dev/lazaret/protocol"
	pc "lazaret.dev/lazaret/protocol/control"
	"lazaret.dev/lazaret/protocol/faults"
	"lazaret.dev/lazaret/protocol/wire"
)

const (
	// joinTimeout is how long a loser of the Domain lock waits for the winner's
	// publication (design section 2).
	joinTimeout = 60 * time.Second

	// joinPoll is how often it looks.
	joinPoll = 10 * time.Millisecond
)

// TTYMode says whether a session gets a terminal.
type TTYMode string

// The modes.
const (
	TTYAuto TTYMode = "auto" // when stdin and stdout are terminals
	TTYOn   TTYMode = "on"
	TTYOff  TTYMode = "off"
)

// RunOptions are what `lazaret run` was asked for.
type RunOptions struct {
	ConfigFile string
	Profile    string   // empty: the default
	Workspace  string   // empty: the current directory
	Env        []string // K=V
	TTY        TTYMode
	Command    []string // empty: the profile's command, else a login shell

	Stdin, Stdout, Stderr *os.File
	UI                    UI
}

// UI is what the CLI shows while a Domain starts, and what it says to its user.
type UI interface {
	// Progress reports the start's current step.
	Progress(p pc.Progress)
	// Settle ends the display of progress.
	Settle()
	// Notice prints one line.
	Notice(text string)
	// Verbose makes the UI follow the log files in a directory.
	Verbose(dir string)
}

// Run starts or joins the Domain of a profile and a workspace, runs a command
// in it, and returns the command's exit status. An error is Lazaret's own: the
// command did not run, or was not carried to its end.
func Run(ctx context.Context, o RunOptions) (int, error) {
	if os.Getuid() == 0 {
		return 0, errRoot
	}
	// From the first moment on a signal is an interruption that is reported, and
	// no death without a word. From a session on, signals are the session's.
	startCtx, early := catchInterrupt(ctx)
	defer func() { early.release() }()
	c, err := newClient(o) //nolint:contextcheck // looks at files; nothing in it waits
	if err != nil {
		return 0, err
	}
	deadline := time.Now().Add(joinTimeout)
	for {
		conn, err := c.connect(startCtx, deadline)
		o.UI.Settle()
		if early.release() {
			if err == nil {
				_ = conn.Close()
			}
			err = errInterrupted
		}
		if err != nil {
			c.leave(nil)
			return 0, err
		}
		status, err := attach.Run(ctx, conn, c.open, attach.Stdio{In: o.Stdin, Out: o.Stdout, Err: o.Stderr, Notice: o.UI.Notice})
		if lost, ok := errors.AsType[*attach.LostError](err); ok && lost.Gone {
			c.sweep(conn)
		}
		if c.again(err) {
			startCtx, early = catchInterrupt(ctx) //nolint:fatcontext // of ctx, never of the last one
			if err := pause(startCtx); err != nil {
				return 0, err
			}
			continue
		}
		if refused, ok := errors.AsType[*attach.RefusedError](err); ok && refused.Why == protocol.RefusedFingerprint {
			return 0, &fingerprintError{profile: c.domain.Profile, differences: refused.Detail}
		}
		return status, err
	}
}

// pause waits one poll interval.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return errInterrupted
	case <-time.After(joinPoll):
		return nil
	}
}

// client is one `lazaret run`, resolved.
type client struct {
	o       RunOptions
	domain  *config.Domain
	facts   hostfacts.Facts
	env     hostfacts.Env
	host    paths.Host
	runtime string // the Domain's runtime directory, should this process start it
	root    paths.DomainRoot
	open    pc.OpenRequest
	holder  generation.Holder

	unanswered bool // a coordinator has ended without an answer, once
}

// newClient resolves everything that can be refused before anything starts.
func newClient(o RunOptions) (*client, error) {
	d, err := resolve.Domain(o.ConfigFile, o.Profile, o.Workspace)
	if err != nil {
		return nil, err
	}
	c := &client{o: o, host: paths.Current(), domain: d}
	if err := c.request(); err != nil {
		return nil, err
	}
	if c.env, c.facts, err = resolve.Facts(d); err != nil {
		return nil, err
	}
	return c, c.places()
}

// places opens the Domain's directories and checks that every socket address
// that will be needed fits.
func (c *client) places() error {
	rt, warning, err := c.host.Runtime()
	if err != nil {
		return err
	}
	if warning != "" {
		c.o.UI.Notice(warning)
	}
	c.runtime = rt.DomainPath(c.domain.ID)
	if err := paths.CheckSockets(c.runtime, generation.SocketNames()...); err != nil {
		return err
	}
	data, err := c.host.OpenDataRoot(c.domain.DataRoot)
	if err != nil {
		return err
	}
	if err := fskind.Check(data.Path()); err != nil {
		return err
	}
	if c.root, err = data.Domain(c.domain.ID); err != nil {
		return err
	}
	_, err = c.root.Ensure()
	return err
}

// request builds the session's request from the options.
func (c *client) request() error {
	vars := make([]sessionenv.Var, 0, len(c.o.Env))
	for _, kv := range c.o.Env {
		v, err := sessionenv.ParseVar(kv)
		if err != nil {
			return &UsageError{err}
		}
		vars = append(vars, v)
	}
	env, warnings := sessionenv.Build(c.domain.Env, vars, os.LookupEnv)
	for _, w := range append(warnings, netpolicy.ProxyWarnings(environment(env))...) {
		c.o.UI.Notice(w)
	}
	c.open = pc.OpenRequest{
		Fingerprint: c.domain.Fingerprint(), Shape: c.domain.Shape(),
		Argv: c.o.Command, Env: env, Report: c.domain.Report,
	}
	if len(c.open.Argv) == 0 {
		c.open.Argv = c.domain.Command
	}
	in, out := attach.IsTerminal(c.o.Stdin), attach.IsTerminal(c.o.Stdout)
	switch c.o.TTY {
	case TTYOn:
		if !in {
			return errNoTerminal
		}
		c.open.TTY = true
	case TTYOff:
	default:
		c.open.TTY = in && out
	}
	if c.open.TTY {
		c.open.Size = attach.Size(c.o.Stdin)
	}
	return c.fits()
}

// fits refuses a command that no frame can carry, before anything starts.
func (c *client) fits() error {
	b, err := json.Marshal(c.open)
	if err != nil {
		return fmt.Errorf("cannot describe the command: %w", err)
	}
	if len(b) > wire.MaxFrame {
		return fmt.Errorf("cannot run the command: its arguments and environment take %d bytes, more than %d", len(b), wire.MaxFrame)
	}
	return nil
}

// environment is K=V pairs as a map.
func environment(pairs []string) map[string]string {
	m := make(map[string]string, len(pairs))
	for _, kv := range pairs {
		if k, v, ok := strings.Cut(kv, "="); ok {
			m[k] = v
		}
	}
	return m
}

// connect returns a connection to the Domain's published coordinator, starting
// one if this process wins the Domain lock. The loser of the lock prepares,
// opens and cleans nothing: it waits for the winner's publication (OR-1).
func (c *client) connect(ctx context.Context, deadline time.Time) (*control.Conn, error) {
	for {
		conn, err := c.dial(ctx)
		if err == nil {
			return conn, nil
		}
		if ctx.Err() != nil {
			return nil, errInterrupted
		}
		if !errors.Is(err, control.ErrNotPublished) {
			return nil, err
		}
		lock, err := c.root.OpenLock()
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			faults.Point("start.cli.locked")
			err = c.start(ctx, lock)
			_ = lock.Close() // the coordinator holds the lock through its own descriptor
			if err != nil {
				return nil, err
			}
			continue
		}
		c.holder = generation.ReadHolder(lock)
		_ = lock.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock the Domain: %w", err)
		}
		if time.Now().After(deadline) {
			return nil, &heldError{holder: c.holder.String(), waited: joinTimeout}
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

// dial connects to the Domain's coordinator.
func (c *client) dial(ctx context.Context) (*control.Conn, error) {
	return generation.Dial(ctx, c.host, c.domain.Profile, c.domain.ID, c.holder)
}

// start starts a coordinator under the held lock and waits until it is ready.
func (c *client) start(ctx context.Context, lock *os.File) error {
	// Under the lock, since the generation that held it before has removed its
	// directory; whoever joins makes none.
	rt, _, err := c.host.Runtime()
	if err != nil {
		return err
	}
	if _, err := rt.Domain(c.domain.ID); err != nil {
		return err
	}
	if err := recovery.CheckMounts(c.root.Path(), c.runtime); err != nil {
		return err
	}
	if err := c.root.Claim(c.domain.Profile, c.domain.Workspace.Path, time.Now()); err != nil {
		return err
	}
	if len(c.domain.PersistentDirs) > 0 {
		if err := c.root.BindAnchors(c.facts.Mapping.Mode, time.Now()); err != nil {
			return err
		}
	}
	faults.Point("start.cli.claimed")
	id, err := generation.NewID(time.Now())
	if err != nil {
		return err
	}
	logDir, err := c.root.EnsureLog(id)
	if err != nil {
		return err
	}
	c.o.UI.Verbose(logDir)
	log, err := generation.OpenLog(filepath.Join(logDir, "coordinator.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	exe, err := resolve.Executable()
	if err != nil {
		return err
	}
	req := generation.Request{
		Domain: *c.domain, Generation: id, RuntimeDir: c.runtime, LogDir: logDir,
		Executable: exe, Tools: c.facts.Tools, Mapping: spawn.NewMapping(c.facts),
	}
	seq, err := spawn.Coordinator(exe, lock, log, coordinatorEnv(c.env.SearchPath()))
	if err != nil {
		return err
	}
	faults.Point("start.cli.coordinator-started")
	defer seq.Close()
	for _, w := range c.facts.Warnings {
		c.o.UI.Notice(w)
	}
	err = generation.AwaitReady(ctx, seq, &req, c.o.UI)
	if _, ok := errors.AsType[*generation.DiedError](err); ok {
		_ = generation.RemoveStaged(c.runtime, id) // the lock is still held
	}
	return c.explain(ctx, err)
}

// explain puts a failed start down to the host where the host is to blame.
func (c *client) explain(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return errInterrupted
	}
	if cause := hostfacts.Explain(ctx, c.env); cause != nil {
		return fmt.Errorf("%w (%w)", cause, err)
	}
	if c.domain.Image == config.FallbackImage {
		return &hintError{text: err.Error(), hint: strings.TrimSpace(hintOf(err) + "\n" + noBaseImage), cause: err}
	}
	return err
}

// coordinatorEnv is all that a coordinator gets of its starter's environment:
// where the user's own places and Git's files are, and what reaches an image registry. Its PATH,
// in which credential helpers are found, is path.
func coordinatorEnv(path []string) []string {
	env := []string{"PATH=" + strings.Join(path, string(filepath.ListSeparator))}
	for _, name := range []string{
		"HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "DOCKER_CONFIG", "TMPDIR",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM",
	} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}
