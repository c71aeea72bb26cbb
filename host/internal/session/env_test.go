package session_test

import (
	"strconv"
	"strings"
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
	got, git := split(got)
	if git["GIT_CONFIG_COUNT"] != "6" || git["GIT_CONFIG_KEY_0"] != "core.checkStat" || git["GIT_CONFIG_VALUE_0"] != "minimal" {
		t.Errorf("for Git: %q", git)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got, _ := split(session.Environment(nil, false, nil)); len(got) != 4 || got[0][:5] != "PATH=" {
		t.Errorf("without anything: %q", got)
	}
}

// split takes out what is for Git.
func split(env []string) (rest []string, git map[string]string) {
	git = map[string]string{}
	for _, kv := range env {
		if k, v, _ := strings.Cut(kv, "="); strings.HasPrefix(k, "GIT_CONFIG_") {
			git[k] = v
		} else {
			rest = append(rest, kv)
		}
	}
	return rest, git
}

// What the image or the developer configures by environment stays, and
// Lazaret's comes behind it, where it counts.
func TestEnvironmentForGit(t *testing.T) {
	image := []string{"GIT_CONFIG_COUNT=9", "GIT_CONFIG_KEY_0=a.b", "GIT_CONFIG_VALUE_0=c", "GIT_CONFIG_KEY_1=stray", "GIT_CONFIG_VALUE_1=x", "GIT_CONFIG_KEY_8=stray"}
	_, git := split(session.Environment(image, false, []string{"GIT_CONFIG_COUNT=1"}))
	if git["GIT_CONFIG_COUNT"] != "7" || len(git) != 15 {
		t.Errorf("%q", git)
	}
	for i, want := range []string{"a.b=c", "core.checkStat=minimal", "core.trustctime=false", "core.fsmonitor=false", "core.untrackedCache=false", "gc.worktreePruneExpire=never", "safe.directory=*"} {
		n := strconv.Itoa(i)
		if got := git["GIT_CONFIG_KEY_"+n] + "=" + git["GIT_CONFIG_VALUE_"+n]; got != want {
			t.Errorf("%d: %q, want %q", i, got, want)
		}
	}
	for _, bad := range []string{"x", "-1", ""} {
		if _, git := split(session.Environment(nil, false, []string{"GIT_CONFIG_COUNT=" + bad})); len(git) != 1 || git["GIT_CONFIG_COUNT"] != bad {
			t.Errorf("count %q: %q", bad, git)
		}
	}
}
