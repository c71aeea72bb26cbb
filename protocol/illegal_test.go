package protocol_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lazaret.dev/lazaret/protocol"
)

// fataler is a *testing.T or a *rapid.T.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

func apply(t fataler, s protocol.State, events ...protocol.Event) (protocol.State, []protocol.Effect) {
	t.Helper()
	var all []protocol.Effect
	for _, e := range events {
		var effects []protocol.Effect
		var err error
		if s, effects, err = protocol.Next(s, e); err != nil {
			t.Fatal(err)
		}
		all = append(all, effects...)
	}
	return s, all
}

// way is a path through the protocol: each step is a name for the state that
// it leads to.
type way []struct {
	state string
	by    protocol.Event
}

const gen = "g1"

var ids = idsOf(gen)

// The ways that the tests of single events walk.
func ways() []way {
	submitted := func(r string) protocol.Submitted {
		return protocol.Submitted{Request: r, Session: "a", Command: asked, Generation: gen, Sandbox: ids.Sandbox, Authentic: true}
	}
	up := way{
		{"started", startOf(gen)},
		{"supervised", protocol.SupervisorStarted{Generation: gen}},
		{"leased", protocol.Leased{Prepared: prepared}},
		{"anchored", protocol.AnchorMounted{Generation: gen}},
		{"helped", protocol.HelperStarted{Generation: gen}},
		{"networked", protocol.NetworkReady{Generation: gen, Network: ids.Network, Readiness: readiness}},
		{"sandboxed", protocol.SandboxStarted{Generation: gen}},
		{"trusted", protocol.TrustIssued{}},
		{"proven", protocol.PolicyVerified{}},
		{"ready", protocol.Published{}},
		{"registered", protocol.Register{Session: "a", Generation: gen, Fingerprint: fingerprint}},
		{"attached", protocol.Attached{Session: "a"}},
		{"submitted", submitted("r")},
		{"awaiting", protocol.Asked{Request: "r"}},
		{"approved", protocol.Approved{Request: "r", Source: protocol.Developer, Command: edited}},
		{"executing", protocol.HostStarted{Request: "r"}},
	}
	with := func(more ...way) []way {
		w := up
		ws := []way{up}
		for _, m := range more {
			w = append(slices.Clip(w), m...)
			ws = append(ws, w)
		}
		return ws
	}
	ws := with(way{{"completed", protocol.HostEnded{Request: "r"}}, {"delivered", protocol.Delivered{Request: "r"}}})
	ws = append(ws, with(way{
		{"closing", protocol.Closed{Session: "a"}},
		{"failed", protocol.Lost{Generation: gen, Reason: "died"}},
		{"alone", protocol.SupervisorGone{Generation: gen}},
		{"over", protocol.HostEnded{Request: "r"}},
	})...)
	ws = append(ws, with(way{
		{"died", protocol.CoordinatorLost{}},
		{"recovering", protocol.Recover{}},
		{"cleaning", protocol.Compared{Role: protocol.RoleHost, Finding: protocol.FoundMatching}},
		{"cleaned", protocol.Cleaned{Role: protocol.RoleHost}},
		{"", protocol.Compared{Role: protocol.RolePublication, Finding: protocol.FoundGone}},
		{"", protocol.Compared{Role: protocol.RoleSandbox, Finding: protocol.FoundGone}},
		{"", protocol.Compared{Role: protocol.RoleHelper, Finding: protocol.FoundGone}},
		{"", protocol.Compared{Role: protocol.RoleNetwork, Finding: protocol.FoundGone}},
		{"", protocol.Compared{Role: protocol.RoleAnchor, Finding: protocol.FoundGone}},
		{"unleasing", protocol.Compared{Role: protocol.RoleSupervisor, Finding: protocol.FoundGone}},
		{"recovered", protocol.LeaseReleased{}},
	})...)
	ws = append(ws, append(up[:1:1], way{{"intended", protocol.CoordinatorLost{}}, {"unproven", protocol.Recover{}}}...),
		append(up[:7:7], way{{"stopping", protocol.StopRequested{Reason: "asked"}}}...),
		append(up[:5:5], way{{"netless", protocol.StopRequested{Reason: "asked"}}}...))
	return ws
}

