package trust_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	"lazaret.dev/lazaret/host/internal/trust"
	"lazaret.dev/lazaret/protocol/identity"
)

func coordinator() identity.Identity {
	return identity.Identity{
		Role: identity.RoleCoordinator, Profile: "shell", DomainID: "0123456789ab",
		Generation: "g1", Component: "hc1",
	}
}

type peer struct {
	key  ed25519.PrivateKey
	leaf []byte
}

func enroll(t *testing.T, a *trust.Anchor, id identity.Identity) peer {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := a.Issue(id, pub)
	if err != nil {
		t.Fatal(err)
	}
	return peer{key, leaf}
}

// connect runs one handshake and returns both sides' errors, with one byte
// exchanged, since a TLS 1.3 server refuses a client after the client is done.
func connect(t *testing.T, server, client *tls.Config) (serverErr, clientErr error) {
	t.Helper()
	c, s := net.Pipe()
	done := make(chan error, 1)
	go func() {
		conn := tls.Server(s, server)
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		err := conn.Handshake()
		if err == nil {
			_, err = conn.Write([]byte{1})
		}
		_ = s.Close()
		done <- err
	}()
	conn := tls.Client(c, client)
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	clientErr = conn.Handshake()
	if clientErr == nil {
		_, clientErr = conn.Read(make([]byte, 1))
	}
	_ = c.Close()
	return <-done, clientErr
}

// SR-9, SR-16: role, profile, Domain, component and generation all count.
func TestMutualTLS(t *testing.T) {
	anchor, err := trust.NewAnchor(coordinator(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	other, err := trust.NewAnchor(coordinator(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	client := coordinator()
	client.Role, client.Component = identity.RoleClient, "c1"
	sandbox := coordinator()
	sandbox.Role, sandbox.Component = identity.RoleSandbox, "s1"
	wrongServer := coordinator()
	wrongServer.Component = "hc2"

	for _, tc := range []struct {
		name     string
		from     *trust.Anchor // who issued the client's certificate
		id       identity.Identity
		anchor   *trust.Anchor // whom the client trusts
		server   identity.Identity
		wantFail bool
	}{
		{"client of this generation", anchor, client, anchor, coordinator(), false},
		{"sandbox's certificate", anchor, sandbox, anchor, coordinator(), true},
		{"coordinator's certificate as a client", anchor, coordinator(), anchor, coordinator(), true},
		{"certificate of another anchor with equal names", other, client, anchor, coordinator(), true},
		{"client that trusts another anchor", anchor, client, other, coordinator(), true},
		{"client that wants another coordinator", anchor, client, anchor, wrongServer, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := enroll(t, tc.from, tc.id)
			cfg, err := trust.ClientConfig(p.key, p.leaf, tc.anchor.Certificate(), tc.server)
			if err != nil {
				t.Fatal(err)
			}
			serr, cerr := connect(t, anchor.ServerConfig(), cfg)
			if failed := errors.Join(serr, cerr) != nil; failed != tc.wantFail {
				t.Fatalf("failed = %t, want %t (server %v, client %v)", failed, tc.wantFail, serr, cerr)
			}
		})
	}
}

func TestIssueRefusesOtherGenerations(t *testing.T) {
	anchor, err := trust.NewAnchor(coordinator(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	pub, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(*identity.Identity){
		func(id *identity.Identity) { id.Generation = "g2" },
		func(id *identity.Identity) { id.DomainID = "ba9876543210" },
		func(id *identity.Identity) { id.Profile = "claude" },
		func(id *identity.Identity) { id.Component = "" },
	} {
		id := coordinator()
		id.Role = identity.RoleClient
		change(&id)
		if _, err := anchor.Issue(id, pub); err == nil {
			t.Errorf("Issue(%+v) succeeded", id)
		}
	}
	if _, err := anchor.Issue(coordinator(), pub[:5]); err == nil {
		t.Error("Issue with a short key succeeded")
	}
}
