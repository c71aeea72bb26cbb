package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/handoff"
	"lazaret.dev/lazaret/protocol/isolation"
	"lazaret.dev/lazaret/protocol/launch"
	"lazaret.dev/lazaret/protocol/wire"
	"lazaret.dev/lazaret/supervisor/internal/fdfs"
	"lazaret.dev/lazaret/supervisor/internal/gitaware"
)

// maxQuestion bounds a question, in bytes.
const maxQuestion = 1 << 20

// tellLimit bounds how long the history is looked at for the report.
const tellLimit = 1500 * time.Millisecond

// answerLimit bounds how long a question may take.
const answerLimit = 5 * time.Second

// answer answers a question about ignored paths.
func (s *server) answer(p *wire.Packet) error {
	defer p.CloseFiles()
	var req isolation.Request
	if err := p.Decode(&req); err != nil || len(p.Files) > 0 {
		return &stepError{"handoff", errors.Join(wire.ErrUnexpected, err)}
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerLimit)
	defer cancel()
	a := s.aware.Answer(ctx, req)
	if req.Verb == isolation.Accept && a.Error == "" {
		s.view.Reroute()
	}
	s.rep.send(handoff.KindAnswer, a)
	return nil
}

// tell reports what a person should know of the repository: nothing inside can
// change it any more.
func (s *server) tell() {
	if s.aware == nil || s.runsc == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), tellLimit)
	defer cancel()
	r, err := s.aware.Findings(ctx)
	switch {
	case err != nil:
		s.rep.log.Error("findings", "error", err.Error())
	case !r.Empty():
		s.rep.send(handoff.KindFindings, r)
	}
}

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
		Path: q.Workspace.Path, Git: &q.HostGit, Excludes: q.Excludes, Isolate: q.View.Isolate, Expose: q.View.Expose,
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
