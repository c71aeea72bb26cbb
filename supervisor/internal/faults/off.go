//go:build !faults

package faults

// Read returns no fault: this build has none.
func Read() Faults { return Faults{DropDeny: -1, DropDenyLate: -1} }
