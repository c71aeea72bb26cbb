// Package slirp starts and ends slirp4netns, which carries the enforcement
// network namespace's packets.
//
// It neither makes the namespace nor decides what may leave it. It runs in the
// Runtime Supervisor, Start in the stage that is still in the host's network
// namespace, since slirp4netns's sockets live where it is started; the private
// resolver's Exec runs in a short-lived process of its own.
package slirp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/faults"
	"lazaret.dev/lazaret/protocol/handoff"
	"lazaret.dev/lazaret/protocol/launch"
	"lazaret.dev/lazaret/protocol/netpolicy"
	"lazaret.dev/lazaret/supervisor/internal/proc"
)

// defaultCIDR is the network that slirp4netns serves unless told otherwise.
var defaultCIDR = netip.MustParsePrefix("10.0.2.0/24")

// Descriptors in the started process, after the standard three.
const (
	netnsFD = 3
	readyFD = 4
	exitFD  = 5
)

// readyTimeout bounds the wait for slirp4netns, which is ready after
// milliseconds on an idle machine.
const readyTimeout = 10 * time.Second

// Process is a slirp4netns that serves the namespace.
type Process struct {
	Child *proc.Child

	// Exit is the write end of slirp4netns's --exit-fd: its last close ends
	// slirp4netns. It is one of two leashes, the other being the parent-death
	// signal.
	Exit *os.File

	// Sandboxed says that it runs with --enable-sandbox and --enable-seccomp.
	Sandboxed bool
}

// Args renders slirp4netns's arguments, program name first. It is pure.
func Args(p *netpolicy.Policy, sandboxed bool) []string {
	args := []string{
		"slirp4netns",
		"--disable-host-loopback",
		"--mtu=" + strconv.Itoa(p.MTU),
		"--netns-type=path",
		"--ready-fd=" + strconv.Itoa(readyFD),
		"--exit-fd=" + strconv.Itoa(exitFD),
	}
	if sandboxed {
		args = append(args, "--enable-sandbox", "--enable-seccomp")
	}
	if c := p.Address.Masked(); c != defaultCIDR {
		args = append(args, "--cidr="+c.String())
	}
	// No --configure and no --enable-ipv6: addresses and routes are the
	// supervisor's, and IPv6 does not exist.
	return append(args, "/proc/self/fd/"+strconv.Itoa(netnsFD), netpolicy.TapName)
}

// Start starts slirp4netns on the namespace and waits until it serves. Where
// the system refuses its own sandbox, it is started once more without, and the
// Process says so. The caller must be on a locked thread that lives as long as
// the process: the parent-death signal is bound to it.
func Start(ctx context.Context, s *launch.Slirp, p *netpolicy.Policy, ns *os.File) (*Process, error) {
	if _, err := os.Stat(s.Path); err != nil {
		return nil, fmt.Errorf("slirp4netns: %w", err)
	}
	log, err := os.OpenFile(s.LogPath, os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("slirp4netns log: %w", err)
	}
	defer func() { _ = log.Close() }()
	sp, err := start(ctx, s, p, ns, log, true)
	if _, refused := errors.AsType[*exitError](err); refused {
		sp, err = start(ctx, s, p, ns, log, false)
	}
	if err != nil {
		return nil, fmt.Errorf("start slirp4netns: %w", err)
	}
	return sp, nil
}

// exitError reports that slirp4netns ended before it was ready.
type exitError struct{ exit proc.Exit }

func (e *exitError) Error() string { return "it " + e.exit.String() + " before it was ready" }

func start(ctx context.Context, s *launch.Slirp, p *netpolicy.Policy, ns, log *os.File, sandboxed bool) (_ *Process, err error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = null.Close() }()
	ready, readyW, err := os.Pipe()
	if err != nil {
		return nil, os.NewSyscallError("pipe", err)
	}
	defer func() { _ = ready.Close() }()
	exitR, exitW, err := os.Pipe()
	if err != nil {
		_ = readyW.Close()
		return nil, os.NewSyscallError("pipe", err)
	}
	defer func() {
		if err != nil {
			_ = exitW.Close()
		}
	}()

	path, args := s.Path, Args(p, sandboxed)
	if s.PrivateResolver != "" {
		path, args = "/proc/self/exe", append([]string{"lazaret-supervisor", ExecMode, s.PrivateResolver, s.Path}, args...)
	}
	pid, err := syscall.ForkExec(path, args, &syscall.ProcAttr{
		Dir:   "/",
		Env:   []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", handoff.Mark(os.Getenv(handoff.MarkName))},
		Files: []uintptr{null.Fd(), log.Fd(), log.Fd(), ns.Fd(), readyW.Fd(), exitR.Fd()},
		Sys:   &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL},
	})
	_ = readyW.Close()
	_ = exitR.Close()
	if err != nil {
		return nil, err
	}
	child, err := proc.Watch(pid)
	if err != nil {
		return nil, err // unreachable for an unreaped child; its leash closes on return
	}
	faults.Point("start.rs.slirp-forked")
	if err := awaitReady(ctx, ready, child); err != nil {
		child.Kill(unix.SIGKILL)
		<-child.Done()
		return nil, err
	}
	return &Process{Child: child, Exit: exitW, Sandboxed: sandboxed}, nil
}

// awaitReady reads the byte that slirp4netns writes once it serves.
func awaitReady(ctx context.Context, ready *os.File, child *proc.Child) error {
	if err := ready.SetReadDeadline(time.Now().Add(readyTimeout)); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = ready.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var b [1]byte
	n, err := ready.Read(b[:])
	switch {
	case n == 1:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("it was not ready within %s", readyTimeout)
	}
	// EOF: all copies of the write end are closed, so it has ended or is about
	// to.
	if err := child.Wait(time.Second); err != nil {
		return errors.New("it closed its readiness pipe")
	}
	return &exitError{child.Exit()}
}

// Stop ends slirp4netns and waits for it, at most d.
func (p *Process) Stop(d time.Duration) error {
	_ = p.Exit.Close()
	p.Child.Kill(unix.SIGKILL)
	if err := p.Child.Wait(d); err != nil {
		return fmt.Errorf("end slirp4netns: %w", err)
	}
	return nil
}
