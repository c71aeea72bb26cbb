package paths

import "fmt"

// Kind says which rule an [Error] is about, for callers and tests; people
// read the text.
type Kind string

// The kinds of refusals.
const (
	KindHome       Kind = "home"        // no home directory can be found
	KindUnsafe     Kind = "unsafe"      // a directory has another owner, an open mode, or is a link
	KindName       Kind = "name"        // a name that may not become a path component
	KindSocketPath Kind = "socket-path" // a socket address would be too long
	KindWorkspace  Kind = "workspace"   // a directory that may not be the Agent Workspace
	KindMismatch   Kind = "mismatch"    // a Domain Root belongs to another Domain
	KindRecord     Kind = "record"      // domain.json is damaged
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

func refuse(k Kind, fix, format string, args ...any) *Error {
	return &Error{Kind: k, Fix: fix, Msg: fmt.Sprintf(format, args...)}
}
