package protocol_test

import (
	"slices"

	"lazaret.dev/lazaret/protocol"
)

// fixture bounds the exploration, and is the environment: it says which events
// may come when. Lazaret.tla has the same one. Whatever it does not bound is
// up to Next alone.
type fixture struct {
	sessions    []string
	requests    []string
	owner       map[string]string // request → session
	generations int               // how often the Domain may start
	crashes     int               // how often a coordinator may die
	plants      int               // how often something foreign may take a leftover's place
	ids         []string          // the requests, and none
}

func small() *fixture {
	return &fixture{
		sessions: []string{"s1"}, requests: []string{"r1", "r2"},
		owner:       map[string]string{"r1": "s1", "r2": "s1"},
		generations: 2, crashes: 1, plants: 1, ids: []string{"r1", "r2", ""},
	}
}

func full() *fixture {
	return &fixture{
		sessions: []string{"s1", "s2"}, requests: []string{"r1", "r2", "r3"},
		owner:       map[string]string{"r1": "s1", "r2": "s2", "r3": "s1"},
		generations: 2, crashes: 2, plants: 1, ids: []string{"r1", "r2", "r3", ""},
	}
}

// The constants of every fixture.
const (
	fingerprint = "f"
	readiness   = "r"
	prepared    = "p"
	asked       = "c" // the command that is asked for
	edited      = "e" // and the one that the developer makes of it
)

func generation(n int) string { return gens[n] }

func idsOf(generation string) protocol.ComponentIDs {
	if generation == "" {
		return protocol.ComponentIDs{}
	}
	return protocol.ComponentIDs{Coordinator: "c" + generation, Sandbox: "s" + generation, Network: "n" + generation}
}

func startOf(generation string) protocol.Start {
	return protocol.Start{
		Generation: generation, Fingerprint: fingerprint, IDs: idsOf(generation), Confined: true, Isolated: true,
	}
}

// world is one state of the exploration: the protocol's and the environment's.
type world struct {
	protocol.State
	crashes int
	plants  int
	planted protocol.Role // something foreign is where this role's record points
}

// move is something that may happen. Of a move that is the environment's alone
// the event is nil.
type move struct {
	name  string // the action's name in the model
	on    string // its session, request or role
	event protocol.Event
	after func(*world) // what it does to the environment
}

func (f *fixture) initial() world {
	return world{State: protocol.Initial(), crashes: f.crashes, plants: f.plants}
}

// next is the number of the generation that may start now, or 0.
func (f *fixture) next(w world) int {
	for n := range f.generations {
		if w.Previous == generation(n) {
			return n + 1
		}
	}
	return 0
}

// moves lists what the environment lets happen. Next may still call it illegal,
// which means that it cannot happen now.
func (f *fixture) moves(w world) []move {
	g := w.Generation
	var ms []move
	add := func(on string, events ...protocol.Event) {
		for _, e := range events {
			ms = append(ms, move{name: protocol.EventName(e), on: on, event: e})
		}
	}
	if n := f.next(w); n > 0 {
		add("", startOf(generation(n)))
	}
	add("", protocol.SupervisorStarted{Generation: g}, protocol.Leased{Prepared: prepared},
		protocol.AnchorMounted{Generation: g}, protocol.HelperStarted{Generation: g},
		protocol.NetworkReady{Generation: g, Network: w.IDs.Network, Readiness: readiness},
		protocol.SandboxStarted{Generation: g}, protocol.TrustIssued{}, protocol.PolicyVerified{}, protocol.Published{},
		protocol.IdleExpired{}, protocol.SupervisorGone{Generation: g, Reason: "gone"},
		protocol.Recover{}, protocol.LeaseReleased{})
	if w.Phase != protocol.Recovering { // there it leaves what a death leaves: see checkState
		add("", protocol.StopRequested{Reason: "asked"})
	}
	for _, c := range []protocol.Component{protocol.ComponentAnchor, protocol.ComponentNetwork, protocol.ComponentSandbox} {
		add(string(c), protocol.ComponentStopped{Generation: g, Component: c})
	}
	add("", protocol.Lost{Generation: g, Component: protocol.ComponentSandbox, Reason: "died"})
	if w.crashes > 0 {
		ms = append(ms, move{name: "CoordinatorLost", event: protocol.CoordinatorLost{}, after: func(w *world) { w.crashes-- }})
	}
	for _, r := range order {
		if w.planted == r {
			add(string(r), protocol.Compared{Role: r, Finding: protocol.FoundMismatch})
			ms = append(ms, move{name: "ForeignRemoved", after: func(w *world) { w.planted = "" }})
		} else {
			add(string(r), protocol.Compared{Role: r, Finding: protocol.FoundGone}, protocol.Compared{Role: r, Finding: protocol.FoundMatching})
		}
		add(string(r), protocol.Cleaned{Role: r})
		if w.Phase == protocol.Absent && w.Record != nil && w.Record.Intents[r] != "" && w.plants > 0 && w.planted == "" {
			ms = append(ms, move{name: "ForeignPlanted", on: string(r), after: func(w *world) { w.plants, w.planted = w.plants-1, r }})
		}
	}
	for _, s := range f.sessions {
		add(s, protocol.Register{Session: s, Generation: g, Fingerprint: fingerprint}, protocol.Attached{Session: s},
			protocol.Closed{Session: s}, protocol.Ended{Session: s})
	}
	for _, r := range f.requests {
		add(r, protocol.Submitted{Request: r, Session: f.owner[r], Command: asked, Generation: g, Sandbox: w.IDs.Sandbox, Authentic: true},
			protocol.Asked{Request: r},
			protocol.Approved{Request: r, Source: protocol.AutoRule, Command: asked},
			protocol.Approved{Request: r, Source: protocol.Developer, Command: asked},
			protocol.Approved{Request: r, Source: protocol.Developer, Command: edited},
			protocol.Denied{Request: r}, protocol.TimedOut{Request: r}, protocol.Cancelled{Request: r},
			protocol.HostStarted{Request: r}, protocol.HostEnded{Request: r}, protocol.HostFailed{Request: r},
			protocol.Delivered{Request: r})
	}
	return ms
}

