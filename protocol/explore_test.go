package protocol_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"lazaret.dev/lazaret/protocol"
)

// graph is all that a fixture can reach.
type graph struct {
	f       *fixture
	keys    []string // encoded worlds, in the order of discovery
	first   []uint32 // edges of state i: edges[first[i]:first[i+1]]
	edges   []edge
	actions []string // "Name(on)", by number
	from    []uint32 // by whom a state was found, and by what action: for traces
	by      []uint16
}

type edge struct {
	to     uint32
	action uint16
}

// explore visits every reachable state breadth-first, and checks each state and
// each step. A move that changes nothing is no step.
func explore(f *fixture) (*graph, error) {
	g := &graph{f: f}
	index := map[string]uint32{}
	number := map[string]uint16{}
	add := func(w world, from uint32, by uint16) (uint32, error) {
		k := f.encode(w)
		if i, ok := index[k]; ok {
			return i, nil
		}
		i := uint32(len(g.keys))
		index[k] = i
		g.keys, g.from, g.by = append(g.keys, k), append(g.from, from), append(g.by, by)
		if d := f.decode(k); !same(d.State, w.State) || d.crashes != w.crashes || d.plants != w.plants || d.planted != w.planted {
			return i, errors.New("TypeOK: the state holds what the codec has no code for")
		}
		return i, nil
	}
	if _, err := add(f.initial(), 0, 0); err != nil {
		return nil, err
	}
	for i := uint32(0); int(i) < len(g.keys); i++ {
		g.first = append(g.first, uint32(len(g.edges)))
		w := f.decode(g.keys[i])
		if err := f.checkState(w); err != nil {
			return g, fmt.Errorf("%w\n%s", err, g.trace(i))
		}
		for _, m := range f.moves(w) {
			n, effects := w, []protocol.Effect(nil)
			if m.event != nil {
				var err error
				n.State, effects, err = protocol.Next(w.State, m.event)
				if err != nil {
					if !errors.Is(err, protocol.ErrIllegal) || effects != nil {
						return g, fmt.Errorf("%s: %w, effects %v\n%s", m.name, err, effects, g.trace(i))
					}
					continue
				}
			}
			if m.after != nil {
				m.after(&n)
			}
			name := m.name + "(" + m.on + ")"
			a, ok := number[name]
			if !ok {
				a = uint16(len(g.actions))
				number[name] = a
				g.actions = append(g.actions, name)
			}
			if m.event != nil {
				if err := checkStep(w, n, m.event, effects); err != nil {
					return g, fmt.Errorf("%w\n%s%s → %+v", err, g.trace(i), name, n)
				}
			}
			to, err := add(n, i, a)
			if err != nil {
				return g, fmt.Errorf("%w\n%s", err, g.trace(to))
			}
			if e := (edge{to, a}); to != i && !slices.Contains(g.edges[g.first[i]:], e) {
				g.edges = append(g.edges, e)
			}
		}
		// Neither a step nor a refusal has touched what it was given.
		if f.encode(w) != g.keys[i] {
			return g, fmt.Errorf("Next changed its argument\n%s", g.trace(i))
		}
	}
	g.first = append(g.first, uint32(len(g.edges)))
	return g, nil
}

// trace is the shortest way to a state.
func (g *graph) trace(i uint32) string {
	var steps []string
	at := i
	for ; at != 0; at = g.from[at] {
		steps = append(steps, g.actions[g.by[at]])
	}
	slices.Reverse(steps)
	return fmt.Sprintf("%s\n%+v\n", strings.Join(steps, " "), g.f.decode(g.keys[i]))
}
