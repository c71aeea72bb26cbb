package protocol_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lazaret.dev/lazaret/protocol"
)

// allEvents is every event that can happen to a Domain with two clients, one
// of which may come with another configuration.
func allEvents() []protocol.Event {
	events := []protocol.Event{
		protocol.Start{Generation: "g1", Fingerprint: "f"},
		protocol.Start{},
		protocol.AnchorMounted{},
		protocol.NetworkReady{Readiness: "r"},
		protocol.NetworkReady{},
		protocol.SandboxStarted{},
		protocol.TrustIssued{},
		protocol.PolicyVerified{},
		protocol.Published{},
		protocol.IdleExpired{},
		protocol.StopRequested{Reason: "asked"},
		protocol.SupervisorGone{Reason: "gone"},
		protocol.Register{Session: "s1", Fingerprint: "other"},
		protocol.Register{Fingerprint: "f"},
	}
	for _, c := range []protocol.Component{protocol.ComponentAnchor, protocol.ComponentNetwork, protocol.ComponentSandbox} {
		events = append(events, protocol.Lost{Component: c, Reason: "died"}, protocol.ComponentStopped{Component: c})
	}
	for _, s := range []string{"s1", "s2"} {
		events = append(events, protocol.Register{Session: s, Fingerprint: "f"}, protocol.Attached{Session: s},
			protocol.Closed{Session: s}, protocol.Ended{Session: s})
	}
	return events
}

func key(t interface{ Fatal(...any) }, s protocol.State) string {
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// invariants returns what is wrong with a state.
func invariants(s protocol.State) error {
	switch {
	case s.Sandbox == protocol.ResourceReady && s.Network != protocol.ResourceReady:
		return errors.New("OrderedNetworkStartup: a sandbox without its network (SR-5)")
	case s.Network == protocol.ResourceReady && (s.Readiness == "" || s.Anchor != protocol.ResourceReady):
		return errors.New("a network that is ready without fingerprint or anchor (FR-18)")
	case s.Published && (s.Phase != protocol.Ready || s.Sandbox != protocol.ResourceReady || s.Network != protocol.ResourceReady || !s.Trust || !s.Verified):
		return errors.New("PublishedDomainsReady: published and not ready (FR-20)")
	case s.Phase == protocol.Ready && !s.Published:
		return errors.New("ready and not published")
	case s.Phase == protocol.Absent && (s.Anchor != protocol.ResourceStopped || s.Network != protocol.ResourceStopped || s.Sandbox != protocol.ResourceStopped || len(s.Sessions) > 0 || s.Generation != ""):
		return errors.New("StateAnchorOwnership: an absent generation owns something")
	case s.Phase != protocol.Absent && (s.Generation == "" || s.Fingerprint == ""):
		return errors.New("TypeOK: a generation without an identity")
	case s.Phase == protocol.Starting && len(s.Sessions) > 0:
		return errors.New("RegisteredSessionsConnected: sessions before publication")
	}
	return nil
}

// TestExplore visits every reachable state and every event in each. It checks
// the invariants, what the effects promise, and that every event is legal
// somewhere and every phase reached.
func TestExplore(t *testing.T) {
	start := protocol.Initial()
	seen := map[string]bool{key(t, start): true}
	queue := []protocol.State{start}
	legal := map[string]bool{}
	phases := map[protocol.DomainPhase]bool{}
	events := allEvents()
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		phases[s.Phase] = true
		if err := invariants(s); err != nil {
			t.Fatalf("%s: %v", key(t, s), err)
		}
		for _, e := range events {
			before := key(t, s)
			n, effects, err := protocol.Next(s, e)
			if after := key(t, s); after != before {
				t.Fatalf("%s changed its argument:\n%s\n%s", protocol.EventName(e), before, after)
			}
			if err != nil {
				var illegal *protocol.IllegalError
				if !errors.As(err, &illegal) || !errors.Is(err, protocol.ErrIllegal) || effects != nil || key(t, n) != before {
					t.Fatalf("%s in %s: %v, effects %v", protocol.EventName(e), before, err, effects)
				}
				continue
			}
			legal[protocol.EventName(e)] = true
			if err := promised(s, n, effects); err != nil {
				t.Fatalf("%s in %s: %v", protocol.EventName(e), before, err)
			}
			if k := key(t, n); !seen[k] {
				seen[k] = true
				queue = append(queue, n)
			}
		}
	}
	for _, e := range events {
		if !legal[protocol.EventName(e)] {
			t.Errorf("%s is never legal", protocol.EventName(e))
		}
	}
	for _, p := range []protocol.DomainPhase{protocol.Absent, protocol.Starting, protocol.Ready, protocol.Stopping, protocol.Failed} {
		if !phases[p] {
			t.Errorf("phase %s is never reached", p)
		}
	}
	t.Logf("%d states", len(seen))
}

