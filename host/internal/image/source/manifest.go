package source

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"lazaret.dev/lazaret/host/internal/image/fault"
	"lazaret.dev/lazaret/host/internal/image/platform"
	"lazaret.dev/lazaret/host/internal/image/registry"
	"lazaret.dev/lazaret/host/internal/unpack"
)

const (
	maxNesting   = 4  // of indexes
	maxManifests = 64 // fetched to resolve one reference
)

type descriptor = v1.Descriptor

// layerTypes are the media types of layers. How a layer is compressed is told
// by its bytes; the type only says that it is a layer.
var layerTypes = []string{
	"application/vnd.oci.image.layer.v1.tar",
	"application/vnd.oci.image.layer.v1.tar+gzip",
	"application/vnd.oci.image.layer.v1.tar+zstd",
	"application/vnd.oci.image.layer.nondistributable.v1.tar",
	"application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
	"application/vnd.oci.image.layer.nondistributable.v1.tar+zstd",
	"application/vnd.docker.image.rootfs.diff.tar",
	"application/vnd.docker.image.rootfs.diff.tar.gzip",
	"application/vnd.docker.image.rootfs.diff.tar.zstd",
	"application/vnd.docker.image.rootfs.diff.tar+gzip",
	"application/vnd.docker.image.rootfs.diff.tar+zstd",
	"application/vnd.docker.image.rootfs.foreign.diff.tar",
	"application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
}

// resolver walks from one manifest to the image for a platform.
type resolver struct {
	src     backend
	want    platform.Platform
	fetched int
}

// candidate is an image manifest in an index.
type candidate struct {
	desc     descriptor
	platform platform.Platform
}

// image resolves the manifest d with content raw: an image, or an index.
func (r *resolver) image(ctx context.Context, d descriptor, raw []byte) (*Image, error) {
	isIndex, err := indexOrImage(d, raw)
	if err != nil {
		return nil, err
	}
	if !isIndex {
		return r.single(ctx, d, raw)
	}
	idx, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, &fault.Error{Code: fault.Malformed, Message: "image index is malformed", Err: err}
	}
	return r.among(ctx, idx.Manifests, 1)
}

// among resolves the best of the manifests for the platform.
func (r *resolver) among(ctx context.Context, ds []descriptor, depth int) (*Image, error) {
	cs, err := r.collect(ctx, ds, depth)
	if err != nil {
		return nil, err
	}
	have := make([]platform.Platform, len(cs))
	for i, c := range cs {
		have[i] = c.platform
	}
	i, err := platform.Choose(r.want, have)
	if err != nil {
		return nil, err
	}
	raw, err := r.fetch(ctx, cs[i].desc)
	if err != nil {
		return nil, err
	}
	return r.single(ctx, cs[i].desc, raw)
}

// collect lists the images of an index and of the indexes in it, without what
// only looks like an image: attestations and signatures.
func (r *resolver) collect(ctx context.Context, ds []descriptor, depth int) ([]candidate, error) {
	if depth > maxNesting {
		return nil, fault.BadImage("indexes are nested more than %d deep", maxNesting)
	}
	var cs []candidate
	for _, d := range ds {
		if d.Annotations["vnd.docker.reference.type"] != "" ||
			(d.ArtifactType != "" && !v1TypeIsConfig(d.ArtifactType)) {
			continue
		}
		if d.Platform != nil && !d.MediaType.IsIndex() {
			p := platform.Platform{OS: d.Platform.OS, Arch: d.Platform.Architecture, Variant: d.Platform.Variant}
			if !p.Unknown() {
				cs = append(cs, candidate{d, p})
			}
			continue
		}
		if !d.MediaType.IsIndex() && !d.MediaType.IsImage() {
			continue
		}
		raw, err := r.fetch(ctx, d)
		if err != nil {
			return nil, err
		}
		more, err := r.look(ctx, d, raw, depth)
		if err != nil {
			return nil, err
		}
		cs = append(cs, more...)
	}
	return cs, nil
}

// look lists the images of one descriptor that does not say its platform.
func (r *resolver) look(ctx context.Context, d descriptor, raw []byte, depth int) ([]candidate, error) {
	isIndex, err := indexOrImage(d, raw)
	if err != nil {
		return nil, err
	}
	if isIndex {
		idx, err := v1.ParseIndexManifest(bytes.NewReader(raw))
		if err != nil {
			return nil, &fault.Error{Code: fault.Malformed, Message: "image index is malformed", Err: err}
		}
		return r.collect(ctx, idx.Manifests, depth+1)
	}
	m, err := v1.ParseManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, &fault.Error{Code: fault.Malformed, Message: "image manifest is malformed", Err: err}
	}
	if !m.Config.MediaType.IsConfig() {
		return nil, nil
	}
	cfg, _, err := r.config(ctx, m)
	if err != nil {
		return nil, err
	}
	return []candidate{{d, platformOf(cfg)}}, nil
}

func v1TypeIsConfig(t string) bool {
	return t == "application/vnd.oci.image.config.v1+json" || t == "application/vnd.docker.container.image.v1+json"
}

