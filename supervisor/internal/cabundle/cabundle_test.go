package cabundle_test

import (
	"encoding/pem"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lazaret.dev/lazaret/supervisor/internal/cabundle"
)

func cert(body string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(body)}))
}

func TestCertificates(t *testing.T) {
	key := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("k")}))
	text := "# comment\n" + cert("a") + key + "subject=b\r\n" + strings.ReplaceAll(cert("b"), "\n", "\r\n") + cert("a") + "-----BEGIN CERTIFICATE-----\nbroken"
	if d := cmp.Diff([]string{cert("a"), cert("b")}, cabundle.Certificates([]byte(text))); d != "" {
		t.Error(d)
	}
	if got := cabundle.Missing([]string{cert("a"), cert("c")}, []byte(text)); len(got) != 1 || got[0] != cert("c") {
		t.Errorf("missing %q", got)
	}
	if got := string(cabundle.Extend([]byte("x"), []string{cert("c")})); got != cert("c")+"x" {
		t.Errorf("extended %q", got)
	}
}

// The bundle may be a sandbox's. Whatever it holds, afterwards it has the
// host's certificates, and every one that it had.
func FuzzBundle(f *testing.F) {
	f.Add([]byte(cert("a")))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA"))
	host := []string{cert("host 1"), cert("a")}
	f.Fuzz(func(t *testing.T, text []byte) {
		out := cabundle.Extend(text, cabundle.Missing(host, text))
		if left := cabundle.Missing(host, out); len(left) > 0 {
			t.Fatalf("%q lacks %q", out, left)
		}
		if lost := cabundle.Missing(cabundle.Certificates(text), out); len(lost) > 0 {
			t.Fatalf("%q lost %q", out, lost)
		}
	})
}
