package host

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// errInterrupted reports a start that a signal has ended.
var errInterrupted = errors.New("interrupted")

// errRoot is the refusal to run as root (SR-1).
var errRoot = &hintError{
	text: "lazaret does not run as root: the sandbox must hold no host root authority",
	hint: "run it as an ordinary user",
}

var errNoTerminal = &hintError{
	text: "cannot give the command a terminal: standard input is none",
	hint: "leave --tty out",
}

// hintError is an error with something to do about it.
type hintError struct {
	text, hint string
	cause      error // or nil
}

func (e *hintError) Error() string { return e.text }
func (e *hintError) Hint() string  { return e.hint }
func (e *hintError) Unwrap() error { return e.cause }

// UsageError reports an argument that cannot be understood.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// noBaseImage is said where an image of a registry stands in for the base image.
const noBaseImage = "there is no base image beside this installation; in a checkout, make image builds one, without a registry"

// hintOf is the hint that an error carries, or empty.
func hintOf(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}

// fingerprintError reports a Domain that runs with another configuration.
type fingerprintError struct {
	profile     string
	differences []string
}

func (e *fingerprintError) Error() string {
	return "this Domain runs with another configuration: " + strings.Join(e.differences, "; ")
}

func (e *fingerprintError) Hint() string {
	return fmt.Sprintf("lazaret stop ends it; run it again to start profile %s with the new configuration", e.profile)
}

// heldError reports a Domain lock that is held and not published.
type heldError struct {
	holder string
	waited time.Duration
}

func (e *heldError) Error() string {
	return fmt.Sprintf("the Domain is held by %s and was not published within %s", e.holder, e.waited)
}

func (e *heldError) Hint() string {
	return "wait for it, or end that process and run the command again"
}
