// Package ignored asks a Domain about the paths that Git ignores: its running
// coordinator, or else, under the Domain lock, the supervisor that reads the
// Domain's record. It decides nothing, and shows nothing that the sandbox chose
// without quoting it. It runs in the CLI.
package ignored

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/config"
	"lazaret.dev/lazaret/host/internal/control"
	"lazaret.dev/lazaret/host/internal/generation"
	"lazaret.dev/lazaret/host/internal/paths"
	"lazaret.dev/lazaret/host/internal/plan"
	"lazaret.dev/lazaret/host/internal/resolve"
	"lazaret.dev/lazaret/host/internal/spawn"
	"lazaret.dev/lazaret/protocol/isolation"
)

// While a Domain starts or ends it can be asked in neither way; that is looked
// at again, and not for ever.
const (
	patience = 20 * time.Second
	poll     = 50 * time.Millisecond
)

// Error is the answer that a question has none.
type Error struct{ Text, Fix string }

func (e *Error) Error() string { return e.Text }

// Hint says what to do.
func (e *Error) Hint() string { return e.Fix }

// Ask asks the Domain.
func Ask(ctx context.Context, d *config.Domain, req isolation.Request) (*isolation.Answer, error) {
	data, err := paths.Current().OpenDataRoot(d.DataRoot)
	if err != nil {
		return nil, err
	}
	root, err := data.Domain(d.ID)
	if err != nil {
		return nil, err
	}
	if _, err := root.ReadRecord(); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, &Error{
				Text: fmt.Sprintf("profile %s has not run in %q yet", d.Profile, d.Workspace.Path),
				Fix:  "lazaret run starts it; --profile and --workspace name another",
			}
		}
		return nil, err
	}
	a, err := ask(ctx, d, root, req)
	if err == nil && a.Error != "" {
		err = &Error{a.Error, a.Hint}
	}
	return a, err
}

func ask(ctx context.Context, d *config.Domain, root paths.DomainRoot, req isolation.Request) (*isolation.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		lock, err := root.OpenLock()
		if err != nil {
			return nil, err
		}
		conn, err := generation.Dial(ctx, paths.Current(), d.Profile, d.ID, generation.ReadHolder(lock))
		if err == nil {
			_ = lock.Close()
			return control.Ignored(conn, req)
		}
		if !errors.Is(err, control.ErrNotPublished) {
			_ = lock.Close()
			return nil, err
		}
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			a, err := atRest(ctx, d, root, req)
			return a, errors.Join(err, lock.Close())
		}
		holder := generation.ReadHolder(lock)
		_ = lock.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock the Domain: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil, &Error{"the Domain is held by " + holder.String() + " and does not answer", "wait for it, or end that process"}
		case <-time.After(poll):
		}
	}
}

// atRest asks about a Domain whose lock is held.
func atRest(ctx context.Context, d *config.Domain, root paths.DomainRoot, req isolation.Request) (*isolation.Answer, error) {
	_, facts, err := resolve.Facts(d) //nolint:contextcheck // looks at files; nothing in it waits
	if err != nil {
		return nil, err
	}
	view, err := plan.View(d, root)
	if err != nil {
		return nil, err
	}
	git, err := plan.Git(ctx, &generation.Request{Domain: *d, Tools: facts.Tools}, func(string) {})
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(isolation.AtRest{
		Request: req, View: view, Workspace: d.Workspace, HostGit: git.Host, Excludes: git.Excludes,
	})
	if err != nil {
		return nil, fmt.Errorf("ask about ignored paths: %w", err)
	}
	// The supervisor runs itself, in a user namespace.
	inside := spawn.Enter{Supervisor: facts.Tools.Supervisor, Executable: facts.Tools.Supervisor, Mapping: spawn.NewMapping(facts)}
	var out bytes.Buffer
	if err := inside.Run(ctx, isolation.AtRestMode, b, nil, &out); err != nil {
		return nil, fmt.Errorf("cannot read the Domain's record: %w", err)
	}
	dec := json.NewDecoder(&out)
	dec.DisallowUnknownFields()
	var a isolation.Answer
	if err := dec.Decode(&a); err != nil {
		return nil, fmt.Errorf("read the answer about ignored paths: %w", err)
	}
	return &a, nil
}
