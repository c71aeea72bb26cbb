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
	Absent     DomainPhase = "Absent"     // no generation lives; a dead one may have left a Record
	Recovering DomainPhase = "Recovering" // what a dead generation has left is being cleared away
	Starting   DomainPhase = "Starting"   // preparation, up to publication
	Ready      DomainPhase = "Ready"      // published: sessions are admitted
	Stopping   DomainPhase = "Stopping"   // an orderly teardown
	Failed     DomainPhase = "Failed"     // a teardown that a failure has begun
)

// UnmarshalText refuses unknown phases.
func (p *DomainPhase) UnmarshalText(b []byte) error {
	return decodeEnum(p, b, "Domain phase", Absent, Recovering, Starting, Ready, Stopping, Failed)
}

// serving reports a generation that is not being torn down.
func (p DomainPhase) serving() bool { return p == Starting || p == Ready }

// ending reports a generation that is being torn down.
func (p DomainPhase) ending() bool { return p == Stopping || p == Failed }

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

// ComponentIDs are the runtime component IDs of one generation. They name
// protocol peers; no process id stands for any of them (SR-16, SR-17).
type ComponentIDs struct {
	Coordinator string `json:"coordinator"` // Session Coordinator ID
	Sandbox     string `json:"sandbox"`     // Agent Sandbox ID
	Network     string `json:"network"`     // Network Sidecar ID
}

// State is the protocol state of one Domain. It is a value: Next never changes
// the state that it is given. States share maps, so that nobody writes to one
// that Next has returned.
type State struct {
	Phase       DomainPhase  `json:"phase"`
	Generation  string       `json:"generation,omitempty"`  // the live one
	Previous    string       `json:"previous,omitempty"`    // the one before: its credentials are stale
	Fingerprint string       `json:"fingerprint,omitempty"` // Configuration Fingerprint
	IDs         ComponentIDs `json:"ids"`
	Confined    bool         `json:"confined"` // Start.Confined
	Isolated    bool         `json:"isolated"` // Start.Isolated

	Lease     string        `json:"lease,omitempty"` // prepared-artifact id that the generation holds
	Anchor    ResourceState `json:"anchor"`
	Network   ResourceState `json:"network"`
	Readiness string        `json:"readiness,omitempty"` // network readiness fingerprint
	Sandbox   ResourceState `json:"sandbox"`
	Trust     bool          `json:"trust"`    // certificates for this generation are issued
	Verified  bool          `json:"verified"` // the policy was proven from inside the sandbox
	Published bool          `json:"published"`

	// Intents is the durable intent of the live generation: a role is in it from
	// before its resource may exist until the resource was seen to be gone.
	Intents map[Role]Intent `json:"intents,omitempty"`

	// Record is what a dead generation has left on record, or nil.
	Record *Record `json:"record,omitempty"`

	Sessions map[string]Session `json:"sessions,omitempty"`
	Requests map[string]Request `json:"requests,omitempty"` // of the sessions in Sessions
}

// Initial is the state of a Domain that has no generation and no record.
func Initial() State {
	return State{Phase: Absent, Anchor: ResourceStopped, Network: ResourceStopped, Sandbox: ResourceStopped}
}

// Left is the state of a Domain whose last generation has not ended but died,
// as the next holder of the Domain lock reads it from the store.
func Left(r Record) State {
	s := Initial()
	s.Previous = r.Generation
	r = r.clone()
	s.Record = &r
	return s
}

// SessionIDs returns the sessions' ids in a stable order.
func (s State) SessionIDs() []string {
	return slices.Sorted(maps.Keys(s.Sessions))
}

// HostRunning reports whether a host process may be running for the request:
// from the moment that its start is ordered until it was seen to be gone.
func (s State) HostRunning(request string) bool {
	return s.Requests[request].Phase.host()
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
