package coordinator

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"lazaret.dev/lazaret/host/internal/claim"
	"lazaret.dev/lazaret/host/internal/generation"
	"lazaret.dev/lazaret/host/internal/spawn"
	"lazaret.dev/lazaret/host/internal/store"
	"lazaret.dev/lazaret/protocol"
	pc "lazaret.dev/lazaret/protocol/control"
	"lazaret.dev/lazaret/protocol/faults"
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
		super, err := spawn.Supervise(ctx, hc.req.Tools.Supervisor, hc.req.Mapping, hc.req.Generation, hc.superLog)
		if ferr := <-furnished; ferr != nil {
			err = ferr // what the user can mend comes first
		}
		hc.do(func() { hc.launched(super, err) })
	})
}

// launched continues on the loop once the supervisor has its plan, or has not.
func (hc *coordinator) launched(super *spawn.Supervisor, err error) {
	if err == nil {
		err = hc.settle(super)
	}
	if err != nil {
		if super != nil {
			super.Kill()
		}
		hc.fail(err.Error(), hintOf(err))
		hc.pending = append(hc.pending, protocol.SupervisorGone{Generation: hc.req.Generation, Reason: err.Error()})
		return
	}
	hc.super = super
	hc.pending = append(hc.pending, protocol.SupervisorStarted{Generation: hc.req.Generation}, protocol.Leased{Prepared: hc.plan.Rootfs.PreparedID})
	hc.reporter.Progress(pc.Progress{Phase: pc.PhaseNetwork})
	hc.tasks.Go(func() { hc.receive(super) })
	if hc.state.Phase != protocol.Starting {
		hc.stopSupervisor() // the generation was ended while the supervisor started
	}
}

// settle puts the supervisor on record, with the directories that it is going
// to use, and hands its plan over. Until then it holds nothing but namespaces,
// and ends with its lease: one that is not on record can harm nobody.
func (hc *coordinator) settle(super *spawn.Supervisor) error {
	hello := super.Hello()
	err := hc.journal.Claimed(store.RoleSupervisor, store.Ownership{
		Proc: &hello.Proc, MntNS: hello.MntNS, Files: claim.Identities(hc.dirs.Files()),
	})
	if err != nil {
		return err
	}
	faults.Point("start.hc.supervisor-owned")
	if err := hc.dirs.Settle(hc.req.Generation); err != nil {
		return err
	}
	faults.Point("start.hc.settled")
	err = super.SendPlan(hc.plan)
	faults.Point("start.hc.plan-sent")
	return err
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
		faults.Point("start.hc.anchor-owned")
		post(protocol.AnchorMounted{Generation: id})
	case handoff.NetworkReady:
		if err := hc.checkReadiness(m); err != nil {
			hc.lose(protocol.ComponentNetwork, err)
			return
		}
		hc.ownProcess(store.RoleHelper, store.Ownership{Proc: &m.Slirp})
		faults.Point("start.hc.helper-owned")
		hc.journal.Owned(store.RoleNetwork, store.Ownership{NetNS: m.NetNS, NetworkFingerprint: m.Fingerprint})
		faults.Point("start.hc.network-owned")
		post(protocol.HelperStarted{Generation: id})
		post(protocol.NetworkReady{Generation: id, Network: hc.plan.NetworkID, Readiness: m.Fingerprint})
	case handoff.SandboxReady:
		hc.ownProcess(store.RoleSandbox, store.Ownership{Proc: &m.Runsc})
		hc.tasks.Go(func() {
			socket := filepath.Join(hc.req.RuntimeDir, generation.RunscSocket(hc.sandbox.ID))
			if err := hc.signs.Sandbox(hc.sandbox.StateDir, socket); err != nil {
				hc.log.Warn("cannot look at the sandbox", "err", err)
			}
		})
		faults.Point("start.hc.sandbox-owned")
		post(protocol.SandboxStarted{Generation: id})
	case handoff.HelperLost:
		faults.Point("lost.hc.told")
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

// ownProcess records a process without which the generation cannot live.
func (hc *coordinator) ownProcess(role store.Role, o store.Ownership) {
	hc.signs.Process(*o.Proc)
	hc.journal.Owned(role, o)
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
	faults.Point("start.hc.gate")
	hc.reporter.Progress(pc.Progress{Phase: pc.PhaseSandbox})
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
	faults.Point("end.hc.stopping")
	_ = super.Stop() // its error is the lease's end, which is reported as such
	faults.Point("end.hc.stop-sent")
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
