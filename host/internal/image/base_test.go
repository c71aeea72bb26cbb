package image_test

import (
	"path/filepath"
	"testing"
	"time"

	"lazaret.dev/lazaret/protocol/testgate"
)

// The built base image, a whole Debian with tools, prepares in seconds and
// starts at once from then on.
func TestBaseImage(t *testing.T) {
	testgate.Need(t, testgate.BaseImage)
	e := newEnv(t)
	o := "oci:" + filepath.Join(testgate.Tree(), "image") + ":base"
	start := time.Now()
	p := e.prepare(t, o)
	first := time.Since(start)
	start = time.Now()
	e.prepare(t, o)
	again := time.Since(start)
	t.Logf("prepared %d MB in %v, again in %v; %d notes %v", p.Bytes>>20, first, again, p.NoteCount, p.Notes)
	if again > time.Second || again > first {
		t.Errorf("a prepared image took %v", again)
	}
}