// at walks to a state of that name.
func at(t fataler, name string) protocol.State {
	t.Helper()
	if name == "absent" {
		return protocol.Initial()
	}
	for _, w := range ways() {
		s := protocol.Initial()
		for _, step := range w {
			s, _ = apply(t, s, step.by)
			if step.state == name {
				return s
			}
		}
	}
	t.Fatal("no state " + name)
	return protocol.State{}
}

// TestIllegalEvents has one row for each reason to call an event illegal.
func TestIllegalEvents(t *testing.T) {
	start := func(change func(*protocol.Start)) protocol.Event {
		e := startOf("g2")
		change(&e)
		return e
	}
	for _, tc := range []struct {
		state string
		event protocol.Event
		why   string
	}{
		{"ready", protocol.SupervisorGone{Generation: "g0"}, "of another generation"},
		{"died", protocol.SupervisorGone{Generation: gen}, "of another generation"},
		{"ready", startOf("g2"), "already there"},
		{"recovering", startOf("g2"), "already there"},
		{"died", startOf("g2"), "not yet recovered"},
		{"absent", start(func(e *protocol.Start) { e.Generation = "" }), "needs an id"},
		{"over", startOf(gen), "used twice"},
		{"recovered", startOf(gen), "used twice"},
		{"absent", start(func(e *protocol.Start) { e.Fingerprint = "" }), "Configuration Fingerprint"},
		{"absent", start(func(e *protocol.Start) { e.IDs.Coordinator = "" }), "component ids"},
		{"absent", start(func(e *protocol.Start) { e.IDs.Sandbox = "" }), "component ids"},
		{"absent", start(func(e *protocol.Start) { e.IDs.Network = "" }), "component ids"},
		{"absent", start(func(e *protocol.Start) { e.Confined = false }), "beneath a mounted path"},
		{"absent", start(func(e *protocol.Start) { e.Isolated = false }), "namespace of the host"},
		{"absent", protocol.Leased{Prepared: prepared}, "being prepared"},
		{"ready", protocol.Leased{Prepared: prepared}, "being prepared"},
		{"started", protocol.Leased{}, "of a prepared artifact"},
		{"leased", protocol.Leased{Prepared: "q"}, "already leased"},
		{"supervised", protocol.SupervisorStarted{Generation: gen}, "being started"},
		{"alone", protocol.SupervisorStarted{Generation: gen}, "being started"},
		{"started", protocol.AnchorMounted{Generation: gen}, "no supervisor"},
		{"alone", protocol.AnchorMounted{Generation: gen}, "no supervisor"},
		{"started", protocol.HelperStarted{Generation: gen}, "no supervisor"},
		{"supervised", protocol.AnchorMounted{Generation: gen}, "leased"},
		{"anchored", protocol.AnchorMounted{Generation: gen}, "being mounted"},
		{"helped", protocol.HelperStarted{Generation: gen}, "being started"},
		{"leased", protocol.NetworkReady{Generation: gen, Network: ids.Network, Readiness: readiness}, "anchor is not mounted"},
		{"anchored", protocol.NetworkReady{Generation: gen, Network: ids.Network, Readiness: readiness}, "helper is not owned"},
		{"helped", protocol.NetworkReady{Generation: gen, Network: ids.Network}, "readiness fingerprint"},
		{"helped", protocol.NetworkReady{Generation: gen, Network: "n9", Readiness: readiness}, "another Network Sidecar"},
		{"networked", protocol.NetworkReady{Generation: gen, Network: ids.Network, Readiness: readiness}, "being prepared"},
		{"helped", protocol.SandboxStarted{Generation: gen}, "network is not ready"},
		{"sandboxed", protocol.SandboxStarted{Generation: gen}, "being started"},
		{"absent", protocol.TrustIssued{}, "no generation is starting"},
		{"ready", protocol.PolicyVerified{}, "no generation is starting"},
		{"networked", protocol.TrustIssued{}, "no sandbox"},
		{"networked", protocol.PolicyVerified{}, "no sandbox"},
		{"trusted", protocol.TrustIssued{}, "once"},
		{"proven", protocol.PolicyVerified{}, "once"},
		{"sandboxed", protocol.Published{}, "before trust and verification"},
		{"trusted", protocol.Published{}, "before trust and verification"},
		{"ready", protocol.Register{Generation: gen, Fingerprint: fingerprint}, "needs an id"},
		{"ready", protocol.Attached{Session: "a"}, "not registered"},
		{"ready", protocol.Closed{Session: "a"}, "no such session"},
		{"attached", protocol.Ended{Session: "a"}, "not closing"},
		{"closing", protocol.Ended{Session: "a"}, "may still run"},
		{"absent", protocol.Lost{}, "no generation"},
		{"recovering", protocol.Lost{}, "no generation"},
		{"ready", protocol.ComponentStopped{Generation: gen, Component: protocol.ComponentSandbox}, "torn down"},
		{"stopping", protocol.ComponentStopped{Generation: gen, Component: protocol.ComponentNetwork}, "before the sandbox"},
		{"stopping", protocol.ComponentStopped{Generation: gen, Component: protocol.ComponentAnchor}, "before the network"},
		{"stopping", protocol.ComponentStopped{Generation: gen, Component: "moon"}, "not a component"},
		{"alone", protocol.SupervisorGone{Generation: gen}, "gone already"},
		{"absent", protocol.SupervisorGone{}, "no generation"},
		{"absent", protocol.CoordinatorLost{}, "no coordinator"},
		{"recovering", protocol.Recover{}, "before a start"},
		{"ready", protocol.Recover{}, "before a start"},
		{"absent", protocol.Recover{}, "on record"},
		{"died", protocol.Compared{Role: protocol.RoleHost, Finding: protocol.FoundGone}, "under way"},
		{"recovering", protocol.Compared{Role: protocol.RoleAnchor, Finding: protocol.FoundGone}, "turn"},
		{"unleasing", protocol.Compared{Finding: protocol.FoundGone}, "turn"},
		{"cleaning", protocol.Compared{Role: protocol.RoleHost, Finding: protocol.FoundGone}, "being cleared away"},
		{"unproven", protocol.Compared{Role: protocol.RoleHelper, Finding: protocol.FoundMatching}, "could match"},
		{"recovering", protocol.Compared{Role: protocol.RoleHost, Finding: "Perhaps"}, "not a finding"},
		{"cleaning", protocol.Cleaned{Role: protocol.RoleAnchor}, "turn"},
		{"recovering", protocol.Cleaned{Role: protocol.RoleHost}, "being cleared away"},
		{"recovering", protocol.LeaseReleased{}, "after all"},
		{"ready", protocol.Submitted{Session: "a", Command: asked}, "needs an id"},
		{"ready", protocol.Submitted{Request: "r", Session: "a"}, "needs a command"},
		{"submitted", protocol.Approved{Request: "r", Source: protocol.AutoRule, Command: edited}, "unedited"},
		{"awaiting", protocol.Approved{Request: "r", Source: protocol.Developer}, "of a command"},
		{"awaiting", protocol.Approved{Request: "r", Command: asked}, "nobody"},
		{"executing", protocol.HostStarted{Request: "r"}, "being started"},
		{"approved", protocol.HostEnded{Request: "r"}, "no host process runs"},
		{"awaiting", protocol.HostFailed{Request: "r"}, "could fail"},
		{"executing", protocol.Delivered{Request: "r"}, "no result is pending"},
	} {
		s := at(t, tc.state)
		n, effects, err := protocol.Next(s, tc.event)
		var illegal *protocol.IllegalError
		if !errors.As(err, &illegal) || !errors.Is(err, protocol.ErrIllegal) || !strings.Contains(illegal.Why, tc.why) ||
			illegal.Event != protocol.EventName(tc.event) || illegal.Phase != s.Phase || effects != nil || !same(s, n) {
			t.Errorf("%s, %s: %v (want %q), effects %v", tc.state, protocol.EventName(tc.event), err, tc.why, effects)
		}
	}
}

