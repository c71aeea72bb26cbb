package coordinator

import (
	"context"
	"fmt"

	"lazaret.dev/lazaret/host/internal/generation"
	"lazaret.dev/lazaret/host/internal/image"
	"lazaret.dev/lazaret/host/internal/paths"
	"lazaret.dev/lazaret/host/internal/unpack"
	"lazaret.dev/lazaret/protocol/control"
)

// preparedImage is a prepared lower that this generation is going to use.
type preparedImage struct {
	*image.Prepared
}

// prepareImage makes the profile's image ready, telling the starting CLI how
// far it is.
func prepareImage(ctx context.Context, req *generation.Request, r *reporter) (*preparedImage, error) {
	p, err := image.Prepare(ctx, image.Options{
		Ref: req.Domain.Image, DataRoot: req.Domain.DataRoot, Mapping: unpack.Mapping(req.Mapping.Mode),
		Runner:   req.Runner(),
		Progress: func(p image.Progress) { r.progress(progressOf(p)) },
		Warn:     r.warn,
	})
	if err != nil {
		return nil, err
	}
	return &preparedImage{p}, nil
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

// acquire binds the generation to the prepared lower, durably. Its Close gives
// the lease back.
func (p *preparedImage) acquire(ctx context.Context, req *generation.Request) (*lease, error) {
	if err := image.AcquireLease(ctx, req.Domain.DataRoot, p.ID, req.Domain.ID, req.Generation); err != nil {
		return nil, err
	}
	return &lease{dataRoot: req.Domain.DataRoot, id: p.ID, domain: req.Domain.ID, generation: req.Generation}, nil
}

// leasePath is where the lease's file will be.
func (p *preparedImage) leasePath(req *generation.Request) (string, error) {
	root, err := paths.Current().OpenDataRoot(req.Domain.DataRoot)
	if err != nil {
		return "", err
	}
	prepared, err := root.Prepared(p.ID)
	if err != nil {
		return "", err
	}
	return prepared.Lease(req.Domain.ID, req.Generation)
}

// lease is a held prepared-lower lease.
type lease struct{ dataRoot, id, domain, generation string }

// Close releases the lease, after the last mount of the tree is gone.
func (l *lease) Close() error {
	return image.ReleaseLease(context.Background(), l.dataRoot, l.id, l.domain, l.generation)
}
