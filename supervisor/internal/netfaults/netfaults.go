// Package netfaults holds the supervisor's network faults, through which tests
// prove that a missing protection is noticed. In an ordinary build there are
// none: only under the build tag "faults" does Read look for requests. It runs
// in the Runtime Supervisor.
package netfaults

import "lazaret.dev/lazaret/supervisor/internal/netns"

// Faults are the faults to commit.
type Faults struct {
	DropDeny     netns.Fault // do not install a deny route
	DropDenyLate netns.Fault // remove a deny route after it was attested
}

// none is no fault at all.
var none = Faults{DropDeny: netns.NoFault, DropDenyLate: netns.NoFault}
