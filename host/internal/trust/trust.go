// Package trust is the Trust Anchor: the ephemeral certificate authority of
// one Domain generation, and the mutual TLS that its certificates carry.
//
// The Host Coordinator creates it in memory; its key never leaves the process
// and dies with it. The Client CLI uses Client to enrol a key of its own. The
// package trusts no certificate for its name: only the Protocol Identity in
// the URI counts (SR-9, SR-16).
package trust

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"time"

	"lazaret.dev/lazaret/protocol/identity"
)

// lifetime bounds a certificate beyond any generation's life; the generation
// in the identity is what makes an old certificate worthless.
const lifetime = 366 * 24 * time.Hour

// backdate tolerates a clock that is set back between issue and use.
const backdate = 24 * time.Hour

// Anchor is a Trust Anchor. It is safe for concurrent use.
type Anchor struct {
	id   identity.Identity // of the coordinator that owns it
	key  ed25519.PrivateKey
	cert *x509.Certificate
	leaf tls.Certificate
	pool *x509.CertPool
	now  func() time.Time
}

// NewAnchor makes a Trust Anchor for the coordinator named by id, and the
// coordinator's own certificate.
func NewAnchor(id identity.Identity, now func() time.Time) (*Anchor, error) {
	if id.Role != identity.RoleCoordinator {
		return nil, fmt.Errorf("trust anchor for role %q", id.Role)
	}
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate trust anchor: %w", err)
	}
	a := &Anchor{id: id, key: key, now: now, pool: x509.NewCertPool()}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	tmpl := &x509.Certificate{
		SerialNumber: serial,
		NotBefore:    now().Add(-backdate), NotAfter: now().Add(lifetime),
		KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
		MaxPathLenZero: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, pub, key)
	if err != nil {
		return nil, fmt.Errorf("create trust anchor: %w", err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("parse trust anchor: %w", err)
	}
	a.pool.AddCert(a.cert)

	leafPub, leafKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate coordinator key: %w", err)
	}
	leaf, err := a.Issue(id, leafPub)
	if err != nil {
		return nil, err
	}
	a.leaf = tls.Certificate{Certificate: [][]byte{leaf}, PrivateKey: leafKey}
	return a, nil
}

// Certificate is the Trust Anchor's own certificate, DER.
func (a *Anchor) Certificate() []byte { return a.cert.Raw }

// Issue certifies pub as id, DER. The identity must be of the anchor's Domain,
// profile and generation. The caller has authenticated the peer.
func (a *Anchor) Issue(id identity.Identity, pub ed25519.PublicKey) ([]byte, error) {
	if len(pub) != ed25519.PublicKeySize {
		return nil, errors.New("issue certificate: not an Ed25519 public key")
	}
	if id.DomainID != a.id.DomainID || id.Generation != a.id.Generation || id.Profile != a.id.Profile {
		return nil, errors.New("issue certificate: identity is of another generation")
	}
	uri, err := id.URI()
	if err != nil {
		return nil, fmt.Errorf("issue certificate: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	usage := x509.ExtKeyUsageClientAuth
	if id.Role == identity.RoleCoordinator {
		usage = x509.ExtKeyUsageServerAuth
	}
	tmpl := &x509.Certificate{
		SerialNumber: serial,
		NotBefore:    a.now().Add(-backdate), NotAfter: a.now().Add(lifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
		BasicConstraintsValid: true,
		URIs:                  []*url.URL{uri},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, pub, a.key)
	if err != nil {
		return nil, fmt.Errorf("issue certificate: %w", err)
	}
	return der, nil
}

// ServerConfig is the coordinator's side of the control socket. Only clients
// of this generation pass.
func (a *Anchor) ServerConfig() *tls.Config {
	want := a.id
	want.Role, want.Component = identity.RoleClient, ""
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{a.leaf},
		ClientAuth:             tls.RequireAndVerifyClientCert,
		ClientCAs:              a.pool,
		SessionTicketsDisabled: true, // a ticket would outlive the check of the identity
		Time:                   a.now,
		VerifyConnection:       func(cs tls.ConnectionState) error { return verify(cs, want) },
	}
}

// Peer returns the verified identity of a connection's other side.
func Peer(cs tls.ConnectionState) (identity.Identity, error) {
	if len(cs.PeerCertificates) == 0 || len(cs.PeerCertificates[0].URIs) != 1 {
		return identity.Identity{}, errors.New("peer certificate does not carry exactly one identity")
	}
	return identity.Parse(cs.PeerCertificates[0].URIs[0])
}

// verify compares a peer's identity with the wanted one; an empty wanted
// component matches any.
func verify(cs tls.ConnectionState, want identity.Identity) error {
	got, err := Peer(cs)
	if err != nil {
		return err
	}
	if want.Component == "" {
		want.Component = got.Component
	}
	if got != want {
		return fmt.Errorf("peer is %s, not %s", named(got), named(want))
	}
	return nil
}

// named renders an identity for people.
func named(id identity.Identity) string {
	return fmt.Sprintf("%s %s of generation %s of Domain %s with profile %s", id.Role, id.Component, id.Generation, id.DomainID, id.Profile)
}

// ClientConfig is the client's side: key is what it enrolled, leaf and anchor
// are the DER certificates that it was given, server is the coordinator that it
// demands. The chain is checked against anchor alone.
func ClientConfig(key ed25519.PrivateKey, leaf, anchor []byte, server identity.Identity) (*tls.Config, error) {
	ca, err := x509.ParseCertificate(anchor)
	if err != nil {
		return nil, fmt.Errorf("parse trust anchor: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{{Certificate: [][]byte{leaf}, PrivateKey: key}},
		// A coordinator has an identity, no host name. The two checks that this
		// switches off are done in VerifyConnection, against this one anchor.
		InsecureSkipVerify: true, //nolint:gosec // replaced by VerifyConnection below
		VerifyConnection: func(cs tls.ConnectionState) error {
			if len(cs.PeerCertificates) == 0 {
				return errors.New("coordinator sent no certificate")
			}
			if _, err := cs.PeerCertificates[0].Verify(x509.VerifyOptions{
				Roots:     pool,
				KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			}); err != nil {
				return fmt.Errorf("verify coordinator: %w", err)
			}
			return verify(cs, server)
		},
	}, nil
}

func newSerial() (*big.Int, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("certificate serial: %w", err)
	}
	return n, nil
}

// Digest is a certificate's SHA-256, in hex.
func Digest(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}
