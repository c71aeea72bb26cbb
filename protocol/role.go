package protocol

import "maps"

// Role names something outside the store that is made for a generation and that
// recovery may have to clear away. All but the first two are the store's
// participants, under the same names.
type Role string

// The roles.
const (
	RoleHost        Role = "host"        // approved host processes
	RolePublication Role = "publication" // the control sockets
	RoleSandbox     Role = "sandbox"     // the attached runsc client
	RoleHelper      Role = "helper"      // the connectivity helper
	RoleNetwork     Role = "network"     // the enforcement namespace
	RoleAnchor      Role = "anchor"      // the root filesystem's mounts
	RoleSupervisor  Role = "supervisor"  // the Runtime Supervisor and its namespaces
)

// Roles returns all roles in the protocol's order of cleaning: what acts with
// host authority first, then what is found by others, then sandbox, network
// and mounts, and at last the process that owns the namespaces.
func Roles() []Role {
	return []Role{RoleHost, RolePublication, RoleSandbox, RoleHelper, RoleNetwork, RoleAnchor, RoleSupervisor}
}

// UnmarshalText refuses unknown roles.
func (r *Role) UnmarshalText(b []byte) error { return decodeEnum(r, b, "role", Roles()...) }

// Intent is how far a role's durable intent has come. A role without one has
// nothing outside.
type Intent string

// The intents.
const (
	Intended Intent = "Intended" // the resource may exist; nothing proves what is found to be ours
	Owned    Intent = "Owned"    // it exists, and its ownership material is on record
	Cleaning Intent = "Cleaning" // recovery found exactly what is on record, and clears it away
)

// UnmarshalText refuses unknown intents.
func (i *Intent) UnmarshalText(b []byte) error {
	return decodeEnum(i, b, "intent", Intended, Owned, Cleaning)
}

// Finding is the outcome of comparing a role's record with the machine.
type Finding string

// The findings.
const (
	FoundGone     Finding = "Gone"     // nothing is there
	FoundMatching Finding = "Matching" // exactly what is on record is there
	FoundMismatch Finding = "Mismatch" // something is there that the record does not prove to be ours
)

// UnmarshalText refuses unknown findings.
func (f *Finding) UnmarshalText(b []byte) error {
	return decodeEnum(f, b, "finding", FoundGone, FoundMatching, FoundMismatch)
}

// Record is the durable part of a generation that died: its outstanding
// intents and its prepared-lower lease.
type Record struct {
	Generation string          `json:"generation"`
	Intents    map[Role]Intent `json:"intents,omitempty"`
	Lease      string          `json:"lease,omitempty"`
}

// clone returns a copy that shares nothing with r.
func (r Record) clone() Record {
	r.Intents = maps.Clone(r.Intents)
	if r.Intents == nil {
		r.Intents = map[Role]Intent{}
	}
	return r
}

// next is the first outstanding role in the order of cleaning, or empty.
func (r *Record) next() Role {
	for _, role := range Roles() {
		if r.Intents[role] != "" {
			return role
		}
	}
	return ""
}
