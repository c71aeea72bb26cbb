package protocol

import (
	"errors"
	"fmt"
)

// ErrIllegal is the kind of every illegal event's error.
var ErrIllegal = errors.New("illegal event")

// IllegalError reports an event that the protocol does not allow in a state.
// It is a bug of the caller, or of a peer, never an ordinary outcome.
type IllegalError struct {
	Event string
	Phase DomainPhase
	Why   string
}

func (e *IllegalError) Error() string {
	return fmt.Sprintf("%v %s in phase %s: %s", ErrIllegal, e.Event, e.Phase, e.Why)
}

// Is makes errors.Is(err, ErrIllegal) true.
func (e *IllegalError) Is(target error) bool { return target == ErrIllegal }

// Next returns the state after e and the effects to perform, in order. An
// event that is not allowed returns an *IllegalError and the state unchanged.
func Next(s State, e Event) (State, []Effect, error) {
	n := s.clone()
	m := machine{was: s, now: &n, ev: e}
	effects, err := m.step()
	if err != nil {
		return s, nil, err
	}
	return n, effects, nil
}

// machine is one application of Next.
type machine struct {
	was State
	now *State
	ev  Event
}

func (m *machine) illegal(why string) ([]Effect, error) {
	return nil, &IllegalError{Event: m.ev.event(), Phase: m.was.Phase, Why: why}
}

func (m *machine) step() ([]Effect, error) {
	switch e := m.ev.(type) {
	case Start:
		return m.start(e)
	case AnchorMounted, NetworkReady, SandboxStarted, TrustIssued, PolicyVerified, Published:
		return m.prepare()
	case Register:
		return m.register(e)
	case Attached:
		return m.attached(e.Session)
	case Closed:
		return m.closed(e.Session)
	case Ended:
		return m.ended(e.Session)
	case IdleExpired:
		return m.idle()
	case StopRequested:
		return m.stop(e.Reason)
	case Lost:
		return m.lost(e)
	case ComponentStopped:
		return m.componentStopped(e.Component)
	case SupervisorGone:
		return m.supervisorGone(e.Reason)
	default:
		return m.illegal("not an event of this protocol")
	}
}

func (m *machine) start(e Start) ([]Effect, error) {
	switch {
	case m.was.Phase != Absent:
		return m.illegal("a generation is already there")
	case e.Generation == "" || e.Fingerprint == "":
		return m.illegal("a generation needs an id and a Configuration Fingerprint")
	}
	m.now.Phase = Starting
	m.now.Generation = e.Generation
	m.now.Fingerprint = e.Fingerprint
	return []Effect{LaunchSupervisor{}}, nil
}

// prepare takes the ordered steps from Starting to Ready. Each demands the one
// before it, because a swap would be a hole: a sandbox without its network
// policy, or a published Domain whose policy nobody has proven.
func (m *machine) prepare() ([]Effect, error) {
	s := m.now
	switch s.Phase {
	case Starting:
	case Stopping, Failed:
		switch m.ev.(type) {
		case AnchorMounted, NetworkReady, SandboxStarted, PolicyVerified:
			// Sent before its sender had heard of the end. The teardown takes what
			// it tells of.
			return nil, nil
		}
		fallthrough
	default:
		return m.illegal("no generation is starting")
	}
	switch e := m.ev.(type) {
	case AnchorMounted:
		if s.Anchor != ResourceStopped {
			return m.illegal("the anchor is already mounted")
		}
		s.Anchor = ResourceReady
		return nil, nil
	case NetworkReady:
		switch {
		case s.Anchor != ResourceReady:
			return m.illegal("the anchor is not mounted")
		case s.Network != ResourceStopped:
			return m.illegal("the network is already ready")
		case e.Readiness == "":
			return m.illegal("the network has no readiness fingerprint")
		}
		s.Network, s.Readiness = ResourceReady, e.Readiness
		return []Effect{StartSandbox{}}, nil
	case SandboxStarted:
		switch {
		case s.Network != ResourceReady:
			return m.illegal("the network is not ready")
		case s.Sandbox != ResourceStopped:
			return m.illegal("the sandbox already runs")
		}
		s.Sandbox = ResourceReady
		return []Effect{IssueTrust{}, VerifyPolicy{}}, nil
	case TrustIssued:
		if s.Sandbox != ResourceReady || s.Trust {
			return m.illegal("trust is issued once, for a running sandbox")
		}
		s.Trust = true
		return m.publishWhenProven()
	case PolicyVerified:
		if s.Sandbox != ResourceReady || s.Verified {
			return m.illegal("the policy is verified once, in a running sandbox")
		}
		s.Verified = true
		return m.publishWhenProven()
	default: // Published
		if !s.Trust || !s.Verified {
			return m.illegal("nothing is published before trust and verification")
		}
		s.Phase, s.Published = Ready, true
		return nil, nil
	}
}

func (m *machine) publishWhenProven() ([]Effect, error) {
	if m.now.Trust && m.now.Verified {
		return []Effect{Publish{}}, nil
	}
	return nil, nil
}