// What comes too late, or to the wrong address, is answered and changes nothing.
func TestAnswers(t *testing.T) {
	register := func(change func(*protocol.Register)) protocol.Event {
		e := protocol.Register{Session: "x", Generation: gen, Fingerprint: fingerprint}
		change(&e)
		return e
	}
	submit := func(change func(*protocol.Submitted)) protocol.Event {
		e := protocol.Submitted{Request: "x", Session: "a", Command: asked, Generation: gen, Sandbox: ids.Sandbox, Authentic: true}
		change(&e)
		return e
	}
	refused := func(why protocol.Refusal) []protocol.Effect {
		return []protocol.Effect{protocol.Refuse{Session: "x", Why: why}}
	}
	refusedRequest := func(why protocol.Refusal) []protocol.Effect {
		return []protocol.Effect{protocol.RefuseRequest{Request: "x", Why: why}}
	}
	tooLate := []protocol.Effect{protocol.TooLate{Request: "r"}}
	approve := protocol.Approved{Request: "r", Source: protocol.Developer, Command: edited}
	for _, tc := range []struct {
		state string
		event protocol.Event
		want  []protocol.Effect
	}{
		{"absent", register(func(*protocol.Register) {}), refused(protocol.RefusedNotReady)},
		{"proven", register(func(*protocol.Register) {}), refused(protocol.RefusedNotReady)},
		{"failed", register(func(*protocol.Register) {}), refused(protocol.RefusedNotReady)},
		{"ready", register(func(e *protocol.Register) { e.Generation = "g0" }), refused(protocol.RefusedStale)},
		{"ready", register(func(e *protocol.Register) { e.Fingerprint = "other" }), refused(protocol.RefusedFingerprint)},
		{"attached", protocol.Register{Session: "a", Generation: gen, Fingerprint: fingerprint}, []protocol.Effect{protocol.Refuse{Session: "a", Why: protocol.RefusedDuplicate}}},
		{"failed", submit(func(*protocol.Submitted) {}), refusedRequest(protocol.RefusedNotReady)},
		{"attached", submit(func(e *protocol.Submitted) { e.Authentic = false }), refusedRequest(protocol.RefusedUnverified)},
		{"attached", submit(func(e *protocol.Submitted) { e.Generation = "g0" }), refusedRequest(protocol.RefusedStale)},
		{"attached", submit(func(e *protocol.Submitted) { e.Sandbox = ids.Coordinator }), refusedRequest(protocol.RefusedStale)},
		{"attached", submit(func(e *protocol.Submitted) { e.Session = "b" }), refusedRequest(protocol.RefusedNoSession)},
		{"closing", submit(func(*protocol.Submitted) {}), refusedRequest(protocol.RefusedNoSession)},
		{"awaiting", submit(func(*protocol.Submitted) {}), refusedRequest(protocol.RefusedBusy)},
		{"completed", submit(func(*protocol.Submitted) {}), refusedRequest(protocol.RefusedBusy)},
		{"delivered", submit(func(e *protocol.Submitted) { e.Request = "r" }), []protocol.Effect{protocol.RefuseRequest{Request: "r", Why: protocol.RefusedDuplicate}}},
		{"approved", approve, tooLate},
		{"executing", approve, tooLate},
		{"delivered", approve, tooLate},
		{"over", approve, tooLate},
		{"submitted", approve, tooLate},
		{"awaiting", protocol.Approved{Request: "r", Source: protocol.AutoRule, Command: asked}, tooLate},
		{"approved", protocol.Denied{Request: "r"}, tooLate},
		{"attached", protocol.Denied{Request: "r"}, tooLate},
		{"awaiting", protocol.Asked{Request: "r"}, nil},
		{"attached", protocol.Asked{Request: "r"}, nil},
		{"completed", protocol.TimedOut{Request: "r"}, nil},
		{"delivered", protocol.Cancelled{Request: "r"}, nil},
		{"attached", protocol.TimedOut{Request: "r"}, nil},
		{"delivered", protocol.Delivered{Request: "r"}, nil},
		{"attached", protocol.Delivered{Request: "r"}, nil},
		{"attached", protocol.Attached{Session: "a"}, nil},
		{"closing", protocol.Attached{Session: "a"}, nil},
		{"closing", protocol.Closed{Session: "a"}, nil},
		{"registered", protocol.IdleExpired{}, nil},
		{"started", protocol.IdleExpired{}, nil},
		{"absent", protocol.StopRequested{}, nil},
		{"stopping", protocol.StopRequested{}, nil},
		{"failed", protocol.StopRequested{}, nil},
		{"failed", protocol.Lost{Generation: gen}, nil},
		{"stopping", protocol.Lost{Generation: gen}, nil},
		{"stopping", protocol.TrustIssued{}, nil},
		{"stopping", protocol.PolicyVerified{}, nil},
		{"stopping", protocol.Published{}, []protocol.Effect{protocol.Withdraw{}}},
	} {
		s := at(t, tc.state)
		n, effects := apply(t, s, tc.event)
		if d := cmp.Diff(tc.want, effects); d != "" || !same(s, n) {
			t.Errorf("%s, %s: %s\n%+v", tc.state, protocol.EventName(tc.event), d, n)
		}
	}
}

