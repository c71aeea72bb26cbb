// Package isolation is what is asked of a Domain about paths that Git ignores:
// which of them the Domain has for its own, what waits for the developer's word,
// and that word. It holds the questions and answers as values; whoever knows the
// workspace's routing answers, in the Runtime Supervisor while the Domain runs.
//
// Paths and rules are bytes of the sandbox's choosing, and bounded here. The
// package is pure, and linked into both processes.
package isolation

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"lazaret.dev/lazaret/protocol/launch"
)

// Verb says what is asked.
type Verb string

// The verbs.
const (
	List   Verb = "list"   // what the Domain has for its own
	Review Verb = "review" // what Accept would share
	Accept Verb = "accept" // take the reviewed state of the rules for the developer's
)

// UnmarshalText refuses unknown verbs.
func (v *Verb) UnmarshalText(b []byte) error {
	switch x := Verb(b); x {
	case List, Review, Accept:
		*v = x
		return nil
	default:
		return fmt.Errorf("unknown question %q", b)
	}
}

// Request is a question.
type Request struct {
	Verb Verb `json:"verb"`

	// Reviewed is, with Accept, the digest of the answer that the developer has
	// seen. What another review would say is not accepted.
	Reviewed []byte `json:"reviewed,omitempty"`
}

// Entry is a path that the Domain has for its own.
type Entry struct {
	Path []byte `json:"path"`
	Dir  bool   `json:"dir"`

	// Unused: the host's is shared at that path, so that nobody sees this one.
	Unused bool `json:"unused,omitempty"`
}

// Relaxation is a change of the rules that has not been accepted: of a file,
// whose Lines count as before; a path that was renamed inside; or a repository
// that has come or gone.
type Relaxation struct {
	File  []byte   `json:"file,omitempty"`
	Lines [][]byte `json:"lines,omitempty"`
	Path  []byte   `json:"path,omitempty"`
	Repo  []byte   `json:"repo,omitempty"`
}

// Answer answers a question. More counts what was left out.
type Answer struct {
	Error string  `json:"error,omitempty"`
	Hint  string  `json:"hint,omitempty"`
	Own   []Entry `json:"own,omitempty"` // List

	// Relaxed and Shared are Review's: the changes, and the paths on the host that
	// would be seen inside. Digest names them both.
	Relaxed []Relaxation `json:"relaxed,omitempty"`
	Shared  [][]byte     `json:"shared,omitempty"`
	Digest  []byte       `json:"digest,omitempty"`

	More int `json:"more,omitempty"`
}

// The limits of an answer: on each text, and on its encoding as a whole.
const (
	MaxText = 1 << 10
	MaxSize = 40 << 10
)

// Sum is the digest of a review before anything is left out of it.
func (a *Answer) Sum() ([]byte, error) {
	b, err := json.Marshal([]any{a.Relaxed, a.Shared, a.More})
	if err != nil {
		return nil, fmt.Errorf("encode a review: %w", err)
	}
	sum := sha256.Sum256(b)
	return sum[:], nil
}

// Fit leaves out what is beyond the limits.
func (a *Answer) Fit() {
	size := 0
	fits := func(v any) bool {
		b, err := json.Marshal(v)
		size += len(b) + 1
		return err == nil && len(b) <= 2*MaxText && size <= MaxSize
	}
	own, relaxed, shared := a.Own, a.Relaxed, a.Shared
	a.Own, a.Relaxed, a.Shared = nil, nil, nil
	for _, e := range own {
		if fits(e) {
			a.Own = append(a.Own, e)
		} else {
			a.More++
		}
	}
	for _, r := range relaxed {
		if fits(r) {
			a.Relaxed = append(a.Relaxed, r)
		} else {
			a.More++
		}
	}
	for _, p := range shared {
		if fits(p) {
			a.Shared = append(a.Shared, p)
		} else {
			a.More++
		}
	}
}

// AtRest is a question about a Domain that does not run, for whoever answers it
// then: the view as a launch plan describes it, and the workspace.
type AtRest struct {
	Request   Request     `json:"request"`
	View      launch.View `json:"view"`
	Workspace launch.Ref  `json:"workspace"`

	HostGit  launch.HostGit `json:"host_git"`
	Excludes []byte         `json:"excludes,omitempty"` // the text of core.excludesFile
}

// AtRestMode is the mode of lazaret-supervisor that answers AtRest: it reads one
// from its standard input, and writes the Answer to its standard output.
const AtRestMode = "isolation"
