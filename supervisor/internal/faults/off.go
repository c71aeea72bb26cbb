//go:build !faults

package faults

// Read returns no fault: this build has none.
func Read() Faults { return none }