// register admits or refuses. A refusal is an answer, not an illegal event:
// clients come at any time.
func (m *machine) register(e Register) ([]Effect, error) {
	s := m.now
	if e.Session == "" {
		return m.illegal("a session needs an id")
	}
	refuse := func(why Refusal) ([]Effect, error) {
		return []Effect{Refuse{Session: e.Session, Why: why}}, nil
	}
	switch {
	case s.Phase != Ready || !s.Published:
		return refuse(RefusedNotReady)
	case e.Fingerprint != s.Fingerprint:
		return refuse(RefusedFingerprint)
	case s.Sessions[e.Session] != "":
		return refuse(RefusedDuplicate)
	}
	if s.Sessions == nil {
		s.Sessions = map[string]SessionPhase{}
	}
	s.Sessions[e.Session] = SessionRegistered
	return []Effect{Admit{Session: e.Session}}, nil
}

func (m *machine) attached(id string) ([]Effect, error) {
	// A session may be closed while its command is being started; then the
	// start's report comes late and changes nothing.
	switch m.now.Sessions[id] {
	case SessionRegistered:
		m.now.Sessions[id] = SessionAttached
		return nil, nil
	case SessionClosing:
		return nil, nil
	default:
		return m.illegal("the session is not registered")
	}
}

func (m *machine) closed(id string) ([]Effect, error) {
	switch m.now.Sessions[id] {
	case SessionRegistered, SessionAttached:
		// Deregistered before anything else of the session is touched (FR-15).
		m.now.Sessions[id] = SessionClosing
		return []Effect{EndSession{Session: id}}, nil
	case SessionClosing:
		return nil, nil
	default:
		return m.illegal("no such session")
	}
}

func (m *machine) ended(id string) ([]Effect, error) {
	s := m.now
	if s.Sessions[id] != SessionClosing {
		return m.illegal("the session is not closing")
	}
	delete(s.Sessions, id)
	if len(s.Sessions) == 0 && s.Phase == Ready {
		return m.teardown(Stopping, EndAll{})
	}
	return nil, nil
}

func (m *machine) idle() ([]Effect, error) {
	if m.now.Phase != Ready || len(m.now.Sessions) > 0 {
		return nil, nil
	}
	return m.teardown(Stopping, EndAll{})
}

func (m *machine) stop(reason string) ([]Effect, error) {
	switch m.now.Phase {
	case Starting, Ready:
		return m.teardown(Stopping, EndAll{Reason: reason})
	case Stopping, Failed, Absent:
		return nil, nil
	default:
		return m.illegal("nothing can be stopped")
	}
}

func (m *machine) lost(e Lost) ([]Effect, error) {
	switch m.now.Phase {
	case Starting, Ready:
		return m.teardown(Failed, EndAll{Reason: e.Reason, Failed: true})
	case Stopping, Failed:
		// A component that ends during the teardown is what the teardown wants.
		return nil, nil
	default:
		return m.illegal("no generation is there")
	}
}

// teardown begins the end of a generation. The publication goes first, so that
// no client is admitted to what is about to end; then the sessions; then the
// supervisor takes down sandbox, network and mounts.
func (m *machine) teardown(to DomainPhase, all EndAll) ([]Effect, error) {
	m.now.Phase = to
	var effects []Effect
	if m.now.Published {
		effects = append(effects, Withdraw{})
	}
	m.now.Published, m.now.Trust, m.now.Verified = false, false, false
	return append(effects, all, StopSupervisor{}), nil
}

func (m *machine) componentStopped(c Component) ([]Effect, error) {
	s := m.now
	if s.Phase != Stopping && s.Phase != Failed {
		return m.illegal("the generation is not being torn down")
	}
	switch c {
	case ComponentSandbox:
		s.Sandbox = ResourceStopped
	case ComponentNetwork:
		if s.Sandbox != ResourceStopped {
			return m.illegal("the network may not go before the sandbox")
		}
		s.Network, s.Readiness = ResourceStopped, ""
	case ComponentAnchor:
		if s.Sandbox != ResourceStopped || s.Network != ResourceStopped {
			return m.illegal("the anchor may not go before sandbox and network")
		}
		s.Anchor = ResourceStopped
	default:
		return m.illegal("not a component")
	}
	return nil, nil
}

// supervisorGone ends the generation. What the supervisor owned has gone with
// it: its namespaces hold the mounts and the network, and the attached runsc
// dies with it.
func (m *machine) supervisorGone(reason string) ([]Effect, error) {
	var effects []Effect
	switch m.now.Phase {
	case Starting, Ready:
		if m.now.Published {
			effects = append(effects, Withdraw{})
		}
		effects = append(effects, EndAll{Reason: reason, Failed: true}, Release{})
	case Stopping, Failed:
		effects = append(effects, Release{})
	default:
		return m.illegal("no generation is there")
	}
	*m.now = Initial()
	return effects, nil
}
