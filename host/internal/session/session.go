// Package session runs one Client Session's command in the Agent Sandbox: a
// non-detached `runsc exec` client with a PTY or pipes, its bytes, its signals
// and its end (spec 3.3, FR-14, FR-15).
//
// It owns the exec client, the PTY master or the pipes, and nothing else; who
// may have a session and when is decided elsewhere. It runs in the Host
// Coordinator.
package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"lazaret.dev/lazaret/host/internal/spawn"
	"lazaret.dev/lazaret/protocol/control"
	"lazaret.dev/lazaret/protocol/faults"
	"lazaret.dev/lazaret/protocol/launch"
)

// Guest paths of the escalation client, which is also Lazaret's hand inside.
const guestTool = "/run/lazaret/escalate"

// Sandbox is how runsc reaches the running Agent Sandbox from the host's
// namespaces.
type Sandbox struct {
	Runsc    string // absolute path
	StateDir string
	ID       string // container id
}

// Spec is what to run in a session.
type Spec struct {
	ID   string   // Session ID
	Argv []string // empty: a login shell
	Env  []string
	Cwd  string
	TTY  bool
	Size control.Size
}

// Output receives a session's bytes. Its methods are called from one goroutine
// per stream; an error ends that stream.
type Output interface {
	Stdout(p []byte) error
	Stderr(p []byte) error
}

// Session is a running session. Its methods are safe for concurrent use.
type Session struct {
	sandbox Sandbox
	id      string
	client  *exec.Cmd
	pid     int // in the guest; also its session and process group

	ptmx  *os.File // with a TTY
	stdin *os.File // without
	inMu  sync.Mutex

	pumps sync.WaitGroup
	flow  flow
	ends  []*os.File // read ends, closed when the pumps must stop
}

// flow is what the pumps have done so far.
type flow struct {
	carried  atomic.Int64 // bytes
	handling atomic.Int32 // pumps that wait for their client
}

// startTimeout bounds the time until runsc has told the guest pid.
const startTimeout = 20 * time.Second

// Start starts the command. On error nothing is left.
func Start(ctx context.Context, sb Sandbox, spec Spec, out Output) (*Session, error) {
	process, err := processSpec(spec)
	if err != nil {
		return nil, err
	}
	// The environment may hold secrets: the process file is in memory, sealed,
	// and never on a command line or a disk.
	pf, err := spawn.SealedFile("process", process)
	if err != nil {
		return nil, err
	}
	defer pf.Close()
	pidR, pidW, err := os.Pipe()
	if err != nil {
		return nil, os.NewSyscallError("pipe", err)
	}
	defer pidR.Close()
	defer pidW.Close()

	s := &Session{sandbox: sb, id: spec.ID}
	// Bound to the session rather than to a context: Kill and End are its ends.
	s.client = exec.Command(sb.Runsc, //nolint:forbidigo,noctx // see above
		"--root", sb.StateDir, "--rootless", "exec",
		"--process", "/proc/self/fd/3", "--internal-pid-file", "/proc/self/fd/4", sb.ID)
	s.client.ExtraFiles = []*os.File{pf, pidW}
	s.client.Env = []string{}
	s.client.Dir = "/"
	var child []*os.File
	if spec.TTY {
		child, err = s.attachTTY(spec.Size)
	} else {
		child, err = s.attachPipes()
	}
	if err == nil {
		err = s.client.Start()
	}
	closeAll(child)
	if err != nil {
		s.closeEnds()
		return nil, fmt.Errorf("start runsc exec: %w", err)
	}
	faults.Point("join.hc.exec-forked")
	_ = pidW.Close()
	s.pump(out)
	if s.pid, err = readPID(ctx, pidR); err != nil {
		status := s.reapFailed()
		return nil, fmt.Errorf("start runsc exec (%s): %w", status, err)
	}
	return s, nil
}

// attachTTY makes the PTY. The slave is the exec client's controlling terminal:
// without that, SIGWINCH reaches nobody (design section 14).
func (s *Session) attachTTY(size control.Size) ([]*os.File, error) {
	ptmx, tty, err := openPTY(size)
	if err != nil {
		return nil, fmt.Errorf("open pty: %w", err)
	}
	s.ptmx = ptmx
	s.ends = []*os.File{ptmx}
	s.client.Stdin, s.client.Stdout, s.client.Stderr = tty, tty, tty
	s.client.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0, Pdeathsig: syscall.SIGKILL}
	return []*os.File{tty}, nil
}

