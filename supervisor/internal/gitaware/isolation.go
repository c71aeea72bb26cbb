package gitaware

import (
	"bytes"
	"context"
	"errors"

	"lazaret.dev/lazaret/protocol/isolation"
	"lazaret.dev/lazaret/supervisor/internal/gitaware/internal/own"
	"lazaret.dev/lazaret/supervisor/internal/route"
)

// maxListed bounds how many paths an answer names.
const maxListed = 4000

// errChanged refuses to accept what nobody has seen.
var errChanged = errors.New("the rules have changed since they were reviewed, and nothing was accepted")

const changedHint = "lazaret ignore review shows how they are now"

// AtRest answers a question about a workspace that is not served.
func AtRest(ctx context.Context, o Options, req isolation.Request) (isolation.Answer, error) {
	a := &Aware{o: o, host: host{o.Host}}
	if err := a.route(); err != nil {
		return isolation.Answer{}, err
	}
	defer a.router.Close()
	return a.Answer(ctx, req), nil
}

// Answer answers a question. After an Accept without an error all places have
// to be looked at anew.
func (a *Aware) Answer(ctx context.Context, req isolation.Request) isolation.Answer {
	var out isolation.Answer
	var err error
	switch req.Verb {
	case isolation.List:
		out.Own, out.More, err = own.List(ctx, a.o.Own, maxListed, func(name string, isDir bool) bool {
			return a.router.Place(name, isDir) == route.Isolated
		})
	default:
		err = a.review(&out, req)
	}
	if err != nil {
		out = isolation.Answer{Error: err.Error()}
		if errors.Is(err, errChanged) {
			out.Hint = changedHint
		}
		return out
	}
	out.Fit()
	return out
}

// review says what Accept would share, and with that verb shares it.
func (a *Aware) review(out *isolation.Answer, req isolation.Request) error {
	c, err := a.router.Candidate()
	if err != nil {
		return err
	}
	defer c.Close()
	for _, r := range a.router.Relaxed() {
		x := isolation.Relaxation{File: []byte(r.File), Path: []byte(r.Path), Repo: []byte(r.Repo)}
		for _, line := range r.Lines {
			x.Lines = append(x.Lines, []byte(line))
		}
		out.Relaxed = append(out.Relaxed, x)
	}
	paths, more, err := a.router.Shares(c, maxListed)
	if err != nil {
		return err
	}
	out.More = more
	for _, p := range paths {
		out.Shared = append(out.Shared, []byte(p))
	}
	if out.Digest, err = out.Sum(); err != nil || req.Verb != isolation.Accept {
		return err
	}
	if !bytes.Equal(out.Digest, req.Reviewed) {
		return errChanged
	}
	return a.router.Accept(c)
}
