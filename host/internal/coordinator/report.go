package coordinator

import (
	"os"
	"sync"

	"lazaret.dev/lazaret/protocol/control"
	"lazaret.dev/lazaret/protocol/wire"
)

// reporter tells the CLI that started this coordinator how the start goes, over
// the handshake: progress and warnings, then exactly one of ready and failed.
// A CLI that is gone is not told, and not waited for.
type reporter struct {
	supervisorLog *os.File
	logDir        string

	mu   sync.Mutex
	seq  *wire.Seq
	over bool
}

func (r *reporter) send(kind wire.Kind, body any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	_ = r.seq.Send(kind, body)
}

// finish sends the last message and closes the handshake.
func (r *reporter) finish(kind wire.Kind, body any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	r.over = true
	_ = r.seq.Send(kind, body)
	_ = r.seq.Close()
}

func (r *reporter) phase(p control.Phase) { r.send(control.KindProgress, control.Progress{Phase: p}) }

func (r *reporter) progress(p control.Progress) { r.send(control.KindProgress, p) }

func (r *reporter) warn(text string) { r.send(control.KindWarning, control.Warning{Text: text}) }

func (r *reporter) ready() { r.finish(control.KindReady, struct{}{}) }

func (r *reporter) failed(text, hint string) {
	r.finish(control.KindFailed, control.StartFailed{Error: text, Hint: hint, Log: r.logDir})
}
