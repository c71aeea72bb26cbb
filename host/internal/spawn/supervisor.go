// Package spawn starts Lazaret's own processes and holds their leases: the
// Runtime Supervisor with its handoff conversation, programs inside the user
// namespace, and the detached Host Coordinator.
//
// It decides nothing: what happens in a supervisor is reported to the caller
// as it comes. It runs in the Host Coordinator, and for the coordinator's
// start in the CLI.
package spawn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/hostfacts"
	"lazaret.dev/lazaret/host/internal/hostfacts/subid"
	"lazaret.dev/lazaret/protocol/faults"
	"lazaret.dev/lazaret/protocol/findings"
	"lazaret.dev/lazaret/protocol/handoff"
	"lazaret.dev/lazaret/protocol/isolation"
	"lazaret.dev/lazaret/protocol/launch"
	"lazaret.dev/lazaret/protocol/wire"
)

// Mapping says how the user namespace's id maps are written, and by whom.
type Mapping struct {
	hostfacts.Mapping
	NewUIDMap string // absolute path; with handoff.MappingFull
	NewGIDMap string
}

// NewMapping joins what the host's facts say.
func NewMapping(f hostfacts.Facts) Mapping {
	return Mapping{Mapping: f.Mapping, NewUIDMap: f.Tools.NewUIDMap, NewGIDMap: f.Tools.NewGIDMap}
}

// flags renders the mapping for lazaret-supervisor; none is the single-id map.
func (m Mapping) flags() []string {
	if m.Mode != handoff.MappingFull {
		return nil
	}
	render := func(r subid.Range) string { return fmt.Sprintf("%d:%d", r.Start, r.Count) }
	return []string{
		"--newuidmap", m.NewUIDMap, "--newgidmap", m.NewGIDMap,
		"--uid-range", render(m.UIDs), "--gid-range", render(m.GIDs),
	}
}

// Supervisor is a running Runtime Supervisor. Its methods are safe for
// concurrent use with Receive, which belongs to one goroutine.
type Supervisor struct {
	seq   *wire.Seq
	hello handoff.Hello
	first *exec.Cmd
	reap  func() // once

	mu    sync.Mutex
	asked []chan<- isolation.Answer // questions without an answer, oldest first
	ended bool                      // nobody receives any more
}

// helloTimeout bounds the time from the start to the first message.
const helloTimeout = 20 * time.Second

// Supervise starts lazaret-supervisor and waits for its hello. Its environment
// names the generation, by which recovery finds what is on no record yet. Its
// log goes to log, which stays the caller's. On error nothing is left running.
func Supervise(ctx context.Context, path string, m Mapping, generation string, log *os.File) (*Supervisor, error) {
	seq, peer, err := wire.SeqPair("handoff")
	if err != nil {
		return nil, fmt.Errorf("start supervisor: %w", err)
	}
	cmd := exec.Command(path, m.flags()...) //nolint:forbidigo,noctx // its life is the lease: Kill and Wait end it
	cmd.ExtraFiles = []*os.File{peer, log}  // handoff.SocketFD, handoff.LogFD
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", handoff.Mark(generation)}
	cmd.Dir = "/"
	cmd.Stderr = log
	err = cmd.Start()
	_ = peer.Close() // or the supervisor's end would not be seen
	if err != nil {
		_ = seq.Close()
		return nil, fmt.Errorf("start supervisor: %w", err)
	}
	faults.Point("start.hc.supervisor-forked")
	s := &Supervisor{seq: seq, first: cmd}
	s.reap = sync.OnceFunc(s.wait)
	if err := s.receiveHello(ctx); err != nil {
		s.Kill()
		return nil, err
	}
	faults.Point("start.hc.hello")
	return s, nil
}

func (s *Supervisor) receiveHello(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	// Closing the socket is what ends a Recv that waits for ever.
	stop := context.AfterFunc(ctx, func() { _ = s.seq.Close() })
	defer stop()
	p, err := s.seq.Recv()
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("start supervisor: %w", ctx.Err())
		}
		if errors.Is(err, io.EOF) {
			return errors.New("the supervisor ended before it said hello")
		}
		return fmt.Errorf("start supervisor: %w", err)
	}
	defer p.CloseFiles()
	switch p.Kind {
	case handoff.KindHello:
	case handoff.KindFailed:
		var f handoff.Failed
		if err := p.Decode(&f); err != nil {
			return err
		}
		return &StepError{Failed: f}
	default:
		return fmt.Errorf("start supervisor: %w: %s, want %s", wire.ErrUnexpected, p.Kind, handoff.KindHello)
	}
	if err := p.Decode(&s.hello); err != nil {
		return err
	}
	if s.hello.Version != handoff.Version {
		return fmt.Errorf("the supervisor speaks version %d of the handoff, want %d: lazaret and lazaret-supervisor are of different builds", s.hello.Version, handoff.Version)
	}
	return nil
}

