package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"lazaret.dev/lazaret/protocol"
)

// Replayed is what a log has shown.
type Replayed struct {
	Steps      int            // events that the coordinator took
	Recoveries int            // of dead generations
	State      protocol.State // after the last step
}

// line is a line of a coordinator's log, as far as a trace needs it.
type line struct {
	Msg    string               `json:"msg"`
	Step   int                  `json:"step"`
	Event  string               `json:"event"`
	Detail json.RawMessage      `json:"detail"`
	From   protocol.DomainPhase `json:"from"`
	To     protocol.DomainPhase `json:"to"`
	State  string               `json:"state"`
	Record json.RawMessage      `json:"record"`
	Err    string               `json:"err"`
}

// Replay takes the steps of a coordinator's log through protocol.Next. Its error
// says which line is no step of the protocol, or has led to another state than
// the coordinator says. A log may end anywhere, in the middle of a line too,
// since coordinators are killed; but what says that its generation is over has
// to have come to the end of it.
func Replay(log io.Reader) (Replayed, error) {
	r := Replayed{State: protocol.Initial()}
	lines := bufio.NewReader(log)
	for n := 1; ; n++ {
		b, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return r, nil
		}
		if err == nil {
			err = r.take(b)
		}
		if err != nil {
			return r, fmt.Errorf("line %d, %s: %w", n, bytes.TrimSpace(b), err)
		}
	}
}

// take takes one line.
func (r *Replayed) take(b []byte) error {
	var l line
	if err := json.Unmarshal(b, &l); err != nil {
		return fmt.Errorf("not a line of a coordinator's: %w", err)
	}
	switch l.Msg {
	case msgStep:
		return r.step(l)
	case msgIllegal:
		return fmt.Errorf("the coordinator was given an event that it could not take: %s", l.Err)
	case msgRecovering:
		return r.recovering(l)
	case msgOver:
		if s := r.State; s.Phase != protocol.Absent || s.Record != nil {
			return fmt.Errorf("the generation is in phase %s and has not ended", s.Phase)
		}
	}
	return nil
}

func (r *Replayed) step(l line) error {
	if l.Step != r.Steps+1 {
		return fmt.Errorf("it is step %d, and %d were taken", l.Step, r.Steps)
	}
	e, err := protocol.UnmarshalEvent(l.Event, l.Detail)
	if err != nil {
		return err
	}
	next, _, err := protocol.Next(r.State, e)
	switch {
	case err != nil:
		return err
	case l.From != r.State.Phase || l.To != next.Phase:
		return fmt.Errorf("it leads from %s to %s", r.State.Phase, next.Phase)
	case l.State != Digest(next):
		return fmt.Errorf("it leads to state %s: %+v", Digest(next), next)
	}
	r.State = next
	r.Steps++
	return nil
}

// recovering begins at what a dead generation has left. That is the first thing
// that a coordinator does, or never.
func (r *Replayed) recovering(l line) error {
	if r.Steps+r.Recoveries > 0 {
		return errors.New("a recovery comes before everything else")
	}
	record, err := protocol.UnmarshalRecord(l.Record)
	if err != nil {
		return err
	}
	r.State = protocol.Left(record)
	r.Recoveries++
	return nil
}
