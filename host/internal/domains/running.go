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

// Survey asks every published coordinator of this user, of one data root, what
// runs in its Domain. It takes no lock: it reads the sockets of the runtime
// directories and the Domains' own records.
func Survey(ctx context.Context, dataRoot string) ([]Running, error) {
	h := paths.Current()
	profiles := h.Profiles(dataRoot)
	var out []Running
	for _, rt := range h.Runtimes() {
		ids, err := rt.Domains()
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			profile, known := profiles[id]
			if !known {
				continue // of another data root
			}
			dir := rt.DomainPath(id)
			st, err := ask(ctx, dir, profile, id)
			if errors.Is(err, control.ErrNotPublished) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("ask the coordinator of Domain %s: %w", id, err)
			}
			out = append(out, Running{Dir: dir, Status: *st})
		}
	}
	slices.SortFunc(out, func(a, b Running) int {
		return cmp.Or(strings.Compare(a.Status.Workspace, b.Status.Workspace), strings.Compare(a.Status.Profile, b.Status.Profile))
	})
	return out, nil
}

func ask(ctx context.Context, dir, profile, id string) (*pc.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	conn, err := control.Dial(ctx, dir, profile, id)
	if err != nil {
		return nil, err
	}
	return control.Ask(conn)
}
