//go:build faults

package faults

import (
	"fmt"
	"os"

	"lazaret.dev/lazaret/supervisor/internal/netns"
)

// Read reads the faults from the file that lies beside the running binary and
// is named like it with ".fault" appended. Its text is "drop-deny WHERE N" or
// "drop-deny-late WHERE N", WHERE being outer, inner or both; a missing file is
// no fault, and anything else panics, since a test that asks for an unknown
// fault proves nothing.
func Read() Faults {
	f := none
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
	var name, where string
	var n int
	if _, err := fmt.Sscanf(string(b), "%s %s %d", &name, &where, &n); err != nil {
		panic(err)
	}
	drop := map[string]netns.Fault{
		"outer": {Outer: n, Inner: -1},
		"inner": {Outer: -1, Inner: n},
		"both":  {Outer: n, Inner: n},
	}
	fault, ok := drop[where]
	switch {
	case ok && name == "drop-deny":
		f.DropDeny = fault
	case ok && name == "drop-deny-late":
		f.DropDenyLate = fault
	default:
		panic("unknown fault " + string(b))
	}
	return f
}
