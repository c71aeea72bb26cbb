package paths

import "lazaret.dev/lazaret/host/internal/paths/internal/refusal"

// Error is a refusal for people: what cannot be done and, as its hint, what to
// do about it.
type Error = refusal.Error

// Kind says which rule an [Error] is about.
type Kind = refusal.Kind

// The kinds of refusals.
const (
	KindHome       = refusal.Home
	KindUnsafe     = refusal.Unsafe
	KindName       = refusal.Name
	KindSocketPath = refusal.SocketPath
	KindWorkspace  = refusal.Workspace
	KindMismatch   = refusal.Mismatch
	KindRecord     = refusal.Record
	KindMapping    = refusal.Mapping
)

func refuse(k Kind, fix, format string, args ...any) *Error {
	return refusal.New(k, fix, format, args...)
}
