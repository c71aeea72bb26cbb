// Package cabundle computes bundles of trusted certificates: which of the
// host's an image or a sandbox lacks, and the bundle that has them.
//
// It is pure, and takes any bytes: bundles come from images and sandboxes. It
// runs in the Runtime Supervisor.
package cabundle

import (
	"encoding/pem"
	"strings"
)

// Paths are the places where distributions keep their bundle of trusted
// certificates as a regular file.
func Paths() []string {
	return []string{
		"/etc/ssl/certs/ca-certificates.crt",                // Debian, Alpine
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // Fedora, Red Hat
		"/etc/ca-certificates/extracted/tls-ca-bundle.pem",  // Arch
		"/var/lib/ca-certificates/ca-bundle.pem",            // SUSE
	}
}

// LocalDir is where update-ca-certificates(8) looks for an administrator's own
// certificates.
const LocalDir = "/usr/local/share/ca-certificates"

// MaxSize bounds a bundle that is read from an image or a sandbox, in bytes.
const MaxSize = 16 << 20

// Certificates splits PEM text into its certificates, each in canonical PEM,
// in order and without duplicates. What is no certificate is skipped.
func Certificates(text []byte) []string {
	var out []string
	seen := map[string]bool{}
	for {
		var b *pem.Block
		b, text = pem.Decode(text)
		if b == nil {
			return out
		}
		if b.Type != "CERTIFICATE" || seen[string(b.Bytes)] {
			continue
		}
		seen[string(b.Bytes)] = true
		out = append(out, string(pem.EncodeToMemory(&pem.Block{Type: b.Type, Bytes: b.Bytes})))
	}
}

// Missing returns those of the host's certificates that bundle does not hold.
func Missing(host []string, bundle []byte) []string {
	have := map[string]bool{}
	for _, c := range Certificates(bundle) {
		have[c] = true
	}
	var out []string
	for _, c := range host {
		if !have[c] {
			out = append(out, c)
		}
	}
	return out
}

// Extend adds certificates to a bundle: in front, where nothing that the text
// holds can keep a reader from finding them.
func Extend(bundle []byte, extra []string) []byte {
	return append([]byte(strings.Join(extra, "")), bundle...)
}
