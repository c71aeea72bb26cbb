package protocol

// Event is something that happened to a Domain. The set is closed.
type Event interface{ event() string }

// scoped is an event that names the generation it belongs to. It is refused
// unless that is the live one.
type scoped interface{ generation() string }

// The life of a generation.
type (
	// Start begins a generation. The caller holds the Domain lock.
	Start struct {
		Generation  string
		Fingerprint string // Configuration Fingerprint
		IDs         ComponentIDs
		Confined    bool // the configuration lies beneath no mounted path (SR-2)
		Isolated    bool // the launch plan gives the sandbox namespaces of its own (SR-12)
	}

	// SupervisorStarted reports the Runtime Supervisor running, its ownership
	// material on record.
	SupervisorStarted struct{ Generation string }

	// Leased reports that the generation holds a prepared lower: the row and the
	// file are on the disk (FR-22).
	Leased struct{ Prepared string }

	// AnchorMounted reports the root filesystem assembled.
	AnchorMounted struct{ Generation string }

	// HelperStarted reports the connectivity helper running, its ownership
	// material on record (FR-16).
	HelperStarted struct{ Generation string }

	// NetworkReady reports the attested network with its readiness fingerprint,
	// under the Network Sidecar ID.
	NetworkReady struct{ Generation, Network, Readiness string }

	// SandboxStarted reports the attached runsc running.
	SandboxStarted struct{ Generation string }

	// TrustIssued reports that the Trust Anchor has issued the generation's
	// certificates.
	TrustIssued struct{}

	// PolicyVerified reports that the prober inside the sandbox found every
	// deny closed and the required reachability working (FR-20).
	PolicyVerified struct{}

	// Published reports that the control socket can be found.
	Published struct{}

	// IdleExpired reports that no client has come since publication.
	IdleExpired struct{}

	// StopRequested asks for the end of the generation.
	StopRequested struct{ Reason string }

	// Lost reports that a component ended without being asked, or that a step
	// failed.
	Lost struct {
		Generation string
		Component  Component
		Reason     string
	}

	// ComponentStopped reports one component of a stopping generation gone.
	ComponentStopped struct {
		Generation string
		Component  Component
	}

	// SupervisorGone reports the end of the lease: the Runtime Supervisor is no
	// more, and with it every resource that it owned.
	SupervisorGone struct{ Generation, Reason string }

	// CoordinatorLost is the death of the Host Coordinator. Nobody takes this
	// event; the state after it is what the next holder of the lock finds.
	CoordinatorLost struct{}
)

// Recovery of a dead generation.
type (
	// Recover begins the recovery. The caller holds the Domain lock.
	Recover struct{}

	// Compared reports what was found where a role's record says to look.
	Compared struct {
		Role    Role
		Finding Finding
	}

	// Cleaned reports a leftover of ours gone.
	Cleaned struct{ Role Role }

	// LeaseReleased reports the dead generation's lease given up.
	LeaseReleased struct{}
)

// Client Sessions.
type (
	// Register asks for a Client Session. The client is authenticated under the
	// Trust Anchor of Generation.
	Register struct {
		Session     string
		Generation  string
		Fingerprint string // the client's Configuration Fingerprint
	}

	// Attached reports that a session's command has started.
	Attached struct{ Session string }

	// Closed reports that a session's client has left or its command has ended.
	Closed struct{ Session string }

	// Ended reports that nothing of a closed session is left.
	Ended struct{ Session string }
)

// Escalation requests.
type (
	// Submitted reports a request in the mailbox.
	Submitted struct {
		Request    string
		Session    string
		Command    string // digest of the argument vector and the directory
		Generation string // of the certificate
		Sandbox    string // the certificate's component id
		Authentic  bool   // certificate, both signatures and freshness hold (SR-9)
	}

	// Asked reports that no rule decides the request.
	Asked struct{ Request string }

	// Approved is a decision for the request. Command is what was shown, or what
	// the rule matched.
	Approved struct {
		Request string
		Source  ApprovalSource
		Command string
	}

	// Denied is a decision against the request, by a rule or by the developer.
	Denied struct{ Request string }

	// TimedOut reports the end of the time for a decision, or for a run.
	TimedOut struct{ Request string }

	// Cancelled reports that the request is no longer wanted.
	Cancelled struct{ Request string }

	// HostStarted reports an approved host process running under its guard.
	HostStarted struct{ Request string }

	// HostEnded reports that nothing of a host process is left.
	HostEnded struct{ Request string }

	// HostFailed reports that a host process could not be started, or that its
	// guard failed; nothing of it is left.
	HostFailed struct{ Request string }

	// Delivered reports that the result lies in the mailbox.
	Delivered struct{ Request string }
)

func (Start) event() string             { return "Start" }
func (SupervisorStarted) event() string { return "SupervisorStarted" }
func (Leased) event() string            { return "Leased" }
func (AnchorMounted) event() string     { return "AnchorMounted" }
func (HelperStarted) event() string     { return "HelperStarted" }
func (NetworkReady) event() string      { return "NetworkReady" }
func (SandboxStarted) event() string    { return "SandboxStarted" }
func (TrustIssued) event() string       { return "TrustIssued" }
func (PolicyVerified) event() string    { return "PolicyVerified" }
func (Published) event() string         { return "Published" }
func (IdleExpired) event() string       { return "IdleExpired" }
func (StopRequested) event() string     { return "StopRequested" }
func (Lost) event() string              { return "Lost" }
func (ComponentStopped) event() string  { return "ComponentStopped" }
func (SupervisorGone) event() string    { return "SupervisorGone" }
func (CoordinatorLost) event() string   { return "CoordinatorLost" }
func (Recover) event() string           { return "Recover" }
func (Compared) event() string          { return "Compared" }
func (Cleaned) event() string           { return "Cleaned" }
func (LeaseReleased) event() string     { return "LeaseReleased" }
func (Register) event() string          { return "Register" }
func (Attached) event() string          { return "Attached" }
func (Closed) event() string            { return "Closed" }
func (Ended) event() string             { return "Ended" }
func (Submitted) event() string         { return "Submitted" }
func (Asked) event() string             { return "Asked" }
func (Approved) event() string          { return "Approved" }
func (Denied) event() string            { return "Denied" }
func (TimedOut) event() string          { return "TimedOut" }
func (Cancelled) event() string         { return "Cancelled" }
func (HostStarted) event() string       { return "HostStarted" }
func (HostEnded) event() string         { return "HostEnded" }
func (HostFailed) event() string        { return "HostFailed" }
func (Delivered) event() string         { return "Delivered" }

func (e SupervisorStarted) generation() string { return e.Generation }
func (e AnchorMounted) generation() string     { return e.Generation }
func (e HelperStarted) generation() string     { return e.Generation }
func (e NetworkReady) generation() string      { return e.Generation }
func (e SandboxStarted) generation() string    { return e.Generation }
func (e Lost) generation() string              { return e.Generation }
func (e ComponentStopped) generation() string  { return e.Generation }
func (e SupervisorGone) generation() string    { return e.Generation }

// EventName is the event's name in traces and errors.
func EventName(e Event) string { return e.event() }
