// Package coordinator is the Host Coordinator of one Domain generation: it
// prepares, publishes, serves and ends it.
//
// Every decision is protocol.Next's; one goroutine owns the protocol state,
// takes events and performs effects. Whatever takes time runs on a goroutine of
// its own and comes back as an event. The package runs in the detached process
// that the CLI which won the Domain lock has started, holds that lock, and is
// the only opener of the Domain's store.
package coordinator

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"lazaret.dev/lazaret/host/internal/claim"
	"lazaret.dev/lazaret/host/internal/control"
	"lazaret.dev/lazaret/host/internal/generation"
	"lazaret.dev/lazaret/host/internal/journal"
	"lazaret.dev/lazaret/host/internal/session"
	"lazaret.dev/lazaret/host/internal/spawn"
	"lazaret.dev/lazaret/host/internal/store"
	"lazaret.dev/lazaret/host/internal/trust"
	"lazaret.dev/lazaret/host/internal/vital"
	"lazaret.dev/lazaret/protocol"
	"lazaret.dev/lazaret/protocol/faults"
	"lazaret.dev/lazaret/protocol/findings"
	"lazaret.dev/lazaret/protocol/identity"
	"lazaret.dev/lazaret/protocol/launch"
	"lazaret.dev/lazaret/protocol/trace"
)

// coordinator is the running Host Coordinator of one generation.
type coordinator struct {
	req      generation.Request
	began    time.Time
	log      *slog.Logger
	logDir   string
	superLog *os.File // the supervisor's
	reporter *generation.Reporter
	journal  *journal.Journal

	ids     generation.ComponentIDs
	dirs    generation.Dirs // set with the plan
	plan    *launch.Plan
	lease   io.Closer
	anchor  *trust.Anchor
	self    identity.Identity // the Session Coordinator's
	sandbox session.Sandbox
	imgEnv  []string
	signs   vital.Signs // of life

	inbox chan func()   // what the loop is to do
	done  chan struct{} // closed when the loop has ended
	over  chan struct{} // closed when the generation begins to end
	tasks sync.WaitGroup

	// ending is written by the loop before over is closed.
	ending protocol.EndAll

	// findings are written by the loop before done is closed.
	findings findings.Report

	// The rest belongs to the loop's goroutine.
	state       protocol.State
	trace       *trace.Writer
	pending     []protocol.Event
	after       []func() // to do once the pending events are taken
	answers     map[string]chan answer
	sessions    map[string]*served
	interactive map[string]bool
	super       *spawn.Supervisor
	server      *control.Server
	failure     *failure // why the generation failed: the first reason
}

// failure is the generation's one reason for failing.
type failure struct{ text, hint string }

// errAsked is the reason of an end that a signal asked for.
var errAsked = errors.New("the coordinator was asked to end")

// do gives the loop something to do. It waits no longer than the loop lives.
func (hc *coordinator) do(f func()) {
	select {
	case hc.inbox <- f:
	case <-hc.done:
	}
}

// post gives the loop an event.
func (hc *coordinator) post(e protocol.Event) {
	hc.do(func() { hc.pending = append(hc.pending, e) })
}

// loop runs the generation from its Start to its Release.
func (hc *coordinator) loop(ctx context.Context) {
	defer close(hc.done)
	hc.pending = append(hc.pending, protocol.Start{
		Generation: hc.req.Generation, Fingerprint: hc.req.Fingerprint(),
		IDs: protocol.ComponentIDs{Coordinator: hc.ids.Coordinator, Sandbox: hc.ids.Sandbox, Network: hc.ids.Network},
		// The request's Domain was resolved from a configuration that is refused
		// beneath a mounted path, and the supervisor makes every namespace anew.
		Confined: true, Isolated: true,
	})
	// To be asked to end is an event like others: what is done to end, and what is
	// written down about it, is not cut short.
	interrupted := ctx.Done()
	ctx = context.WithoutCancel(ctx)
	for {
		for len(hc.pending) > 0 {
			e := hc.pending[0]
			hc.pending = hc.pending[1:]
			if hc.step(ctx, e) {
				return
			}
		}
		for _, f := range hc.after {
			f()
		}
		hc.after = nil
		select {
		case f := <-hc.inbox:
			f()
		case <-interrupted:
			interrupted = nil
			hc.pending = append(hc.pending, protocol.StopRequested{Reason: errAsked.Error()})
		}
	}
}

// step applies one event and performs its effects. It reports whether the
// generation is over.
func (hc *coordinator) step(ctx context.Context, e protocol.Event) bool {
	next, effects, err := protocol.Next(hc.state, e)
	if err != nil {
		return hc.illegal(e, err)
	}
	hc.trace.Step(hc.state, e, next)
	switch e := e.(type) {
	case protocol.Lost:
		hc.fail(e.Reason, "")
	case protocol.SupervisorGone:
		if hc.state.Phase == protocol.Starting || hc.state.Phase == protocol.Ready {
			hc.fail(e.Reason, "")
		}
	case protocol.StopRequested:
		if hc.state.Phase == protocol.Starting {
			hc.fail(e.Reason, "") // not what the end does to the steps of the start
		}
	}
	was := hc.state
	hc.state = next
	hc.journal.Transition(was, next, e)
	over := false
	for _, eff := range effects {
		over = hc.perform(ctx, eff) || over
	}
	return over
}

