package protocol

import (
	"errors"
	"fmt"
	"maps"
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
	n := s
	m := machine{was: s, now: &n, ev: e}
	effects, err := m.step()
	if err != nil {
		return s, nil, err
	}
	return n, effects, nil
}

// machine is one application of Next. Its guards have one of three outcomes:
// illegal, a refusal that is an answer, and ignore. A test drops each in turn
// and wants to see it missed.
type machine struct {
	was State
	now *State // shares its maps with was until they are written to
	ev  Event

	ownIntents, ownSessions, ownRequests, ownRecord bool
}

// intents, sessions, requests and record give what may be written to: the
// first time, a copy.
func (m *machine) intents() map[Role]Intent {
	return writable(&m.ownIntents, &m.now.Intents)
}

func (m *machine) sessions() map[string]Session {
	return writable(&m.ownSessions, &m.now.Sessions)
}

func (m *machine) requests() map[string]Request {
	return writable(&m.ownRequests, &m.now.Requests)
}

func (m *machine) record() *Record {
	if !m.ownRecord {
		r := m.now.Record.clone()
		m.now.Record, m.ownRecord = &r, true
	}
	return m.now.Record
}

func writable[K comparable, V any](own *bool, of *map[K]V) map[K]V {
	if !*own {
		if *own = true; *of == nil {
			*of = map[K]V{}
		} else {
			*of = maps.Clone(*of)
		}
	}
	return *of
}

// illegal refuses an event that the protocol does not allow here.
func (m *machine) illegal(why string) ([]Effect, error) {
	return nil, &IllegalError{Event: m.ev.event(), Phase: m.was.Phase, Why: why}
}

// ignore takes an event that has come too late to mean anything.
func (m *machine) ignore() ([]Effect, error) { return nil, nil }

// refuse answers a registration. Clients come at any time.
func (m *machine) refuse(session string, why Refusal) ([]Effect, error) {
	return []Effect{Refuse{Session: session, Why: why}}, nil
}

// refuseRequest answers a request. The sandbox may write anything.
func (m *machine) refuseRequest(request string, why Refusal) ([]Effect, error) {
	return []Effect{RefuseRequest{Request: request, Why: why}}, nil
}

// tooLate answers a decision that another, or the request's end, has overtaken.
func (m *machine) tooLate(request string) ([]Effect, error) {
	return []Effect{TooLate{Request: request}}, nil
}

func (m *machine) step() ([]Effect, error) {
	if e, ok := m.ev.(scoped); ok {
		if e.generation() != m.was.Generation {
			return m.illegal("it is of another generation")
		}
	}
	switch e := m.ev.(type) {
	case Start:
		return m.start(e)
	case Leased, SupervisorStarted, AnchorMounted, HelperStarted, NetworkReady, SandboxStarted:
		return m.resource()
	case TrustIssued, PolicyVerified, Published:
		return m.prove()
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
	case CoordinatorLost:
		return m.coordinatorLost()
	case Recover, Compared, Cleaned, LeaseReleased:
		return m.recovery()
	case Submitted:
		return m.submitted(e)
	case Asked:
		return m.asked(e.Request)
	case Approved:
		return m.approved(e)
	case Denied:
		return m.denied(e.Request)
	case TimedOut:
		return m.cut(e.Request, TimeoutPending)
	case Cancelled:
		return m.cut(e.Request, CancellationPending)
	case HostStarted:
		return m.hostStarted(e.Request)
	case HostEnded:
		return m.hostEnded(e.Request)
	case HostFailed:
		return m.hostFailed(e.Request)
	case Delivered:
		return m.delivered(e.Request)
	default:
		return m.illegal("not an event of this protocol") // the set is closed
	}
}

func (m *machine) start(e Start) ([]Effect, error) {
	switch {
	case m.was.Phase != Absent:
		return m.illegal("a generation is already there")
	case m.was.Record != nil:
		return m.illegal("a dead generation is not yet recovered")
	case e.Generation == "":
		return m.illegal("a generation needs an id")
	case e.Generation == m.was.Previous:
		return m.illegal("no generation's id is used twice")
	case e.Fingerprint == "":
		return m.illegal("a generation needs a Configuration Fingerprint")
	case e.IDs.Coordinator == "" || e.IDs.Sandbox == "" || e.IDs.Network == "":
		return m.illegal("a generation needs its component ids")
	case !e.Confined:
		return m.illegal("the configuration lies beneath a mounted path")
	case !e.Isolated:
		return m.illegal("the sandbox would join a namespace of the host")
	}
	s := m.now
	s.Phase, s.Generation, s.Fingerprint, s.IDs = Starting, e.Generation, e.Fingerprint, e.IDs
	s.Confined, s.Isolated = e.Confined, e.Isolated
	effects := m.intend(RoleSupervisor, RoleAnchor, RoleNetwork, RoleHelper)
	return append(effects, LaunchSupervisor{}), nil
}

// intend notes intents and orders them to be put on record.
func (m *machine) intend(roles ...Role) []Effect {
	var effects []Effect
	for _, r := range roles {
		m.intents()[r] = Intended
		effects = append(effects, RecordIntent{Role: r})
	}
	return effects
}
