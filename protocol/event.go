package protocol

// Event is something that happened to a Domain generation. The set is closed.
type Event interface{ event() string }

type (
	// Start begins a generation. The caller holds the Domain lock, and the
	// configuration is confined: it lies beneath no mounted path (SR-2).
	Start struct {
		Generation  string
		Fingerprint string
	}

	// AnchorMounted reports the root filesystem assembled.
	AnchorMounted struct{}

	// NetworkReady reports the attested network with its readiness fingerprint.
	NetworkReady struct{ Readiness string }

	// SandboxStarted reports the attached runsc running.
	SandboxStarted struct{}

	// TrustIssued reports that the Trust Anchor has issued the generation's
	// certificates.
	TrustIssued struct{}

	// PolicyVerified reports that the prober inside the sandbox found every
	// deny closed and the required reachability working (FR-20).
	PolicyVerified struct{}

	// Published reports that the control socket can be found.
	Published struct{}

	// Register asks for a Client Session.
	Register struct {
		Session     string
		Fingerprint string // the client's Configuration Fingerprint
	}

	// Attached reports that a session's command has started.
	Attached struct{ Session string }

	// Closed reports that a session's client has left or its command has ended.
	Closed struct{ Session string }

	// Ended reports that nothing of a closed session is left.
	Ended struct{ Session string }

	// IdleExpired reports that no client has come since publication.
	IdleExpired struct{}

	// StopRequested asks for the end of the generation.
	StopRequested struct{ Reason string }

	// Lost reports that a component ended without being asked, or that a step
	// failed.
	Lost struct {
		Component Component
		Reason    string
	}

	// ComponentStopped reports one component of a stopping generation gone.
	ComponentStopped struct{ Component Component }

	// SupervisorGone reports the end of the lease: the Runtime Supervisor is no
	// more, and with it every resource that it owned.
	SupervisorGone struct{ Reason string }
)

func (Start) event() string            { return "Start" }
func (AnchorMounted) event() string    { return "AnchorMounted" }
func (NetworkReady) event() string     { return "NetworkReady" }
func (SandboxStarted) event() string   { return "SandboxStarted" }
func (TrustIssued) event() string      { return "TrustIssued" }
func (PolicyVerified) event() string   { return "PolicyVerified" }
func (Published) event() string        { return "Published" }
func (Register) event() string         { return "Register" }
func (Attached) event() string         { return "Attached" }
func (Closed) event() string           { return "Closed" }
func (Ended) event() string            { return "Ended" }
func (IdleExpired) event() string      { return "IdleExpired" }
func (StopRequested) event() string    { return "StopRequested" }
func (Lost) event() string             { return "Lost" }
func (ComponentStopped) event() string { return "ComponentStopped" }
func (SupervisorGone) event() string   { return "SupervisorGone" }

// EventName is the event's name in traces and errors.
func EventName(e Event) string { return e.event() }

// Effect is something that the Host Coordinator must now do. The set is closed.
// Effects of one step are performed in their order.
type Effect interface{ effect() }

type (
	// LaunchSupervisor starts the Runtime Supervisor with the launch plan.
	LaunchSupervisor struct{}

	// StartSandbox lets the supervisor start the attached runsc. It is given
	// only after the network is ready: order is the gate (SR-5).
	StartSandbox struct{}

	// IssueTrust makes the Trust Anchor issue the generation's certificates.
	IssueTrust struct{}

	// VerifyPolicy runs the prober inside the sandbox.
	VerifyPolicy struct{}

	// Publish makes the control socket findable.
	Publish struct{}

	// Admit answers a registration.
	Admit struct{ Session string }

	// Refuse answers a registration that cannot be granted.
	Refuse struct {
		Session string
		Why     Refusal
	}

	// EndSession ends what is left of a session's processes.
	EndSession struct{ Session string }

	// Withdraw undoes the publication.
	Withdraw struct{}

	// EndAll tells every session that the generation is over, and why. An empty
	// Reason is an orderly end.
	EndAll struct {
		Reason string
		Failed bool
	}

	// StopSupervisor asks the supervisor for the teardown.
	StopSupervisor struct{}

	// Release ends the generation: leases, records, the Domain lock.
	Release struct{}
)

func (LaunchSupervisor) effect() {}
func (StartSandbox) effect()     {}
func (IssueTrust) effect()       {}
func (VerifyPolicy) effect()     {}
func (Publish) effect()          {}
func (Admit) effect()            {}
func (Refuse) effect()           {}
func (EndSession) effect()       {}
func (Withdraw) effect()         {}
func (EndAll) effect()           {}
func (StopSupervisor) effect()   {}
func (Release) effect()          {}

// Refusal says why a registration is refused.
type Refusal string

// The refusals.
const (
	RefusedNotReady    Refusal = "not_ready"    // not published (yet, or any more)
	RefusedFingerprint Refusal = "fingerprint"  // another Configuration Fingerprint
	RefusedDuplicate   Refusal = "duplicate_id" // the Session ID is taken
)

// UnmarshalText refuses unknown refusals.
func (r *Refusal) UnmarshalText(b []byte) error {
	return decodeEnum(r, b, "refusal", RefusedNotReady, RefusedFingerprint, RefusedDuplicate)
}