// FR-6: the last session leaving tears the generation down, an earlier one
// does not.
func TestLastSessionEndsTheGeneration(t *testing.T) {
	s, _ := apply(t, at(t, "attached"), protocol.Register{Session: "b", Generation: gen, Fingerprint: fingerprint},
		protocol.Closed{Session: "a"}, protocol.Ended{Session: "a"})
	if s.Phase != protocol.Ready {
		t.Fatalf("phase %s after the first of two sessions", s.Phase)
	}
	s, effects := apply(t, s, protocol.Closed{Session: "b"}, protocol.Ended{Session: "b"})
	want := []protocol.Effect{protocol.EndSession{Session: "b"}, protocol.Withdraw{}, protocol.EndAll{}, protocol.StopSupervisor{}}
	if d := cmp.Diff(want, effects); d != "" || s.Phase != protocol.Stopping {
		t.Fatalf("phase %s, effects (-want +got):\n%s", s.Phase, d)
	}
}

// A report that a teardown has overtaken is noted, so that the teardown sees
// to it, and starts nothing more.
func TestLateReportsStartNothing(t *testing.T) {
	s, effects := apply(t, at(t, "netless"), protocol.NetworkReady{Generation: gen, Network: ids.Network, Readiness: readiness})
	if len(effects) > 0 || s.Network != protocol.ResourceReady || s.Intents[protocol.RoleSandbox] != "" {
		t.Errorf("network: %+v, effects %v", s, effects)
	}
	s, _ = apply(t, at(t, "networked"), protocol.StopRequested{Reason: "asked"})
	s, effects = apply(t, s, protocol.SandboxStarted{Generation: gen})
	if len(effects) > 0 || s.Sandbox != protocol.ResourceReady || s.Intents[protocol.RolePublication] != "" {
		t.Errorf("sandbox: %+v, effects %v", s, effects)
	}
}

