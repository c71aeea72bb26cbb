package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/faults"
	"lazaret.dev/lazaret/protocol/handoff"
	"lazaret.dev/lazaret/protocol/launch"
	"lazaret.dev/lazaret/protocol/netpolicy"
	"lazaret.dev/lazaret/protocol/wire"
	"lazaret.dev/lazaret/supervisor/internal/arp"
	"lazaret.dev/lazaret/supervisor/internal/gitaware"
	"lazaret.dev/lazaret/supervisor/internal/launcher"
	"lazaret.dev/lazaret/supervisor/internal/mounts"
	"lazaret.dev/lazaret/supervisor/internal/netfaults"
	"lazaret.dev/lazaret/supervisor/internal/netns"
	"lazaret.dev/lazaret/supervisor/internal/proc"
	"lazaret.dev/lazaret/supervisor/internal/runsc"
	"lazaret.dev/lazaret/supervisor/internal/slirp"
	"lazaret.dev/lazaret/supervisor/internal/view"
)

// teardownLimit bounds the whole teardown. When it is over the process exits
// as it is, and the parent-death signals do the rest.
const teardownLimit = 8 * time.Second

// server is the serve stage. Everything but reading the handoff and reaping
// children happens on the main goroutine, which is locked to its thread.
type server struct {
	rep     *reporter
	plan    *launch.Plan
	layout  mounts.Layout
	slirp   *slirp.Process
	view    *view.View // nil until started
	aware   *gitaware.Aware
	runsc   *runsc.Client // nil until started
	packets chan *wire.Packet
	gone    chan error // why the Host Coordinator is taken for gone
}

// errStop ends bring-up or service without being a failure: the Host
// Coordinator asked for it, or is gone.
var errStop = errors.New("stop")

// serve is the third stage: wholly inside the new namespaces.
func serve(args []string, stderr io.Writer) int {
	fs := flags(modeServe, stderr)
	parent := fs.Int("parent", 0, "the Host Coordinator")
	death := fs.Int("death", 0, "signal at the parent's death")
	planFD := fs.Int("plan-fd", -1, "the sealed launch plan")
	slirpPID := fs.Int("slirp", 0, "slirp4netns, a child of this process")
	exitFD := fs.Int("slirp-exit-fd", -1, "slirp4netns's leash")
	sandboxed := fs.Bool("slirp-sandboxed", false, "slirp4netns runs in its own sandbox")
	viewFDs := fs.String("view-fds", "", "the workspace view's descriptors")
	if err := fs.Parse(args); err != nil {
		return exitUsage
	}
	seq, err := wire.InheritSeq(handoff.SocketFD, "handoff")
	if err != nil {
		return report(stderr, err)
	}
	for _, fd := range []int{handoff.LogFD, *planFD, *exitFD} {
		unix.CloseOnExec(fd)
	}
	s := &server{
		rep:     newReporter(seq, os.NewFile(handoff.LogFD, "log")),
		packets: make(chan *wire.Packet),
		gone:    make(chan error, 2), // one each of read and watchParent
	}
	go s.watchParent(*parent)
	child, err := proc.Watch(*slirpPID)
	if err != nil {
		s.rep.failed("network", err)
		return exitFailed
	}
	s.slirp = &slirp.Process{Child: child, Exit: os.NewFile(uintptr(*exitFD), "slirp exit"), Sandboxed: *sandboxed}
	if s.plan, err = rereadPlan(*planFD); err != nil {
		s.rep.failed("handoff", err)
		return exitFailed
	}
	s.layout = mounts.Plan(s.plan)
	go s.read(seq)

	err = errors.Join(launcher.ArmDeath(unix.Signal(*death), *parent), adoptOrphans())
	if err == nil {
		faults.Point("start.rs.serving")
		err = s.serveWorkspace(*viewFDs)
	}
	if err == nil {
		err = s.bringUp()
	}
	if err == nil {
		err = s.attend()
	}
	return s.tearDown(err)
}

// rereadPlan decodes the plan that the stage before has checked.
func rereadPlan(fd int) (*launch.Plan, error) {
	f := os.NewFile(uintptr(fd), "plan")
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read plan: %w", err)
	}
	return readPlan(f, st.Size())
}

// read passes packets on until the handoff ends. It ends with the process: the
// main goroutine exits soon after it stops listening.
func (s *server) read(seq *wire.Seq) {
	for {
		p, err := seq.Recv()
		if err != nil {
			s.gone <- err
			return
		}
		s.packets <- p
	}
}

// watchParent takes the signals that would end the process, and among them the
// one for the parent's death. It is sent for the death of the parent's thread
// too, which means nothing, as does a signal from anybody else: what ends the
// supervisor is its Host Coordinator. It ends with the process.
func (s *server) watchParent(parent int) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	for sig := range signals {
		s.rep.log.Warn("signal", "signal", sig.String())
		if got := unix.Getppid(); got != parent {
			s.gone <- fmt.Errorf("the parent process is %d, was %d", got, parent)
			return
		}
	}
}

