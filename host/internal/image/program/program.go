// Package program runs the programs of package unpack, which work on the files
// of an image inside a user namespace, and turns what they report into errors.
//
// It starts no process itself: a Runner does. What a program reports is not
// believed more than it must be, since it has parsed a hostile image. It runs in
// the Host Coordinator and in image commands.
package program

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/image/fault"
	"lazaret.dev/lazaret/host/internal/unpack"
)

// Runner runs a program of package unpack as root of a user namespace with the
// id mapping that Options.Mapping names.
type Runner interface {
	// Run executes `lazaret <program>` with request on descriptor 0, stdout on
	// descriptor 1 and files from descriptor 3 on, and waits for it. When ctx
	// ends, or the caller's process does, the program is ended. Run does not
	// close files. An error means that the program could not be run or did not
	// exit with status 0; what the program itself reports comes by stdout.
	Run(ctx context.Context, program string, request []byte, files []*os.File, stdout io.Writer) error
}

// Run runs a program of package unpack and returns its failure, or the
// runner's, as an error.
func Run(ctx context.Context, r Runner, name string, req any, files []*os.File, ev *Events) error {
	b, err := json.Marshal(req)
	if err != nil {
		return fmt.Errorf("encode request of %s: %w", name, err)
	}
	err = r.Run(ctx, name, b, files, ev)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("run %s: %w", name, context.Cause(ctx))
	case ev.Last.Kind == unpack.EventFailed:
		return programError(ev.Last)
	case err != nil:
		return fmt.Errorf("run %s: %w", name, err)
	case ev.Last.Kind != unpack.EventDone:
		return fmt.Errorf("run %s: it ended without a result", name)
	}
	return nil
}

// programError turns a reported failure into an error with the same meaning.
func programError(e unpack.Event) error {
	err := errors.New(e.Message)
	switch e.Code {
	case unpack.ErrDiskFull:
		return fmt.Errorf("unpack image: %s: %w", e.Message, unix.ENOSPC)
	case unpack.ErrDigest, unpack.ErrDiffID:
		return &fault.Error{
			Code: fault.Digest, Message: "image data does not match its digest",
			Fix: "try again; if it stays, the image is damaged where it comes from", Err: err,
		}
	case unpack.ErrLayer:
		return &fault.Error{
			Code: fault.Malformed, Message: "image has a layer that cannot be unpacked",
			Fix: "the image is damaged or hostile; build or pull it anew", Err: err,
		}
	default:
		return fmt.Errorf("unpack image: %w", err)
	}
}

// maxLine bounds a line of a program; see unpack.DecodeEvent.
const maxLine = 128 << 10

// Events reads a program's reports. It implements io.Writer.
type Events struct {
	OnProgress func(unpack.Event)
	buf        []byte
	Last       unpack.Event
	Notes      []unpack.Event // the first ones
}

// Write consumes the whole lines of p and keeps the rest.
func (ev *Events) Write(p []byte) (int, error) {
	ev.buf = append(ev.buf, p...)
	for {
		line, rest, ok := bytes.Cut(ev.buf, []byte("\n"))
		if !ok {
			break
		}
		e, err := unpack.DecodeEvent(line)
		if err != nil {
			return 0, err
		}
		ev.buf = rest
		ev.take(e)
	}
	if len(ev.buf) > maxLine {
		return 0, errors.New("program reports a line without end")
	}
	return len(p), nil
}

func (ev *Events) take(e unpack.Event) {
	ev.Last = e
	switch e.Kind {
	case unpack.EventProgress:
		if ev.OnProgress != nil {
			ev.OnProgress(e)
		}
	case unpack.EventNote:
		if len(ev.Notes) < 1000 {
			ev.Notes = append(ev.Notes, e)
		}
	case unpack.EventDone, unpack.EventFailed: // the last one; the caller judges it
	}
}
