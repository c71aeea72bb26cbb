package identity_test

import (
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lazaret.dev/lazaret/protocol/identity"
)

// SR-9: one identity has one encoding, and nothing else parses as it.
func TestIdentityRoundTrip(t *testing.T) {
	field := rapid.StringMatching(`[a-z0-9_-]{1,64}`)
	rapid.Check(t, func(t *rapid.T) {
		id := identity.Identity{
			Role:    rapid.SampledFrom([]identity.Role{identity.RoleClient, identity.RoleCoordinator, identity.RoleSandbox}).Draw(t, "role"),
			Profile: field.Draw(t, "profile"), DomainID: field.Draw(t, "domain"),
			Generation: field.Draw(t, "generation"), Component: field.Draw(t, "component"),
		}
		u, err := id.URI()
		if err != nil {
			t.Fatal(err)
		}
		again, err := url.Parse(u.String())
		if err != nil {
			t.Fatal(err)
		}
		got, err := identity.Parse(again)
		if err != nil || got != id {
			t.Fatalf("Parse(%q) = %+v, %v", u, got, err)
		}
	})
}

func TestIdentityRefusals(t *testing.T) {
	for _, s := range []string{
		"", "https://d/g/p/client/c", "lazaret://d/g/p/client", "lazaret://d/g/p/client/c/x",
		"lazaret://d/g/p/root/c", "lazaret://d/g/p/client/C", "lazaret://d/g/p/client/c?x=1",
		"lazaret://d/g/p/client/c#x", "lazaret://u@d/g/p/client/c", "lazaret://d:1/g/p/client/c",
		"lazaret://d/g/p/client/%63", "lazaret://d/../p/client/c",
		"lazaret://d/g/p/client/" + strings.Repeat("c", 65),
	} {
		u, err := url.Parse(s)
		if err != nil {
			continue
		}
		if id, err := identity.Parse(u); err == nil {
			t.Errorf("Parse(%q) = %+v, want an error", s, id)
		}
	}
	if _, err := identity.Parse(nil); err == nil {
		t.Error("Parse(nil) succeeded")
	}
}
