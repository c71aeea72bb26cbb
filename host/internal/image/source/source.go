// Package source finds images and fetches their layers: from a registry, from
// an OCI layout, or from an archive that `docker save` wrote.
//
// It owns references, platform selection, registry credentials and the blob
// store, and with package image it alone knows google/go-containerregistry. It
// must not unpack a layer, and it treats every byte of a registry as hostile:
// sizes are bounded before anything is read, digests are verified before
// anything is believed. It runs in the Host Coordinator and in image commands.
package source

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"lazaret.dev/lazaret/host/internal/image/blobs"
	"lazaret.dev/lazaret/host/internal/image/fault"
	"lazaret.dev/lazaret/host/internal/image/platform"
)

// Kind is where an image comes from.
type Kind string

// The kinds of sources.
const (
	KindRegistry Kind = "registry"
	KindOCI      Kind = "oci"            // an OCI layout on disk
	KindArchive  Kind = "docker-archive" // what `docker save` writes
)

// UnmarshalText refuses unknown kinds.
func (k *Kind) UnmarshalText(b []byte) error {
	switch v := Kind(b); v {
	case KindRegistry, KindOCI, KindArchive:
		*k = v
		return nil
	}
	return fmt.Errorf("unknown image source %q", b)
}

// Ref is a parsed image reference.
type Ref struct {
	Kind Kind
	Text string // canonical; what records are keyed by
	Path string // of the layout or archive, absolute
	Name string // of the image in the layout, or empty

	remote name.Reference
}

// Parse reads an image reference: `oci:DIR[:REF]`, `docker-archive:FILE`, or
// the name of an image in a registry, as Docker completes it.
func Parse(text string) (Ref, error) {
	if dir, ok := strings.CutPrefix(text, "oci:"); ok {
		return parseLayout(text, dir)
	}
	if file, ok := strings.CutPrefix(text, "docker-archive:"); ok {
		abs, err := absolute(text, file)
		if err != nil {
			return Ref{}, err
		}
		return Ref{Kind: KindArchive, Text: "docker-archive:" + abs, Path: abs}, nil
	}
	r, err := name.ParseReference(text, name.WeakValidation)
	if err != nil {
		return Ref{}, &fault.Error{
			Code: fault.Reference, Message: fmt.Sprintf("image reference %q is malformed", text),
			Fix: "name an image as NAME[:TAG], oci:DIR[:REF] or docker-archive:FILE", Err: err,
		}
	}
	return Ref{Kind: KindRegistry, Text: r.Name(), remote: r}, nil
}

// parseLayout splits DIR[:REF]. A directory whose own name has a colon is taken
// whole when it exists.
func parseLayout(text, rest string) (Ref, error) {
	dir, ref := rest, ""
	if fi, err := os.Stat(rest); err != nil || !fi.IsDir() {
		if i := strings.LastIndexByte(rest, ':'); i > 0 && !strings.Contains(rest[i:], "/") {
			dir, ref = rest[:i], rest[i+1:]
		}
	}
	abs, err := absolute(text, dir)
	if err != nil {
		return Ref{}, err
	}
	r := Ref{Kind: KindOCI, Text: "oci:" + abs, Path: abs, Name: ref}
	if ref != "" {
		r.Text += ":" + ref
	}
	return r, nil
}

func absolute(text, path string) (string, error) {
	if path == "" {
		return "", &fault.Error{
			Code: fault.Reference, Message: fmt.Sprintf("image reference %q names no path", text),
			Fix: "name the image as oci:DIR[:REF] or docker-archive:FILE",
		}
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("resolve path of image %q: %w", text, err)
	}
	return abs, nil
}

// Options say how a reference is resolved.
type Options struct {
	Platform platform.Platform
	Store    *blobs.Store
	Warn     func(text string) // one line each; may be nil
}

// Image is a resolved image whose layers can be fetched. Close it.
type Image struct {
	Ref            Ref
	ManifestDigest string // empty for an archive, which has none
	ConfigDigest   string
	RawManifest    []byte
	RawConfig      []byte
	Platform       platform.Platform
	Config         Config
	Layers         []Layer // lowest first

	src backend
}

// Layer describes one layer.
type Layer struct {
	MediaType string
	Digest    string // of the bytes as stored; empty for an archive
	DiffID    string // of the unpacked bytes
	Size      int64  // as stored
}

// Blob is a layer's bytes: Size bytes at Offset of File, which its holder
// closes.
type Blob struct {
	File   *os.File
	Offset int64
	Size   int64
}

// Config is the part of an image's configuration that sessions use.
type Config struct {
	Env        []string          `json:"env,omitempty"`
	WorkingDir string            `json:"working_dir,omitempty"`
	User       string            `json:"user,omitempty"`
	Entrypoint []string          `json:"entrypoint,omitempty"`
	Cmd        []string          `json:"cmd,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
}

// Resolve finds the image that ref names for the platform. It fetches the
// manifest and the configuration, and no layer. Its errors are of type *fault.Error
// where the cause lies in the image, its source or the reference.
func Resolve(ctx context.Context, ref Ref, o Options) (*Image, error) {
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	var (
		im  *Image
		err error
	)
	switch ref.Kind {
	case KindRegistry:
		im, err = resolveRegistry(ctx, ref, o)
	case KindOCI:
		im, err = resolveLayout(ctx, ref, o)
	case KindArchive:
		im, err = resolveArchive(ref, o)
	default:
		return nil, fmt.Errorf("unknown image source %q", ref.Kind)
	}
	if err != nil {
		return nil, err
	}
	im.Ref = ref
	return im, nil
}

// Fetch returns layer i, counted from 0, downloading it if need be. It calls
// progress as bytes arrive, from the calling goroutine.
func (im *Image) Fetch(ctx context.Context, i int, progress func(done, total int64)) (Blob, error) {
	return im.src.layer(ctx, i, im.Layers[i], progress)
}

// Close releases connections and files. Blobs stay open.
func (im *Image) Close() error { return im.src.Close() }

// backend is one source of blobs.
type backend interface {
	io.Closer
	// blob returns a small blob whole, verified against the descriptor.
	blob(ctx context.Context, d descriptor) ([]byte, error)
	// layer returns layer i.
	layer(ctx context.Context, i int, l Layer, progress func(done, total int64)) (Blob, error)
}
