package protocol_test

import (
	"fmt"
	"reflect"
	"slices"

	"lazaret.dev/lazaret/protocol"
)

// follows says which request phases may follow which, whatever the event. From
// Unused on a request ends in a terminal phase, and stays there until it is
// forgotten with its session.
func follows(was, now protocol.RequestPhase) bool {
	const (
		verified, awaiting, approved, executing = protocol.RequestVerified, protocol.RequestAwaitingApproval, protocol.RequestApproved, protocol.RequestExecuting
	)
	cut := now == protocol.TimeoutPending || now == protocol.CancellationPending || now == protocol.RequestCancelled || now == protocol.RequestFailed
	switch was {
	case now:
		return true
	case protocol.RequestUnused:
		return now == verified
	case verified:
		return now == awaiting || now == approved || now == protocol.DenialPending || cut
	case awaiting:
		return now == approved || now == protocol.DenialPending || cut
	case approved:
		return now == executing || now == protocol.FailurePending || now == protocol.RequestTimedOut || cut
	case executing:
		return now == protocol.CompletionPending || now == protocol.FailurePending || now == protocol.RequestCompleted || now == protocol.RequestTimedOut || cut
	default:
		return now == was.Delivered() && now != ""
	}
}

// checkRequests checks a step's requests and sessions.
func checkRequests(was, now world, e protocol.Event, effects []protocol.Effect) error {
	count := func(want protocol.Effect) (n int) {
		for _, got := range effects {
			n += int(bits(reflect.DeepEqual(got, want)))
		}
		return n
	}
	ids := map[string]bool{}
	for id := range was.Requests {
		ids[id] = true
	}
	for id := range now.Requests {
		ids[id] = true
	}
	for id := range ids {
		a, b := was.Requests[id], now.Requests[id]
		forgotten := b.Phase == protocol.RequestUnused && (now.Generation == "" || now.Sessions[a.Session].Phase == "")
		over := !a.Phase.Terminal() && (b.Phase.Terminal() || forgotten)
		resolved := 0
		for _, eff := range effects {
			if r, ok := eff.(protocol.Resolve); ok && r.Request == id {
				if resolved++; !r.Outcome.Terminal() || !forgotten && r.Outcome != b.Phase {
					return fmt.Errorf("step: %s is resolved as %q and is %q", id, r.Outcome, b.Phase)
				}
			}
		}
		began := a.Phase != protocol.RequestApproved && b.Phase == protocol.RequestApproved
		prompted := b.Phase == protocol.RequestAwaitingApproval
		cut := a.Ending == "" && b.Ending != "" || b.Phase == protocol.RequestExecuting && a.Phase == protocol.RequestApproved && b.Ending != ""
		for _, p := range []struct {
			what string
			ok   bool
		}{
			{"phases follow the protocol", follows(a.Phase, b.Phase) || forgotten && (a.Phase.Terminal() || resolved == 1)},
			{"an outcome that is decided stands", implies(a.Ending != "" && b.Phase != protocol.RequestUnused, b.Ending == a.Ending || b.Phase == a.Ending || b.Phase == a.Ending.Delivered())},
			{"an accepted request is resolved once (OR-2)", resolved == int(bits(over))},
			{"a host process is started when approved, its intent on record", began == (count(protocol.StartHost{Request: id, Command: b.Command}) == 1) &&
				implies(began, slices.Index(effects, protocol.Effect(protocol.RecordIntent{Role: protocol.RoleHost, Request: id})) >= 0 &&
					slices.Index(effects, protocol.Effect(protocol.RecordIntent{Role: protocol.RoleHost, Request: id})) < slices.Index(effects, protocol.Effect(protocol.StartHost{Request: id, Command: b.Command})))},
			{"what is approved stays what it was", implies(a.Phase.Delivered() == "" && was.HostRunning(id) && now.HostRunning(id), a.Command == b.Command && a.Source == b.Source)},
			{"a host process is ended before its time", cut == (count(protocol.EndHost{Request: id}) > 0)},
			{"the developer is asked", (prompted && a.Phase != b.Phase) == (count(protocol.ShowPrompt{Request: id}) > 0)},
			{"the question is taken back", (a.Phase == protocol.RequestAwaitingApproval && !prompted) == (count(protocol.ClosePrompt{Request: id}) > 0)},
			{"a pending result is delivered", (b.Phase.Pending() && a.Phase != b.Phase) == (count(protocol.Deliver{Request: id, Outcome: b.Phase}) > 0)},
			{"an accepted request is decided", (a.Phase == protocol.RequestUnused && b.Phase != "") == (count(protocol.Decide{Request: id}) > 0)},
			{"only the client's own session is asked for", implies(a.Session != "" && b.Session != "", a.Session == b.Session)},
			{"a host process that is gone is reported gone", implies(was.HostRunning(id) && !now.HostRunning(id), hostEvent(e) == id)},
		} {
			if !p.ok {
				return fmt.Errorf("step: %s: %s", id, p.what)
			}
		}
	}
	return checkSessions(was, now, effects, count)
}

func checkSessions(was, now world, effects []protocol.Effect, count func(protocol.Effect) int) error {
	for _, id := range []string{"s1", "s2"} {
		a, b := was.Sessions[id], now.Sessions[id]
		in, out := b.Phase != "", a.Phase != "" && b.Phase == ""
		closing := b.Phase == protocol.SessionClosing
		for _, p := range []struct {
			what string
			ok   bool
		}{
			{"admitted when published, and only then (FR-10)", (a.Phase == "" && in) == (count(protocol.Admit{Session: id}) > 0) && implies(a.Phase == "" && in, was.Published)},
			{"a closed session is ended (FR-15)", (a.Phase != "" && a.Phase != protocol.SessionClosing && closing) == (count(protocol.EndSession{Session: id}) > 0)},
			{"a closed session stays closed", implies(a.Phase == protocol.SessionClosing, closing || out)},
			{"a session begins registered, or ends", implies(b.Phase == protocol.SessionRegistered, a.Phase == "" || a == b)},
			{"a session is closed before it is gone", implies(out && now.Generation != "", a.Phase == protocol.SessionClosing && a.Active == "")},
			{"the last session ends the generation (FR-6)", implies(out && len(now.Sessions) == 0 && was.Phase == protocol.Ready, now.Phase != protocol.Ready)},
			{"a session in use keeps its generation", implies(was.Phase == protocol.Ready && now.Phase == protocol.Stopping && len(now.Sessions) > 0, slices.ContainsFunc(effects, asksToStop))},
		} {
			if !p.ok {
				return fmt.Errorf("step: %s: %s", id, p.what)
			}
		}
	}
	return nil
}

// asksToStop reports the orderly end that somebody has asked for.
func asksToStop(e protocol.Effect) bool {
	all, ok := e.(protocol.EndAll)
	return ok && all.Reason != ""
}
