package launcher_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lazaret.dev/lazaret/protocol/handoff"
	"lazaret.dev/lazaret/supervisor/internal/launcher"
)

func TestRange(t *testing.T) {
	for _, bad := range []string{"", "1", ":", "1:", ":1", "1:0", "-1:5", "1:2:3", "4294967295:2", "x:1", "1:99999999999"} {
		var r launcher.Range
		if err := r.Set(bad); err == nil {
			t.Errorf("%q was taken as %v", bad, r)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.Uint32().Draw(t, "start")
		r := launcher.Range{Start: start, Count: rapid.Uint32Range(1, max(1, ^uint32(0)-start)).Draw(t, "count")}
		var got launcher.Range
		if err := got.Set(r.String()); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(r, got); d != "" {
			t.Fatal(d)
		}
	})
}

func TestIDMapIsWholeOrNone(t *testing.T) {
	full := launcher.IDMap{NewUIDMap: "/u", NewGIDMap: "/g", UIDs: launcher.Range{Start: 1, Count: 1}, GIDs: launcher.Range{Start: 1, Count: 1}}
	if err := full.Validate(); err != nil || full.Mode() != handoff.MappingFull {
		t.Errorf("full: %v, %s", err, full.Mode())
	}
	var none launcher.IDMap
	if err := none.Validate(); err != nil || none.Mode() != handoff.MappingSingle {
		t.Errorf("none: %v, %s", err, none.Mode())
	}
	for i := range 4 {
		half := full
		switch i {
		case 0:
			half.NewUIDMap = ""
		case 1:
			half.NewGIDMap = ""
		case 2:
			half.UIDs = launcher.Range{}
		case 3:
			half.GIDs = launcher.Range{}
		}
		if err := half.Validate(); err == nil {
			t.Errorf("%+v was accepted", half)
		}
	}
}
