package generation

import (
	"context"
	"errors"
	"fmt"
	"io"

	"lazaret.dev/lazaret/host/internal/spawn"
	"lazaret.dev/lazaret/protocol/control"
	"lazaret.dev/lazaret/protocol/faults"
	"lazaret.dev/lazaret/protocol/wire"
)

// Starter is told how a start goes.
type Starter interface {
	Progress(p control.Progress)
	Notice(text string)
}

// AwaitReady gives a coordinator its request and waits until it is ready. It
// runs in the CLI that starts the coordinator; when it returns early, the
// coordinator sees its starter gone and ends.
func AwaitReady(ctx context.Context, seq *wire.Seq, req *Request, s Starter) error {
	b, err := req.Encode()
	if err != nil {
		return err
	}
	f, err := spawn.SealedFile("start-request", b)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := seq.Send(control.KindStart, control.StartHeader{Version: RequestVersion, Size: int64(len(b))}, f); err != nil {
		return fmt.Errorf("start coordinator: %w", err)
	}
	faults.Point("start.cli.request-sent")
	stop := context.AfterFunc(ctx, func() { _ = seq.Close() })
	defer stop()
	for {
		p, err := seq.Recv()
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if errors.Is(err, io.EOF) {
				return &DiedError{log: req.LogDir}
			}
			return fmt.Errorf("start coordinator: %w", err)
		}
		p.CloseFiles()
		switch p.Kind {
		case control.KindProgress:
			var v control.Progress
			if err := p.Decode(&v); err != nil {
				return err
			}
			s.Progress(v)
		case control.KindWarning:
			var v control.Warning
			if err := p.Decode(&v); err != nil {
				return err
			}
			s.Notice(v.Text)
		case control.KindReady:
			faults.Point("start.cli.ready")
			return nil
		case control.KindFailed:
			var v control.StartFailed
			if err := p.Decode(&v); err != nil {
				return err
			}
			return &FailedError{v}
		default:
			return fmt.Errorf("start coordinator: %w: %s", wire.ErrUnexpected, p.Kind)
		}
	}
}

// FailedError is a coordinator's report of a start that failed.
type FailedError struct{ control.StartFailed }

func (e *FailedError) Error() string { return e.StartFailed.Error }

// Hint is the coordinator's own, or the place of the logs.
func (e *FailedError) Hint() string {
	if e.StartFailed.Hint != "" || e.Log == "" {
		return e.StartFailed.Hint
	}
	return "see the logs in " + e.Log
}

// DiedError reports a coordinator that ended without a word.
type DiedError struct{ log string }

func (e *DiedError) Error() string { return "the Host Coordinator ended while it started the Domain" }

// Hint names the logs.
func (e *DiedError) Hint() string { return "see the logs in " + e.log }