// attachPipes makes three pipes. A regular file as stdout would be written at
// the wrong offset by runsc, so it never sees the user's own files.
func (s *Session) attachPipes() ([]*os.File, error) {
	var child []*os.File
	pipe := func(childReads bool) (*os.File, *os.File, error) {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, nil, os.NewSyscallError("pipe", err)
		}
		if childReads {
			child = append(child, r)
			return w, r, nil
		}
		child = append(child, w)
		s.ends = append(s.ends, r)
		return r, w, nil
	}
	ours, theirs, err := pipe(true)
	if err != nil {
		return child, err
	}
	s.stdin, s.client.Stdin = ours, theirs
	if _, theirs, err = pipe(false); err != nil {
		return child, err
	}
	s.client.Stdout = theirs
	if _, theirs, err = pipe(false); err != nil {
		return child, err
	}
	s.client.Stderr = theirs
	s.client.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	return child, nil
}

// pump starts the goroutines that carry output; they end with their streams.
func (s *Session) pump(out Output) {
	sinks := []func([]byte) error{out.Stdout, out.Stderr}
	for i, f := range s.ends {
		s.pumps.Go(func() { s.flow.copyOut(f, sinks[i]) })
	}
}

func (w *flow) copyOut(f *os.File, sink func([]byte) error) {
	buf := make([]byte, 64<<10)
	for {
		n, err := f.Read(buf)
		if n > 0 {
			w.handling.Add(1)
			if sink(buf[:n]) != nil {
				// Nobody listens any more; the command must not block for that.
				sink = func([]byte) error { return nil }
			}
			w.carried.Add(int64(n))
			w.handling.Add(-1)
		}
		// A PTY master reports EIO when the last slave is closed.
		if err != nil {
			return
		}
	}
}

// processSpec renders the OCI process. The command starts through the guest
// tool, which looks it up and becomes it: that is what tells "not found" (127)
// and "cannot execute" (126) apart from a command's own status. With a terminal
// it stays, and gives the command one that has a name inside (case 40).
func processSpec(spec Spec) ([]byte, error) {
	args := []string{guestTool, "_exec"}
	if spec.TTY {
		args = append(args, "--tty")
	}
	if len(spec.Argv) == 0 {
		args = append(args, "--login")
	}
	args = append(args, "--")
	args = append(args, spec.Argv...)
	caps := launch.Capabilities()
	p := specs.Process{
		Terminal: spec.TTY,
		Args:     args,
		Env:      append([]string{"LAZARET_SESSION_ID=" + spec.ID}, spec.Env...),
		Cwd:      spec.Cwd,
		Capabilities: &specs.LinuxCapabilities{
			Bounding: caps, Effective: caps, Permitted: caps,
		},
	}
	if spec.TTY {
		p.ConsoleSize = &specs.Box{Height: uint(spec.Size.Rows), Width: uint(spec.Size.Cols)}
	}
	b, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode process: %w", err)
	}
	return b, nil
}

