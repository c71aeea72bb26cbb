package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lazaret.dev/lazaret/host/internal/spawn"
	"lazaret.dev/lazaret/host/internal/store"
	"lazaret.dev/lazaret/protocol"
	pc "lazaret.dev/lazaret/protocol/control"
	"lazaret.dev/lazaret/protocol/handoff"
	"lazaret.dev/lazaret/protocol/netpolicy"
)

// teardownGrace is how long the supervisor may take to tear down before it is
// killed, which takes its namespaces and their mounts with it.
const teardownGrace = 15 * time.Second

// launch starts the Runtime Supervisor, whose intent is on record, and
// furnishes its plan meanwhile: its namespaces need nothing of it.
func (g *generation) launch(ctx context.Context) {
	furnished := make(chan error, 1)
	g.tasks.Go(func() { furnished <- g.furnish(ctx) })
	g.tasks.Go(func() {
		super, err := spawn.Supervise(ctx, g.req.Tools.Supervisor, g.req.Mapping, g.reporter.supervisorLog)
		if ferr := <-furnished; ferr != nil {
			err = ferr // what the user can mend comes first
		}
		if err == nil {
			err = super.SendPlan(g.plan)
		}
		if err != nil && super != nil {
			super.Kill()
		}
		g.do(func() { g.launched(super, err) })
	})
}

// launched continues on the loop once the supervisor has its plan, or has not.
func (g *generation) launched(super *spawn.Supervisor, err error) {
	if err != nil {
		g.fail(err.Error(), hintOf(err))
		g.pending = append(g.pending, protocol.SupervisorGone{Generation: g.req.Generation, Reason: err.Error()})
		return
	}
	g.super = super
	hello := super.Hello()
	g.journal.owned(store.RoleSupervisor, store.Ownership{Proc: &hello.Proc, MntNS: hello.MntNS})
	g.pending = append(g.pending, protocol.SupervisorStarted{Generation: g.req.Generation}, protocol.Leased{Prepared: g.plan.Rootfs.PreparedID})
	g.reporter.phase(pc.PhaseNetwork)
	g.tasks.Go(func() { g.receive(super) })
	if g.state.Phase != protocol.Starting {
		g.stopSupervisor() // the generation was ended while the supervisor started
	}
}

// receive turns the supervisor's messages into work for the loop, until the
// lease ends.
func (g *generation) receive(super *spawn.Supervisor) {
	for {
		msg, err := super.Receive()
		if err != nil {
			super.Wait(teardownGrace)
			g.post(protocol.SupervisorGone{Generation: g.req.Generation, Reason: "the Runtime Supervisor has gone"})
			return
		}
		g.do(func() { g.supervisorMessage(msg) })
	}
}

func (g *generation) supervisorMessage(msg any) {
	post := func(e protocol.Event) { g.pending = append(g.pending, e) }
	id := g.req.Generation
	switch m := msg.(type) {
	case handoff.AnchorReady:
		g.journal.owned(store.RoleAnchor, store.Ownership{MountIDs: m.MountIDs, PreparedID: g.plan.Rootfs.PreparedID})
		post(protocol.AnchorMounted{Generation: id})
	case handoff.NetworkReady:
		if err := g.checkReadiness(m); err != nil {
			g.lose(protocol.ComponentNetwork, err)
			return
		}
		g.journal.owned(store.RoleHelper, store.Ownership{Proc: &m.Slirp})
		g.journal.owned(store.RoleNetwork, store.Ownership{NetNS: m.NetNS, NetworkFingerprint: m.Fingerprint})
		post(protocol.HelperStarted{Generation: id})
		post(protocol.NetworkReady{Generation: id, Network: g.plan.NetworkID, Readiness: m.Fingerprint})
	case handoff.SandboxReady:
		g.journal.owned(store.RoleSandbox, store.Ownership{Proc: &m.Runsc})
		post(protocol.SandboxStarted{Generation: id})
	case handoff.HelperLost:
		post(protocol.Lost{Generation: id, Component: component(m.Component), Reason: m.Reason})
	case handoff.Failed:
		g.fail(m.Error, m.Hint)
		post(protocol.Lost{Generation: id, Component: protocol.ComponentSandbox, Reason: m.Error})
	case handoff.Stopped:
		post(protocol.ComponentStopped{Generation: id, Component: component(m.Component)})
	}
}

// component translates the handoff's names; its mounts are the protocol's
// anchor.
func component(c handoff.Component) protocol.Component {
	switch c {
	case handoff.ComponentNetwork:
		return protocol.ComponentNetwork
	case handoff.ComponentMounts:
		return protocol.ComponentAnchor
	default:
		return protocol.ComponentSandbox
	}
}

// checkReadiness recomputes the network readiness fingerprint from what the
// coordinator itself knows and the namespace that the supervisor names: it is
// of this generation and this policy, or it is worth nothing (FR-18).
func (g *generation) checkReadiness(m handoff.NetworkReady) error {
	host, err := nsInode("/proc/self/ns/net")
	if err != nil {
		return err
	}
	if m.NetNS == host.Ino {
		return errors.New("the enforcement network namespace is the host's own")
	}
	want := netpolicy.Fingerprint(g.req.Domain.ID, g.req.Generation, g.req.Fingerprint(), g.plan.NetworkID,
		g.plan.Network.Digest(), host.Dev, m.NetNS)
	if m.Fingerprint != want {
		return errors.New("the network readiness fingerprint is not of this generation")
	}
	return nil
}

func (g *generation) startSandbox() {
	g.reporter.phase(pc.PhaseSandbox)
	if err := g.super.StartSandbox(); err != nil {
		g.lose(protocol.ComponentSandbox, fmt.Errorf("start the sandbox: %w", err))
	}
}

// stopSupervisor asks for the teardown, and kills what does not come to its
// end in time.
func (g *generation) stopSupervisor() {
	super := g.super
	if super == nil {
		return // launched sees that the generation is over
	}
	_ = super.Stop() // its error is the lease's end, which is reported as such
	g.tasks.Go(func() {
		select {
		case <-g.done:
		case <-time.After(teardownGrace):
			g.log.Error("the supervisor did not tear down in time; killing it")
			super.Kill()
		}
	})
}

// hintOf is the fix that an error carries, or empty.
func hintOf(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}
