package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lazaret.dev/lazaret/host/internal/image/durable"
)

// Entry is one prepared lower, as `lazaret image ls` shows it.
type Entry struct {
	Prepared
	Refs   []string // references that mean it now
	Leases []Lease
	Used   time.Time // when it was last leased, released or made
}

// List returns the published artifacts, newest use first. It takes no lock.
func List(dataRoot string) ([]Entry, error) {
	es, err := os.ReadDir(preparedDir(dataRoot))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("list prepared images: %w", err)
	}
	refs, err := records(dataRoot)
	if err != nil {
		return nil, err
	}
	var list []Entry
	for _, e := range es {
		p, err := load(dataRoot, e.Name())
		if errors.Is(err, ErrNotPrepared) {
			continue
		}
		if err != nil {
			return nil, err
		}
		entry := Entry{Prepared: *p, Used: p.Created}
		if entry.Leases, err = leases(dataRoot, p.ID); err != nil {
			return nil, err
		}
		if fi, err := os.Stat(filepath.Join(preparedDir(dataRoot), p.ID, "leases")); err == nil && fi.ModTime().After(entry.Used) {
			entry.Used = fi.ModTime()
		}
		for _, r := range refs {
			if artifactID(r.ConfigDigest, p.Mapping) == p.ID {
				entry.Refs = append(entry.Refs, r.Ref)
			}
		}
		list = append(list, entry)
	}
	slices.SortFunc(list, func(a, b Entry) int { return b.Used.Compare(a.Used) })
	return list, nil
}

// LeasedError reports an artifact that is in use.
type LeasedError struct {
	ID     string
	Leases []Lease
}

// Error implements error.
func (e *LeasedError) Error() string {
	var by []string
	for _, l := range e.Leases {
		by = append(by, l.Domain+"."+l.Generation)
	}
	return fmt.Sprintf("prepared image %.12s is in use by %s", e.ID, strings.Join(by, ", "))
}

// Hint implements the error hint.
func (e *LeasedError) Hint() string { return "end the sandboxes that use it" }

// Remove removes a prepared lower that no lease names, else it returns a
// *LeasedError. The caller has ended the leases of dead generations.
func Remove(ctx context.Context, dataRoot, id string, r Runner) error {
	if _, err := load(dataRoot, id); err != nil {
		return err
	}
	lock, err := lockArtifact(ctx, dataRoot, id, nil)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // releases the lock
	p, err := load(dataRoot, id)
	if err != nil {
		return err
	}
	ls, err := leases(dataRoot, id)
	if err != nil {
		return err
	}
	if len(ls) > 0 {
		return &LeasedError{ID: id, Leases: ls}
	}
	if err := recoverIntent(ctx, dataRoot, id, r); err != nil {
		return err
	}
	in, err := newIntent(dataRoot, id, p.RootPath)
	if err != nil {
		return err
	}
	// From the rename on, the artifact is not published.
	if err := durable.Rename(p.RootPath, in.tree()); err != nil {
		return errors.Join(fmt.Errorf("withdraw prepared tree: %w", err), in.end())
	}
	if err := in.abandon(ctx, r); err != nil {
		return err
	}
	return removeShell(in.dir)
}

// removeShell removes an artifact's directory once its tree is gone. The lock
// goes last: a process that waits for it finds that its file is not the one at
// the path any more. What else is there is foreign and stays.
func removeShell(dir string) error {
	_ = os.Remove(filepath.Join(dir, "meta.json"))
	_ = os.Remove(filepath.Join(dir, "leases"))
	es, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("remove prepared image: %w", err)
	}
	if len(es) != 1 || es[0].Name() != "lock" {
		return nil
	}
	if err := os.Remove(filepath.Join(dir, "lock")); err != nil {
		return fmt.Errorf("remove prepared image: %w", err)
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrExist) && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove prepared image: %w", err)
	}
	return durable.SyncDir(filepath.Dir(dir))
}

// Reclaim removes the trees that dead processes left on their way in or out. It
// passes over every artifact that another process works on, and leaves
// everything alone that no intent names. It returns how many it removed.
func Reclaim(ctx context.Context, dataRoot string, r Runner) (int, error) {
	es, err := os.ReadDir(preparedDir(dataRoot))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("list prepared images: %w", err)
	}
	n := 0
	var errs []error
	for _, e := range es {
		id, ok := strings.CutSuffix(e.Name(), ".intent")
		if !ok || !artifactName.MatchString(id) {
			continue
		}
		switch err := reclaimOne(ctx, dataRoot, id, r); {
		case errors.Is(err, durable.ErrHeld):
		case err != nil:
			errs = append(errs, err)
		default:
			n++
		}
	}
	return n, errors.Join(errs...)
}

func reclaimOne(ctx context.Context, dataRoot, id string, r Runner) error {
	dir := filepath.Join(preparedDir(dataRoot), id)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("lock prepared image: %w", err)
	}
	lock, err := durable.TryLock(filepath.Join(dir, "lock"))
	if err != nil {
		return fmt.Errorf("lock prepared image: %w", err)
	}
	defer lock.Close() //nolint:errcheck // releases the lock
	if err := recoverIntent(ctx, dataRoot, id, r); err != nil {
		return err
	}
	if _, err := load(dataRoot, id); errors.Is(err, ErrNotPrepared) {
		return removeShell(dir)
	}
	return nil
}
