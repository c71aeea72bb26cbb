package domains

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lazaret.dev/lazaret/host/internal/control"
	"lazaret.dev/lazaret/host/internal/paths"
	pc "lazaret.dev/lazaret/protocol/control"
)

// askTimeout bounds how long one coordinator may take to answer. One that is
// stopped must not hide the others.
const askTimeout = 3 * time.Second

// Running is one Domain that answers.
type Running struct {
	Dir    string // its runtime directory
	Status pc.Status
}

// Unanswered is one Domain at whose sockets nothing answers as its coordinator.
type Unanswered struct {
	Domain
	Err error
}

// Error says which Domain it is, and what is there instead.
func (u *Unanswered) Error() string {
	return fmt.Sprintf("Domain %s (profile %s, workspace %q): %v", u.ID, u.Profile, u.Workspace, u.Err)
}

// Unwrap returns the reason.
func (u *Unanswered) Unwrap() error { return u.Err }

// Survey asks every published coordinator of this user, of one data root, what
// runs in its Domain. One that does not answer hides none of the others. It takes
// no lock: it reads the sockets of the runtime directories and the Domains' own
// records.
func Survey(ctx context.Context, dataRoot string) (found []Running, silent []*Unanswered, err error) {
	known := map[string]Domain{}
	for _, d := range Known(dataRoot) {
		known[d.ID] = d
	}
	for _, rt := range paths.Current().Runtimes() {
		ids, err := rt.Domains()
		if err != nil {
			return nil, nil, err
		}
		for _, id := range ids {
			d, ours := known[id]
			if !ours {
				continue // of another data root
			}
			dir := rt.DomainPath(id)
			st, err := ask(ctx, dir, d)
			switch {
			case ctx.Err() != nil:
				return nil, nil, ctx.Err()
			case errors.Is(err, control.ErrNotPublished):
			case err != nil:
				silent = append(silent, &Unanswered{Domain: d, Err: err})
			default:
				found = append(found, Running{Dir: dir, Status: *st})
			}
		}
	}
	slices.SortFunc(found, func(a, b Running) int {
		return cmp.Or(strings.Compare(a.Status.Workspace, b.Status.Workspace), strings.Compare(a.Status.Profile, b.Status.Profile))
	})
	return found, silent, nil
}

func ask(ctx context.Context, dir string, d Domain) (*pc.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	conn, err := control.Dial(ctx, dir, d.Profile, d.ID)
	if err != nil {
		return nil, err
	}
	return control.Ask(ctx, conn)
}
