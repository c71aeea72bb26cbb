// Package faults holds the supervisor's fault points, through which tests prove
// that a missing protection is noticed. In an ordinary build there are none:
// only the build tag "faults" makes Read look for them. It runs in the Runtime
// Supervisor.
package faults

// Faults are the faults to commit. An index below zero is none.
type Faults struct {
	DropDeny     int // do not install the n-th deny route
	DropDenyLate int // remove the n-th deny route after it was attested
}
