package unpack

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// reporter writes events. A write that fails ends the program through finish:
// nobody is left to unpack for.
type reporter struct {
	out   io.Writer
	last  time.Time
	notes int
	bytes int64
	err   error
}

func newReporter(out io.Writer) *reporter { return &reporter{out: out} }

func (r *reporter) send(e Event) {
	if r.err != nil {
		return
	}
	b, err := json.Marshal(e)
	if err == nil {
		_, err = r.out.Write(append(b, '\n'))
	}
	if err != nil {
		r.err = fmt.Errorf("report to the host: %w", err)
	}
}

// progress reports at most ten times a second; a layer's end, which is
// reported once, it leaves to end.
func (r *reporter) progress(layer int, done, total int64) {
	if now := time.Now(); done < total && now.Sub(r.last) >= 100*time.Millisecond {
		r.last = now
		r.send(Event{Kind: EventProgress, Layer: layer, Done: done, Total: total})
	}
}

// end reports that a layer is applied.
func (r *reporter) end(layer int, total int64) {
	r.send(Event{Kind: EventProgress, Layer: layer, Done: total, Total: total})
}

func (r *reporter) noter(layer int) func(entry, what string) {
	return func(entry, what string) {
		r.notes++
		if r.notes > maxNotes {
			return
		}
		if len(entry) > 1024 {
			entry = entry[:1024]
		}
		r.send(Event{Kind: EventNote, Layer: layer, Entry: quote(entry), What: printable(what)})
	}
}

// finish sends the last event and returns err, or why reporting failed.
func (r *reporter) finish(err error) error {
	if err != nil {
		msg := printable(err.Error())
		if len(msg) > maxEvent/4 {
			msg = msg[:maxEvent/4]
		}
		r.send(Event{Kind: EventFailed, Code: errorCode(err), Message: msg})
		return err
	}
	r.send(Event{Kind: EventDone, Notes: r.notes, Bytes: r.bytes})
	return r.err
}