// bringUp attests the network and starts the sandbox when told to.
func (s *server) bringUp() error {
	if err := s.attest(); err != nil {
		return &stepError{"network", err}
	}
	faults.Point("start.rs.network-ready")
	// Late packets are no failure: without it the first answers come late.
	if err := arp.Announce(netpolicy.TapName, s.plan.Network.Address.Addr()); err != nil {
		s.rep.log.Warn("announce", "error", err.Error())
	}
	if err := s.expectStart(); err != nil {
		return err
	}
	faults.Point("start.rs.gate-open")
	if f := netfaults.Read().DropDenyLate; f != netns.NoFault {
		if err := s.dropRoute(f); err != nil {
			return err
		}
	}
	s.aware.Remembered()
	client, err := runsc.Start(s.plan, s.layout)
	if err != nil {
		return &stepError{"sandbox", err}
	}
	s.runsc = client
	faults.Point("start.rs.runsc-started")
	return s.awaitSandbox()
}

// serveWorkspace begins to serve the workspace view, which was mounted by the
// stage before.
func (s *server) serveWorkspace(fds string) error {
	d, err := mounts.DecodeDescriptors(fds)
	if err != nil {
		return &stepError{"handoff", err}
	}
	if err := noUmask(); err != nil {
		return &stepError{"anchor", err}
	}
	v := &s.plan.View
	aware, err := gitaware.Open(gitaware.Options{
		Host: d.Stores.Host, Path: s.workspace(), Record: d.Record, State: d.Stores.Private, Own: d.Stores.Domain, Git: &s.plan.HostGit, Excludes: s.plan.Files.GitExclude,
		Isolate: v.Isolate, Expose: v.Expose, ConfigGate: v.ConfigGate, Log: s.rep.log,
	})
	if err != nil {
		return &stepError{"anchor", err}
	}
	s.view, err = view.Start(view.Config{
		FUSE: d.FUSE, Stores: d.Stores, Router: aware.Router(), Guard: aware.Guard(), UID: v.UID, GID: v.GID,
		Hidden: v.Hidden, Log: s.rep.log,
	})
	if err != nil {
		aware.Close()
		return &stepError{"anchor", err}
	}
	s.aware = aware
	aware.OnScan(s.view.Follow)
	return nil
}

// workspace is the Agent Workspace's path on the host.
func (s *server) workspace() string {
	for _, m := range s.plan.Mounts {
		if m.Kind == launch.MountWorkspace {
			return m.Host.Path
		}
	}
	return ""
}

// noUmask gives files that are made through the view the modes that the
// sandbox asks for. This thread, and with it what it starts, keeps its umask:
// it shares none with the others any more.
func noUmask() error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	done := make(chan struct{})
	go func() {
		unix.Umask(0)
		close(done)
	}()
	<-done
	return nil
}

// attest observes the network and reports it.
func (s *server) attest() error {
	inner, err := os.Open(s.layout.NetNS)
	if err != nil {
		return err
	}
	defer func() { _ = inner.Close() }()
	ns, err := netns.Observe(&s.plan.Network, inner)
	if err != nil {
		return err
	}
	id, err := proc.Identify(s.slirp.Child.PID)
	if err != nil {
		return err
	}
	select {
	case <-s.slirp.Child.Done():
		return fmt.Errorf("slirp4netns %s", s.slirp.Child.Exit())
	default:
	}
	faults.Point("start.rs.attested")
	p := s.plan
	s.rep.send(handoff.KindNetworkReady, handoff.NetworkReady{
		Fingerprint: netpolicy.Fingerprint(p.DomainID, p.Generation, p.ConfigFingerprint, p.NetworkID, p.Network.Digest(), ns.Dev, ns.Ino),
		NetNS:       ns.Ino,
		Slirp:       id,
		Sandboxed:   s.slirp.Sandboxed,
	})
	return nil
}

// dropRoute is a fault: a deny route goes after it was attested.
func (s *server) dropRoute(f netns.Fault) error {
	inner, err := os.Open(s.layout.NetNS)
	if err != nil {
		return err
	}
	defer func() { _ = inner.Close() }()
	return netns.DropRoute(&s.plan.Network, inner, f)
}

// expectStart waits for the gate to open.
func (s *server) expectStart() error {
	select {
	case p := <-s.packets:
		if p.Kind != handoff.KindStartSandbox {
			return s.stopOr(p)
		}
		var e handoff.Empty
		return p.Decode(&e)
	case <-s.slirp.Child.Done():
		return &stepError{"network", fmt.Errorf("slirp4netns %s", s.slirp.Child.Exit())}
	case <-s.view.Done():
		return &stepError{"anchor", s.viewEnd()}
	case err := <-s.gone:
		return s.leaseEnd(err)
	}
}

// viewEnd says why the view does not serve any more.
func (s *server) viewEnd() error {
	if err := s.view.Err(); err != nil {
		return fmt.Errorf("the workspace view has failed: %w", err)
	}
	return errors.New("the workspace view was unmounted")
}

