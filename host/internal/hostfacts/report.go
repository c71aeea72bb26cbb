package hostfacts

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Status is the outcome of one check.
type Status string

// The outcomes.
const (
	OK    Status = "ok"
	Info  Status = "info"  // worth knowing
	Warn  Status = "warn"  // Lazaret works, with less
	Block Status = "block" // no sandbox can start
)

// Check is one check's result.
type Check struct {
	ID     string `json:"id"`   // "D1" to "D12" as documented, or a name
	Name   string `json:"name"` // what was looked at
	Status Status `json:"status"`
	Found  string `json:"found,omitempty"`   // what is there
	Why    string `json:"problem,omitempty"` // a sentence; unless OK
	Fix    string `json:"fix,omitempty"`     // one line to type or to do
	Note   string `json:"note,omitempty"`    // a caution that belongs to the fix
}

// BlockedError reports a check that makes a sandbox impossible.
type BlockedError struct{ Check Check }

// Error implements error.
func (e *BlockedError) Error() string {
	return "cannot start a sandbox: " + strings.TrimSuffix(e.Check.Why, ".")
}

// Hint returns the fix and, on a line of its own, the caution that belongs to it.
func (e *BlockedError) Hint() string {
	if e.Check.Note == "" {
		return e.Check.Fix
	}
	return e.Check.Fix + "\n" + e.Check.Note
}

// Report is the result of all checks, in a fixed order.
type Report struct {
	Checks []Check `json:"checks"`
}

// Blocked reports whether something makes a sandbox impossible.
func (r Report) Blocked() bool { return r.count(Block) > 0 }

// ExitStatus is doctor's exit status: 1 when something blocks, else 0.
func (r Report) ExitStatus() int {
	if r.Blocked() {
		return 1
	}
	return 0
}

func (r Report) count(s Status) int {
	n := 0
	for _, c := range r.Checks {
		if c.Status == s {
			n++
		}
	}
	return n
}

// WriteText writes the report for people.
func (r Report) WriteText(w io.Writer) error {
	var b strings.Builder
	for _, c := range r.Checks {
		fmt.Fprintf(&b, "%-5s  %-10s  %s", c.Status, c.ID, c.Name)
		if c.Found != "" {
			fmt.Fprintf(&b, ": %s", printable(c.Found))
		}
		b.WriteByte('\n')
		for _, part := range []struct{ label, text string }{{"", c.Why}, {"fix: ", c.Fix}, {"", c.Note}} {
			if part.text != "" {
				fmt.Fprintf(&b, "       %s%s\n", part.label, printable(part.text))
			}
		}
	}
	switch blocked, warned := r.count(Block), r.count(Warn); {
	case blocked > 0:
		fmt.Fprintf(&b, "\nNo sandbox can start: %d blocking, %d warnings.\n", blocked, warned)
	case warned > 0:
		fmt.Fprintf(&b, "\nSandboxes can start: %d warnings.\n", warned)
	default:
		b.WriteString("\nSandboxes can start.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteJSON writes the report for programs.
func (r Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(struct {
		Blocked bool `json:"blocked"`
		Report
	}{r.Blocked(), r})
}

// printable keeps other programs' output from steering the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsControl(r) {
			return '\uFFFD'
		}
		return r
	}, s)
}

// sentence makes a clause of a sentence.
func sentence(s string) string {
	s = strings.TrimSuffix(s, ".")
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToLower(r)) + s[n:]
}
