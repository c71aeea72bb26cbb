// Package tidy removes what a Domain's dead generations have left on disk, and
// keeps the logs of the living one bounded.
//
// It removes only directories that are named as generations are, in the places
// of a Domain Root that are a generation's own, and never the one that its
// caller names as alive. It runs in the Host Coordinator, which holds the
// Domain lock: nobody else can have a living generation there.
package tidy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/image/program"
	"lazaret.dev/lazaret/host/internal/unpack"
)

// KeepLogs is how many generations' logs are kept.
const KeepLogs = 5

var generation = regexp.MustCompile(`^g[0-9a-f]{21}$`)

// generations lists the generations that have a directory in root, oldest
// first: their names sort by time.
func generations(root *os.Root) ([]string, error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() && generation.MatchString(e.Name()) {
			out = append(out, e.Name())
		}
	}
	slices.Sort(out)
	return out, nil
}

// Logs removes the logs of all but the newest generations from dir, which has
// one directory for each. The live one is kept whatever its age.
func Logs(dir, live string, keep int) error {
	root, err := openRoot(dir)
	if root == nil {
		return err
	}
	defer root.Close()
	all, err := generations(root)
	if err != nil {
		return fmt.Errorf("list logs: %w", err)
	}
	var errs []error
	for _, g := range all[:max(len(all)-keep, 0)] {
		if g != live {
			errs = append(errs, root.RemoveAll(g))
		}
	}
	return errors.Join(errs...)
}

// DeadTransients removes every generation's transient directory from dir but
// the live one's.
func DeadTransients(ctx context.Context, r program.Runner, dir, live string) error {
	root, err := openRoot(dir)
	if root == nil {
		return err
	}
	defer root.Close()
	all, err := generations(root)
	if err != nil {
		return fmt.Errorf("list transient directories: %w", err)
	}
	var errs []error
	for _, g := range all {
		if g != live && ctx.Err() == nil {
			errs = append(errs, Transient(ctx, r, dir, g))
		}
	}
	return errors.Join(errs...)
}

// Transient removes the transient directory of one generation that is over.
// What belongs to one of the sandbox's other ids, or is closed to its owner,
// only root of the user namespace can remove; the namespace costs a process,
// and is made only where there is such a thing.
func Transient(ctx context.Context, r program.Runner, dir, gen string) error {
	root, err := openRoot(dir)
	if root == nil {
		return err
	}
	defer root.Close()
	if err := root.RemoveAll(gen); err == nil {
		return nil
	}
	parent, err := root.Open(".")
	if err != nil {
		return fmt.Errorf("remove transient directory: %w", err)
	}
	defer parent.Close()
	req := unpack.RemoveRequest{Version: unpack.Version, Parent: 3, Name: gen}
	if err := program.Run(ctx, r, unpack.RemoveProgram, req, []*os.File{parent}, &program.Events{}); err != nil {
		return fmt.Errorf("remove transient directory: %w", err)
	}
	return nil
}

// openRoot opens a directory of the Domain Root without following a link. It is
// nil, without an error, where there is none.
func openRoot(dir string) (*os.Root, error) {
	if fi, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	} else if !fi.IsDir() {
		return nil, &os.PathError{Op: "open", Path: dir, Err: unix.ENOTDIR}
	}
	return os.OpenRoot(dir)
}
