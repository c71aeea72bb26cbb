// Package faults holds the supervisor's fault points, through which tests prove
// that a missing protection is noticed. In an ordinary build there are none:
// only the build tag "faults" makes Read look for them. It runs in the Runtime
// Supervisor.
package faults

import "lazaret.dev/lazaret/supervisor/internal/netns"

// Faults are the faults to commit.
type Faults struct {
	DropDeny     netns.Fault // do not install a deny route
	DropDenyLate netns.Fault // remove a deny route after it was attested
}

// none is no fault at all.
var none = Faults{DropDeny: netns.NoFault, DropDenyLate: netns.NoFault}
