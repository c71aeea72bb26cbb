package source_test

import (
	"archive/tar"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lazaret.dev/lazaret/host/internal/image/fault"
	"lazaret.dev/lazaret/host/internal/image/platform"
	"lazaret.dev/lazaret/host/internal/image/source"
	"lazaret.dev/lazaret/host/internal/unpack/unpacktest"
)

type obj = map[string]any

const (
	ociManifest = "application/vnd.oci.image.manifest.v1+json"
	ociIndex    = "application/vnd.oci.image.index.v1+json"
	ociConfig   = "application/vnd.oci.image.config.v1+json"
)

func marshal(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// dir is an OCI layout that grows.
type dir struct {
	t    testing.TB
	path string
}

func newDir(t testing.TB) dir {
	t.Helper()
	d := dir{t, t.TempDir()}
	if err := os.MkdirAll(filepath.Join(d.path, "blobs/sha256"), 0o755); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d dir) write(name, text string) {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(d.path, name), []byte(text), 0o644); err != nil {
		d.t.Fatal(err)
	}
}

func (d dir) blob(mediaType, text string) obj {
	digest := unpacktest.Digest([]byte(text))
	d.write("blobs/"+strings.Replace(digest, ":", "/", 1), text)
	return obj{"mediaType": mediaType, "digest": digest, "size": len(text)}
}

// image adds an image without layers that can be told by its Cmd.
func (d dir) image(arch, variant, cmd string) obj {
	cfg := d.blob(ociConfig, marshal(d.t, obj{"os": "linux", "architecture": arch, "variant": variant, "config": obj{"Cmd": []string{cmd}}, "rootfs": obj{"type": "layers", "diff_ids": []string{}}}))
	return d.blob(ociManifest, marshal(d.t, obj{"schemaVersion": 2, "mediaType": ociManifest, "config": cfg, "layers": []obj{}}))
}

func (d dir) index(descs ...obj) obj {
	return d.blob(ociIndex, marshal(d.t, obj{"schemaVersion": 2, "mediaType": ociIndex, "manifests": descs}))
}

func (d dir) top(descs ...obj) {
	d.write("index.json", marshal(d.t, obj{"schemaVersion": 2, "manifests": descs}))
}

func with(o obj, key string, v any) obj {
	c := obj{key: v}
	for k, v := range o {
		if k != key {
			c[k] = v
		}
	}
	return c
}

func on(o obj, arch, variant string) obj {
	return with(o, "platform", obj{"os": "linux", "architecture": arch, "variant": variant})
}

func named(o obj, name string) obj {
	return with(o, "annotations", obj{"org.opencontainers.image.ref.name": name})
}

// resolve returns the Cmd of what a reference means.
func resolve(t testing.TB, ref, want string) (string, error) {
	t.Helper()
	r, err := source.Parse(ref)
	if err != nil {
		return "", err
	}
	p, err := platform.Parse(want)
	if err != nil {
		t.Fatal(err)
	}
	im, err := source.Resolve(context.Background(), r, source.Options{Platform: p})
	if err != nil {
		return "", err
	}
	defer im.Close()
	return strings.Join(im.Config.Cmd, " "), nil
}