// single reads an image manifest and its configuration.
func (r *resolver) single(ctx context.Context, d descriptor, raw []byte) (*Image, error) {
	m, err := v1.ParseManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, &fault.Error{Code: fault.Malformed, Message: "image manifest is malformed", Err: err}
	}
	if !m.Config.MediaType.IsConfig() {
		return nil, &fault.Error{
			Code: fault.MediaType, Message: fmt.Sprintf("reference names no image: its configuration is of type %.128q", m.Config.MediaType),
		}
	}
	for i, l := range m.Layers {
		if !slices.Contains(layerTypes, string(l.MediaType)) {
			return nil, &fault.Error{
				Code: fault.MediaType, Message: fmt.Sprintf("layer %d is of a type that is not supported: %.128q", i+1, l.MediaType),
				Fix: "build the image with plain, gzip or zstd layers",
			}
		}
	}
	cfg, rawConfig, err := r.config(ctx, m)
	if err != nil {
		return nil, err
	}
	im, err := newImage(cfg, rawConfig, r.want)
	if err != nil {
		return nil, err
	}
	if len(m.Layers) != len(im.Layers) {
		return nil, fault.BadImage("the manifest has %d layers, the configuration %d", len(m.Layers), len(im.Layers))
	}
	for i, l := range m.Layers {
		if l.Size < 0 {
			return nil, fault.BadImage("layer %d has size %d", i+1, l.Size)
		}
		if l.Digest.Algorithm != "sha256" {
			return nil, fault.BadImage("layer %d has a digest of type %.32q; only sha256 is supported", i+1, l.Digest.Algorithm)
		}
		im.Layers[i].MediaType, im.Layers[i].Digest, im.Layers[i].Size = string(l.MediaType), l.Digest.String(), l.Size
	}
	im.ManifestDigest, im.RawManifest, im.src = d.Digest.String(), raw, r.src
	return im, nil
}

func (r *resolver) config(ctx context.Context, m *v1.Manifest) (*v1.ConfigFile, []byte, error) {
	raw, err := r.fetch(ctx, m.Config)
	if err != nil {
		return nil, nil, err
	}
	cfg, err := v1.ParseConfigFile(bytes.NewReader(raw))
	if err != nil {
		return nil, nil, &fault.Error{Code: fault.Malformed, Message: "image configuration is malformed", Err: err}
	}
	return cfg, raw, nil
}

func (r *resolver) fetch(ctx context.Context, d descriptor) ([]byte, error) {
	if r.fetched++; r.fetched > 2*maxManifests {
		return nil, fault.BadImage("it takes more than %d manifests to resolve", maxManifests)
	}
	if d.Size < 0 || d.Size > registry.MaxManifest {
		return nil, fault.BadImage("a manifest of %d bytes", d.Size)
	}
	raw, err := r.src.blob(ctx, d)
	if err != nil {
		return nil, err
	}
	return raw, verify(d, raw)
}

// verify checks a small blob against its descriptor.
func verify(d descriptor, raw []byte) error {
	if d.Digest.Algorithm != "sha256" {
		return fault.BadImage("a digest of type %.32q; only sha256 is supported", d.Digest.Algorithm)
	}
	got, _, err := v1.SHA256(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("hash manifest: %w", err)
	}
	if got != d.Digest {
		return &fault.Error{Code: fault.Digest, Message: fmt.Sprintf("image data does not match its digest: %s is not %s", got, d.Digest)}
	}
	return nil
}

// newImage makes an image of its configuration.
func newImage(cfg *v1.ConfigFile, raw []byte, want platform.Platform) (*Image, error) {
	have := platformOf(cfg)
	if have.Arch != "" && platform.Rank(want, have) == 0 {
		return nil, platform.Missing(want, []platform.Platform{have})
	}
	if len(cfg.RootFS.DiffIDs) > unpack.MaxLayers {
		return nil, fault.BadImage("it has %d layers; at most %d are supported", len(cfg.RootFS.DiffIDs), unpack.MaxLayers)
	}
	digest, _, err := v1.SHA256(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("hash configuration: %w", err)
	}
	im := &Image{
		ConfigDigest: digest.String(),
		RawConfig:    raw,
		Platform:     have,
		Config: Config{
			Env: cfg.Config.Env, WorkingDir: cfg.Config.WorkingDir, User: cfg.Config.User,
			Entrypoint: cfg.Config.Entrypoint, Cmd: cfg.Config.Cmd, Labels: cfg.Config.Labels,
		},
	}
	for i, id := range cfg.RootFS.DiffIDs {
		if id.Algorithm != "sha256" {
			return nil, fault.BadImage("layer %d has a content digest of type %.32q; only sha256 is supported", i+1, id.Algorithm)
		}
		im.Layers = append(im.Layers, Layer{DiffID: id.String()})
	}
	return im, nil
}

func platformOf(cfg *v1.ConfigFile) platform.Platform {
	p := platform.Platform{OS: cfg.OS, Arch: cfg.Architecture, Variant: cfg.Variant}
	if p.OS == "" && p.Arch != "" {
		p.OS = "linux"
	}
	return p
}

// indexOrImage tells the two apart by content, and refuses what claims to be
// both: two readers could see two images in it.
func indexOrImage(d descriptor, raw []byte) (isIndex bool, err error) {
	var m struct {
		SchemaVersion int               `json:"schemaVersion"`
		MediaType     string            `json:"mediaType"`
		Manifests     []json.RawMessage `json:"manifests"`
		Layers        []json.RawMessage `json:"layers"`
		Config        json.RawMessage   `json:"config"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return false, &fault.Error{Code: fault.Malformed, Message: "image manifest is malformed", Err: err}
	}
	switch {
	case d.MediaType.IsSchema1() || m.SchemaVersion == 1:
		return false, &fault.Error{
			Code: fault.MediaType, Message: "image has a manifest of schema 1, which is not supported",
			Fix: "push the image again with a current tool",
		}
	case m.Manifests != nil && (m.Layers != nil || m.Config != nil):
		return false, fault.BadImage("a manifest is both an index and an image")
	case m.Manifests != nil || d.MediaType.IsIndex():
		return true, nil
	case m.Config != nil:
		return false, nil
	}
	return false, &fault.Error{Code: fault.MediaType, Message: fmt.Sprintf("reference names no image but a manifest of type %.128q", d.MediaType)}
}