// StepError is the supervisor's own report of a failed step.
type StepError struct {
	handoff.Failed
}

func (e *StepError) Error() string { return e.Failed.Error }

// Hint says what to do about it, or is empty.
func (e *StepError) Hint() string { return e.Failed.Hint }

// Hello is the supervisor's first message.
func (s *Supervisor) Hello() handoff.Hello { return s.hello }

// SendPlan hands the launch plan over.
func (s *Supervisor) SendPlan(p *launch.Plan) error {
	b, err := p.Encode()
	if err != nil {
		return err
	}
	f, err := SealedFile("launch-plan", b)
	if err != nil {
		return err
	}
	defer f.Close()
	return s.seq.Send(handoff.KindPlan, handoff.PlanHeader{Size: int64(len(b))}, f)
}

// StartSandbox opens the gate for runsc.
func (s *Supervisor) StartSandbox() error {
	return s.seq.Send(handoff.KindStartSandbox, handoff.Empty{})
}

// Stop asks for the teardown.
func (s *Supervisor) Stop() error { return s.seq.Send(handoff.KindStop, handoff.Empty{}) }

// Receive returns the supervisor's next message; io.EOF is the end of the
// lease. The concrete type is a handoff message body. Answers are for those who
// have asked.
func (s *Supervisor) Receive() (any, error) {
	for {
		m, err := s.receive()
		if err != nil {
			s.unanswered()
			return nil, err
		}
		a, ok := m.(isolation.Answer)
		if !ok {
			return m, nil
		}
		if err := s.answered(a); err != nil {
			return nil, err
		}
	}
}

func (s *Supervisor) receive() (any, error) {
	p, err := s.seq.Recv()
	if err != nil {
		return nil, err
	}
	defer p.CloseFiles()
	if len(p.Files) != 0 {
		return nil, fmt.Errorf("%w: %s with descriptors", wire.ErrUnexpected, p.Kind)
	}
	switch p.Kind {
	case handoff.KindAnchorReady:
		return decodeAs[handoff.AnchorReady](p)
	case handoff.KindNetworkReady:
		return decodeAs[handoff.NetworkReady](p)
	case handoff.KindSandboxReady:
		return decodeAs[handoff.SandboxReady](p)
	case handoff.KindHelperLost:
		return decodeAs[handoff.HelperLost](p)
	case handoff.KindAnswer:
		return decodeAs[isolation.Answer](p)
	case handoff.KindFindings:
		return decodeAs[findings.Report](p)
	case handoff.KindStopped:
		return decodeAs[handoff.Stopped](p)
	case handoff.KindFailed:
		return decodeAs[handoff.Failed](p)
	default:
		return nil, fmt.Errorf("%w: %s", wire.ErrUnexpected, p.Kind)
	}
}

func decodeAs[T any](p *wire.Packet) (any, error) {
	var v T
	if err := p.Decode(&v); err != nil {
		return nil, err
	}
	return v, nil
}

// Kill ends the lease at once: the socket closes, and a supervisor that does
// not go by itself is killed. It waits until the process is reaped.
func (s *Supervisor) Kill() {
	_ = s.seq.Close()
	if pid := s.hello.Proc.PID; pid != 0 {
		_ = unix.Kill(pid, unix.SIGKILL)
	} else if s.first.Process != nil {
		_ = s.first.Process.Kill()
	}
	s.reap()
}

// Wait closes the lease and reaps the supervisor, which has at most the given
// time to end by itself before it is killed.
func (s *Supervisor) Wait(grace time.Duration) {
	timer := time.AfterFunc(grace, func() {
		if pid := s.hello.Proc.PID; pid != 0 {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	})
	defer timer.Stop()
	_ = s.seq.Close()
	s.reap()
}

// wait waits for the first stage and, where it is a process of its own, for the
// supervisor proper, which the first stage made our child.
func (s *Supervisor) wait() {
	_ = s.first.Wait()
	pid := s.hello.Proc.PID
	if pid == 0 || pid == s.first.Process.Pid {
		return
	}
	var ws syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &ws, 0, nil)
		if !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}
