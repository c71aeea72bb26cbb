// Package fault holds the errors of images that a user can act on: each has a
// code, and most have a hint.
//
// It knows no source and no file of an image. It is linked into the Host
// Coordinator and into image commands.
package fault

import (
	"errors"
	"fmt"
	"syscall"
)

// Code classifies an Error.
type Code string

// The codes.
const (
	Reference   Code = "reference"   // the reference is malformed
	NotFound    Code = "not_found"   // there is no such image
	Auth        Code = "auth"        // the registry refused the credentials, or wants some
	Unreachable Code = "unreachable" // no connection, or a lost one
	Platform    Code = "platform"    // no image for this machine
	MediaType   Code = "media_type"  // a manifest or layer of a type that is not supported
	Malformed   Code = "malformed"   // broken, or larger than anything sensible
	Digest      Code = "digest"      // bytes are not what their digest says
	Full        Code = "disk_full"
)

// Error is a failure that its reader can act on.
type Error struct {
	Code    Code
	Message string // without the cause
	Fix     string // what to do about it, or empty
	Err     error  // cause, or nil

	Temporary bool // the same request may succeed in a moment
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

// Has reports whether err is an Error of that code.
func Has(err error, c Code) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == c
}

// Temporary reports whether err is an Error after which to try again.
func Temporary(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Temporary
}

// DiskFull turns an error that says that a filesystem is full into an Error,
// and returns every other one as it is.
func DiskFull(err error, dir string) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return &Error{
			Code: Full, Message: fmt.Sprintf("no space left for the image below %s", dir),
			Fix: "free space on it, and try again", Err: err,
		}
	}
	return err
}

// BadImage returns an Error about an image that contradicts itself or is larger
// than anything sensible.
func BadImage(format string, args ...any) error {
	return &Error{Code: Malformed, Message: "image is malformed: " + fmt.Sprintf(format, args...)}
}
