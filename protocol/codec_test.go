package protocol_test

import (
	"fmt"
	"slices"

	"lazaret.dev/lazaret/protocol"
)

// The codec writes a world in a few bytes. It is exact on what a fixture can
// reach; whatever it has no code for is a panic, and the explorer checks that
// decoding gives back what was encoded.
var (
	order     = protocol.Roles()
	roles     = append(protocol.Roles(), "")
	gens      = []string{"", "g1", "g2"}
	phases    = []protocol.DomainPhase{protocol.Absent, protocol.Recovering, protocol.Starting, protocol.Ready, protocol.Stopping, protocol.Failed}
	intents   = []protocol.Intent{"", protocol.Intended, protocol.Owned, protocol.Cleaning}
	sessions  = []protocol.SessionPhase{"", protocol.SessionRegistered, protocol.SessionAttached, protocol.SessionPrompting, protocol.SessionExecuting, protocol.SessionClosing}
	routes    = []protocol.TerminalRoute{"", protocol.RouteDetached, protocol.RouteSandbox, protocol.RoutePrompt, protocol.RouteHostProcess}
	connected = []protocol.ConnectionState{"", protocol.Connected, protocol.Disconnected}
	commands  = []string{"", asked, edited}
	sources   = []protocol.ApprovalSource{"", protocol.AutoRule, protocol.Developer}
	requests  = []protocol.RequestPhase{
		protocol.RequestUnused, protocol.RequestVerified, protocol.RequestAwaitingApproval,
		protocol.RequestApproved, protocol.RequestExecuting, protocol.CompletionPending, protocol.DenialPending, protocol.TimeoutPending,
		protocol.CancellationPending, protocol.FailurePending, protocol.RequestCompleted, protocol.RequestDenied, protocol.RequestTimedOut,
		protocol.RequestCancelled, protocol.RequestFailed,
	}
)

func code[T comparable](all []T, v T) byte {
	i := slices.Index(all, v)
	if i < 0 {
		panic(fmt.Sprintf("TypeOK: %v is none of %v", v, all))
	}
	return byte(i)
}

func bits(bs ...bool) (v byte) {
	for i, b := range bs {
		if b {
			v |= 1 << i
		}
	}
	return v
}

func flag[T comparable](v, off, on T) bool {
	if v != off && v != on {
		panic(fmt.Sprintf("TypeOK: %v is neither %v nor %v", v, off, on))
	}
	return v == on
}

func ready(s protocol.ResourceState) bool {
	return flag(s, protocol.ResourceStopped, protocol.ResourceReady)
}

func (f *fixture) encode(w world) string {
	b := make([]byte, 0, 24)
	live := w.Generation != ""
	if flag(w.Fingerprint, "", fingerprint) != live || w.IDs != idsOf(w.Generation) || w.Confined != live || w.Isolated != live {
		panic("TypeOK: a generation without its identity, or an identity without a generation")
	}
	inForce, lease, dead := w.Intents, w.Lease, w.Record != nil
	if dead {
		if len(w.Intents) > 0 || w.Lease != "" || w.Record.Generation != w.Previous {
			panic("TypeOK: a record beside a live generation")
		}
		inForce, lease = w.Record.Intents, w.Record.Lease
	}
	b = append(b, code(phases, w.Phase), code(gens, w.Generation), code(gens, w.Previous),
		bits(flag(lease, "", prepared), ready(w.Anchor), ready(w.Network), flag(w.Readiness, "", readiness), ready(w.Sandbox), w.Trust, w.Verified, w.Published),
		bits(dead), byte(w.crashes), byte(w.plants), code(roles, w.planted))
	known := 0
	for _, r := range order {
		b = append(b, code(intents, inForce[r]))
		if inForce[r] != "" {
			known++
		}
	}
	for _, s := range f.sessions {
		v, ok := w.Sessions[s]
		known += int(bits(ok))
		b = append(b, code(sessions, v.Phase)<<4|code(routes, v.Route), code(connected, v.Connection)<<4|code(f.ids, v.Active))
	}
	for _, r := range f.requests {
		v, ok := w.Requests[r]
		known += int(bits(ok))
		if ok && v.Session != f.owner[r] {
			panic("TypeOK: a request of another session")
		}
		b = append(b, code(requests, v.Phase)<<4|code(requests, v.Ending), code(commands, v.Command)<<4|code(sources, v.Source))
	}
	if known != len(inForce)+len(w.Sessions)+len(w.Requests) {
		panic("TypeOK: something unknown is in the state")
	}
	return string(b)
}

func (f *fixture) decode(b string) world {
	at := 0
	take := func() byte { at++; return b[at-1] }
	var w world
	w.State = protocol.Initial()
	w.Phase = phases[take()]
	w.Generation, w.Previous = generation(int(take())), generation(int(take()))
	if w.Generation != "" {
		w.Fingerprint, w.IDs, w.Confined, w.Isolated = fingerprint, idsOf(w.Generation), true, true
	}
	v := take()
	bit := func(i int) bool { return v>>i&1 == 1 }
	lease := ""
	if bit(0) {
		lease = prepared
	}
	for i, s := range map[int]*protocol.ResourceState{1: &w.Anchor, 2: &w.Network, 4: &w.Sandbox} {
		if bit(i) {
			*s = protocol.ResourceReady
		}
	}
	if bit(3) {
		w.Readiness = readiness
	}
	w.Trust, w.Verified, w.Published = bit(5), bit(6), bit(7)
	dead := take() == 1
	w.crashes, w.plants = int(take()), int(take())
	w.planted = roles[take()]
	var inForce map[protocol.Role]protocol.Intent
	for _, r := range order {
		if i := intents[take()]; i != "" {
			if inForce == nil {
				inForce = map[protocol.Role]protocol.Intent{}
			}
			inForce[r] = i
		}
	}
	if dead {
		w.Record = &protocol.Record{Generation: w.Previous, Intents: inForce, Lease: lease}
	} else {
		w.Intents, w.Lease = inForce, lease
	}
	for _, s := range f.sessions {
		a, c := take(), take()
		if a>>4 != 0 {
			if w.Sessions == nil {
				w.Sessions = map[string]protocol.Session{}
			}
			w.Sessions[s] = protocol.Session{Phase: sessions[a>>4], Route: routes[a&15], Connection: connected[c>>4], Active: f.ids[c&15]}
		}
	}
	for _, r := range f.requests {
		a, c := take(), take()
		if a>>4 != 0 {
			if w.Requests == nil {
				w.Requests = map[string]protocol.Request{}
			}
			w.Requests[r] = protocol.Request{Session: f.owner[r], Phase: requests[a>>4], Ending: requests[a&15], Command: commands[c>>4], Source: sources[c&15]}
		}
	}
	return w
}
