package trace_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lazaret.dev/lazaret/protocol"
	"lazaret.dev/lazaret/protocol/trace"
)

// coordinator is as much of one as writes a trace.
type coordinator struct {
	t     *testing.T
	log   *slog.Logger
	trace *trace.Writer
	text  *bytes.Buffer
	state protocol.State
}

func newCoordinator(t *testing.T) *coordinator {
	var text bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return &coordinator{t: t, log: log, trace: trace.New(log), text: &text, state: protocol.Initial()}
}

func (c *coordinator) take(events ...protocol.Event) {
	c.t.Helper()
	for _, e := range events {
		next, _, err := protocol.Next(c.state, e)
		if err != nil {
			c.t.Fatal(err)
		}
		c.trace.Step(c.state, e, next)
		c.state = next
	}
}

// recover clears away what a dead generation has left.
func (c *coordinator) recover() {
	dead := protocol.Record{
		Generation: "g0", Lease: "lower",
		Intents: map[protocol.Role]protocol.Intent{protocol.RoleSupervisor: protocol.Owned, protocol.RoleSandbox: protocol.Intended},
	}
	c.trace.Recovering(dead)
	c.state = protocol.Left(dead)
	c.take(
		protocol.Recover{},
		protocol.Compared{Role: protocol.RoleSandbox, Finding: protocol.FoundGone},
		protocol.Compared{Role: protocol.RoleSupervisor, Finding: protocol.FoundMatching},
		protocol.Cleaned{Role: protocol.RoleSupervisor},
		protocol.LeaseReleased{},
	)
}

// serve is the life of a generation with two sessions.
func (c *coordinator) serve() {
	c.log.Info("a line that is no step", "event", "Cleaned")
	const id = "g1"
	c.take(
		protocol.Start{
			Generation: id, Fingerprint: "f", IDs: protocol.ComponentIDs{Coordinator: "c", Sandbox: "s", Network: "n"},
			Confined: true, Isolated: true,
		},
		protocol.SupervisorStarted{Generation: id}, protocol.Leased{Prepared: "lower"}, protocol.AnchorMounted{Generation: id},
		protocol.HelperStarted{Generation: id}, protocol.NetworkReady{Generation: id, Network: "n", Readiness: "r"},
		protocol.SandboxStarted{Generation: id}, protocol.TrustIssued{}, protocol.PolicyVerified{}, protocol.Published{},
		protocol.Register{Session: "a", Generation: id, Fingerprint: "f"}, protocol.Attached{Session: "a"},
		protocol.Register{Session: "b", Generation: id, Fingerprint: "f"}, protocol.Attached{Session: "b"},
		protocol.Closed{Session: "a"}, protocol.Ended{Session: "a"},
		protocol.StopRequested{Reason: "it was asked for"},
		protocol.ComponentStopped{Generation: id, Component: protocol.ComponentSandbox},
		protocol.ComponentStopped{Generation: id, Component: protocol.ComponentNetwork},
		protocol.ComponentStopped{Generation: id, Component: protocol.ComponentAnchor},
		protocol.SupervisorGone{Generation: id, Reason: "it has gone"},
	)
	c.trace.Over("ended")
}

var number = regexp.MustCompile(`"step":[0-9]+,`)

func replay(text string) (trace.Replayed, error) { return trace.Replay(strings.NewReader(text)) }

func lines(text string) []string { return slices.Collect(strings.Lines(text)) }

