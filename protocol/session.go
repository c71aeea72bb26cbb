package protocol

import (
	"maps"
	"slices"
)

// SessionPhase is the phase of one Client Session.
type SessionPhase string

// The session phases. A session that has ended is no longer in the state.
const (
	SessionRegistered SessionPhase = "Registered" // admitted, its command not yet started
	SessionAttached   SessionPhase = "Attached"   // its command runs
	SessionPrompting  SessionPhase = "Prompting"  // its terminal shows an approval prompt
	SessionExecuting  SessionPhase = "Executing"  // a host command runs for it
	SessionClosing    SessionPhase = "Closing"    // deregistered; its processes are being ended
)

// UnmarshalText refuses unknown phases.
func (p *SessionPhase) UnmarshalText(b []byte) error {
	return decodeEnum(p, b, "session phase", SessionRegistered, SessionAttached, SessionPrompting, SessionExecuting, SessionClosing)
}

// TerminalRoute says who has a session's terminal.
type TerminalRoute string

// The terminal routes.
const (
	RouteDetached TerminalRoute = "Detached" // nobody: no command yet, or the client has gone
	RouteSandbox  TerminalRoute = "Sandbox"  // the session's command
	RoutePrompt   TerminalRoute = "Prompt"   // an approval prompt

	// RouteHostProcess marks a session with a running host command. It routes no
	// bytes: at the decision the terminal has gone back to the session.
	RouteHostProcess TerminalRoute = "HostProcess"
)

// UnmarshalText refuses unknown routes.
func (r *TerminalRoute) UnmarshalText(b []byte) error {
	return decodeEnum(r, b, "terminal route", RouteDetached, RouteSandbox, RoutePrompt, RouteHostProcess)
}

// ConnectionState says whether a session's client is there.
type ConnectionState string

// The connection states.
const (
	Connected    ConnectionState = "Connected"
	Disconnected ConnectionState = "Disconnected"
)

// UnmarshalText refuses unknown states.
func (c *ConnectionState) UnmarshalText(b []byte) error {
	return decodeEnum(c, b, "connection state", Connected, Disconnected)
}

// Session is one Client Session.
type Session struct {
	Phase      SessionPhase    `json:"phase"`
	Route      TerminalRoute   `json:"route"`
	Connection ConnectionState `json:"connection"`
	Active     string          `json:"active,omitempty"` // its one undelivered request
}

// RequestPhase is the phase of one escalation request. A request that was
// never accepted is not in the state: its phase is Unused.
type RequestPhase string

// The request phases.
const (
	RequestUnused           RequestPhase = ""
	RequestVerified         RequestPhase = "Verified"         // authentic, not yet decided
	RequestAwaitingApproval RequestPhase = "AwaitingApproval" // the developer is asked
	RequestApproved         RequestPhase = "Approved"         // its host process is being started
	RequestExecuting        RequestPhase = "Executing"        // its host process runs

	// The outcome is decided and not yet delivered.
	CompletionPending   RequestPhase = "CompletionPending"
	DenialPending       RequestPhase = "DenialPending"
	TimeoutPending      RequestPhase = "TimeoutPending"
	CancellationPending RequestPhase = "CancellationPending"
	FailurePending      RequestPhase = "FailurePending"

	// Delivered, or its session has gone.
	RequestCompleted RequestPhase = "Completed"
	RequestDenied    RequestPhase = "Denied"
	RequestTimedOut  RequestPhase = "TimedOut"
	RequestCancelled RequestPhase = "Cancelled"
	RequestFailed    RequestPhase = "Failed"
)

// UnmarshalText refuses unknown phases. Unused is never written.
func (p *RequestPhase) UnmarshalText(b []byte) error {
	return decodeEnum(p, b, "request phase", RequestVerified, RequestAwaitingApproval, RequestApproved, RequestExecuting,
		CompletionPending, DenialPending, TimeoutPending, CancellationPending, FailurePending,
		RequestCompleted, RequestDenied, RequestTimedOut, RequestCancelled, RequestFailed)
}

// Delivered is the terminal phase of a pending result, and empty for any other
// phase.
func (p RequestPhase) Delivered() RequestPhase {
	switch p {
	case CompletionPending:
		return RequestCompleted
	case DenialPending:
		return RequestDenied
	case TimeoutPending:
		return RequestTimedOut
	case CancellationPending:
		return RequestCancelled
	case FailurePending:
		return RequestFailed
	default:
		return ""
	}
}

// Pending reports a decided outcome that is not yet delivered.
func (p RequestPhase) Pending() bool { return p.Delivered() != "" }

// Terminal reports a request that is over.
func (p RequestPhase) Terminal() bool {
	return slices.Contains([]RequestPhase{RequestCompleted, RequestDenied, RequestTimedOut, RequestCancelled, RequestFailed}, p)
}

// host reports the phases in which a host process may exist.
func (p RequestPhase) host() bool { return p == RequestApproved || p == RequestExecuting }

// ApprovalSource says who has approved a request.
type ApprovalSource string

// The approval sources. A request that is not approved has none.
const (
	AutoRule  ApprovalSource = "AutoRule"
	Developer ApprovalSource = "Developer"
)

// UnmarshalText refuses unknown sources.
func (s *ApprovalSource) UnmarshalText(b []byte) error {
	return decodeEnum(s, b, "approval source", AutoRule, Developer)
}

// Request is one escalation request. Source, Command and Ending are set only
// while they bind: the command until the decision, what was approved until its
// process has gone.
type Request struct {
	Session string         `json:"session"`
	Phase   RequestPhase   `json:"phase"`
	Command string         `json:"command,omitempty"` // digest of what was asked, then of what was approved
	Source  ApprovalSource `json:"source,omitempty"`

	// Ending is the outcome that ends a running host process before its time.
	Ending RequestPhase `json:"ending,omitempty"`
}

// requestIDs returns the requests' ids in a stable order.
func (s State) requestIDs() []string { return slices.Sorted(maps.Keys(s.Requests)) }
