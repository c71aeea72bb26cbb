package protocol_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"lazaret.dev/lazaret/protocol"
)

// What TLC prints for the same fixture with Lazaret.cfg: "172209 states
// generated, 23275 distinct states found". The numbers are equal, or the two
// protocols are not the same.
const statesSmall = 23275

// TestExploreSmall visits every state that one session with two requests can
// reach in two generations, one of which may die.
func TestExploreSmall(t *testing.T) { testExplore(t, small(), statesSmall) }

func testExplore(t *testing.T, f *fixture, want int) {
	var g *graph
	if !t.Run("invariants", func(t *testing.T) {
		began := time.Now()
		all, err := explore(f)
		if err != nil {
			t.Fatal(err)
		}
		g = all
		t.Logf("%d states, %d steps in %v", len(g.keys), len(g.edges), time.Since(began))
	}) {
		return
	}
	t.Run("liveness", func(t *testing.T) {
		began := time.Now()
		if err := g.checkLiveness(f.fairness()); err != nil {
			t.Fatal(err)
		}
		t.Log(time.Since(began))
	})
	t.Run("coverage", g.checkCoverage)
	t.Run("states", func(t *testing.T) {
		if len(g.keys) != want {
			t.Errorf("%d distinct states, and TLC finds %d", len(g.keys), want)
		}
	})
	if want != statesSmall {
		return // what small needs is needed
	}
	t.Run("fairness", func(t *testing.T) {
		// A property that holds without a fair action does not need it, or the
		// search for a fair way does not find one.
		for i, without := range f.fairness() {
			if g.checkLiveness(slices.Delete(f.fairness(), i, i+1)) == nil {
				t.Errorf("everything comes without %s too", without.name)
			}
		}
	})
}

// checkCoverage asserts that every action happens and every phase is reached.
func (g *graph) checkCoverage(t *testing.T) {
	fired := map[string]bool{}
	for _, e := range g.edges {
		name, on, _ := strings.Cut(g.actions[e.action], "(")
		fired[name] = true
		fired[name+"("+on] = true
	}
	want := []string{"ForeignRemoved"}
	for _, m := range g.f.moves(g.f.initial()) {
		want = append(want, m.name, m.name+"("+m.on+")")
	}
	for _, r := range protocol.Roles() {
		want = append(want, "ForeignPlanted("+string(r)+")")
	}
	for _, a := range want {
		if !fired[a] {
			t.Errorf("action %s never happens", a)
		}
	}
	reached := map[any]bool{}
	for _, k := range g.keys {
		w := g.f.decode(k)
		reached[w.Phase] = true
		for _, v := range w.Sessions {
			reached[v.Phase], reached[v.Route], reached[v.Connection] = true, true, true
		}
		for _, r := range w.Requests {
			reached[r.Phase], reached[r.Source] = true, true
		}
		for _, i := range w.Intents {
			reached[i] = true
		}
		if w.Record != nil {
			for _, i := range w.Record.Intents {
				reached[i] = true
			}
		}
	}
	wantReached(t, reached, phases)
	wantReached(t, reached, slices.DeleteFunc(slices.Clone(requests), func(p protocol.RequestPhase) bool { return p == "" }))
	wantReached(t, reached, sessions[1:])
	wantReached(t, reached, routes[1:])
	wantReached(t, reached, connected[1:])
	wantReached(t, reached, sources)
	wantReached(t, reached, intents[1:])
}

func wantReached[T comparable](t *testing.T, reached map[any]bool, all []T) {
	for _, v := range all {
		if !reached[v] {
			t.Errorf("%T %v is never reached", v, v)
		}
	}
}
