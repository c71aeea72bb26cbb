package protocol_test

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"lazaret.dev/lazaret/protocol"
)

// An invariant says what is wrong with a state, by the name that Lazaret.tla
// gives it. TypeOK is the codec's.
type invariant struct {
	name string
	ok   func(f *fixture, w world) bool
}

func implies(a, b bool) bool { return !a || b }

// all reports whether ok holds for all of a map's entries.
func all[V any](m map[string]V, ok func(string, V) bool) bool {
	for k, v := range m {
		if !ok(k, v) {
			return false
		}
	}
	return true
}

func serving(p protocol.DomainPhase) bool { return p == protocol.Starting || p == protocol.Ready }
func ending(p protocol.DomainPhase) bool  { return p == protocol.Stopping || p == protocol.Failed }

const up = protocol.ResourceReady

var invariants = []invariant{
	{"ConfigurationConfinement", func(_ *fixture, w world) bool { // SR-2
		return implies(serving(w.Phase) || ending(w.Phase), w.Confined)
	}},
	{"SandboxNamespaceIsolation", func(_ *fixture, w world) bool { // SR-12
		return implies(w.Sandbox == up, w.Isolated)
	}},
	{"OrderedNetworkStartup", func(_ *fixture, w world) bool { // SR-5
		return implies(w.Sandbox == up, w.Network == up) && implies(w.Network == up, w.Anchor == up)
	}},
	{"FingerprintedReadiness", func(_ *fixture, w world) bool { // FR-18
		return (w.Network == up) == (w.Readiness != "") &&
			implies(w.Intents[protocol.RoleSandbox] != "" && serving(w.Phase), w.Readiness != "")
	}},
	{"PublishedDomainsReady", func(_ *fixture, w world) bool { // FR-10, FR-20
		return w.Published == (w.Phase == protocol.Ready) &&
			implies(w.Published, w.Sandbox == up && w.Trust && w.Verified && w.Intents[protocol.RolePublication] == protocol.Owned) &&
			implies(w.Trust || w.Verified, serving(w.Phase) && w.Sandbox == up)
	}},
	{"RegisteredSessionsConnected", func(_ *fixture, w world) bool {
		return implies(len(w.Sessions) > 0, w.Phase == protocol.Ready || ending(w.Phase)) &&
			all(w.Sessions, func(_ string, v protocol.Session) bool {
				return (v.Connection == protocol.Connected) == (v.Phase != protocol.SessionClosing)
			})
	}},
	{"TerminalIsolation", func(_ *fixture, w world) bool { // FR-5, DX-4
		return all(w.Sessions, func(_ string, v protocol.Session) bool {
			phase := w.Requests[v.Active].Phase
			switch v.Route {
			case protocol.RouteDetached:
				return v.Phase == protocol.SessionRegistered || v.Phase == protocol.SessionClosing
			case protocol.RouteSandbox:
				return v.Phase == protocol.SessionAttached && phase != protocol.RequestAwaitingApproval && phase != protocol.RequestExecuting
			case protocol.RoutePrompt:
				return v.Phase == protocol.SessionPrompting && phase == protocol.RequestAwaitingApproval
			default:
				return v.Phase == protocol.SessionExecuting && phase == protocol.RequestExecuting
			}
		})
	}},
	{"OneActiveRequest", func(_ *fixture, w world) bool {
		return all(w.Requests, func(id string, r protocol.Request) bool {
			return (w.Sessions[r.Session].Active == id) == !r.Phase.Terminal()
		}) && all(w.Sessions, func(id string, v protocol.Session) bool {
			return v.Active == "" || w.Requests[v.Active].Session == id
		})
	}},
	{"ExecutionApproved", func(_ *fixture, w world) bool { // SR-7, SR-8
		return all(w.Requests, func(id string, r protocol.Request) bool {
			return w.HostRunning(id) == (r.Source != "") && implies(r.Source == protocol.AutoRule, r.Command == asked) &&
				implies(r.Source != "", r.Command != "") && implies(r.Ending != "", w.HostRunning(id) && r.Ending.Pending())
		})
	}},
	{"NoOrphanHostProcess", func(_ *fixture, w world) bool { // OR-3
		return all(w.Requests, func(id string, r protocol.Request) bool {
			_, owned := w.Sessions[r.Session]
			return owned && implies(w.HostRunning(id), w.Phase == protocol.Ready ||
				ending(w.Phase) && r.Ending != "") && implies(w.HostRunning(id) && w.Sessions[r.Session].Phase == protocol.SessionClosing, r.Ending != "")
		})
	}},
	{"StateAnchorOwnership", func(_ *fixture, w world) bool {
		return implies(w.Anchor == up, w.Intents[protocol.RoleAnchor] == protocol.Owned && w.Intents[protocol.RoleSupervisor] == protocol.Owned)
	}},
	{"MountLeased", func(_ *fixture, w world) bool { // FR-22
		return implies(w.Anchor == up, w.Lease != "") &&
			(w.Record == nil || implies(w.Record.Intents[protocol.RoleAnchor] == protocol.Owned, w.Record.Lease != ""))
	}},
	{"HelperOwnership", func(_ *fixture, w world) bool { // FR-16
		return implies(w.Network == up, w.Intents[protocol.RoleHelper] == protocol.Owned)
	}},
	{"ResultDeliveryStateConsistent", func(_ *fixture, w world) bool { // OR-2
		return all(w.Requests, func(id string, r protocol.Request) bool {
			v := w.Sessions[r.Session]
			return implies(r.Phase.Pending(), w.Phase == protocol.Ready && v.Active == id && v.Connection == protocol.Connected &&
				v.Phase == protocol.SessionAttached && !w.HostRunning(id)) &&
				implies(r.Phase.Terminal(), v.Active != id && !w.HostRunning(id)) &&
				implies(ending(w.Phase), r.Phase.Terminal() || w.HostRunning(id))
		})
	}},
	{"OneLiveGeneration", func(_ *fixture, w world) bool { // OR-1
		return (w.Generation != "") == (serving(w.Phase) || ending(w.Phase)) &&
			implies(w.Record != nil, w.Phase == protocol.Absent || w.Phase == protocol.Recovering) &&
			implies(w.Phase == protocol.Recovering, w.Record != nil) &&
			implies(w.Generation == "", w.Lease == "" && len(w.Intents) == 0 && len(w.Sessions) == 0 && len(w.Requests) == 0) &&
			implies(w.Generation != "", w.Generation != w.Previous)
	}},
	{"TouchedOnlyWhenMatching", func(_ *fixture, w world) bool { // FR-7
		if w.Record == nil {
			return true
		}
		first := true
		for _, r := range order {
			i := w.Record.Intents[r]
			if i == protocol.Cleaning && (!first || w.Phase != protocol.Recovering || w.planted == r) {
				return false
			}
			first = first && i == ""
		}
		return true
	}},
	{"TeardownOrder", func(_ *fixture, w world) bool {
		in := func(r protocol.Role) bool { return w.Intents[r] != "" }
		return implies(w.Sandbox == up, in(protocol.RoleNetwork) && in(protocol.RoleHelper)) &&
			implies(w.Network == up, in(protocol.RoleAnchor)) && implies(len(w.Intents) > 0, in(protocol.RoleSupervisor))
	}},
}

