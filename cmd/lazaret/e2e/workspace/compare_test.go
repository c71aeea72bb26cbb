package workspace_test

import (
	"regexp"
	"strings"
	"testing"
)

// pid is a process id in a name that a step has made.
var pid = regexp.MustCompile(`/tmp/[a-z]+[0-9]+`)

// plain is an output without what differs from run to run.
func plain(s string) string {
	var out []string
	for line := range strings.Lines(s) {
		out = append(out, pid.ReplaceAllString(line, "PID"))
	}
	return strings.Join(out, "")
}

// differences lists the lines in which two texts differ, and not too many.
func differences(want, got string) string {
	count := map[string]int{}
	for line := range strings.Lines(plain(want)) {
		count[line]++
	}
	var out []string
	for line := range strings.Lines(plain(got)) {
		if count[line]--; count[line] < 0 {
			out = append(out, "\t+ "+strings.TrimRight(line, "\n"))
		}
	}
	for line := range strings.Lines(plain(want)) {
		if count[line] > 0 {
			count[line]--
			out = append(out, "\t- "+strings.TrimRight(line, "\n"))
		}
	}
	if len(out) > 40 {
		out = append(out[:40], "\t...")
	}
	return strings.Join(out, "\n")
}

// same fails the test unless two listings agree, and says where they do not.
func same(t *testing.T, what string, before, after []string) {
	t.Helper()
	if d := differences(strings.Join(before, "\n"), strings.Join(after, "\n")); d != "" {
		t.Errorf("%s:\n%s", what, d)
	}
}
