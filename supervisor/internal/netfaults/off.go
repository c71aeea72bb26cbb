//go:build !faults

package netfaults

// Read returns no fault: this build has none.
func Read() Faults { return none }
