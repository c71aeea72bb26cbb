// Package report says to a person what a generation has found out at its end.
//
// Every path and name in a finding may be of the sandbox's choosing: each is
// quoted, so that a line is a line and a terminal has nothing to obey. It is
// pure and runs in the Host Coordinator.
package report

import (
	"fmt"
	"strconv"
	"strings"

	"lazaret.dev/lazaret/protocol/findings"
)

// maxEach is how many findings of one kind get a line of their own.
const maxEach = 8

// Lines renders a report, one line for each finding as far as there are not too
// many of its kind. Nothing to say gives no line.
func Lines(r findings.Report) []string {
	if r.Empty() {
		return nil
	}
	out := []string{"report of what this sandbox has left behind:"}
	for i := 0; i < len(r.Findings); {
		n := i
		for n < len(r.Findings) && r.Findings[n].Kind == r.Findings[i].Kind {
			n++
		}
		same := r.Findings[i:n]
		i = n
		if same[0].Kind == findings.RefNew {
			out = append(out, "  new refs: "+names(same))
			continue
		}
		for _, f := range same[:min(len(same), maxEach)] {
			out = append(out, "  "+line(&f))
		}
		if more := len(same) - maxEach; more > 0 {
			out = append(out, fmt.Sprintf("  and %d more like the last", more))
		}
	}
	if r.More > 0 {
		out = append(out, fmt.Sprintf("  and %d findings more", r.More))
	}
	return out
}

// names lists the paths of findings.
func names(all []findings.Finding) string {
	var out []string
	for _, f := range all[:min(len(all), maxEach)] {
		out = append(out, quote(f.Path)+in(&f))
	}
	text := strings.Join(out, ", ")
	if more := len(all) - len(out); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// quote makes a text of others harmless. What is not plainly printable is
// escaped, and where a text ends is seen.
func quote(b []byte) string { return strconv.QuoteToGraphic(string(b)) }

// bare is quote for a text of Lazaret's own that may quote others.
func bare(b []byte) string {
	q := quote(b)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}

func in(f *findings.Finding) string {
	if len(f.Repo) == 0 {
		return ""
	}
	return " of the repository " + quote(f.Repo)
}

// line says one finding.
func line(f *findings.Finding) string {
	path := quote(f.Path)
	note := bare(f.Note)
	switch f.Kind {
	case findings.Halfway:
		return fmt.Sprintf("%s%s: %s was left half-way, and Git goes on with it", path, in(f), note)
	case findings.Replaced:
		return fmt.Sprintf("%s%s makes Git show other objects than the history has (git replace -l)", path, in(f))
	case findings.Hidden:
		what := path
		if f.Count > 1 {
			what += fmt.Sprintf(" and %d more", f.Count-1)
		}
		return fmt.Sprintf("git status does not show changes of %s%s (%s)", what, in(f), note)
	case findings.RefMoved:
		return fmt.Sprintf("%s%s was moved %s, which is no step forward", path, in(f), note)
	case findings.RefGone:
		return fmt.Sprintf("%s%s was removed; it was %s", path, in(f), note)
	case findings.Lock:
		return fmt.Sprintf("the lock %s%s was left, and Git waits for nobody: remove it if no Git runs", path, in(f))
	case findings.Autorun:
		return fmt.Sprintf("%s was written: %s may run it on this host by itself", path, note)
	case findings.Committed:
		if len(f.Path) == 0 {
			return fmt.Sprintf("not all that the commits of %s%s bring was looked at: %s", quote(f.Hint), in(f), note)
		}
		return fmt.Sprintf("commits of %s%s bring %s: a checkout of it is obeyed or run by %s", quote(f.Hint), in(f), path, note)
	case findings.Metadata:
		return fmt.Sprintf("%s was written: it changes what Git does here", path)
	case findings.Relaxed:
		if len(f.Note) == 0 {
			return fmt.Sprintf("%s was ignored, and is no longer by the rules: it stays isolated until lazaret ignore accept", path)
		}
		return fmt.Sprintf("%s no longer ignores what it ignored (%s): that stays isolated until lazaret ignore accept", path, note)
	case findings.Born:
		return fmt.Sprintf("%s was made inside as a Git repository, worktree or submodule: it exists in the sandbox alone", path)
	case findings.Refused:
		times := ""
		if f.Count > 1 {
			times = fmt.Sprintf(" (%d times)", f.Count)
		}
		return fmt.Sprintf("refused to %s %s%s: %s", note, path, times, bare(f.Hint))
	default:
		return fmt.Sprintf("%s: %s", f.Kind, path)
	}
}
