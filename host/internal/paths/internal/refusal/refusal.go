// Package refusal is the error type of package paths, which its own internal
// packages return too. It is pure and runs wherever paths does.
package refusal

import "fmt"

// Kind says which rule an [Error] is about, for callers and tests; people
// read the text.
type Kind string

// The kinds of refusals.
const (
	Home       Kind = "home"        // no home directory can be found
	Unsafe     Kind = "unsafe"      // a directory has another owner, an open mode, or is a link
	Name       Kind = "name"        // a name that may not become a path component
	SocketPath Kind = "socket-path" // a socket address would be too long
	Workspace  Kind = "workspace"   // a directory that may not be the Agent Workspace
	Mismatch   Kind = "mismatch"    // a Domain Root belongs to another Domain
	Record     Kind = "record"      // domain.json, or another file of one word, is damaged
	Mapping    Kind = "mapping"     // State Anchors are of the other id mapping
)

// Error is a refusal for people: what cannot be done, and what to do about it.
type Error struct {
	Kind Kind
	Msg  string
	Fix  string // may be empty
	Err  error  // the cause, or nil
}

// Error implements error.
func (e *Error) Error() string {
	if e.Err != nil {
		return e.Msg + ": " + e.Err.Error()
	}
	return e.Msg
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Hint returns the fix.
func (e *Error) Hint() string { return e.Fix }

// New makes a refusal without a cause.
func New(k Kind, fix, format string, args ...any) *Error {
	return &Error{Kind: k, Fix: fix, Msg: fmt.Sprintf(format, args...)}
}
