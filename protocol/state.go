package protocol

import (
	"fmt"
	"maps"
	"slices"
)

// DomainPhase is the phase of a Domain generation.
type DomainPhase string

// The Domain phases.
const (
	Absent     DomainPhase = "Absent"
	Recovering DomainPhase = "Recovering"
	Starting   DomainPhase = "Starting"
	Ready      DomainPhase = "Ready"
	Stopping   DomainPhase = "Stopping"
	Failed     DomainPhase = "Failed"
)

// UnmarshalText refuses unknown phases.
func (p *DomainPhase) UnmarshalText(b []byte) error {
	return decodeEnum(p, b, "Domain phase", Absent, Recovering, Starting, Ready, Stopping, Failed)
}

// ResourceState is the state of one ordered resource of a generation.
type ResourceState string

// The resource states.
const (
	ResourceStopped ResourceState = "Stopped"
	ResourceReady   ResourceState = "Ready"
)

// UnmarshalText refuses unknown states.
func (s *ResourceState) UnmarshalText(b []byte) error {
	return decodeEnum(s, b, "resource state", ResourceStopped, ResourceReady)
}

// SessionPhase is the phase of one Client Session.
type SessionPhase string

// The session phases. A session that has ended is no longer in the state.
const (
	SessionRegistered SessionPhase = "Registered" // admitted, its command not yet started
	SessionAttached   SessionPhase = "Attached"   // its command runs
	SessionClosing    SessionPhase = "Closing"    // deregistered; its processes are being ended
)

// UnmarshalText refuses unknown phases.
func (p *SessionPhase) UnmarshalText(b []byte) error {
	return decodeEnum(p, b, "session phase", SessionRegistered, SessionAttached, SessionClosing)
}

// Component names one ordered resource of a generation.
type Component string

// The components, in the order in which they are prepared. Teardown goes the
// other way round: sandbox, then network, then anchor.
const (
	ComponentAnchor  Component = "anchor"
	ComponentNetwork Component = "network"
	ComponentSandbox Component = "sandbox"
)

// UnmarshalText refuses unknown components.
func (c *Component) UnmarshalText(b []byte) error {
	return decodeEnum(c, b, "component", ComponentAnchor, ComponentNetwork, ComponentSandbox)
}

// State is the protocol state of one Domain generation. It is a value: Next
// never changes the state that it is given.
type State struct {
	Phase       DomainPhase `json:"phase"`
	Generation  string      `json:"generation,omitempty"`
	Fingerprint string      `json:"fingerprint,omitempty"` // Configuration Fingerprint

	Anchor    ResourceState `json:"anchor"`
	Network   ResourceState `json:"network"`
	Readiness string        `json:"readiness,omitempty"` // network readiness fingerprint
	Sandbox   ResourceState `json:"sandbox"`
	Trust     bool          `json:"trust"`    // certificates for this generation are issued
	Verified  bool          `json:"verified"` // the policy was proven from inside the sandbox
	Published bool          `json:"published"`

	Sessions map[string]SessionPhase `json:"sessions,omitempty"`
}

// Initial is the state of a Domain that has no generation.
func Initial() State {
	return State{Phase: Absent, Anchor: ResourceStopped, Network: ResourceStopped, Sandbox: ResourceStopped}
}

// clone returns a copy that shares nothing with s.
func (s State) clone() State {
	s.Sessions = maps.Clone(s.Sessions)
	return s
}

// SessionIDs returns the sessions' ids in a stable order.
func (s State) SessionIDs() []string {
	return slices.Sorted(maps.Keys(s.Sessions))
}

// decodeEnum sets *p to b when b is one of the allowed values.
func decodeEnum[T ~string](p *T, b []byte, what string, allowed ...T) error {
	v := T(b)
	if !slices.Contains(allowed, v) {
		return fmt.Errorf("unknown %s %q", what, b)
	}
	*p = v
	return nil
}