// checkState checks what must hold in a state: the invariants, that noise
// changes nothing, and that a Domain without a record can always start.
func (f *fixture) checkState(w world) error {
	for _, i := range invariants {
		if !i.ok(f, w) {
			return errors.New("invariant " + i.name)
		}
	}
	for _, e := range f.noise(w) {
		n, effects, err := protocol.Next(w.State, e)
		if err == nil && !same(w.State, n) {
			return fmt.Errorf("noise: %s %+v is accepted", protocol.EventName(e), e)
		}
		for _, eff := range effects {
			switch eff.(type) {
			case protocol.Refuse, protocol.RefuseRequest, protocol.TooLate:
			default:
				return fmt.Errorf("noise: %s %+v has the effect %T", protocol.EventName(e), e, eff)
			}
		}
	}
	if w.Phase == protocol.Absent && w.Record == nil {
		if _, _, err := protocol.Next(w.State, startOf("g9")); err != nil {
			return fmt.Errorf("a Domain that cannot start again: %w", err)
		}
	}
	if w.Phase == protocol.Recovering {
		stopped, _, err1 := protocol.Next(w.State, protocol.StopRequested{})
		lost, _, err2 := protocol.Next(w.State, protocol.CoordinatorLost{})
		if err1 != nil || err2 != nil || !same(stopped, lost) {
			return errors.New("a recovery that is stopped leaves something else than one that dies")
		}
	}
	return nil
}

