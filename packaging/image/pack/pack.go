package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// refName is the reference by which Lazaret finds the base image.
const refName = "base"

// Pack reads a tar stream and writes an OCI layout with one zstd layer to the
// directory dir, which must not exist. On an error dir is incomplete and the
// caller's to remove.
func Pack(in io.Reader, dir, arch string) error {
	blobs := filepath.Join(dir, v1.ImageBlobsDir, "sha256")
	if err := os.MkdirAll(filepath.Dir(blobs), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(blobs, 0o755); err != nil {
		return err
	}
	layer, diffID, err := writeLayer(in, blobs)
	if err != nil {
		return fmt.Errorf("layer: %w", err)
	}
	platform := v1.Platform{Architecture: arch, OS: "linux"}
	config, err := writeJSON(blobs, v1.MediaTypeImageConfig, v1.Image{
		Platform: platform,
		Config: v1.ImageConfig{
			Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
			Cmd: []string{"bash"},
		},
		RootFS: v1.RootFS{Type: "layers", DiffIDs: []digest.Digest{diffID}},
	})
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	manifest, err := writeJSON(blobs, v1.MediaTypeImageManifest, v1.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: v1.MediaTypeImageManifest,
		Config:    config,
		Layers:    []v1.Descriptor{layer},
	})
	if err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	manifest.Platform = &platform
	manifest.Annotations = map[string]string{v1.AnnotationRefName: refName}
	index := v1.Index{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: v1.MediaTypeImageIndex,
		Manifests: []v1.Descriptor{manifest},
	}
	if err := writeFile(filepath.Join(dir, v1.ImageLayoutFile), v1.ImageLayout{Version: v1.ImageLayoutVersion}); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, v1.ImageIndexFile), index)
}

// writeLayer compresses the stream into blobs, without what belongs to the
// machine that built it, and returns the blob's descriptor and the digest of
// what it holds.
func writeLayer(in io.Reader, blobs string) (_ v1.Descriptor, _ digest.Digest, err error) {
	f, err := os.CreateTemp(blobs, "layer")
	if err != nil {
		return v1.Descriptor{}, "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()

	blob, diff := sha256.New(), sha256.New()
	var size counter
	z, err := zstd.NewWriter(io.MultiWriter(f, blob, &size), zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return v1.Descriptor{}, "", err
	}
	if err := copyTar(tar.NewReader(in), tar.NewWriter(io.MultiWriter(z, diff))); err != nil {
		return v1.Descriptor{}, "", errors.Join(err, z.Close())
	}
	if err := z.Close(); err != nil {
		return v1.Descriptor{}, "", err
	}
	d := sum(blob)
	if err := f.Chmod(0o644); err != nil {
		return v1.Descriptor{}, "", err
	}
	if err := os.Rename(f.Name(), filepath.Join(blobs, d.Encoded())); err != nil {
		return v1.Descriptor{}, "", err
	}
	return v1.Descriptor{MediaType: v1.MediaTypeImageLayerZstd, Digest: d, Size: int64(size)}, sum(diff), nil
}

// copyTar copies every entry that is to be part of the image.
func copyTar(r *tar.Reader, w *tar.Writer) error {
	entries := 0
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if !wanted(h) {
			continue
		}
		// A PAX record that archive/tar derived again from the fields would
		// otherwise be refused as a duplicate of itself.
		h.Format = tar.FormatPAX
		if err := w.WriteHeader(h); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
		if _, err := io.Copy(w, r); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
		entries++
	}
	if entries == 0 {
		return errors.New("the root filesystem is empty")
	}
	return w.Close()
}

// wanted leaves out device nodes, which a user namespace cannot make and the
// sandbox does not need, and the names of the machine that built the image.
func wanted(h *tar.Header) bool {
	if h.Typeflag == tar.TypeChar || h.Typeflag == tar.TypeBlock {
		return false
	}
	switch path.Clean("/" + h.Name) {
	case "/etc/hostname", "/etc/resolv.conf":
		return false
	}
	return true
}

// writeJSON stores v as a blob and returns its descriptor.
func writeJSON(blobs, mediaType string, v any) (v1.Descriptor, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return v1.Descriptor{}, err
	}
	d := digest.FromBytes(b)
	if err := os.WriteFile(filepath.Join(blobs, d.Encoded()), b, 0o644); err != nil {
		return v1.Descriptor{}, err
	}
	return v1.Descriptor{MediaType: mediaType, Digest: d, Size: int64(len(b))}, nil
}

func writeFile(name string, v any) error {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(v); err != nil {
		return err
	}
	return os.WriteFile(name, b.Bytes(), 0o644)
}

func sum(h hash.Hash) digest.Digest {
	return digest.NewDigestFromEncoded(digest.SHA256, hex.EncodeToString(h.Sum(nil)))
}

// counter counts the bytes written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
