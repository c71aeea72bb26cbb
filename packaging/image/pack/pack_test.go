package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

func readJSON(t *testing.T, name string, v any) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// TestPack reads back what was packed: every digest fits, device nodes and the
// building machine's names are gone, the rest is as it was.
func TestPack(t *testing.T) {
	t.Parallel()
	var in bytes.Buffer
	w := tar.NewWriter(&in)
	for _, h := range []tar.Header{
		{Name: "./etc/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "./etc/hostname", Typeflag: tar.TypeReg, Mode: 0o644},
		{Name: "./etc/passwd", Typeflag: tar.TypeReg, Mode: 0o644, Uid: 0, Gid: 42},
		{Name: "./dev/null", Typeflag: tar.TypeChar, Mode: 0o666},
		{Name: "./bin/ping", Typeflag: tar.TypeReg, Mode: 0o4755, PAXRecords: map[string]string{"SCHILY.xattr.security.capability": "\x01\x00"}},
		{Name: "./sh", Typeflag: tar.TypeSymlink, Linkname: "bash"},
	} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "image")
	if err := Pack(&in, dir, "amd64"); err != nil {
		t.Fatal(err)
	}

	var index v1.Index
	readJSON(t, filepath.Join(dir, "index.json"), &index)
	if len(index.Manifests) != 1 || index.Manifests[0].Annotations[v1.AnnotationRefName] != "base" {
		t.Fatalf("index = %+v, want one manifest named base", index)
	}
	blob := func(d digest.Digest) string { return filepath.Join(dir, "blobs/sha256", d.Encoded()) }
	var manifest v1.Manifest
	readJSON(t, blob(index.Manifests[0].Digest), &manifest)
	var config v1.Image
	readJSON(t, blob(manifest.Config.Digest), &config)

	compressed, err := os.ReadFile(blob(manifest.Layers[0].Digest))
	if err != nil {
		t.Fatal(err)
	}
	if got := digest.FromBytes(compressed); got != manifest.Layers[0].Digest || int64(len(compressed)) != manifest.Layers[0].Size {
		t.Errorf("layer blob is %s (%d bytes), manifest says %s (%d)", got, len(compressed), manifest.Layers[0].Digest, manifest.Layers[0].Size)
	}
	z, err := zstd.NewReader(bytes.NewReader(compressed))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if got := digest.FromBytes(plain); !slices.Equal(config.RootFS.DiffIDs, []digest.Digest{got}) {
		t.Errorf("layer holds %s, configuration says %v", got, config.RootFS.DiffIDs)
	}

	var names []string
	r := tar.NewReader(bytes.NewReader(plain))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		switch h.Name {
		case "./etc/passwd":
			if h.Gid != 42 {
				t.Errorf("gid of passwd = %d, want 42", h.Gid)
			}
		case "./bin/ping":
			if h.Mode != 0o4755 || h.PAXRecords["SCHILY.xattr.security.capability"] != "\x01\x00" {
				t.Errorf("ping = mode %o, records %q: setuid bit or capability lost", h.Mode, h.PAXRecords)
			}
		}
	}
	if want := []string{"./etc/", "./etc/passwd", "./bin/ping", "./sh"}; !slices.Equal(names, want) {
		t.Errorf("layer holds %q, want %q", names, want)
	}
}

func TestPackRefusesNothing(t *testing.T) {
	t.Parallel()
	for name, in := range map[string][]byte{"empty": nil, "no tar": []byte("this is no tar stream")} {
		if err := Pack(bytes.NewReader(in), filepath.Join(t.TempDir(), "image"), "amd64"); err == nil {
			t.Errorf("%s: Pack succeeded, want an error", name)
		}
	}
}
