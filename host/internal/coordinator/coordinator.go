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
	"io"
	"log/slog"
	"sync"
	"time"

	"lazaret.dev/lazaret/host/internal/control"
	"lazaret.dev/lazaret/host/internal/session"
	"lazaret.dev/lazaret/host/internal/spawn"
	"lazaret.dev/lazaret/host/internal/trust"
	"lazaret.dev/lazaret/protocol"
	"lazaret.dev/lazaret/protocol/identity"
	"lazaret.dev/lazaret/protocol/launch"
)

// generation is a running coordinator.
type generation struct {
	req      Request
	log      *slog.Logger
	logDir   string
	reporter *reporter
	journal  *journal

	ids     componentIDs
	plan    *launch.Plan
	lease   io.Closer
	anchor  *trust.Anchor
	self    identity.Identity // the Session Coordinator's
	sandbox session.Sandbox
	imgEnv  []string

	inbox chan func()   // what the loop is to do
	done  chan struct{} // closed when the loop has ended
	over  chan struct{} // closed when the generation begins to end
	tasks sync.WaitGroup

	// ending is written by the loop before over is closed.
	ending protocol.EndAll

	// The rest belongs to the loop's goroutine.
	state       protocol.State
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

// do gives the loop something to do. It waits no longer than the loop lives.
func (g *generation) do(f func()) {
	select {
	case g.inbox <- f:
	case <-g.done:
	}
}

// post gives the loop an event.
func (g *generation) post(e protocol.Event) {
	g.do(func() { g.pending = append(g.pending, e) })
}

// loop runs the generation from its Start to its Release.
func (g *generation) loop(ctx context.Context) {
	defer close(g.done)
	g.pending = append(g.pending, protocol.Start{Generation: g.req.Generation, Fingerprint: g.req.Fingerprint()})
	// To be asked to end is an event like others: what is done to end, and what is
	// written down about it, is not cut short.
	interrupted := ctx.Done()
	ctx = context.WithoutCancel(ctx)
	for {
		for len(g.pending) > 0 {
			e := g.pending[0]
			g.pending = g.pending[1:]
			if g.step(ctx, e) {
				return
			}
		}
		for _, f := range g.after {
			f()
		}
		g.after = nil
		select {
		case f := <-g.inbox:
			f()
		case <-interrupted:
			interrupted = nil
			g.pending = append(g.pending, protocol.StopRequested{Reason: "the coordinator was asked to end"})
		}
	}
}

// step applies one event and performs its effects. It reports whether the
// generation is over.
func (g *generation) step(ctx context.Context, e protocol.Event) bool {
	next, effects, err := protocol.Next(g.state, e)
	if err != nil {
		return g.illegal(e, err)
	}
	g.log.Debug("event", "event", protocol.EventName(e), "detail", e, "from", g.state.Phase, "to", next.Phase)
	switch e := e.(type) {
	case protocol.Lost:
		g.fail(e.Reason, "")
	case protocol.SupervisorGone:
		if g.state.Phase == protocol.Starting || g.state.Phase == protocol.Ready {
			g.fail(e.Reason, "")
		}
	}
	was := g.state
	g.state = next
	g.journal.transition(was, next, e)
	over := false
	for _, eff := range effects {
		over = g.perform(ctx, eff) || over
	}
	return over
}

// illegal takes an event that the protocol does not allow here. It comes from
// a peer that broke the order, or from a bug; either way the generation cannot
// be trusted any further. For a session it is that session's own affair.
func (g *generation) illegal(e protocol.Event, err error) bool {
	g.log.Error("illegal event", "event", protocol.EventName(e), "phase", g.state.Phase, "err", err)
	switch e.(type) {
	case protocol.Attached, protocol.Closed, protocol.Ended, protocol.Lost, protocol.StopRequested:
		return false
	}
	g.pending = append(g.pending, protocol.Lost{Component: protocol.ComponentSandbox, Reason: "internal error: " + err.Error()})
	return false
}

// fail notes the first reason for the generation's failure.
func (g *generation) fail(text, hint string) {
	if g.failure == nil {
		g.failure = &failure{text: text, hint: hint}
	}
}

// perform carries one effect out. It reports whether the generation is over.
func (g *generation) perform(ctx context.Context, eff protocol.Effect) bool {
	switch eff := eff.(type) {
	case protocol.LaunchSupervisor:
		g.launch(ctx)
	case protocol.StartSandbox:
		g.startSandbox()
	case protocol.IssueTrust:
		g.issueTrust(ctx)
	case protocol.VerifyPolicy:
		g.tasks.Go(func() { g.verify(ctx) })
	case protocol.Publish:
		g.publish(ctx)
	case protocol.Admit:
		g.journal.admitted(eff.Session, g.interactive[eff.Session])
		g.answer(eff.Session, answer{admitted: true})
	case protocol.Refuse:
		delete(g.sessions, eff.Session)
		g.answer(eff.Session, answer{why: eff.Why})
	case protocol.EndSession:
		g.endSession(ctx, eff.Session)
	case protocol.Withdraw:
		g.server.Withdraw()
		g.journal.withdrawn(g.state.Phase)
	case protocol.EndAll:
		g.endAll(eff)
	case protocol.StopSupervisor:
		g.stopSupervisor()
	case protocol.Release:
		g.release()
		return true
	}
	return false
}

// lose reports a failure of the loop's own work.
func (g *generation) lose(c protocol.Component, err error) {
	g.pending = append(g.pending, protocol.Lost{Component: c, Reason: err.Error()})
}

// issueTrust opens the control sockets under the Trust Anchor. The anchor was
// made when the generation began; nothing is certified before this point.
func (g *generation) issueTrust(ctx context.Context) {
	server, err := control.Listen(ctx, g.req.RuntimeDir, g.self, g.anchor, g.serve)
	if err != nil {
		g.lose(protocol.ComponentSandbox, err)
		return
	}
	g.server = server
	g.pending = append(g.pending, protocol.TrustIssued{})
}

func (g *generation) publish(ctx context.Context) {
	if err := g.server.Publish(); err != nil {
		g.lose(protocol.ComponentSandbox, err)
		return
	}
	g.pending = append(g.pending, protocol.Published{})
	g.after = append(g.after, g.reporter.ready)
	g.tasks.Go(func() { g.keepHouse(ctx) })
	g.tasks.Go(func() {
		select {
		case <-time.After(idleGrace):
			g.post(protocol.IdleExpired{})
		case <-g.over:
		}
	})
}

func (g *generation) answer(id string, a answer) {
	if ch := g.answers[id]; ch != nil {
		delete(g.answers, id)
		ch <- a // buffered: a registration has one answer
	}
}

// endAll tells every session that the generation is over.
func (g *generation) endAll(eff protocol.EndAll) {
	g.ending = eff
	close(g.over)
	for _, s := range g.sessions {
		s.cancel()
	}
}

// release ends the generation on the host: what is left are records, the
// lease, and the runtime directory.
func (g *generation) release() {
	select {
	case <-g.over:
	default:
		close(g.over)
	}
	if g.lease != nil {
		if err := g.lease.Close(); err != nil {
			g.log.Error("cannot release the prepared-lower lease", "err", err)
		}
	}
	outcome := "ended"
	if g.failure != nil {
		outcome = g.failure.text
	}
	g.journal.ended(outcome)
	if err := clearRuntime(g.req.RuntimeDir); err != nil {
		g.log.Error("cannot clear the runtime directory", "err", err)
	}
	g.log.Info("generation over", "outcome", outcome)
}