func TestReplay(t *testing.T) {
	c := newCoordinator(t)
	c.recover()
	c.serve()
	r, err := replay(c.text.String())
	if err != nil || r.Steps != 26 || r.Recoveries != 1 || trace.Digest(r.State) != trace.Digest(c.state) {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := replay(""); err != nil || r.Steps != 0 {
		t.Errorf("of nothing: %+v, %v", r, err)
	}
}

// A coordinator may be killed at any byte of its log.
func TestReplayOfAKilledCoordinator(t *testing.T) {
	c := newCoordinator(t)
	c.recover()
	c.serve()
	text := c.text.String()
	for end := 0; end < len(text); end += 13 {
		if _, err := replay(text[:end]); err != nil {
			t.Fatalf("cut at byte %d: %v", end, err)
		}
	}
}

// A trace that is not what has happened is refused: each line is left out,
// written twice, exchanged with the next, and altered in each of its parts.
func TestReplayRefusesOtherTraces(t *testing.T) {
	c := newCoordinator(t)
	c.recover()
	c.serve()
	all := lines(c.text.String())
	refused := func(what string, n int, changed ...string) {
		t.Helper()
		text := strings.Join(all[:n], "") + strings.Join(changed, "")
		if r, err := replay(text); err == nil {
			t.Errorf("%s: replayed in %d steps; line %d was %s", what, r.Steps, n+1, all[n])
		}
	}
	rest := func(n int) string { return strings.Join(all[min(n, len(all)):], "") }
	steps := 0
	for n, l := range all {
		if !strings.Contains(l, `"msg":"event"`) {
			continue
		}
		steps++
		refused("left out", n, rest(n+1))
		refused("twice", n, l, l, rest(n+1))
		if strings.Contains(all[n+1], `"msg":"event"`) {
			refused("exchanged", n, all[n+1], l, rest(n+2))
		}
		for _, field := range []string{"event", "from", "to", "state"} {
			_, v, _ := strings.Cut(l, `"`+field+`":"`)
			v, _, _ = strings.Cut(v, `"`)
			refused("another "+field, n, strings.Replace(l, `"`+field+`":"`+v+`"`, `"`+field+`":"Absent2"`, 1), rest(n+1))
			refused("no "+field, n, strings.Replace(l, `"`+field+`":"`+v+`"`, `"x":""`, 1), rest(n+1))
		}
		refused("another step", n, strings.Replace(l, `"step":`, `"step":1`, 1), rest(n+1))
		for _, value := range []string{`"g1"`, `"a"`, `"b"`, `"n"`, `"sandbox"`, `"network"`, `"supervisor"`} {
			if strings.Contains(l, `:`+value) {
				refused("another "+value, n, strings.Replace(l, `:`+value, `:"other"`, 1), rest(n+1))
			}
		}
	}
	if steps != 26 {
		t.Errorf("%d steps", steps)
	}
	// The model notices by itself: the steps are numbered as if nothing were
	// missing.
	renumbered := func(ls []string) string {
		n := 0
		return number.ReplaceAllStringFunc(strings.Join(ls, ""), func(string) string { n++; return fmt.Sprintf(`"step":%d,`, n) })
	}
	for n, l := range all {
		if !strings.Contains(l, `"msg":"event"`) || strings.Contains(all[n+1], "SupervisorGone") { // which takes along what was not reported
			continue
		}
		without := slices.Delete(slices.Clone(all), n, n+1)
		if _, err := replay(renumbered(without)); err == nil {
			t.Errorf("the model does not miss %s", l)
		}
	}
	refused("another record", 0, strings.Replace(all[0], "Owned", "Intended", 1), rest(1))
	refused("a record of nothing", 0, strings.Replace(all[0], `"g0"`, `""`, 1), rest(1))
	refused("a recovery without a record", 0, `{"msg":"recovering"}`+"\n", rest(1))
	refused("no recovery", 0, rest(1))
	refused("a recovery that is late", 2, all[0], rest(2))
	refused("no line of ours", 1, "panic: no\n", rest(1))
	refused("an end before the end", 20, all[len(all)-1])
}

// An event that was not taken is a fault of the coordinator's too.
func TestReplayRefusesIllegalEvents(t *testing.T) {
	c := newCoordinator(t)
	_, _, err := protocol.Next(c.state, protocol.Published{})
	c.trace.Illegal(c.state, protocol.Published{}, err)
	if _, err := replay(c.text.String()); err == nil || !strings.Contains(err.Error(), "illegal event Published") {
		t.Error(err)
	}
}

// Whatever differs in a state differs in its digest.
func TestDigest(t *testing.T) {
	change := func(f func(*protocol.State)) protocol.State {
		s := protocol.Initial()
		f(&s)
		return s
	}
	seen := map[string]string{}
	for _, s := range []protocol.State{
		protocol.Initial(),
		protocol.Left(protocol.Record{Generation: "g"}),
		protocol.Left(protocol.Record{Generation: "g", Lease: "lower"}),
		protocol.Left(protocol.Record{Generation: "g", Intents: map[protocol.Role]protocol.Intent{protocol.RoleHost: protocol.Owned}}),
		change(func(s *protocol.State) { s.Previous = "g" }),
		change(func(s *protocol.State) { s.IDs.Network = "g" }),
		change(func(s *protocol.State) { s.Verified = true }),
		change(func(s *protocol.State) {
			s.Intents = map[protocol.Role]protocol.Intent{protocol.RoleHost: protocol.Owned}
		}),
		change(func(s *protocol.State) { s.Sessions = map[string]protocol.Session{"a": {Active: "r"}} }),
		change(func(s *protocol.State) { s.Sessions = map[string]protocol.Session{"b": {Active: "r"}} }),
		change(func(s *protocol.State) { s.Requests = map[string]protocol.Request{"r": {Session: "a"}} }),
		change(func(s *protocol.State) { s.Requests = map[string]protocol.Request{"r": {Command: "a"}} }),
	} {
		d := trace.Digest(s)
		if was, ok := seen[d]; ok || len(d) != 16 {
			t.Errorf("%+v and %s have the digest %q", s, was, d)
		}
		seen[d] = fmt.Sprintf("%+v", s)
	}
}

// A log is read back for what it holds, whatever that is.
func FuzzReplay(f *testing.F) {
	f.Add([]byte("{}\n"))
	f.Add([]byte(`{"msg":"recovering","record":{"generation":"g","intents":{"anchor":"Owned"}}}` + "\n"))
	f.Add([]byte(`{"msg":"event","step":1,"event":"Recover","detail":{},"from":"Absent","to":"Recovering","state":"0123456789abcdef"}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := trace.Replay(bytes.NewReader(b))
		if r.Steps > bytes.Count(b, []byte("\n")) || err == nil && r.Steps > 0 && !bytes.Contains(b, []byte(trace.Digest(r.State))) {
			t.Errorf("%+v, %v", r, err)
		}
	})
}
