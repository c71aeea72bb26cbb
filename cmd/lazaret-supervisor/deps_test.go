package main_test

import (
	"os/exec"
	"strings"
	"testing"
)

// The supervisor runs as root of a user namespace and handles what images and
// sandboxes have written: it links nothing that it does not need.
func TestDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	deps := strings.Fields(string(out))
	if len(deps) < 50 {
		t.Fatalf("only %d dependencies are listed", len(deps))
	}
	allowed := []string{
		"lazaret.dev/lazaret/cmd/lazaret-supervisor",
		"lazaret.dev/lazaret/supervisor",
		"lazaret.dev/lazaret/protocol/",
		"github.com/hanwen/go-fuse/v2",
		"github.com/vishvananda/netlink",
		"github.com/vishvananda/netns",
		"github.com/opencontainers/runtime-spec/specs-go",
		"golang.org/x/sys/unix",
	}
	for _, d := range deps {
		first, _, _ := strings.Cut(d, "/")
		if !strings.Contains(first, ".") {
			continue // the standard library
		}
		ok := false
		for _, a := range allowed {
			ok = ok || strings.HasPrefix(d, a)
		}
		if !ok {
			t.Errorf("links %s", d)
		}
	}
	for _, d := range []string{"net/http", "os/user", "html/template", "database/sql"} {
		for _, have := range deps {
			if d == have {
				t.Errorf("links %s", d)
			}
		}
	}
}
