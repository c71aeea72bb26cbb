package supervisor

import (
	"errors"
	"log/slog"
	"os"

	"lazaret.dev/lazaret/protocol/handoff"
	"lazaret.dev/lazaret/protocol/wire"
)

// reporter tells the Host Coordinator and the log what happens.
type reporter struct {
	seq *wire.Seq
	log *slog.Logger
}

func newReporter(seq *wire.Seq, log *os.File) *reporter {
	return &reporter{seq: seq, log: slog.New(slog.NewTextHandler(log, nil))}
}

// send sends a message. A Host Coordinator that is gone is noticed by the
// lease, so that a failure is only logged.
func (r *reporter) send(kind wire.Kind, body any) {
	if err := r.seq.Send(kind, body); err != nil {
		r.log.Warn("message not delivered", "kind", string(kind), "error", err.Error())
		return
	}
	r.log.Info("sent", "kind", string(kind))
}

// failed is the one report of an error that ends the generation.
func (r *reporter) failed(step string, err error) {
	r.log.Error("failed", "step", step, "error", err.Error())
	f := handoff.Failed{Step: step, Error: err.Error()}
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		f.Hint = h.Hint()
	}
	r.send(handoff.KindFailed, f)
}

// stepError is an error with the step that the Host Coordinator is told.
type stepError struct {
	step string
	err  error
}

func (e *stepError) Error() string { return e.step + ": " + e.err.Error() }

func (e *stepError) Unwrap() error { return e.err }

// failure reports err under its step.
func (r *reporter) failure(err error) {
	if s, ok := errors.AsType[*stepError](err); ok {
		r.failed(s.step, s.err)
		return
	}
	r.failed("handoff", err)
}
