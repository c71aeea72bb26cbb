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
	"lazaret.dev/lazaret/protocol/findings"
	"lazaret.dev/lazaret/protocol/handoff"
	"lazaret.dev/lazaret/protocol/netpolicy"
)

// teardownGrace is how long the supervisor may take to tear down before it is
// killed, which takes its namespaces and their mounts with it.
const teardownGrace = 15 * time.Second

// launch starts the Runtime Supervisor, whose intent is on record, and
// furnishes its plan meanwhile: its namespaces need nothing of it.
func (hc *coordinator) launch(ctx context.Context) {
	furnished := make(chan error, 1)
	hc.tasks.Go(func() { furnished <- hc.furnish(ctx) })
	hc.tasks.Go(func() {
		super, err := spawn.Supervise(ctx, hc.req.Tools.Supervisor, hc.req.Mapping, hc.reporter.supervisorLog)
		if ferr := <-furnished; ferr != nil {
			err = ferr // what the user can mend comes first
		}
		if err == nil {
			err = super.SendPlan(hc.plan)
		}
		if err != nil && super != nil {
			super.Kill()
		}
		hc.do(func() { hc.launched(super, err) })
	})
}

// launched continues on the loop once the supervisor has its plan, or has not.
func (hc *coordinator) launched(super *spawn.Supervisor, err error) {
	if err != nil {
		hc.fail(err.Error(), hintOf(err))
		hc.pending = append(hc.pending, protocol.SupervisorGone{Generation: hc.req.Generation, Reason: err.Error()})
		return
	}
	hc.super = super
	hello := super.Hello()
	hc.journal.Owned(store.RoleSupervisor, store.Ownership{Proc: &hello.Proc, MntNS: hello.MntNS})
	hc.pending = append(hc.pending, protocol.SupervisorStarted{Generation: hc.req.Generation}, protocol.Leased{Prepared: hc.plan.Rootfs.PreparedID})
	hc.reporter.phase(pc.PhaseNetwork)
	hc.tasks.Go(func() { hc.receive(super) })
	if hc.state.Phase != protocol.Starting {
		hc.stopSupervisor() // the generation was ended while the supervisor started
	}
}

// receive turns the supervisor's messages into work for the loop, until the
// lease ends.
func (hc *coordinator) receive(super *spawn.Supervisor) {
	for {
		msg, err := super.Receive()
		if err != nil {
			super.Wait(teardownGrace)
			hc.post(protocol.SupervisorGone{Generation: hc.req.Generation, Reason: "the Runtime Supervisor has gone"})
			return
		}
		hc.do(func() { hc.supervisorMessage(msg) })
	}
}

func (hc *coordinator) supervisorMessage(msg any) {
	post := func(e protocol.Event) { hc.pending = append(hc.pending, e) }
	id := hc.req.Generation
	switch m := msg.(type) {
	case handoff.AnchorReady:
		hc.journal.Owned(store.RoleAnchor, store.Ownership{MountIDs: m.MountIDs, PreparedID: hc.plan.Rootfs.PreparedID})
		post(protocol.AnchorMounted{Generation: id})
	case handoff.NetworkReady:
		if err := hc.checkReadiness(m); err != nil {
			hc.lose(protocol.ComponentNetwork, err)
			return
		}
		hc.journal.Owned(store.RoleHelper, store.Ownership{Proc: &m.Slirp})
		hc.journal.Owned(store.RoleNetwork, store.Ownership{NetNS: m.NetNS, NetworkFingerprint: m.Fingerprint})
		post(protocol.HelperStarted{Generation: id})
		post(protocol.NetworkReady{Generation: id, Network: hc.plan.NetworkID, Readiness: m.Fingerprint})
	case handoff.SandboxReady:
		hc.journal.Owned(store.RoleSandbox, store.Ownership{Proc: &m.Runsc})
		post(protocol.SandboxStarted{Generation: id})
	case handoff.HelperLost:
		post(protocol.Lost{Generation: id, Component: component(m.Component), Reason: m.Reason})
	case handoff.Failed:
		hc.fail(m.Error, m.Hint)
		post(protocol.Lost{Generation: id, Component: protocol.ComponentSandbox, Reason: m.Error})
	case findings.Report:
		hc.findings = m
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
func (hc *coordinator) checkReadiness(m handoff.NetworkReady) error {
	host, err := spawn.NamespaceOf("/proc/self/ns/net")
	if err != nil {
		return err
	}
	if m.NetNS == host.Ino {
		return errors.New("the enforcement network namespace is the host's own")
	}
	want := netpolicy.Fingerprint(hc.req.Domain.ID, hc.req.Generation, hc.req.Fingerprint(), hc.plan.NetworkID,
		hc.plan.Network.Digest(), host.Dev, m.NetNS)
	if m.Fingerprint != want {
		return errors.New("the network readiness fingerprint is not of this generation")
	}
	return nil
}

func (hc *coordinator) startSandbox() {
	hc.reporter.phase(pc.PhaseSandbox)
	if err := hc.super.StartSandbox(); err != nil {
		hc.lose(protocol.ComponentSandbox, fmt.Errorf("start the sandbox: %w", err))
	}
}

// stopSupervisor asks for the teardown, and kills what does not come to its
// end in time.
func (hc *coordinator) stopSupervisor() {
	super := hc.super
	if super == nil {
		return // launched sees that the generation is over
	}
	_ = super.Stop() // its error is the lease's end, which is reported as such
	hc.tasks.Go(func() {
		select {
		case <-hc.done:
		case <-time.After(teardownGrace):
			hc.log.Error("the supervisor did not tear down in time; killing it")
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
