package subid_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"lazaret.dev/lazaret/host/internal/hostfacts/subid"
)

// Whatever the files hold, a mapping that is called usable is large enough,
// lies within a grant to the user, and touches nobody else's; and the range
// that is proposed instead is nobody's.
func TestUsableMappingsAreOursAlone(t *testing.T) {
	type grant struct {
		owner        string
		start, count uint32
	}
	rapid.Check(t, func(t *rapid.T) {
		grants := rapid.SliceOf(rapid.Custom(func(t *rapid.T) grant {
			return grant{
				rapid.SampledFrom([]string{"ann", "1000", "bob"}).Draw(t, "owner"),
				uint32(rapid.SampledFrom([]int{0, 1, 65536, 100000, 165536, 4294900000}).Draw(t, "start")),
				uint32(rapid.SampledFrom([]int{0, 1, 65535, 65536, 200000}).Draw(t, "count")),
			}
		})).Draw(t, "grants")
		text := rapid.SampledFrom([]string{"", "# comment\n", "ann:x:65536\n", "ann\n\n"}).Draw(t, "junk")
		for _, g := range grants {
			text += fmt.Sprintf("%s:%d:%d\n", g.owner, g.start, g.count)
		}
		ids := subid.Lookup(subid.Source{
			User: "ann", UID: 1000, SubUID: text, SubGID: text,
			GetSubIDs: func(...string) string { return "" },
		})
		why, ok := ids.Usable()
		if ok != (why == "") {
			t.Fatalf("usable %v, why %q", ok, why)
		}
		free := ids.Free()
		for _, g := range grants {
			end := uint64(g.start) + uint64(g.count)
			if g.start > 0 && g.count > 0 && end <= 1<<32-1 && free < end {
				t.Fatalf("%d is proposed, which %s has", free, g.owner)
			}
		}
		if !ok {
			return
		}
		m := ids.UIDs()
		if m != ids.GIDs() || m.Count != subid.Need || m.Start == 0 || m.End() > 1<<32-1 {
			t.Fatalf("mapping %+v", m)
		}
		within := false
		for _, g := range grants {
			end := uint64(g.start) + uint64(g.count)
			if g.owner != "bob" {
				within = within || uint64(g.start) <= uint64(m.Start) && m.End() <= end
			} else if g.start > 0 && g.count > 0 && end <= 1<<32-1 && uint64(m.Start) < end && uint64(g.start) < m.End() {
				t.Fatalf("mapping %+v overlaps bob's %+v", m, g)
			}
		}
		if !within {
			t.Fatalf("mapping %+v lies in no grant", m)
		}
	})
}