// illegal takes an event that the protocol does not allow here. It comes from
// a peer that broke the order, or from a bug; either way the generation cannot
// be trusted any further. For a session it is that session's own affair.
func (hc *coordinator) illegal(e protocol.Event, err error) bool {
	hc.trace.Illegal(hc.state, e, err)
	switch e.(type) {
	case protocol.Attached, protocol.Closed, protocol.Ended, protocol.Lost, protocol.StopRequested:
		return false
	}
	hc.pending = append(hc.pending, protocol.Lost{Generation: hc.req.Generation, Component: protocol.ComponentSandbox, Reason: "internal error: " + err.Error()})
	return false
}

// fail notes the first reason for the generation's failure.
func (hc *coordinator) fail(text, hint string) {
	if hc.failure == nil {
		hc.failure = &failure{text: text, hint: hint}
	}
}

// perform carries one effect out. It reports whether the generation is over.
func (hc *coordinator) perform(ctx context.Context, eff protocol.Effect) bool {
	switch eff := eff.(type) {
	case protocol.RecordIntent:
		hc.journal.Intent(store.Role(eff.Role))
	case protocol.LaunchSupervisor:
		faults.Point("start.hc.supervisor-intended")
		hc.launch(ctx)
	case protocol.StartSandbox:
		hc.startSandbox()
	case protocol.IssueTrust:
		hc.issueTrust(ctx)
	case protocol.VerifyPolicy:
		hc.tasks.Go(func() { hc.verify(ctx) })
	case protocol.Publish:
		hc.publish(ctx)
	case protocol.Admit:
		faults.Point("join.hc.admitting")
		hc.journal.Admitted(eff.Session, hc.interactive[eff.Session])
		faults.Point("join.hc.admitted")
		hc.answer(eff.Session, answer{admitted: true})
	case protocol.Refuse:
		delete(hc.sessions, eff.Session)
		hc.answer(eff.Session, answer{why: eff.Why})
	case protocol.EndSession:
		hc.endSession(ctx, eff.Session)
	case protocol.Withdraw:
		faults.Point("end.hc.withdrawing")
		hc.server.Withdraw()
		faults.Point("end.hc.withdrawn")
		hc.journal.Withdrawn(hc.state.Phase)
		faults.Point("end.hc.withdrawal-row")
	case protocol.EndAll:
		hc.endAll(eff)
	case protocol.StopSupervisor:
		hc.stopSupervisor()
	case protocol.Release:
		hc.release()
		return true
	}
	return false
}

// lose reports a failure of the loop's own work.
func (hc *coordinator) lose(c protocol.Component, err error) {
	hc.pending = append(hc.pending, protocol.Lost{Generation: hc.req.Generation, Component: c, Reason: err.Error()})
}

// issueTrust opens the control sockets under the Trust Anchor. The anchor was
// made when the generation began; nothing is certified before this point.
func (hc *coordinator) issueTrust(ctx context.Context) {
	server, err := control.Listen(ctx, hc.req.RuntimeDir, hc.self, hc.anchor, control.Handlers{
		Open: hc.serve, Status: hc.status, Stop: hc.stopFor, Ignored: hc.ignored,
		// Exec clients are in the coordinator's own user namespace, as is a
		// supervisor's first stage.
		NoClients: []string{hc.req.Tools.Runsc, hc.req.Tools.Supervisor},
	})
	if err != nil {
		hc.lose(protocol.ComponentSandbox, err)
		return
	}
	hc.server = server
	faults.Point("start.hc.bound")
	hc.pending = append(hc.pending, protocol.TrustIssued{})
}

func (hc *coordinator) publish(ctx context.Context) {
	faults.Point("start.hc.publishing")
	err := hc.journal.Claimed(store.RolePublication, store.Ownership{Files: claim.Identities(hc.server.Sockets())})
	faults.Point("start.hc.publication-claimed")
	if err == nil {
		err = hc.server.Publish()
	}
	if err != nil {
		hc.fail(err.Error(), hintOf(err))
		hc.lose(protocol.ComponentSandbox, err)
		return
	}
	faults.Point("start.hc.published")
	hc.pending = append(hc.pending, protocol.Published{})
	hc.after = append(hc.after, func() {
		faults.Point("start.hc.publication-row")
		hc.reporter.Ready()
	})
	hc.tasks.Go(func() { hc.keepHouse(ctx) })
	hc.tasks.Go(func() {
		select {
		case <-time.After(idleGrace):
			hc.post(protocol.IdleExpired{})
		case <-hc.over:
		}
	})
}

func (hc *coordinator) answer(id string, a answer) {
	if ch := hc.answers[id]; ch != nil {
		delete(hc.answers, id)
		ch <- a // buffered: a registration has one answer
	}
}

// endAll tells every session that the generation is over.
func (hc *coordinator) endAll(eff protocol.EndAll) {
	hc.ending = eff
	close(hc.over)
	faults.Point("stop.hc.ending")
	for _, s := range hc.sessions {
		s.cancel()
	}
}

// release ends the generation on the host: what is left are records, the
// lease, and the runtime directory.
func (hc *coordinator) release() {
	select {
	case <-hc.over:
	default:
		close(hc.over)
	}
	faults.Point("end.hc.releasing")
	if hc.lease != nil {
		if err := hc.lease.Close(); err != nil {
			hc.log.Error("cannot release the prepared-lower lease", "err", err)
		}
	}
	faults.Point("end.hc.lease-file")
	// What is on record goes before its record does.
	if hc.server != nil {
		hc.server.Withdraw()
	}
	if err := hc.dirs.Leave(hc.req.RuntimeDir, hc.req.Generation); err != nil {
		hc.log.Error("cannot clear the runtime directory", "err", err)
	}
	faults.Point("end.hc.cleared")
	outcome := "ended"
	if hc.failure != nil {
		outcome = hc.failure.text
	}
	hc.journal.Ended(outcome)
	faults.Point("end.hc.ended")
	hc.trace.Over(outcome)
}
