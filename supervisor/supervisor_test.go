package supervisor_test

import (
	"os"
	"strings"
	"testing"

	"lazaret.dev/lazaret/protocol/handoff"
)

// The whole life of a generation. SR-1, SR-5, FR-12.
func TestStartAndStop(t *testing.T) {
	w := newWorld(t)
	c := w.bringUp(t)
	if c.hello.Mapping != handoff.MappingFull {
		t.Errorf("mapping %q", c.hello.Mapping)
	}
	if got := c.sh("id -u; hostname; cat /etc/resolv.conf"); got != "0\nlazaret-test\nnameserver 10.0.2.3" {
		t.Errorf("inside: %q", got)
	}
	c.sh("echo hello > /workspace/f; echo kept > /root/f; echo gone > /var/f; echo new > /srv/f")
	if b, err := os.ReadFile(w.at("workspace/f")); err != nil || string(b) != "hello\n" {
		t.Errorf("workspace: %q, %v", b, err)
	}
	fam := c.family()
	c.stop()
	gone(t, fam, 0)
	if b, err := os.ReadFile(w.at("anchors/root/upper/f")); err != nil || strings.TrimSpace(string(b)) != "kept" {
		t.Errorf("anchor: %q, %v", b, err)
	}
	for _, d := range []string{"transient/upper", "transient/work", "scratch"} {
		if ents, err := os.ReadDir(w.at(d)); err != nil || len(ents) > 0 {
			t.Errorf("%s: %v, %v", d, ents, err)
		}
	}
}
