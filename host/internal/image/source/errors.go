package source

import (
	"errors"
	"fmt"
	"syscall"
)

// Code classifies an Error.
type Code string

// The codes.
const (
	CodeReference   Code = "reference"   // the reference is malformed
	CodeNotFound    Code = "not_found"   // there is no such image
	CodeAuth        Code = "auth"        // the registry refused the credentials, or wants some
	CodeUnreachable Code = "unreachable" // no connection, or a lost one
	CodePlatform    Code = "platform"    // no image for this machine
	CodeMediaType   Code = "media_type"  // a manifest or layer of a type that is not supported
	CodeMalformed   Code = "malformed"   // broken, or larger than anything sensible
	CodeDigest      Code = "digest"      // bytes are not what their digest says
	CodeDiskFull    Code = "disk_full"
)

// Error is a failure that its reader can act on.
type Error struct {
	Code    Code
	Message string // without the cause
	Fix     string // what to do about it, or empty
	Err     error  // cause, or nil
}

// Error implements error.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return e.Message + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Hint returns what to do about it, or "".
func (e *Error) Hint() string { return e.Fix }

// HasCode reports whether err is an Error of that code.
func HasCode(err error, c Code) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == c
}

// DiskFull turns an error that says that a filesystem is full into an Error,
// and returns every other one as it is.
func DiskFull(err error, dir string) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return &Error{
			Code: CodeDiskFull, Message: fmt.Sprintf("no space left for the image below %s", dir),
			Fix: "free space, or remove images with: lazaret image gc", Err: err,
		}
	}
	return err
}

func malformed(format string, args ...any) error {
	return &Error{Code: CodeMalformed, Message: "image is malformed: " + fmt.Sprintf(format, args...)}
}