// awaitSandbox waits until the sandbox answers, and reports it.
func (s *server) awaitSandbox() error {
	ctx, cancel := context.WithCancel(context.Background())
	var started error
	running := make(chan struct{})
	go func() {
		defer close(running)
		started = s.runsc.Running(ctx)
	}()
	err := func() error {
		select {
		case <-running:
			if started != nil {
				return &stepError{"sandbox", started}
			}
			return nil
		case p := <-s.packets:
			return s.stopOr(p)
		case <-s.slirp.Child.Done():
			return &stepError{"network", fmt.Errorf("slirp4netns %s", s.slirp.Child.Exit())}
		case <-s.view.Done():
			return &stepError{"anchor", s.viewEnd()}
		case err := <-s.gone:
			return s.leaseEnd(err)
		}
	}()
	cancel()
	<-running
	if err != nil {
		return err
	}
	id, err := proc.Identify(s.runsc.Child.PID)
	if err != nil {
		return &stepError{"sandbox", err}
	}
	faults.Point("start.rs.sandbox-runs")
	s.rep.send(handoff.KindSandboxReady, handoff.SandboxReady{Runsc: id})
	faults.Point("start.rs.sandbox-ready")
	return nil
}

// attend serves until something ends. It returns errStop, or nil after it has
// reported a lost helper.
func (s *server) attend() error {
	for {
		select {
		case p := <-s.packets:
			if p.Kind == handoff.KindAsk {
				if err := s.answer(p); err != nil {
					return err
				}
				continue
			}
			return s.stopOr(p)
		case err := <-s.gone:
			return s.leaseEnd(err)
		case <-s.slirp.Child.Done():
			s.lost(handoff.ComponentNetwork, "slirp4netns "+s.slirp.Child.Exit().String())
		case <-s.runsc.Child.Done():
			s.lost(handoff.ComponentSandbox, "runsc "+s.runsc.Child.Exit().String())
		case <-s.view.Done():
			s.lost(handoff.ComponentMounts, s.viewEnd().Error())
		}
		return nil
	}
}

// lost reports something that ended by itself.
func (s *server) lost(c handoff.Component, reason string) {
	faults.Point("lost.rs.seen")
	s.rep.log.Error("helper lost", "component", string(c), "reason", reason)
	s.rep.send(handoff.KindHelperLost, handoff.HelperLost{Component: c, Reason: reason})
}

// stopOr is errStop for a stop message and an error for any other.
func (s *server) stopOr(p *wire.Packet) error {
	defer p.CloseFiles()
	if p.Kind != handoff.KindStop || len(p.Files) > 0 {
		return &stepError{"handoff", fmt.Errorf("%w: %s", wire.ErrUnexpected, p.Kind)}
	}
	s.rep.log.Info("stop")
	return errStop
}

// leaseEnd is errStop, with the log's word on why.
func (s *server) leaseEnd(err error) error {
	s.rep.log.Warn("the coordinator is gone", "error", err.Error())
	return errStop
}

// tearDown ends everything in its order, sandbox, network, mounts, and returns
// the exit status. A failure that caused it is reported first, and then
// nothing else is, since the report is the conversation's last message.
func (s *server) tearDown(cause error) int {
	faults.Point("end.rs.stop-received")
	limit := time.AfterFunc(teardownLimit, func() {
		s.rep.log.Error("teardown takes too long")
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	})
	defer limit.Stop()
	quiet := cause != nil && !errors.Is(cause, errStop)
	if quiet {
		s.rep.failure(cause)
	}
	for _, step := range []struct {
		component handoff.Component
		run       func() error
	}{
		{handoff.ComponentSandbox, s.stopSandbox},
		{handoff.ComponentNetwork, s.stopNetwork},
		{handoff.ComponentMounts, s.unmount},
	} {
		err := step.run()
		switch {
		case err != nil && quiet:
			s.rep.log.Error("teardown", "component", string(step.component), "error", err.Error())
		case err != nil:
			s.rep.failed(string(step.component), err)
			quiet = true
		case !quiet:
			s.rep.send(handoff.KindStopped, handoff.Stopped{Component: step.component})
			if step.component == handoff.ComponentSandbox {
				s.tell()
			}
		}
	}
	faults.Point("end.rs.stopped")
	if quiet {
		return exitFailed
	}
	return 0
}

// unmount takes the mounts down. The view answers until its own is gone.
func (s *server) unmount() error {
	err := mounts.Cleanup(s.plan)
	if s.view == nil {
		return err
	}
	if cerr := s.view.Close(2 * time.Second); cerr != nil {
		return errors.Join(err, cerr)
	}
	s.aware.Close()
	return err
}

// stopNetwork ends slirp4netns.
func (s *server) stopNetwork() error {
	faults.Point("end.rs.sandbox-reported")
	err := s.slirp.Stop(2 * time.Second)
	faults.Point("end.rs.network-stopped")
	return err
}

// stopSandbox ends the runsc client and whatever it left behind.
func (s *server) stopSandbox() error {
	if s.runsc == nil {
		return nil
	}
	if err := s.runsc.Stop(context.Background()); err != nil {
		return err
	}
	err := reapOrphans(s.slirp.Child.PID)
	faults.Point("end.rs.sandbox-stopped")
	return err
}
