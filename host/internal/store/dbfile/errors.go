package dbfile

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
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
