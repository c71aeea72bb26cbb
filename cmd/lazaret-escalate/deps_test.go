package main_test

import (
	"os/exec"
	"strings"
	"testing"
)

// The client in the sandbox links the standard library, its own packages and
// protocol packages, and nothing else.
func TestDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	own := false
	for p := range strings.FieldsSeq(string(out)) {
		switch {
		case p == "lazaret.dev/lazaret/cmd/lazaret-escalate":
			own = true
		case p == "lazaret.dev/lazaret/escalate",
			strings.HasPrefix(p, "lazaret.dev/lazaret/escalate/"),
			strings.HasPrefix(p, "lazaret.dev/lazaret/protocol/"):
		default:
			t.Errorf("links %s", p)
		}
	}
	if !own {
		t.Error("the list is not of this command")
	}
}
