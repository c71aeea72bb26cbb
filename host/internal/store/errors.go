package store

import (
	"errors"
	"fmt"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"lazaret.dev/lazaret/host/internal/store/dbfile"
	"lazaret.dev/lazaret/protocol"
)

// Error reports that the store's file cannot be used, and why.
type Error = dbfile.Error

// Kind classifies what is wrong with the store's file.
type Kind = dbfile.Kind

// The kinds.
const (
	NoSpace  = dbfile.NoSpace
	ReadOnly = dbfile.ReadOnly
	Corrupt  = dbfile.Corrupt
	Foreign  = dbfile.Foreign
	Busy     = dbfile.Busy
	IO       = dbfile.IO
)

// ErrNotLocked reports that the file given as proof holds no exclusive flock.
var ErrNotLocked = dbfile.ErrNotLocked

// LiveError reports a generation that has not ended where none may be.
type LiveError struct{ Generation string }

// Error implements error.
func (e *LiveError) Error() string {
	return fmt.Sprintf("generation %s has not ended", e.Generation)
}

// StaleError reports an operation on a generation that is not the live one.
type StaleError struct{ Generation string }

// Error implements error.
func (e *StaleError) Error() string {
	return fmt.Sprintf("generation %s is not the live one", e.Generation)
}

// TransitionError reports a record that does not follow from the one there is.
type TransitionError struct {
	What string // "participant helper", "session 3f…"
	From string // "" when there is no record
	To   string
}

// Error implements error.
func (e *TransitionError) Error() string {
	from := e.From
	if from == "" {
		from = "nothing"
	}
	return fmt.Sprintf("%s cannot go from %s to %s", e.What, from, e.To)
}

// OutstandingError reports what keeps a generation from ending.
type OutstandingError struct {
	Generation string
	What       []string // "participant helper", "lease sha256-…", "publication"
}

// Error implements error.
func (e *OutstandingError) Error() string {
	return fmt.Sprintf("generation %s cannot end: not yet released: %s", e.Generation, strings.Join(e.What, ", "))
}

// named wraps an error of the file or of SQLite in *Error. Errors that speak of
// the document itself, and those of the caller's context, pass unchanged.
func (s *Store) named(op string, err error) error {
	var s3 *sqlite.Error
	if !errors.As(err, &s3) {
		return err
	}
	kind := IO
	switch s3.Code() & 0xff { // the primary code; the rest is detail
	case sqlite3.SQLITE_FULL:
		kind = NoSpace
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN:
		kind = ReadOnly
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		kind = Corrupt
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		kind = Busy
	case sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISUSE:
		return fmt.Errorf("%s: %w", op, err)
	}
	return &Error{Kind: kind, Op: op, Path: s.path, Err: err}
}

// checkPhase refuses a phase that no live generation can have.
func checkPhase(p protocol.DomainPhase) error {
	if err := new(protocol.DomainPhase).UnmarshalText([]byte(p)); err != nil {
		return err
	}
	if p == protocol.Absent {
		return errors.New("a generation ends by EndGeneration, not by a phase")
	}
	return nil
}
