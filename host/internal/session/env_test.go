package session_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"lazaret.dev/lazaret/host/internal/session"
)

// Case 96
func TestEnvironment(t *testing.T) {
	got := session.Environment(
		[]string{"PATH=/opt/bin", "LAZARET_SESSION_ID=forged", "HOME=/nowhere", "broken", "GOPATH=/go"}, true,
		[]string{"TERM=xterm", "GOPATH=/mine", "NODE_EXTRA_CA_CERTS=/own.pem"})
	want := []string{
		"PATH=/opt/bin", "HOME=/root", "GOPATH=/mine", "USER=root", "LOGNAME=root",
		"NODE_EXTRA_CA_CERTS=/own.pem", "TERM=xterm",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got := session.Environment(nil, false, nil); len(got) != 4 || got[0][:5] != "PATH=" {
		t.Errorf("without anything: %q", got)
	}
}