// FR-7: what the record does not prove to be ours is named and left alone, and
// the next recovery finds the record as it was.
func TestMismatchIsNamedAndLeftAlone(t *testing.T) {
	died := at(t, "died")
	s, effects := apply(t, died, protocol.Recover{}, protocol.Compared{Role: protocol.RoleHost, Finding: protocol.FoundMismatch})
	want := []protocol.Effect{protocol.Compare{Role: protocol.RoleHost}, protocol.NameLeftover{Generation: gen, Role: protocol.RoleHost}, protocol.Release{}}
	if d := cmp.Diff(want, effects); d != "" || !same(died, s) {
		t.Fatalf("%+v, effects (-want +got):\n%s", s, d)
	}
}

// A recovery that dies or is stopped while it clears something away leaves the
// record as it was: what is left is compared again.
func TestRecoveryCanBeGivenUp(t *testing.T) {
	died := at(t, "died")
	for _, e := range []protocol.Event{protocol.CoordinatorLost{}, protocol.StopRequested{}} {
		if s, _ := apply(t, at(t, "cleaning"), e); !same(died, s) {
			t.Errorf("%s: %s", protocol.EventName(e), cmp.Diff(died, s))
		}
	}
}

// The next holder of the lock reads a state from the store that is the one the
// dead generation left.
func TestRecordIsTheWholeOfADeadGeneration(t *testing.T) {
	died := at(t, "died")
	if left := protocol.Left(*died.Record); !same(died, left) {
		t.Fatal(cmp.Diff(died, left))
	}
}

