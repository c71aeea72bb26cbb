package supervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/isolation"
	"lazaret.dev/lazaret/protocol/launch"
	"lazaret.dev/lazaret/supervisor/internal/fdfs"
	"lazaret.dev/lazaret/supervisor/internal/gitaware"
)

// maxQuestion bounds a question, in bytes.
const maxQuestion = 1 << 20

// atRest answers one question about a Domain that does not run, whose lock the
// caller's caller holds. It is meant to run in a user namespace, where the files
// of subordinate ids can be read.
func atRest(in io.Reader, out io.Writer) error {
	d := json.NewDecoder(io.LimitReader(in, maxQuestion))
	d.DisallowUnknownFields()
	var q isolation.AtRest
	if err := d.Decode(&q); err != nil {
		return fmt.Errorf("read the question: %w", err)
	}
	a, err := askAtRest(&q)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(a); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	return nil
}

func askAtRest(q *isolation.AtRest) (isolation.Answer, error) {
	var a isolation.Answer
	o := gitaware.Options{
		Path: q.Workspace.Path, Home: q.View.Home, XDGConfig: q.View.XDGConfig, Isolate: q.View.Isolate, Expose: q.View.Expose,
		Log: slog.New(slog.DiscardHandler),
	}
	for _, x := range []struct {
		ref launch.Ref
		fd  *int
	}{{q.Workspace, &o.Host}, {q.View.Ignored, &o.Own}, {q.View.Record, &o.Record}} {
		fd, err := fdfs.OpenRef(x.ref)
		if err != nil {
			return a, err
		}
		defer func() { _ = unix.Close(fd) }()
		*x.fd = fd
	}
	// The record is opened for reading: it is synced.
	record, err := fdfs.Open(o.Record, ".", unix.O_RDONLY|unix.O_DIRECTORY, true)
	if err != nil {
		return a, err
	}
	defer func() { _ = unix.Close(record) }()
	o.Record = record
	ctx, cancel := context.WithTimeout(context.Background(), answerLimit)
	defer cancel()
	return gitaware.AtRest(ctx, o, q.Request)
}
