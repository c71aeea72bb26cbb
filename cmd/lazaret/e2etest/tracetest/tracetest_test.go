package tracetest

import (
	"os"
	"path/filepath"
	"testing"
)

// What is wrong with a log is found.
func TestReplayOfLogs(t *testing.T) {
	const (
		failed  = `{"msg":"coordinator failed","err":"no"}` + "\n"
		illegal = `{"msg":"event","step":1,"event":"Published","detail":{},"from":"Absent","to":"Ready","state":"0123456789abcdef"}` + "\n"
	)
	for _, tc := range []struct {
		name, text string
		ran, cut   bool
		ok         bool
	}{
		{"a start that failed at once", failed, false, false, true},
		{"a coordinator that was killed at once", "", false, false, true},
		{"no trace of what ran", failed, true, false, false},
		{"no beginning", failed, false, true, false},
		{"no step of the protocol", illegal, true, false, false},
	} {
		path := filepath.Join(t.TempDir(), "coordinator.log")
		if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := (&generationLog{file: f, ran: tc.ran, cut: tc.cut}).replay(); (err == nil) != tc.ok {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