// readPID waits for the guest pid that runsc writes once the process exists.
func readPID(ctx context.Context, r *os.File) (int, error) {
	deadline := time.Now().Add(startTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	_ = r.SetReadDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { _ = r.SetReadDeadline(time.Now()) })
	defer stop()
	// One read: runsc writes the number at once and keeps the pipe open for as
	// long as it lives.
	b := make([]byte, 32)
	n, err := r.Read(b)
	if errors.Is(err, io.EOF) {
		return 0, errors.New("the sandbox started no process")
	}
	if err != nil {
		return 0, fmt.Errorf("wait for the guest process: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if err != nil || pid <= 0 {
		return 0, errors.New("the sandbox started no process")
	}
	return pid, nil
}

// reapFailed ends an exec client that did not get as far as a guest process.
func (s *Session) reapFailed() string {
	_ = s.client.Process.Kill()
	_ = s.client.Wait()
	s.closeEnds()
	s.pumps.Wait()
	return s.client.ProcessState.String()
}

// Write gives bytes to the command's stdin or terminal.
func (s *Session) Write(p []byte) error {
	if s.ptmx != nil {
		_, err := s.ptmx.Write(p)
		return err
	}
	s.inMu.Lock()
	f := s.stdin
	s.inMu.Unlock()
	if f == nil {
		return os.ErrClosed
	}
	_, err := f.Write(p)
	return err
}

// CloseStdin passes the end of stdin on. With a terminal it does nothing: there
// the end of input is a character.
func (s *Session) CloseStdin() {
	s.inMu.Lock()
	defer s.inMu.Unlock()
	if s.stdin != nil {
		_ = s.stdin.Close()
		s.stdin = nil
	}
}

// Resize sets the terminal's size; the kernel raises SIGWINCH in the exec
// client, which runsc passes on to the guest's foreground process group.
func (s *Session) Resize(size control.Size) error {
	if s.ptmx == nil {
		return nil
	}
	return setSize(s.ptmx, size)
}

// Signal sends a signal to the session's process group.
func (s *Session) Signal(ctx context.Context, name control.SignalName) error {
	return s.sandbox.run(ctx, nil, "kill", "--pgid", strconv.Itoa(s.pid), s.sandbox.ID, string(name))
}

const (
	// drainGrace is how long a command's output may rest after its end before
	// what it left behind is ended too.
	drainGrace = 200 * time.Millisecond

	// drainLimit is more than pipes and a terminal can hold: what comes beyond it
	// is none of the command's.
	drainLimit = 4 << 20
)

// Wait waits for the command's end and for all of its output, and returns its
// status as a shell would give it. It is called once. It takes as long as the
// Output's methods take.
func (s *Session) Wait(ctx context.Context) int {
	_ = s.client.Wait()
	s.CloseStdin()
	drained := make(chan struct{})
	go func() {
		s.pumps.Wait()
		close(drained)
	}()
	select {
	case <-drained:
	case <-time.After(drainGrace):
		// A process that the command left behind may hold its stdout open. It ends
		// with its session (FR-15); then the rest of the output is there, and takes
		// as long as its reader does.
		_ = s.End(ctx)
		s.flow.settle(drained)
	}
	s.closeEnds()
	<-drained
	return status(s.client.ProcessState)
}

// settle waits until everything is drained, or nothing moves any more though
// nobody waits for a reader.
func (w *flow) settle(drained <-chan struct{}) {
	carried := w.carried.Load()
	limit := carried + drainLimit
	for carried <= limit {
		select {
		case <-drained:
			return
		case <-time.After(drainGrace):
		}
		now := w.carried.Load()
		if now == carried && w.handling.Load() == 0 {
			return
		}
		carried = now
	}
}

// endTimeout bounds End: somewhat more than the guest tool's own limit. A
// sandbox that is too busy to end its processes is not waited for: they end
// with it.
const endTimeout = 4 * time.Second

// End ends every process of the session in the guest. Killing the exec client
// would not: the guest process lives on without it.
func (s *Session) End(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	return s.sandbox.Exec(ctx, nil, nil, guestTool, "_end", strconv.Itoa(s.pid), s.id)
}

// Kill ends the exec client, for a sandbox that is gone or going.
func (s *Session) Kill() { _ = s.client.Process.Kill() }

func (s *Session) closeEnds() {
	closeAll(s.ends)
	s.CloseStdin()
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// status is the shell's view of an exec client's end.
func status(ps *os.ProcessState) int {
	ws, ok := ps.Sys().(syscall.WaitStatus)
	if ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ps.ExitCode()
}

// callTimeout bounds every call of runsc that is no session: a stopped sentry
// answers nothing (research: `runsc state` hangs for ever).
const callTimeout = 10 * time.Second

// Exec runs one of Lazaret's own programs in the sandbox, with stdin and stdout
// as pipes, and waits for it.
func (sb Sandbox) Exec(ctx context.Context, stdin io.Reader, stdout io.Writer, argv ...string) error {
	process, err := json.Marshal(specs.Process{
		Args: argv, Cwd: "/", Env: []string{"PATH=/usr/bin:/bin"},
		Capabilities: &specs.LinuxCapabilities{
			Bounding: launch.Capabilities(), Effective: launch.Capabilities(), Permitted: launch.Capabilities(),
		},
	})
	if err != nil {
		return fmt.Errorf("encode process: %w", err)
	}
	pf, err := spawn.SealedFile("process", process)
	if err != nil {
		return err
	}
	defer pf.Close()
	return sb.runIO(ctx, stdin, stdout, []*os.File{pf}, "exec", "--process", "/proc/self/fd/3", sb.ID)
}

func (sb Sandbox) run(ctx context.Context, stdout io.Writer, args ...string) error {
	return sb.runIO(ctx, nil, stdout, nil, args...)
}

func (sb Sandbox) runIO(ctx context.Context, stdin io.Reader, stdout io.Writer, extra []*os.File, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var stderr limitedBuffer
	cmd := exec.CommandContext(ctx, sb.Runsc, append([]string{"--root", sb.StateDir, "--rootless"}, args...)...)
	cmd.ExtraFiles = extra
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return fmt.Errorf("runsc %s: %w%s", args[0], err, stderr.suffix())
	}
	return nil
}

// limitedBuffer keeps the first kilobyte of a program's complaints.
type limitedBuffer struct{ b []byte }

func (l *limitedBuffer) Write(p []byte) (int, error) {
	if room := 1024 - len(l.b); room > 0 {
		l.b = append(l.b, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

// suffix renders what was kept, quoted: part of it may come from the guest.
func (l *limitedBuffer) suffix() string {
	if s := strings.TrimSpace(string(l.b)); s != "" {
		return ": " + strconv.Quote(s)
	}
	return ""
}
