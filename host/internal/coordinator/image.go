package coordinator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"lazaret.dev/lazaret/host/internal/generation"
	"lazaret.dev/lazaret/host/internal/image"
	"lazaret.dev/lazaret/host/internal/paths"
	"lazaret.dev/lazaret/host/internal/unpack"
	"lazaret.dev/lazaret/protocol/control"
	"lazaret.dev/lazaret/protocol/launch"
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

// defaultPath is the search path of an image that sets none.
const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// sessionEnv is the environment of a session's command: the image's, then the
// identity of root, then what the client sends. A later one wins.
func (hc *coordinator) sessionEnv(client []string) []string {
	env := append([]string{defaultPath}, hc.imgEnv...)
	env = append(env, "HOME=/root", "USER=root", "LOGNAME=root")
	if hc.plan.Files.CABundle != "" {
		// Node.js reads no bundle of the system's.
		env = append(env, "NODE_EXTRA_CA_CERTS="+launch.GuestCABundle)
	}
	env = append(env, client...)
	at := map[string]int{}
	out := make([]string, 0, len(env))
	for _, kv := range env {
		name, _, ok := strings.Cut(kv, "=")
		if !ok || strings.HasPrefix(name, "LAZARET_") {
			continue // an image must not speak for Lazaret
		}
		if i, seen := at[name]; seen {
			out[i] = kv
			continue
		}
		at[name] = len(out)
		out = append(out, kv)
	}
	return slices.Clip(out)
}