// promised checks a step's effects against the states around it.
func promised(was, now protocol.State, effects []protocol.Effect) error {
	at := map[string]int{}
	for i, e := range effects {
		at[fmt.Sprintf("%T", e)] = i + 1
	}
	has := func(e protocol.Effect) int { return at[fmt.Sprintf("%T", e)] }
	switch {
	case has(protocol.StartSandbox{}) > 0 && (now.Network != protocol.ResourceReady || now.Readiness == ""):
		return errors.New("the sandbox is started before its network is attested (SR-5)")
	case has(protocol.Publish{}) > 0 && (!now.Trust || !now.Verified):
		return errors.New("published before it is proven (FR-20)")
	case was.Published && !now.Published && has(protocol.Withdraw{}) == 0:
		return errors.New("the publication ends without being withdrawn")
	case has(protocol.Withdraw{}) > has(protocol.EndAll{}) && has(protocol.EndAll{}) > 0:
		return errors.New("sessions are ended before the publication is withdrawn")
	case has(protocol.Admit{}) > 0 && !was.Published:
		return errors.New("a session is admitted to what is not published (FR-10)")
	case has(protocol.Release{}) > 0 && now.Phase != protocol.Absent:
		return errors.New("released and not absent")
	case was.Phase != protocol.Absent && now.Phase == protocol.Absent && has(protocol.Release{}) == 0:
		return errors.New("absent without release")
	}
	for id, phase := range was.Sessions {
		if phase != protocol.SessionClosing && now.Sessions[id] == protocol.SessionClosing && has(protocol.EndSession{}) == 0 {
			return errors.New("a closed session is not ended (FR-15)")
		}
	}
	return nil
}

func apply(t *testing.T, s protocol.State, events ...protocol.Event) (protocol.State, []protocol.Effect) {
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

func ready(t *testing.T) protocol.State {
	t.Helper()
	s, _ := apply(t, protocol.Initial(), protocol.Start{Generation: "g", Fingerprint: "f"}, protocol.AnchorMounted{},
		protocol.NetworkReady{Readiness: "r"}, protocol.SandboxStarted{}, protocol.PolicyVerified{}, protocol.TrustIssued{}, protocol.Published{})
	return s
}

// What was reported before its sender knew of the end comes late, and is no
// reason to fail.
func TestReportsCrossTheEnd(t *testing.T) {
	steps := []protocol.Event{
		protocol.Start{Generation: "g", Fingerprint: "f"},
		protocol.AnchorMounted{},
		protocol.NetworkReady{Readiness: "r"},
		protocol.SandboxStarted{},
		protocol.PolicyVerified{},
	}
	for _, end := range []protocol.Event{protocol.StopRequested{}, protocol.Lost{Reason: "died"}} {
		for n := 1; n < len(steps); n++ {
			s, _ := apply(t, protocol.Initial(), steps[:n]...)
			was, _ := apply(t, s, end)
			if now, effects := apply(t, was, steps[n]); key(t, now) != key(t, was) || len(effects) > 0 {
				t.Errorf("%s after %s: %s, effects %v", protocol.EventName(steps[n]), protocol.EventName(end), key(t, now), effects)
			}
		}
	}
}

// FR-6: the last session leaving tears the generation down, an earlier one
// does not.
func TestLastSessionEndsTheGeneration(t *testing.T) {
	s, _ := apply(t, ready(t), protocol.Register{Session: "a", Fingerprint: "f"}, protocol.Register{Session: "b", Fingerprint: "f"},
		protocol.Attached{Session: "a"}, protocol.Closed{Session: "a"}, protocol.Ended{Session: "a"})
	if s.Phase != protocol.Ready {
		t.Fatalf("phase %s after the first of two sessions", s.Phase)
	}
	s, effects := apply(t, s, protocol.Closed{Session: "b"}, protocol.Ended{Session: "b"})
	want := []protocol.Effect{protocol.EndSession{Session: "b"}, protocol.Withdraw{}, protocol.EndAll{}, protocol.StopSupervisor{}}
	if d := cmp.Diff(want, effects); d != "" || s.Phase != protocol.Stopping {
		t.Fatalf("phase %s, effects (-want +got):\n%s", s.Phase, d)
	}
}

func TestRegistrationRefusals(t *testing.T) {
	s, _ := apply(t, ready(t), protocol.Register{Session: "a", Fingerprint: "f"})
	for _, tc := range []struct {
		s    protocol.State
		e    protocol.Register
		want protocol.Refusal
	}{
		{protocol.Initial(), protocol.Register{Session: "x", Fingerprint: "f"}, protocol.RefusedNotReady},
		{s, protocol.Register{Session: "x", Fingerprint: "g"}, protocol.RefusedFingerprint},
		{s, protocol.Register{Session: "a", Fingerprint: "f"}, protocol.RefusedDuplicate},
	} {
		n, effects := apply(t, tc.s, tc.e)
		if d := cmp.Diff([]protocol.Effect{protocol.Refuse{Session: tc.e.Session, Why: tc.want}}, effects); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(tc.s, n); d != "" {
			t.Errorf("a refusal changed the state:\n%s", d)
		}
	}
}

// OR-1, FR-13: from any state, a supervisor that goes leaves an absent
// generation, and a new one can start.
func TestAnyStateCanEndAndStartAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := protocol.Initial()
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			n, _, err := protocol.Next(s, rapid.SampledFrom(allEvents()).Draw(t, "event"))
			if err == nil {
				s = n
			}
		}
		if s.Phase != protocol.Absent {
			var err error
			if s, _, err = protocol.Next(s, protocol.SupervisorGone{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := protocol.Next(s, protocol.Start{Generation: "g9", Fingerprint: "f"}); err != nil {
			t.Fatal(err)
		}
	})
}

func TestEnumerationsRefuseTheUnknown(t *testing.T) {
	for _, v := range []any{
		new(protocol.DomainPhase), new(protocol.ResourceState), new(protocol.SessionPhase),
		new(protocol.Component), new(protocol.Refusal),
	} {
		if err := json.Unmarshal([]byte(`"nonsense"`), v); err == nil {
			t.Errorf("%T takes anything", v)
		}
	}
}
