package coordinator

import (
	"context"

	pc "lazaret.dev/lazaret/protocol/control"

	"lazaret.dev/lazaret/protocol"
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

// errEnding says that a question comes too late.
const errEnding = "the sandbox is just ending: ask again"

// ignored passes a question about ignored paths on to the supervisor.
func (hc *coordinator) ignored(ctx context.Context, req isolation.Request) isolation.Answer {
	answered := make(chan isolation.Answer, 1)
	hc.do(func() {
		if hc.state.Phase != protocol.Ready {
			answered <- isolation.Answer{Error: errEnding}
			return
		}
		if err := hc.super.Ask(req); err != nil {
			answered <- isolation.Answer{Error: err.Error()}
			return
		}
		hc.asked = append(hc.asked, answered)
	})
	select {
	case a := <-answered:
		return a
	case <-hc.done:
	case <-ctx.Done():
	}
	return isolation.Answer{Error: errEnding}
}

// stopFor ends the generation for a client that asks for it. Sessions are told
// who that was.
func (hc *coordinator) stopFor(ctx context.Context, req pc.StopRequest) {
	hc.post(protocol.StopRequested{Reason: "the Domain was stopped by " + req.By})
	select {
	case <-hc.done:
	case <-ctx.Done():
	}
}