// same compares states; an empty map and none are the same.
func same(a, b protocol.State) bool {
	if len(a.Intents) != len(b.Intents) || len(a.Sessions) != len(b.Sessions) || len(a.Requests) != len(b.Requests) || (a.Record == nil) != (b.Record == nil) {
		return false
	}
	for _, s := range []*protocol.State{&a, &b} {
		if len(s.Intents) == 0 {
			s.Intents = nil
		}
		if len(s.Sessions) == 0 {
			s.Sessions = nil
		}
		if len(s.Requests) == 0 {
			s.Requests = nil
		}
		if s.Record != nil && len(s.Record.Intents) == 0 {
			r := *s.Record
			r.Intents = nil
			s.Record = &r
		}
	}
	return reflect.DeepEqual(a, b)
}

// checkStep checks a step: what each effect promises of the states around it,
// what each change of the state promises of the effects, and what no step
// undoes.
func checkStep(was, now world, e protocol.Event, effects []protocol.Effect) error {
	at := func(want protocol.Effect) int {
		return slices.IndexFunc(effects, func(got protocol.Effect) bool { return reflect.DeepEqual(got, want) })
	}
	has := func(want protocol.Effect) bool { return at(want) >= 0 }
	count := func(want protocol.Effect) (n int) {
		for _, got := range effects {
			n += int(bits(reflect.TypeOf(got) == reflect.TypeOf(want)))
		}
		return n
	}
	kind := func(want protocol.Effect) bool { return count(want) > 0 }
	published, withdrawn := !was.Published && now.Published, was.Published && !now.Published
	_, late := e.(protocol.Published)
	began := was.Phase != protocol.Starting && now.Phase == protocol.Starting
	torn := serving(was.Phase) && ending(now.Phase)
	over := was.Generation != "" && now.Generation == ""
	_, died := e.(protocol.CoordinatorLost)
	_, gone := e.(protocol.SupervisorGone)
	promises := []struct {
		what string
		ok   bool
	}{
		{"the supervisor is launched once its intents are on record", kind(protocol.LaunchSupervisor{}) == began &&
			implies(began, at(protocol.RecordIntent{Role: protocol.RoleSupervisor}) < at(protocol.LaunchSupervisor{}) && count(protocol.RecordIntent{}) == 4)},
		{"the sandbox is started on a fingerprinted network, its intent on record (SR-5)", kind(protocol.StartSandbox{}) ==
			(serving(now.Phase) && was.Network != now.Network && now.Readiness != "") &&
			implies(kind(protocol.StartSandbox{}), has(protocol.RecordIntent{Role: protocol.RoleSandbox}) && at(protocol.RecordIntent{Role: protocol.RoleSandbox}) < at(protocol.StartSandbox{}))},
		{"trust and proof follow the sandbox", kind(protocol.IssueTrust{}) == kind(protocol.VerifyPolicy{}) &&
			kind(protocol.IssueTrust{}) == (serving(now.Phase) && was.Sandbox != now.Sandbox)},
		{"published once proven (FR-20)", kind(protocol.Publish{}) == (now.Phase == protocol.Starting && now.Trust && now.Verified && (!was.Trust || !was.Verified)) &&
			implies(published, was.Trust && was.Verified)},
		{"the publication is withdrawn", implies(!died, kind(protocol.Withdraw{}) == (withdrawn || late && ending(was.Phase)))},
		{"the publication goes before the sessions are ended", implies(withdrawn && !died, at(protocol.Withdraw{}) == 0)},
		{"every session hears of the end", implies(!died, kind(protocol.EndAll{}) == torn || over && serving(was.Phase))},
		{"the supervisor is stopped", implies(!died, kind(protocol.StopSupervisor{}) == (torn && !gone))},
		{"released with the generation", implies(!died, kind(protocol.Release{}) == (over || was.Phase == protocol.Recovering && now.Record != nil && now.Phase == protocol.Absent))},
		{"nothing is released while a host process may run (OR-3)", implies(over && !died, all(was.Requests, func(id string, r protocol.Request) bool {
			return !was.HostRunning(id) || r.Session != "" && hostEvent(e) == id
		}))},
		{"no resource goes before its dependants", implies(!died && !gone, implies(was.Network != now.Network && was.Network == protocol.ResourceReady, was.Sandbox == protocol.ResourceStopped || over) &&
			implies(was.Anchor != now.Anchor && was.Anchor == protocol.ResourceReady, was.Network == protocol.ResourceStopped || over))},
		{"a dead generation's document is closed when nothing of it is left", kind(protocol.Recovered{}) == (was.Record != nil && now.Record == nil) &&
			implies(kind(protocol.Recovered{}), len(now.Intents) == 0)},
		{"the lease goes last", was.Record == nil || implies(was.Record.Lease != "" && (now.Record == nil || now.Record.Lease == ""), len(was.Record.Intents) == 0)},
		{"a dead generation is recovered before another begins", implies(began, was.Record == nil)},
	}
	for _, p := range promises {
		if !p.ok {
			return errors.New("step: " + p.what)
		}
	}
	for _, eff := range effects {
		switch eff := eff.(type) {
		case protocol.Clean:
			c, ok := e.(protocol.Compared)
			if !ok || c.Role != eff.Role || c.Finding != protocol.FoundMatching || was.Record.Intents[eff.Role] != protocol.Owned {
				return errors.New("step: something is touched without matching intent (FR-7)")
			}
		case protocol.StartHost:
			if r := now.Requests[eff.Request]; r.Phase != protocol.RequestApproved || r.Command != eff.Command || was.HostRunning(eff.Request) {
				return errors.New("step: what runs is not what was approved (SR-7)")
			}
		}
	}
	if died {
		return checkDeath(was, now)
	}
	return checkRequests(was, now, e, effects)
}

// checkDeath checks that a death leaves on record what the dead generation had
// outside, its host processes included, and nothing else.
func checkDeath(was, now world) error {
	before, lease := map[protocol.Role]protocol.Intent{}, was.Lease
	maps.Copy(before, was.Intents)
	if was.Record != nil {
		lease = was.Record.Lease
		maps.Copy(before, was.Record.Intents)
	}
	for _, r := range was.Requests {
		switch {
		case r.Phase == protocol.RequestExecuting:
			before[protocol.RoleHost] = protocol.Owned
		case r.Phase == protocol.RequestApproved && before[protocol.RoleHost] == "":
			before[protocol.RoleHost] = protocol.Intended
		}
	}
	for r, i := range before {
		if i == protocol.Cleaning {
			before[r] = protocol.Owned
		}
	}
	if now.Record == nil || !maps.Equal(before, now.Record.Intents) || now.Record.Lease != lease {
		return errors.New("step: a death leaves something else on record than what is outside")
	}
	return nil
}

// hostEvent is the request whose host process the event reports gone, if any.
func hostEvent(e protocol.Event) string {
	switch e := e.(type) {
	case protocol.HostEnded:
		return e.Request
	case protocol.HostFailed:
		return e.Request
	}
	return ""
}
