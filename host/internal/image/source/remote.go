package source

import (
	"context"
	"io"

	"lazaret.dev/lazaret/host/internal/image/blobs"
	"lazaret.dev/lazaret/host/internal/image/registry"
)

// repository is the backend of a registry's repository.
type repository struct {
	*registry.Client
	store *blobs.Store
}

func resolveRegistry(ctx context.Context, ref Ref, o Options) (*Image, error) {
	c, err := registry.Dial(ctx, ref.remote.Context(), o.Warn)
	if err != nil {
		return nil, err
	}
	d, raw, err := c.Manifest(ctx, ref.remote)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	res := &resolver{src: &repository{c, o.Store}, want: o.Platform}
	im, err := res.image(ctx, d, raw)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return im, nil
}

// blob implements backend. Manifests and configurations have addresses of their
// own kind.
func (r *repository) blob(ctx context.Context, d descriptor) ([]byte, error) {
	if d.MediaType.IsConfig() {
		return r.Small(ctx, d.Digest.String(), d.Size)
	}
	return r.ManifestByDigest(ctx, d.Digest.String())
}

// layer implements backend.
func (r *repository) layer(ctx context.Context, _ int, l Layer, progress func(done, total int64)) (Blob, error) {
	fetch := func(ctx context.Context, offset int64) (io.ReadCloser, int64, error) {
		return r.Blob(ctx, l.Digest, offset)
	}
	f, err := r.store.Get(ctx, l.Digest, l.Size, fetch, progress)
	if err != nil {
		return Blob{}, err
	}
	return Blob{File: f, Size: l.Size}, nil
}
