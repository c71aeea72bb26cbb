package report_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"lazaret.dev/lazaret/host/internal/report"
	"lazaret.dev/lazaret/protocol/findings"
)

// Whatever a sandbox calls its files, a line is a line, and no terminal obeys
// it. R9.
func TestHostileNames(t *testing.T) {
	const evil = "a\x1b]0;x\x07\r\nlazaret: all is well\u202e\xff\x9b31m\"b"
	kinds := []findings.Kind{
		findings.Halfway, findings.Replaced, findings.Hidden, findings.RefMoved, findings.RefGone, findings.Lock,
		findings.Autorun, findings.Committed, findings.Metadata, findings.Relaxed, findings.Born, findings.RefNew, findings.Refused,
	}
	var r findings.Report
	for _, k := range kinds {
		r.Findings = append(r.Findings, findings.Finding{Kind: k, Path: []byte(evil), Repo: []byte(evil), Note: []byte(evil), Hint: []byte(evil), Count: 3})
	}
	lines := report.Lines(r)
	if len(lines) != 1+len(kinds) {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
	for _, l := range lines[1:] {
		if !strings.Contains(l, `a\x1b]0;x`) {
			t.Errorf("without the name: %s", l)
		}
		for _, c := range l {
			if unicode.IsControl(c) || !unicode.IsGraphic(c) || c == unicode.ReplacementChar {
				t.Errorf("%U in %q", c, l)
			}
		}
	}
}

// Nothing to say is said with no line, and much to say with few.
func TestLines(t *testing.T) {
	if lines := report.Lines(findings.Report{}); lines != nil {
		t.Errorf("%q", lines)
	}
	var r findings.Report
	for i := range 100 {
		r.Findings = append(r.Findings, findings.Finding{Kind: findings.Autorun, Path: fmt.Appendf(nil, "d%d/.envrc", i), Note: []byte("direnv")})
	}
	for i := range 100 {
		r.Findings = append(r.Findings, findings.Finding{Kind: findings.RefNew, Path: fmt.Appendf(nil, "refs/heads/b%d", i)})
	}
	r.More = 7
	lines := strings.Join(report.Lines(r), "\n")
	for _, want := range []string{`"d0/.envrc" was written: direnv`, "and 92 more like the last", `new refs: "refs/heads/b0", `, " and 92 more", "and 7 findings more"} {
		if !strings.Contains(lines, want) {
			t.Errorf("no %q in\n%s", want, lines)
		}
	}
	if n := strings.Count(lines, "\n"); n > 20 {
		t.Errorf("%d lines", n)
	}
}