// OR-1, FR-13: whatever has happened, a supervisor and host processes that go
// leave a Domain that can start again, and so does a recovery.
func TestAnyStateCanEndAndStartAgain(t *testing.T) {
	f := full()
	rapid.Check(t, func(t *rapid.T) {
		w := f.initial()
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			m := rapid.SampledFrom(f.moves(w)).Draw(t, "move")
			if m.event == nil {
				continue
			}
			if n, _, err := protocol.Next(w.State, m.event); err == nil {
				w.State = n
			}
		}
		for range 100 {
			for _, e := range []protocol.Event{
				protocol.SupervisorGone{Generation: w.Generation},
				protocol.HostFailed{Request: "r1"},
				protocol.HostFailed{Request: "r2"},
				protocol.HostFailed{Request: "r3"},
				protocol.Recover{},
				protocol.LeaseReleased{},
			} {
				if n, _, err := protocol.Next(w.State, e); err == nil {
					w.State = n
				}
			}
			for _, r := range protocol.Roles() {
				for _, e := range []protocol.Event{protocol.Compared{Role: r, Finding: protocol.FoundGone}, protocol.Cleaned{Role: r}} {
					if n, _, err := protocol.Next(w.State, e); err == nil {
						w.State = n
					}
				}
			}
		}
		apply(t, w.State, startOf("g9"))
	})
}

func TestEnumerationsRefuseTheUnknown(t *testing.T) {
	for _, v := range []any{
		new(protocol.DomainPhase), new(protocol.ResourceState), new(protocol.SessionPhase), new(protocol.Component),
		new(protocol.Refusal), new(protocol.Role), new(protocol.Intent), new(protocol.Finding), new(protocol.TerminalRoute),
		new(protocol.ConnectionState), new(protocol.RequestPhase), new(protocol.ApprovalSource),
	} {
		if err := json.Unmarshal([]byte(`"nonsense"`), v); err == nil {
			t.Errorf("%T takes anything", v)
		}
	}
}

// A state survives its encoding, so that it can be logged and read again.
func TestStatesSurviveTheirEncoding(t *testing.T) {
	for _, w := range ways() {
		s := protocol.Initial()
		for _, step := range w {
			s, _ = apply(t, s, step.by)
			b, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			var got protocol.State
			if err := json.Unmarshal(b, &got); err != nil || !same(s, got) {
				t.Fatalf("%v\n%s", err, b)
			}
		}
	}
}

// An event survives its encoding too: with both a run can be replayed.
func TestEventsSurviveTheirEncoding(t *testing.T) {
	f := full()
	w := f.initial()
	w.crashes = 1
	seen := map[string]bool{}
	for _, m := range f.moves(w) {
		if m.event == nil {
			continue
		}
		name := protocol.EventName(m.event)
		seen[name] = true
		b, err := json.Marshal(m.event)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := protocol.UnmarshalEvent(name, b); err != nil || got != m.event {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if len(seen) != 34 {
		t.Errorf("%d events", len(seen))
	}
	for name, b := range map[string]string{
		"Restart": "{}", "Start": `{"Root":true}`, "Compared": `{"Role":"anchor","Finding":"Perhaps"}`, "Closed": "[]",
	} {
		if e, err := protocol.UnmarshalEvent(name, []byte(b)); err == nil {
			t.Errorf("%s %s is read as %v", name, b, e)
		}
	}
}