// Case 92
func TestIndexSelection(t *testing.T) {
	d := newDir(t)
	attestation := with(with(d.image("unknown", "", "attestation"), "platform", obj{"os": "unknown", "architecture": "unknown"}),
		"annotations", obj{"vnd.docker.reference.type": "attestation-manifest"})
	unknown := with(d.image("unknown", "", "unknown"), "platform", obj{"os": "unknown", "architecture": "unknown"})
	arm, amd := d.image("arm64", "v8", "arm"), d.image("amd64", "", "amd")
	flat := d.index(attestation, unknown, on(arm, "arm64", "v8"), on(amd, "amd64", ""))
	for name, top := range map[string][]obj{
		"flat":              {flat},
		"nested":            {d.index(d.index(attestation, on(arm, "arm64", "v8")), with(d.index(on(amd, "amd64", "")), "platform", obj{"os": "linux", "architecture": "amd64"}))},
		"without platforms": {d.index(arm, amd)},
		"in index.json":     {attestation, on(arm, "arm64", "v8"), on(amd, "amd64", "")},
		"attestation alone": {d.index(unknown, on(amd, "amd64", "")), on(arm, "arm64", "v8")},
	} {
		d.top(top...)
		for want, cmd := range map[string]string{"linux/amd64": "amd", "linux/arm64": "arm", "linux/arm64/v8": "arm"} {
			if got, err := resolve(t, "oci:"+d.path, want); err != nil || got != cmd {
				t.Errorf("%s, %s: %q, %v", name, want, got, err)
			}
		}
		_, err := resolve(t, "oci:"+d.path, "linux/riscv64")
		if !fault.Has(err, fault.Platform) || !strings.Contains(err.Error(), "linux/arm64/v8") || !strings.Contains(err.Error(), "linux/amd64") || strings.Contains(err.Error(), "unknown") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An index that does not end, or that lies about what it lists, is refused.
func TestHostileIndexes(t *testing.T) {
	d := newDir(t)
	deep := d.index(on(d.image("amd64", "", "x"), "amd64", ""))
	for range 10 {
		deep = d.index(deep)
	}
	var many []obj
	for i := range 200 {
		many = append(many, d.image("arm64", "", fmt.Sprint(i)))
	}
	huge := with(d.image("amd64", "", "x"), "size", 5<<20)
	wrong := with(d.image("amd64", "", "y"), "digest", unpacktest.Digest([]byte("other")))
	d.write("blobs/"+strings.Replace(wrong["digest"].(string), ":", "/", 1), "{}!")
	for name, c := range map[string]struct {
		desc obj
		code fault.Code
	}{
		"deep":          {deep, fault.Malformed},
		"many":          {d.index(many...), fault.Malformed},
		"huge":          {huge, fault.Malformed},
		"negative":      {with(huge, "size", -1), fault.Malformed},
		"digest":        {wrong, fault.Digest},
		"missing":       {obj{"mediaType": ociManifest, "digest": unpacktest.Digest([]byte("none")), "size": 3}, fault.Malformed},
		"no json":       {d.blob(ociManifest, "no json"), fault.Malformed},
		"schema 1":      {d.blob(ociManifest, `{"schemaVersion":1}`), fault.MediaType},
		"no image":      {d.blob(ociManifest, `{"schemaVersion":2}`), fault.MediaType},
		"an artifact":   {d.blob(ociManifest, marshal(t, obj{"schemaVersion": 2, "config": d.blob("application/vnd.example.chart", "{}")})), fault.MediaType},
		"empty index":   {d.index(), fault.Platform},
		"other digests": {with(d.image("amd64", "", "x"), "digest", "sha512:"+strings.Repeat("0", 128)), fault.Malformed},
	} {
		d.top(c.desc)
		if _, err := resolve(t, "oci:"+d.path, "linux/amd64"); !fault.Has(err, c.code) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLayoutNames(t *testing.T) {
	d := newDir(t)
	base, dev := named(d.image("amd64", "", "base"), "base"), named(d.image("amd64", "", "dev"), "dev")
	d.top(base, dev)
	for ref, want := range map[string]string{":base": "base", ":dev": "dev"} {
		if got, err := resolve(t, "oci:"+d.path+ref, "linux/amd64"); err != nil || got != want {
			t.Errorf("%s: %q, %v", ref, got, err)
		}
	}
	if _, err := resolve(t, "oci:"+d.path, "linux/amd64"); !fault.Has(err, fault.Reference) || !strings.Contains(err.Error(), "base, dev") {
		t.Errorf("two images, no name: %v", err)
	}
	if _, err := resolve(t, "oci:"+d.path+":none", "linux/amd64"); !fault.Has(err, fault.NotFound) || !strings.Contains(err.Error(), "base, dev") {
		t.Errorf("unknown name: %v", err)
	}
	colon := filepath.Join(t.TempDir(), "a:b")
	if err := os.Rename(d.path, colon); err != nil {
		t.Fatal(err)
	}
	if got, err := resolve(t, "oci:"+colon+":dev", "linux/amd64"); err != nil || got != "dev" {
		t.Errorf("directory with a colon: %q, %v", got, err)
	}
	d.path = colon
	d.top(dev)
	if got, err := resolve(t, "oci:"+colon, "linux/amd64"); err != nil || got != "dev" {
		t.Errorf("directory with a colon, one image: %q, %v", got, err)
	}
	if _, err := resolve(t, "oci:"+colon, "linux/arm64"); !fault.Has(err, fault.Platform) {
		t.Errorf("one image for another machine: %v", err)
	}
}

func TestArchives(t *testing.T) {
	config := marshal(t, obj{"os": "linux", "architecture": "amd64", "config": obj{"Cmd": []string{"sh"}}, "rootfs": obj{"type": "layers", "diff_ids": []string{unpacktest.Digest([]byte("layer"))}}})
	one := marshal(t, []obj{{"Config": "c.json", "RepoTags": []string{"app:1"}, "Layers": []string{"l"}}})
	type E = unpacktest.E
	files := func(manifest string, more ...E) []byte {
		return unpacktest.Tar(t, append([]E{{Name: "manifest.json", Body: manifest}, {Name: "c.json", Body: config}}, more...)...)
	}
	layer := E{Name: "l", Body: "layer"}
	for name, c := range map[string]struct {
		data []byte
		code fault.Code
	}{
		"good":              {files(one, layer), ""},
		"hard link":         {files(one, E{Name: "x/y", Body: "layer"}, E{Name: "l", Type: tar.TypeLink, Link: "x/y"}), ""},
		"no layer":          {files(one), fault.Malformed},
		"link in a circle":  {files(one, E{Name: "l", Type: tar.TypeSymlink, Link: "m"}, E{Name: "m", Type: tar.TypeSymlink, Link: "l"}), fault.Malformed},
		"no tar":            {[]byte(strings.Repeat("no tar", 1000)), fault.Malformed},
		"cut":               {files(one, layer)[:1100], fault.Malformed},
		"no manifest":       {unpacktest.Tar(t, layer), fault.Malformed},
		"broken manifest":   {files("{", layer), fault.Malformed},
		"two images":        {files(marshal(t, []obj{{"Config": "c.json", "RepoTags": []string{"a:1"}}, {"Config": "c.json", "RepoTags": []string{"b:1"}}})), fault.Reference},
		"layers missing":    {files(marshal(t, []obj{{"Config": "c.json"}})), fault.Malformed},
		"huge manifest":     {files(strings.Repeat(" ", 5<<20) + one), fault.Malformed},
		"configuration out": {files(marshal(t, []obj{{"Config": "../../etc/passwd", "Layers": []string{"l"}}}), layer), fault.Malformed},
	} {
		path := filepath.Join(t.TempDir(), "image.tar")
		if err := os.WriteFile(path, c.data, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := resolve(t, "docker-archive:"+path, "linux/amd64")
		if c.code == "" && (err != nil || got != "sh") || c.code != "" && !fault.Has(err, c.code) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	// The layer is a part of the file.
	path := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(path, files(one, layer), 0o600); err != nil {
		t.Fatal(err)
	}
	ref, err := source.Parse("docker-archive:" + path)
	if err != nil {
		t.Fatal(err)
	}
	im, err := source.Resolve(context.Background(), ref, source.Options{Platform: platform.Platform{OS: "linux", Arch: "amd64"}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := im.Fetch(context.Background(), 0, func(int64, int64) {})
	if err != nil {
		t.Fatal(err)
	}
	defer b.File.Close()
	if err := im.Close(); err != nil {
		t.Error(err)
	}
	if text, err := io.ReadAll(io.NewSectionReader(b.File, b.Offset, b.Size)); err != nil || string(text) != "layer" {
		t.Errorf("layer: %q, %v", text, err)
	}
}

func TestParse(t *testing.T) {
	for in, want := range map[string]string{
		"debian":                          "index.docker.io/library/debian:latest",
		"docker.io/library/debian:trixie": "index.docker.io/library/debian:trixie",
		"127.0.0.1:5000/a/b":              "127.0.0.1:5000/a/b:latest",
		"oci:/a/../b:c":                   "oci:/b:c",
		"oci:/b":                          "oci:/b",
		"docker-archive:/x/y.tar":         "docker-archive:/x/y.tar",
	} {
		r, err := source.Parse(in)
		if err != nil || r.Text != want {
			t.Errorf("%s: %q, %v", in, r.Text, err)
		}
	}
}

// FuzzArchive feeds bytes to the reader of archives, and with them to the
// readers of manifests and configurations.
func FuzzArchive(f *testing.F) {
	f.Add(unpacktest.Tar(f, unpacktest.E{Name: "manifest.json", Body: `[{"Config":"c","Layers":["l"]}]`},
		unpacktest.E{Name: "c", Body: `{"rootfs":{"diff_ids":["` + unpacktest.Digest(nil) + `"]}}`}, unpacktest.E{Name: "l"}))
	path := filepath.Join(f.TempDir(), "image.tar")
	ref, err := source.Parse("docker-archive:" + path)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		im, err := source.Resolve(context.Background(), ref, source.Options{Platform: platform.Platform{OS: "linux", Arch: "amd64"}})
		if err != nil {
			return
		}
		defer im.Close()
		for i, l := range im.Layers {
			if l.Size < 0 || l.DiffID == "" {
				t.Errorf("layer %d: %+v", i, l)
			}
		}
	})
}