// noise lists what comes in every state and must never change one: events of
// other generations and components, of other configurations, without authority
// or malformed. Next answers each with an illegal event or a refusal.
func (f *fixture) noise(w world) []protocol.Event {
	g, stale := w.Generation, "g0"
	foreign := idsOf(stale)
	if w.Previous != "" && w.Previous != g {
		stale, foreign = w.Previous, idsOf(w.Previous)
	}
	s, r := f.sessions[0], f.requests[0]
	submit := func(change func(*protocol.Submitted)) protocol.Event {
		e := protocol.Submitted{Request: "r9", Session: s, Command: asked, Generation: g, Sandbox: w.IDs.Sandbox, Authentic: true}
		change(&e)
		return e
	}
	events := []protocol.Event{
		protocol.SupervisorStarted{Generation: stale},
		protocol.AnchorMounted{Generation: stale},
		protocol.HelperStarted{Generation: stale},
		protocol.NetworkReady{Generation: stale, Network: w.IDs.Network, Readiness: readiness},
		protocol.SandboxStarted{Generation: stale},
		protocol.ComponentStopped{Generation: stale, Component: protocol.ComponentSandbox},
		protocol.Lost{Generation: stale, Component: protocol.ComponentSandbox},
		protocol.SupervisorGone{Generation: stale},
		protocol.NetworkReady{Generation: g, Network: foreign.Network, Readiness: readiness},
		protocol.NetworkReady{Generation: g, Network: w.IDs.Network},
		protocol.Leased{},
		protocol.ComponentStopped{Generation: g, Component: "moon"},
		protocol.Register{Generation: g, Fingerprint: fingerprint},
		protocol.Register{Session: "s9", Generation: stale, Fingerprint: fingerprint},
		protocol.Register{Session: "s9", Generation: g, Fingerprint: "other"},
		submit(func(e *protocol.Submitted) { e.Request = "" }), submit(func(e *protocol.Submitted) { e.Command = "" }),
		submit(func(e *protocol.Submitted) { e.Authentic = false }), submit(func(e *protocol.Submitted) { e.Session = "s9" }),
		submit(func(e *protocol.Submitted) { e.Generation = stale }), submit(func(e *protocol.Submitted) { e.Sandbox = foreign.Sandbox }),
		protocol.Approved{Request: r, Command: asked},
		protocol.Approved{Request: r, Source: "Agent", Command: asked},
		protocol.Approved{Request: r, Source: protocol.AutoRule, Command: edited},
		protocol.Approved{Request: r, Source: protocol.Developer},
		protocol.Compared{Role: "moon", Finding: protocol.FoundGone},
		protocol.Compared{Finding: protocol.FoundGone},
		protocol.Cleaned{Role: "moon"},
		nil,
	}
	for _, change := range []func(*protocol.Start){
		func(e *protocol.Start) { e.Generation = "" },
		func(e *protocol.Start) { e.Generation = w.Previous },
		func(e *protocol.Start) { e.Fingerprint = "" },
		func(e *protocol.Start) { e.IDs.Coordinator = "" },
		func(e *protocol.Start) { e.IDs.Sandbox = "" },
		func(e *protocol.Start) { e.IDs.Network = "" },
		func(e *protocol.Start) { e.Confined = false },
		func(e *protocol.Start) { e.Isolated = false },
	} {
		e := startOf("g9")
		change(&e)
		events = append(events, e)
	}
	for _, role := range order {
		events = append(events, protocol.Compared{Role: role, Finding: "Perhaps"})
	}
	return slices.DeleteFunc(events, func(e protocol.Event) bool { return e == nil })
}
