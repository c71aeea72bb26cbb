package protocol_test

import (
	"fmt"
	"slices"
	"strings"

	"lazaret.dev/lazaret/protocol"
)

// A fair action happens in the end if it stays possible. The list is
// Lazaret.tla's Fairness: an action is the set of moves that it matches.
type fair struct {
	name string
	is   func(action string) bool
	when func(w world) bool // the states in which it is owed; nil is all
}

func (f *fixture) fairness() []fair {
	named := func(names ...string) fair {
		return fair{name: names[0], is: func(action string) bool { return slices.Contains(names, action) }}
	}
	gone := named("SupervisorGone()")
	gone.when = func(w world) bool { return ending(w.Phase) }
	fs := []fair{
		gone, named("ForeignRemoved()"),
		{name: "RecoveryStep", is: func(action string) bool {
			return action == "Recover()" || action == "LeaseReleased()" || strings.HasPrefix(action, "Compared(") || strings.HasPrefix(action, "Cleaned(")
		}},
	}
	for _, s := range f.sessions {
		fs = append(fs, named("Attached("+s+")"), named("Ended("+s+")"))
	}
	for _, r := range f.requests {
		host := named("HostEnded("+r+")", "HostStarted("+r+")", "HostFailed("+r+")")
		host.when = func(w world) bool {
			return w.Requests[r].Phase == protocol.RequestApproved || w.Requests[r].Ending != ""
		}
		fs = append(fs, named("TimedOut("+r+")"), named("Delivered("+r+")"), host)
	}
	return fs
}

// leadsTo is the property that every state of from is followed by one of to.
type leadsTo struct {
	name     string
	from, to func(w world) bool
}

func (f *fixture) liveness() []leadsTo {
	over := func(p protocol.RequestPhase) bool { return p.Terminal() || p == protocol.RequestUnused }
	ls := []leadsTo{
		{"FailedDomainCanRestart: the teardown ends", func(w world) bool { return ending(w.Phase) }, func(w world) bool { return w.Phase == protocol.Absent }},
		{"FailedDomainCanRestart: the recovery ends", func(w world) bool { return w.Record != nil }, func(w world) bool { return w.Phase == protocol.Absent && w.Record == nil }},
	}
	for _, s := range f.sessions {
		for _, p := range []protocol.SessionPhase{protocol.SessionRegistered, protocol.SessionClosing} {
			ls = append(ls, leadsTo{
				"SessionEventuallyResolves: " + s + " " + string(p),
				func(w world) bool { return w.Sessions[s].Phase == p }, func(w world) bool { return w.Sessions[s].Phase != p },
			})
		}
	}
	for _, r := range f.requests {
		ls = append(ls, leadsTo{
			"AcceptedRequestEventuallyResolves: " + r,
			func(w world) bool { return !over(w.Requests[r].Phase) }, func(w world) bool { return over(w.Requests[r].Phase) },
		})
	}
	return ls
}

// checkLiveness looks for a fair way to avoid what must come: among the states
// that follow from without to, a strongly connected component (a lone state may
// stutter for ever) in which each fair action is somewhere impossible, or
// somewhere taken.
func (g *graph) checkLiveness(fs []fair) error {
	n := uint32(len(g.keys))
	ls := g.f.liveness()
	everything := uint64(1)<<len(fs) - 1

	// What there is to know of each state, decoded once.
	type known struct {
		from, to uint32 // properties, by bit
		owed     uint64 // fair actions, by bit
	}
	states := make([]known, n)
	for i := range n {
		w := g.f.decode(g.keys[i])
		for k, f := range fs {
			states[i].owed |= uint64(bits(f.when == nil || f.when(w))) << k
		}
		for k, l := range ls {
			states[i].from |= uint32(bits(l.from(w))) << k
			states[i].to |= uint32(bits(l.to(w))) << k
		}
	}
	byAction := make([]uint64, len(g.actions)) // fair actions that a move belongs to
	for a, name := range g.actions {
		for k, f := range fs {
			byAction[a] |= uint64(bits(f.is(name))) << k
		}
	}
	fairness := func(i uint32, e edge) uint64 {
		return byAction[e.action] & states[i].owed
	}
	for k, l := range ls {
		in := make([]bool, n)
		var stack []uint32
		for i := range n {
			if states[i].from&^states[i].to>>k&1 == 1 {
				in[i] = true
				stack = append(stack, i)
			}
		}
		for len(stack) > 0 { // what is reached from there without to
			i := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			for _, e := range g.edges[g.first[i]:g.first[i+1]] {
				if !in[e.to] && states[e.to].to>>k&1 == 0 {
					in[e.to] = true
					stack = append(stack, e.to)
				}
			}
		}
		comp := g.components(in)
		met := map[uint32]uint64{} // component → fair actions that are no obstacle to staying
		for i := range n {
			if !in[i] {
				continue
			}
			can, taken := uint64(0), uint64(0)
			for _, e := range g.edges[g.first[i]:g.first[i+1]] {
				m := fairness(i, e)
				can |= m
				if in[e.to] && comp[e.to] == comp[i] {
					taken |= m
				}
			}
			met[comp[i]] |= ^can | taken
		}
		for i := range n {
			if in[i] && met[comp[i]]&everything == everything {
				return fmt.Errorf("liveness %s: may never come\n%s", l.name, g.trace(i))
			}
		}
	}
	return nil
}

// components numbers the strongly connected components of the states in in
// (Tarjan, without recursion).
func (g *graph) components(in []bool) []uint32 {
	n := len(g.keys)
	comp := make([]uint32, n)
	index, low := make([]uint32, n), make([]uint32, n)
	on := make([]bool, n)
	var stack []uint32
	type frame struct{ v, next uint32 }
	var calls []frame
	counter, comps := uint32(0), uint32(0)
	for root := range uint32(n) {
		if !in[root] || index[root] != 0 {
			continue
		}
		calls = append(calls, frame{root, g.first[root]})
		for len(calls) > 0 {
			f := &calls[len(calls)-1]
			v := f.v
			if index[v] == 0 {
				counter++
				index[v], low[v] = counter, counter
				stack, on[v] = append(stack, v), true
			}
			descended := false
			for ; f.next < g.first[v+1]; f.next++ {
				to := g.edges[f.next].to
				if !in[to] {
					continue
				}
				if index[to] == 0 {
					calls = append(calls, frame{to, g.first[to]})
					descended = true
					break
				}
				if on[to] {
					low[v] = min(low[v], low[to])
				}
			}
			if descended {
				continue
			}
			if low[v] == index[v] {
				comps++
				for {
					x := stack[len(stack)-1]
					stack, on[x] = stack[:len(stack)-1], false
					comp[x] = comps
					if x == v {
						break
					}
				}
			}
			calls = calls[:len(calls)-1]
			if len(calls) > 0 {
				p := calls[len(calls)-1].v
				low[p] = min(low[p], low[v])
			}
		}
	}
	return comp
}
