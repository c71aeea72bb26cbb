package generation

import (
	"context"
	"sync"

	"lazaret.dev/lazaret/protocol/control"
	"lazaret.dev/lazaret/protocol/wire"
)

// Reporter is the coordinator's side of what AwaitReady waits for: it tells the
// CLI that started this coordinator how the start goes, progress and warnings,
// then exactly one of ready and failed. A CLI that is gone is not told, and not
// waited for. Its methods are safe for concurrent use.
type Reporter struct {
	mu   sync.Mutex
	seq  *wire.Seq
	over bool
}

// NewReporter returns a reporter that owns seq.
func NewReporter(seq *wire.Seq) *Reporter { return &Reporter{seq: seq} }

// Watch calls gone if the CLI leaves before the last message. It returns when
// the conversation is over.
func (r *Reporter) Watch(gone context.CancelFunc) {
	for {
		p, err := r.seq.Recv()
		if err != nil {
			break
		}
		p.CloseFiles()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		gone()
	}
}

func (r *Reporter) send(kind wire.Kind, body any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	_ = r.seq.Send(kind, body)
}

// finish sends the last message and closes the handshake.
func (r *Reporter) finish(kind wire.Kind, body any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	r.over = true
	_ = r.seq.Send(kind, body)
	_ = r.seq.Close()
}

// Progress reports a step of the start.
func (r *Reporter) Progress(p control.Progress) { r.send(control.KindProgress, p) }

// Warn says something to the person who started the Domain.
func (r *Reporter) Warn(text string) { r.send(control.KindWarning, control.Warning{Text: text}) }

// Ready is the last message of a start that succeeded.
func (r *Reporter) Ready() { r.finish(control.KindReady, struct{}{}) }

// Failed is the last message of one that failed. log is the directory of the
// generation's logs, or empty.
func (r *Reporter) Failed(text, hint, log string) {
	r.finish(control.KindFailed, control.StartFailed{Error: text, Hint: hint, Log: log})
}
