//go:build faults

package netfaults

import (
	"fmt"

	"lazaret.dev/lazaret/protocol/faults"
	"lazaret.dev/lazaret/supervisor/internal/netns"
)

// Read reads the requests drop-deny and drop-deny-late. Their text is "WHERE
// N", WHERE being outer, inner or both; anything else panics, since a test that
// asks for an unknown fault proves nothing.
func Read() Faults {
	f := none
	for name, fault := range map[string]*netns.Fault{"drop-deny": &f.DropDeny, "drop-deny-late": &f.DropDenyLate} {
		text := faults.Asked(name)
		if text == "" {
			continue
		}
		var where string
		var n int
		if _, err := fmt.Sscanf(text, "%s %d", &where, &n); err != nil {
			panic(err)
		}
		switch where {
		case "outer":
			*fault = netns.Fault{Outer: n, Inner: -1}
		case "inner":
			*fault = netns.Fault{Outer: -1, Inner: n}
		case "both":
			*fault = netns.Fault{Outer: n, Inner: n}
		default:
			panic("unknown fault " + text)
		}
	}
	return f
}
