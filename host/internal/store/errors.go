package store

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"lazaret.dev/lazaret/protocol"
)

// Kind classifies what is wrong with the store's file.
type Kind string

// The kinds.
const (
	NoSpace  Kind = "no_space"
	ReadOnly Kind = "read_only"
	Corrupt  Kind = "corrupt"
	Foreign  Kind = "foreign" // not a file that Lazaret made
	Busy     Kind = "busy"    // open elsewhere, against FR-17
	IO       Kind = "io"
)

// Error reports that the store's file cannot be used. The transaction that met
// it has not happened; what was committed before is still there, and the same
// Store can be used again when the cause is gone.
type Error struct {
	Kind Kind
	Op   string
	Path string
	Err  error
}

// Error implements error.
func (e *Error) Error() string {
	var what string
	switch e.Kind {
	case NoSpace:
		what = "no space is left on its filesystem"
	case ReadOnly:
		what = "it cannot be written"
	case Corrupt:
		what = "it is damaged"
	case Foreign:
		what = "it is not Lazaret's"
	case Busy:
		what = "another process has it open"
	default:
		what = "it cannot be read or written"
	}
	return fmt.Sprintf("cannot use the store %s: %s (%s: %v)", e.Path, what, e.Op, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Hint says what the user can do about it.
func (e *Error) Hint() string {
	quoted := shellQuote(e.Path)
	switch e.Kind {
	case NoSpace:
		return "free some space (df -h " + quoted + "), then run the command again: nothing was lost"
	case ReadOnly:
		return "make the file and its directory writable for you (ls -ld " + quoted + "; findmnt -T " + quoted + "), then run the command again"
	case Corrupt, Foreign:
		return "the file was left as it is; once no sandbox of this project runs, move it aside and start afresh: mv " +
			quoted + " " + shellQuote(e.Path+".damaged")
	case Busy:
		return "see which process it is (fuser -v " + quoted + ") and end it"
	default:
		return "look for errors of the disk (journalctl -k -p err), then run the command again"
	}
}

// shellQuote makes one word of a path for a POSIX shell.
func shellQuote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

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

func kindOfErrno(err error) Kind {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return NoSpace
	case errors.Is(err, unix.EROFS), errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return ReadOnly
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENXIO):
		return Foreign
	}
	return IO
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
