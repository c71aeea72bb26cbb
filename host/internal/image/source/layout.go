package source

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/image/fault"
	"lazaret.dev/lazaret/host/internal/image/registry"
)

// The annotations by which images in a layout are called.
const (
	refName        = "org.opencontainers.image.ref.name"
	containerdName = "io.containerd.image.name"
)

// layout is the backend of an OCI layout. Its layers are used where they are:
// both digests are verified as they are unpacked.
type layout struct{ dir string }

func resolveLayout(ctx context.Context, ref Ref, o Options) (*Image, error) {
	l := &layout{dir: ref.Path}
	raw, err := l.read("index.json", registry.MaxManifest)
	if errors.Is(err, os.ErrNotExist) {
		return nil, &fault.Error{
			Code: fault.NotFound, Message: fmt.Sprintf("no OCI layout at %s", ref.Path),
			Fix: "check the path: the directory must hold index.json", Err: err,
		}
	}
	if err != nil {
		return nil, err
	}
	idx, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, &fault.Error{Code: fault.Malformed, Message: fmt.Sprintf("index.json of %s is malformed", ref.Path), Err: err}
	}
	ds, err := named(idx.Manifests, ref)
	if err != nil {
		return nil, err
	}
	res := &resolver{src: l, want: o.Platform}
	if len(ds) == 1 {
		raw, err := res.fetch(ctx, ds[0])
		if err != nil {
			return nil, err
		}
		return res.image(ctx, ds[0], raw)
	}
	return res.among(ctx, ds, 1)
}

// named returns the manifests that the reference means: those of its name, or
// all when it has none and the layout holds one image.
func named(ds []descriptor, ref Ref) ([]descriptor, error) {
	var match []descriptor
	var names []string
	for _, d := range ds {
		n := cmp.Or(d.Annotations[refName], d.Annotations[containerdName])
		names = append(names, n)
		if ref.Name == "" || d.Annotations[refName] == ref.Name || d.Annotations[containerdName] == ref.Name {
			match = append(match, d)
		}
	}
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(s string) bool { return s == "" })
	if len(match) > 0 && (ref.Name != "" || len(names) <= 1) {
		return match, nil
	}
	has := "it holds no image"
	if len(names) > 0 {
		has = fmt.Sprintf("it holds: %.1000q", strings.Join(names, ", "))
	}
	if ref.Name == "" && len(match) > 0 {
		return nil, &fault.Error{
			Code: fault.Reference, Message: fmt.Sprintf("OCI layout %s holds several images: %s", ref.Path, has),
			Fix: "name one as oci:" + ref.Path + ":REF",
		}
	}
	return nil, &fault.Error{Code: fault.NotFound, Message: fmt.Sprintf("no image %q in OCI layout %s: %s", ref.Name, ref.Path, has)}
}

// Close implements backend.
func (l *layout) Close() error { return nil }

// open opens a regular file of the layout.
func (l *layout) open(name string) (*os.File, int64, error) {
	// Without O_NONBLOCK, a FIFO in its place would block the open.
	f, err := os.OpenFile(filepath.Join(l.dir, name), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fault.BadImage("%s of the OCI layout is no regular file", name)
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, fi.Size(), nil
}

func (l *layout) read(name string, limit int64) ([]byte, error) {
	f, size, err := l.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > limit {
		return nil, fault.BadImage("%s of the OCI layout has %d bytes", name, size)
	}
	b, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil, fmt.Errorf("read OCI layout: %w", err)
	}
	return b, nil
}

// blob implements backend.
func (l *layout) blob(_ context.Context, d descriptor) ([]byte, error) {
	b, err := l.read(filepath.Join("blobs", d.Digest.Algorithm, d.Digest.Hex), registry.MaxManifest)
	if errors.Is(err, os.ErrNotExist) {
		return nil, &fault.Error{Code: fault.Malformed, Message: fmt.Sprintf("OCI layout %s is incomplete", l.dir), Err: err}
	}
	return b, err
}

// layer implements backend.
func (l *layout) layer(_ context.Context, i int, d Layer, progress func(done, total int64)) (Blob, error) {
	f, size, err := l.open(filepath.Join("blobs", strings.Replace(d.Digest, ":", "/", 1)))
	if errors.Is(err, os.ErrNotExist) {
		return Blob{}, &fault.Error{Code: fault.Malformed, Message: fmt.Sprintf("OCI layout %s is incomplete", l.dir), Err: err}
	}
	if err != nil {
		return Blob{}, err
	}
	if size != d.Size {
		_ = f.Close()
		return Blob{}, fault.BadImage("layer %d has %d bytes, not the %d of its descriptor", i+1, size, d.Size)
	}
	progress(size, size)
	return Blob{File: f, Size: size}, nil
}
