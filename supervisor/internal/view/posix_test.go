package view_test

import (
	"testing"

	"github.com/hanwen/go-fuse/v2/posixtest"

	"lazaret.dev/lazaret/supervisor/internal/view/viewtest"
)

// deviations are the tests of go-fuse's suite that the view does not pass, with
// the reason.
var deviations = map[string]string{
	"FcntlFlockLocksFile": "it wants two locks of one process to exclude each other, which POSIX locks do not; " +
		"locks are the kernel's own, as on any local filesystem, and gVisor keeps its own in any case",
}

// go-fuse's own suite, on the view.
func TestPOSIX(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	for name, test := range posixtest.All {
		t.Run(name, func(t *testing.T) {
			if why := deviations[name]; why != "" {
				t.Logf("not tested: %s", why)
				return
			}
			test(t, viewtest.New(t, nil).Mount)
		})
	}
}
