package protocol

// Effect is something that the Host Coordinator must now do. The set is closed.
// Effects of one step are performed in their order.
type Effect interface{ effect() }

type (
	// RecordIntent puts a role's intent on record. What follows it may make the
	// resource, so the record is on the disk first. Of host processes there are
	// several: their intents are their requests'.
	RecordIntent struct {
		Role    Role
		Request string // of RoleHost, else empty
	}

	// LaunchSupervisor starts the Runtime Supervisor with the launch plan. The
	// prepared lower is leased before the plan is sent.
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

	// Release ends the coordinator's part: leases, records, the Domain lock. A
	// Record that is still in the state stays on the disk.
	Release struct{}
)

// Effects of recovery.
type (
	// Compare looks where a role's record says to, and touches nothing.
	Compare struct{ Role Role }

	// Clean clears away a leftover that matches its record exactly.
	Clean struct{ Role Role }

	// NameLeftover tells the developer of something that the record does not
	// prove to be ours. It is left alone, and the recovery refused.
	NameLeftover struct {
		Generation string
		Role       Role
	}

	// ReleaseLease gives up the dead generation's claim on a prepared lower.
	ReleaseLease struct{ Generation, Prepared string }

	// Recovered closes the document of a dead generation.
	Recovered struct{ Generation string }
)

// Effects of escalation requests.
type (
	// Decide asks the rules about a request: Approved, Denied or Asked follows.
	Decide struct{ Request string }

	// RefuseRequest answers a request that is not accepted.
	RefuseRequest struct {
		Request string
		Why     Refusal
	}

	// ShowPrompt asks the developer, on the owning session's terminal and
	// wherever else approvals are shown.
	ShowPrompt struct{ Request string }

	// ClosePrompt takes every surface's question back.
	ClosePrompt struct{ Request string }

	// StartHost starts exactly the approved command under a guard.
	StartHost struct{ Request, Command string }

	// EndHost ends a host process and all that it started. Where it is still
	// being started the start is given up, or its end follows.
	EndHost struct{ Request string }

	// Deliver writes the result for the Escalation Client.
	Deliver struct {
		Request string
		Outcome RequestPhase // pending
	}

	// Resolve puts a request's end on record: one per accepted request.
	Resolve struct {
		Request string
		Outcome RequestPhase // terminal
	}

	// TooLate answers a decision that came after another, or after the end.
	TooLate struct{ Request string }
)

func (RecordIntent) effect()     {}
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
func (Compare) effect()          {}
func (Clean) effect()            {}
func (NameLeftover) effect()     {}
func (ReleaseLease) effect()     {}
func (Recovered) effect()        {}
func (Decide) effect()           {}
func (RefuseRequest) effect()    {}
func (ShowPrompt) effect()       {}
func (ClosePrompt) effect()      {}
func (StartHost) effect()        {}
func (EndHost) effect()          {}
func (Deliver) effect()          {}
func (Resolve) effect()          {}
func (TooLate) effect()          {}

// Refusal says why a registration or a request is refused.
type Refusal string

// The refusals.
const (
	RefusedNotReady    Refusal = "not_ready"    // not published (yet, or any more)
	RefusedStale       Refusal = "stale"        // credentials of another generation, or of another component
	RefusedFingerprint Refusal = "fingerprint"  // another Configuration Fingerprint
	RefusedDuplicate   Refusal = "duplicate_id" // the id is taken
	RefusedUnverified  Refusal = "unverified"   // the request is not authentic
	RefusedNoSession   Refusal = "no_session"   // no such Client Session, or it is closing
	RefusedBusy        Refusal = "busy"         // the session has an undelivered request
)

// UnmarshalText refuses unknown refusals.
func (r *Refusal) UnmarshalText(b []byte) error {
	return decodeEnum(r, b, "refusal", RefusedNotReady, RefusedStale, RefusedFingerprint, RefusedDuplicate,
		RefusedUnverified, RefusedNoSession, RefusedBusy)
}
