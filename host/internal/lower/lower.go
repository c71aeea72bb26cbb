// Package lower provides a generation with its prepared lower: it has the
// profile's image prepared, and holds the lease on it.
//
// It knows no image format and mounts nothing. It runs in the Host Coordinator.
package lower

import (
	"context"
	"fmt"

	"lazaret.dev/lazaret/host/internal/generation"
	"lazaret.dev/lazaret/host/internal/image"
	"lazaret.dev/lazaret/host/internal/paths"
	"lazaret.dev/lazaret/host/internal/unpack"
	"lazaret.dev/lazaret/protocol/control"
)

// Prepare makes the profile's image ready, and says how far it is.
func Prepare(ctx context.Context, req *generation.Request, progress func(control.Progress), warn func(string)) (*image.Prepared, error) {
	return image.Prepare(ctx, image.Options{
		Ref: req.Domain.Image, DataRoot: req.Domain.DataRoot, Mapping: unpack.Mapping(req.Mapping.Mode),
		Runner:   req.Runner(),
		Progress: func(p image.Progress) { progress(progressOf(p)) },
		Warn:     warn,
	})
}

func progressOf(p image.Progress) control.Progress {
	out := control.Progress{Phase: control.PhasePull, Done: p.Done, Total: p.Total}
	if p.Phase == image.PhaseUnpack {
		out.Phase = control.PhaseUnpack
	}
	switch {
	case p.Phase == image.PhaseWait:
		out.Item = "another lazaret prepares this image"
	case p.Layers > 0:
		out.Item = fmt.Sprintf("layer %d of %d", p.Layer, p.Layers)
	}
	return out
}

// Acquire binds the generation to a prepared lower, durably.
func Acquire(ctx context.Context, req *generation.Request, prepared string) (*Lease, error) {
	if err := image.AcquireLease(ctx, req.Domain.DataRoot, prepared, req.Domain.ID, req.Generation); err != nil {
		return nil, err
	}
	return &Lease{dataRoot: req.Domain.DataRoot, id: prepared, domain: req.Domain.ID, generation: req.Generation}, nil
}

// LeasePath is where the lease's file will be.
func LeasePath(req *generation.Request, prepared string) (string, error) {
	root, err := paths.Current().OpenDataRoot(req.Domain.DataRoot)
	if err != nil {
		return "", err
	}
	dir, err := root.Prepared(prepared)
	if err != nil {
		return "", err
	}
	return dir.Lease(req.Domain.ID, req.Generation)
}

// Lease is a held prepared-lower lease.
type Lease struct{ dataRoot, id, domain, generation string }

// Close releases the lease, after the last mount of the tree is gone.
func (l *Lease) Close() error {
	return image.ReleaseLease(context.Background(), l.dataRoot, l.id, l.domain, l.generation)
}
