//go:build faults

package faults

import (
	"fmt"
	"os"
)

// Read reads the faults from the file that lies beside the running binary and
// is named like it with ".fault" appended. Its text is "drop-deny N" or
// "drop-deny-late N"; a missing file is no fault, and anything else panics,
// since a test that asks for an unknown fault proves nothing.
func Read() Faults {
	f := Faults{DropDeny: -1, DropDenyLate: -1}
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	b, err := os.ReadFile(exe + ".fault")
	if os.IsNotExist(err) {
		return f
	}
	if err != nil {
		panic(err)
	}
	var name string
	var n int
	if _, err := fmt.Sscanf(string(b), "%s %d", &name, &n); err != nil {
		panic(err)
	}
	switch name {
	case "drop-deny":
		f.DropDeny = n
	case "drop-deny-late":
		f.DropDenyLate = n
	default:
		panic("unknown fault " + name)
	}
	return f
}
