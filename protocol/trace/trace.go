// Package trace is the trace of a Host Coordinator: the lines of its log that
// say which event it has taken in which state, and the replay of these lines
// through protocol.Next.
//
// The coordinator writes; what replays are the tests, each end-to-end test for
// what its own coordinators have done. Writer and reader are side by side, so
// that they mean the same. The package writes to the logger that it is given,
// decides nothing, and puts nothing of a session's command or bytes into a log.
package trace

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"

	"lazaret.dev/lazaret/protocol"
)

// The messages of the lines that make a trace. Other lines are none of it.
const (
	msgStep       = "event"
	msgIllegal    = "illegal event"
	msgRecovering = "recovering"
	msgOver       = "generation over"
)

// Writer writes the trace of one coordinator. It belongs to the goroutine that
// takes the events.
type Writer struct {
	log   *slog.Logger
	steps int
}

// New returns the writer of a trace that begins in protocol.Initial().
func New(log *slog.Logger) *Writer { return &Writer{log: log} }

// Step notes that e has led from one state to the next.
func (w *Writer) Step(was protocol.State, e protocol.Event, now protocol.State) {
	w.steps++
	w.log.Debug(msgStep, "step", w.steps, "event", protocol.EventName(e), "detail", e, "from", was.Phase, "to", now.Phase, "state", Digest(now))
}

// Illegal notes an event that the protocol does not allow in a state, and that
// was not taken.
func (w *Writer) Illegal(was protocol.State, e protocol.Event, err error) {
	w.log.Error(msgIllegal, "event", protocol.EventName(e), "detail", e, "phase", was.Phase, "err", err)
}

// Recovering notes that the trace begins in protocol.Left(r) instead.
func (w *Writer) Recovering(r protocol.Record) {
	w.log.Warn(msgRecovering, "record", r)
}

// Over notes that nothing of a generation is left, and how it ended.
func (w *Writer) Over(outcome string) {
	w.log.Info(msgOver, "outcome", outcome)
}

// Digest is short for a whole state: two states with one digest are the same.
func Digest(s protocol.State) string {
	b, err := json.Marshal(s) // the keys of its maps are sorted
	if err != nil {
		return "" // which no line of a trace has
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}
