package trust

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"lazaret.dev/lazaret/protocol/identity"
)

// of is the identity of generation g2's component in a role.
func of(role identity.Role) identity.Identity {
	return identity.Identity{Role: role, Profile: "shell", DomainID: "0123456789ab", Generation: "g2", Component: "c1"}
}

// certify signs a certificate with the anchor's own key, as Issue would not.
func certify(t *testing.T, a *Anchor, usage x509.ExtKeyUsage, change func(*x509.Certificate), uris ...string) tls.Certificate {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage}, BasicConstraintsValid: true,
	}
	for _, s := range uris {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		tmpl.URIs = append(tmpl.URIs, u)
	}
	if change != nil {
		change(tmpl)
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, pub, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func uri(t *testing.T, id identity.Identity) string {
	t.Helper()
	u, err := id.URI()
	if err != nil {
		t.Fatal(err)
	}
	return u.String()
}

// shake runs one handshake and returns both sides' errors. A server refuses a
// client only after the client is done, so that one byte is exchanged.
func shake(t *testing.T, server, client *tls.Config) (serverErr, clientErr error) {
	t.Helper()
	c, s := net.Pipe()
	done := make(chan error, 1)
	go func() {
		defer s.Close()
		conn := tls.Server(s, server)
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		err := conn.Handshake()
		if err == nil {
			_, err = conn.Write([]byte{1})
		}
		done <- err
	}()
	defer c.Close()
	conn := tls.Client(c, client)
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	err := conn.Handshake()
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
	}
	_ = c.Close()
	return <-done, err
}

func anchorOf(t *testing.T, id identity.Identity) *Anchor {
	t.Helper()
	a, err := NewAnchor(id, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// SR-9, SR-16: a certificate is no credential for its signature alone. Each of
// these is signed by the Trust Anchor of the generation that it is shown to,
// and each side refuses it for what it says.
func TestSignedByTheAnchorIsNotEnough(t *testing.T) {
	const client, server = x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth
	a := anchorOf(t, of(identity.RoleCoordinator))
	good := map[identity.Role]string{}
	for _, r := range []identity.Role{identity.RoleClient, identity.RoleCoordinator, identity.RoleSandbox} {
		good[r] = uri(t, of(r))
	}
	replaced := func(r identity.Role, old, now string) string { return strings.Replace(good[r], old, now, 1) }
	for _, face := range []struct {
		name  string
		usage x509.ExtKeyUsage
		role  identity.Role // whom it demands
		other identity.Role
		shake func(*testing.T, tls.Certificate) error
	}{
		{"server", client, identity.RoleClient, identity.RoleCoordinator, func(t *testing.T, cert tls.Certificate) error {
			cfg := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, InsecureSkipVerify: true}
			err, _ := shake(t, a.ServerConfig(), cfg)
			return err
		}},
		{"client", server, identity.RoleCoordinator, identity.RoleClient, func(t *testing.T, cert tls.Certificate) error {
			pub, key, err := ed25519.GenerateKey(rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			leaf, err := a.Issue(of(identity.RoleClient), pub)
			if err != nil {
				t.Fatal(err)
			}
			cfg, err := ClientConfig(key, leaf, a.Certificate(), of(identity.RoleCoordinator))
			if err != nil {
				t.Fatal(err)
			}
			_, err = shake(t, &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}}, cfg)
			return err
		}},
	} {
		for _, tc := range []struct {
			name   string
			usage  x509.ExtKeyUsage
			change func(*x509.Certificate)
			uris   []string
			want   string // empty: accepted
		}{
			{"what it wants", face.usage, nil, []string{good[face.role]}, ""},
			{"an earlier generation", face.usage, nil, []string{replaced(face.role, "g2", "g1")}, "of generation g1 of Domain"},
			{"another Domain", face.usage, nil, []string{replaced(face.role, "0123456789ab", "ba9876543210")}, "of Domain ba9876543210 with profile shell, not"},
			{"another profile", face.usage, nil, []string{replaced(face.role, "shell", "claude")}, "with profile claude, not"},
			{"the other side's role", face.usage, nil, []string{good[face.other]}, "peer is " + string(face.other)},
			{"the sandbox", face.usage, nil, []string{good[identity.RoleSandbox]}, "peer is sandbox"},
			{"the Runtime Supervisor", face.usage, nil, []string{replaced(face.role, "/"+string(face.role)+"/", "/supervisor/")}, "unknown role"},
			{"runsc", face.usage, nil, []string{replaced(face.role, "/"+string(face.role)+"/", "/runsc/")}, "unknown role"},
			{"no identity", face.usage, nil, nil, "exactly one identity"},
			{"a name only", face.usage, func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: good[face.role]} }, nil, "exactly one identity"},
			{"a DNS name only", face.usage, func(c *x509.Certificate) { c.DNSNames = []string{"localhost"} }, nil, "exactly one identity"},
			{"two identities", face.usage, nil, []string{good[face.role], good[face.other]}, "exactly one identity"},
			{"one identity twice", face.usage, nil, []string{good[face.role], good[face.role]}, "exactly one identity"},
			{"no Lazaret identity", face.usage, nil, []string{"https://0123456789ab/g2"}, "not a Lazaret identity"},
			{"the other side's usage", map[x509.ExtKeyUsage]x509.ExtKeyUsage{client: server, server: client}[face.usage], nil, []string{good[face.role]}, "incompatible key usage"},
			{"a certificate that has expired", face.usage, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, []string{good[face.role]}, "expired"},
			{"a certificate of tomorrow", face.usage, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }, []string{good[face.role]}, "not yet valid"},
		} {
			t.Run(face.name+"/"+tc.name, func(t *testing.T) {
				err := face.shake(t, certify(t, a, tc.usage, tc.change, tc.uris...))
				switch {
				case tc.want == "" && err != nil:
					t.Error(err)
				case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
					t.Errorf("error %v, want one of %q", err, tc.want)
				}
			})
		}
	}
}

// A certificate of the generation, signed by its anchor, is none with another
// key; and what another anchor of equal names has signed is none at all.
func TestCredentialsOfAnotherAnchor(t *testing.T) {
	a, earlier := anchorOf(t, of(identity.RoleCoordinator)), anchorOf(t, of(identity.RoleCoordinator))
	id := uri(t, of(identity.RoleClient))
	mine, other := certify(t, a, x509.ExtKeyUsageClientAuth, nil, id), certify(t, a, x509.ExtKeyUsageClientAuth, nil, id)
	foreign := certify(t, earlier, x509.ExtKeyUsageClientAuth, nil, id)
	for _, tc := range []struct {
		name string
		cert tls.Certificate
		want string
	}{
		{"mine", mine, ""},
		{"mine with another's key", tls.Certificate{Certificate: mine.Certificate, PrivateKey: other.PrivateKey}, "invalid signature"},
		{"the earlier anchor's", foreign, "certificate signed by unknown authority"},
		{"the earlier anchor's, with this one behind it", tls.Certificate{Certificate: append(foreign.Certificate, a.Certificate()), PrivateKey: foreign.PrivateKey}, "certificate signed by unknown authority"},
		{"none", tls.Certificate{}, "didn't provide a certificate"},
	} {
		cfg := &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true}
		// A client would otherwise not send what the server does not ask for.
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &tc.cert, nil }
		err, _ := shake(t, a.ServerConfig(), cfg)
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %v", tc.name, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: error %v, want one of %q", tc.name, err, tc.want)
		}
	}
}
