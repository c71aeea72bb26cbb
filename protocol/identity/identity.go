// Package identity is the Protocol Identity: the binding of a component role,
// Agent Profile, Domain ID, generation and runtime component ID that a
// certificate carries in its one URI subject alternative name (SR-9).
//
// It encodes and parses, strictly; it issues and verifies nothing. It is
// linked into every process that speaks for itself.
package identity

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Role is a component role.
type Role string

// The roles. Runtime Supervisor, runsc and slirp4netns have none: they are no
// protocol peers (SR-16, SR-17).
const (
	RoleCoordinator Role = "coordinator" // Session Coordinator, on the Host Coordinator's face
	RoleClient      Role = "client"      // one host Lazaret CLI process
	RoleSandbox     Role = "sandbox"     // the Agent Sandbox
)

var roles = []Role{RoleCoordinator, RoleClient, RoleSandbox}

// Identity names one component of one generation.
type Identity struct {
	Role       Role
	Profile    string
	DomainID   string
	Generation string
	Component  string // runtime component ID
}

const scheme = "lazaret"

// token is what every field but the role may hold; no escaping is ever needed,
// so each identity has exactly one encoding.
var token = regexp.MustCompile(`^[a-z0-9_-]{1,64}$`)

// URI renders lazaret://DOMAIN/GENERATION/PROFILE/ROLE/COMPONENT.
func (id Identity) URI() (*url.URL, error) {
	if err := id.validate(); err != nil {
		return nil, err
	}
	return &url.URL{
		Scheme: scheme,
		Host:   id.DomainID,
		Path:   "/" + strings.Join([]string{id.Generation, id.Profile, string(id.Role), id.Component}, "/"),
	}, nil
}

// Parse reads exactly what URI renders.
func Parse(u *url.URL) (Identity, error) {
	if u == nil {
		return Identity{}, errors.New("no identity")
	}
	parts := strings.Split(u.Path, "/")
	if u.Scheme != scheme || len(parts) != 5 || parts[0] != "" {
		return Identity{}, fmt.Errorf("%q is not a Lazaret identity", u)
	}
	id := Identity{
		Role: Role(parts[3]), Profile: parts[2], DomainID: u.Host,
		Generation: parts[1], Component: parts[4],
	}
	again, err := id.URI()
	if err != nil {
		return Identity{}, err
	}
	if again.String() != u.String() {
		return Identity{}, fmt.Errorf("%q is not a canonical identity", u)
	}
	return id, nil
}

func (id Identity) validate() error {
	if !slices.Contains(roles, id.Role) {
		return fmt.Errorf("unknown role %q", id.Role)
	}
	for _, f := range []struct{ what, v string }{
		{"profile", id.Profile},
		{"Domain ID", id.DomainID},
		{"generation", id.Generation},
		{"component", id.Component},
	} {
		if !token.MatchString(f.v) {
			return fmt.Errorf("identity: %s %q is not valid", f.what, f.v)
		}
	}
	return nil
}
