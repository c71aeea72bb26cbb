package gitaware

import (
	"bytes"
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/isolation"
	"lazaret.dev/lazaret/supervisor/internal/fdfs"
	"lazaret.dev/lazaret/supervisor/internal/route"
)

// The limits of a listing: on what is looked at, and on what is listed.
const (
	maxLook   = 100_000
	maxListed = 4000
)

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
		err = a.list(ctx, &out)
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

// list says what the Domain has for its own; a directory stands for all that is
// in it.
func (a *Aware) list(ctx context.Context, out *isolation.Answer) error {
	looked := 0
	dirs := []string{""}
	for len(dirs) > 0 {
		dir := dirs[len(dirs)-1]
		dirs = dirs[:len(dirs)-1]
		fd, err := fdfs.Open(a.o.Own, dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, true)
		if gone(err) {
			continue
		}
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), dir)
		entries, err := f.ReadDir(-1)
		_ = f.Close()
		if err != nil {
			return err
		}
		if looked += len(entries); looked > maxLook || ctx.Err() != nil {
			out.More += len(entries) + len(dirs)
			return nil
		}
		for _, e := range entries {
			name := e.Name()
			if dir != "" {
				name = dir + "/" + name
			}
			place := a.router.Place(name, e.IsDir())
			switch {
			case e.IsDir() && place != route.Isolated:
				dirs = append(dirs, name)
			case len(out.Own) >= maxListed:
				out.More++
			default:
				out.Own = append(out.Own, isolation.Entry{Path: []byte(name), Dir: e.IsDir(), Unused: place != route.Isolated})
			}
		}
	}
	return nil
}
