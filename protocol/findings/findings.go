// Package findings is what a generation has to say at its end about the
// repository and the workspace that it worked on: values that travel from the
// Runtime Supervisor to the Host Coordinator, and on to a person.
//
// Paths and names are bytes that the sandbox may have chosen. They are bounded
// here, and nobody shows them without escaping them. The package is pure, and
// linked into both processes.
package findings

import (
	"encoding/json"
	"fmt"
)

// Kind says what was found.
type Kind string

// The kinds, the more urgent first.
const (
	Halfway   Kind = "halfway"   // an operation that Git would go on with at Path; Note names it
	Replaced  Kind = "replaced"  // the ref Path makes Git show other objects
	Hidden    Kind = "hidden"    // an index flag hides changes of Count files, the first being Path; Note names it
	RefMoved  Kind = "ref_moved" // the ref Path moved other than forward; Note says from where to where
	RefGone   Kind = "ref_gone"  // the ref Path was removed; Note says where it was
	Lock      Kind = "lock"      // a lock file Path was left
	Autorun   Kind = "autorun"   // a file Path that a host tool runs by itself; Note names the tool
	Committed Kind = "committed" // commits of the ref Hint bring a file Path that Note obeys or runs; without Path, not all was seen, as Note says
	Metadata  Kind = "metadata"  // a file Path that Git or its tools obey
	Relaxed   Kind = "relaxed"   // ignore rules of Path were relaxed: what they ignored stays isolated
	Born      Kind = "born"      // a repository, worktree or submodule at Path was made inside
	RefNew    Kind = "ref_new"   // the ref Path was made
	Refused   Kind = "refused"   // a change of Path was refused Count times; Note says which, Hint names the protection
)

// order is the order of the kinds.
var order = [...]Kind{Halfway, Replaced, Hidden, RefMoved, RefGone, Lock, Autorun, Committed, Metadata, Relaxed, Born, RefNew, Refused}

// Rank is a kind's place in the order, -1 for none.
func (k Kind) Rank() int {
	for i, o := range order {
		if k == o {
			return i
		}
	}
	return -1
}

// UnmarshalText refuses unknown kinds.
func (k *Kind) UnmarshalText(b []byte) error {
	v := Kind(b)
	if v.Rank() < 0 {
		return fmt.Errorf("unknown finding %q", b)
	}
	*k = v
	return nil
}

// Finding is one thing that was found.
type Finding struct {
	Kind  Kind   `json:"kind"`
	Path  []byte `json:"path"`           // in the workspace, or a ref's name
	Repo  []byte `json:"repo,omitempty"` // the gitdir that it is of, where there are several
	Note  []byte `json:"note,omitempty"`
	Hint  []byte `json:"hint,omitempty"`
	Count int    `json:"count,omitempty"`
}

// The limits of one report: on each text, and on its encoding as a whole.
const (
	MaxText = 512
	MaxSize = 48 << 10
)

// Report is all that was found.
type Report struct {
	Findings []Finding `json:"findings"`
	More     int       `json:"more,omitempty"` // what was left out
}

// cut is the mark of a text that was cut.
const cut = "..."

func bound(b []byte) []byte {
	if len(b) <= MaxText {
		return b
	}
	return append(b[:MaxText-len(cut):MaxText-len(cut)], cut...)
}

// Fit makes a report of findings that is within the limits. The order is
// theirs; what does not fit is counted.
func Fit(all []Finding, more int) Report {
	r := Report{Findings: []Finding{}, More: more}
	size := 0
	for i, f := range all {
		f.Path, f.Repo, f.Note, f.Hint = bound(f.Path), bound(f.Repo), bound(f.Note), bound(f.Hint)
		b, err := json.Marshal(f)
		if size += len(b) + 1; err != nil || size > MaxSize {
			r.More += len(all) - i
			break
		}
		r.Findings = append(r.Findings, f)
	}
	return r
}

// Empty tells whether there is nothing to say.
func (r *Report) Empty() bool { return len(r.Findings) == 0 && r.More == 0 }
