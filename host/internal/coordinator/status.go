package coordinator

import (
	"context"

	"lazaret.dev/lazaret/host/internal/spawn"
	"lazaret.dev/lazaret/protocol"
	pc "lazaret.dev/lazaret/protocol/control"
	"lazaret.dev/lazaret/protocol/faults"
	"lazaret.dev/lazaret/protocol/isolation"
)

// status says what runs in the Domain. After the generation's end it says that
// nothing does.
func (hc *coordinator) status() pc.Status {
	st := pc.Status{
		DomainID: hc.req.Domain.ID, Profile: hc.req.Domain.Profile, Workspace: hc.req.Domain.Workspace.Path,
		Generation: hc.req.Generation, Phase: protocol.Absent, Since: hc.began, Sessions: []pc.SessionStatus{},
	}
	filled := make(chan struct{})
	hc.do(func() {
		defer close(filled)
		st.Phase = hc.state.Phase
		for _, id := range hc.state.SessionIDs() {
			s := hc.sessions[id]
			if s == nil {
				continue // closing: its processes are being ended
			}
			st.Sessions = append(st.Sessions, pc.SessionStatus{
				ID: id, Phase: hc.state.Sessions[id].Phase, Command: s.argv, TTY: hc.interactive[id], Since: s.since,
			})
		}
	})
	select {
	case <-filled:
	case <-hc.done:
	}
	return st
}

// ignored passes a question about ignored paths on to the supervisor.
func (hc *coordinator) ignored(ctx context.Context, req isolation.Request) isolation.Answer {
	serving := make(chan *spawn.Supervisor, 1)
	hc.do(func() {
		if hc.state.Phase == protocol.Ready {
			serving <- hc.super
		}
		close(serving)
	})
	select {
	case super := <-serving:
		return super.Ask(ctx, req)
	case <-hc.done:
		return (*spawn.Supervisor)(nil).Ask(ctx, req)
	}
}

// stopFor ends the generation for a client that asks for it. Sessions are told
// who that was.
func (hc *coordinator) stopFor(ctx context.Context, req pc.StopRequest) {
	faults.Point("stop.hc.asked")
	if req.Generation != hc.req.Generation {
		return // what was to end has ended
	}
	hc.post(protocol.StopRequested{Reason: "the Domain was stopped by " + req.By})
	select {
	case <-hc.done:
	case <-ctx.Done():
	}
}
