package image_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"lazaret.dev/lazaret/host/internal/image"
	"lazaret.dev/lazaret/host/internal/unpack"
	"lazaret.dev/lazaret/host/internal/unpack/unpacktest"
	"lazaret.dev/lazaret/protocol/testgate"
)

type obj = map[string]any

const (
	ociManifest = "application/vnd.oci.image.manifest.v1+json"
	ociIndex    = "application/vnd.oci.image.index.v1+json"
	ociConfig   = "application/vnd.oci.image.config.v1+json"
	ociLayer    = "application/vnd.oci.image.layer.v1.tar"
)

// fakeImage is an image as bytes: blobs by digest, and the manifest.
type fakeImage struct {
	manifest  []byte
	mediaType string
	blobs     map[string][]byte
}

type fakeLayer struct {
	mediaType string
	blob      []byte
	diffID    string
}

func plainLayer(b []byte) fakeLayer { return fakeLayer{ociLayer, b, unpacktest.Digest(b)} }

func gzipLayer(t testing.TB, b []byte) fakeLayer {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return fakeLayer{ociLayer + "+gzip", out.Bytes(), unpacktest.Digest(b)}
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func descriptor(mediaType string, b []byte) obj {
	return obj{"mediaType": mediaType, "digest": unpacktest.Digest(b), "size": len(b)}
}

func newImage(t testing.TB, arch string, layers ...fakeLayer) fakeImage {
	t.Helper()
	im := fakeImage{mediaType: ociManifest, blobs: map[string][]byte{}}
	diffIDs, descs := []string{}, []obj{}
	for _, l := range layers {
		diffIDs = append(diffIDs, l.diffID)
		descs = append(descs, descriptor(l.mediaType, l.blob))
		im.blobs[unpacktest.Digest(l.blob)] = l.blob
	}
	config := marshal(t, obj{
		"os": "linux", "architecture": arch, "rootfs": obj{"type": "layers", "diff_ids": diffIDs},
		"config": obj{"Env": []string{"PATH=/opt/bin:/bin", "A=b=c"}, "WorkingDir": "/srv", "User": "app", "Cmd": []string{"sh"}},
	})
	im.blobs[unpacktest.Digest(config)] = config
	im.manifest = marshal(t, obj{"schemaVersion": 2, "mediaType": ociManifest, "config": descriptor(ociConfig, config), "layers": descs})
	return im
}

// server is a registry on loopback whose requests can be watched and changed.
type server struct {
	*httptest.Server
	mu     sync.Mutex
	seen   []string
	change func(w http.ResponseWriter, r *http.Request) bool // true: it has answered
}

func newServer(t testing.TB) *server {
	t.Helper()
	s := &server{}
	h := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, r.Method+" "+r.URL.Path+" "+r.Header.Get("Range"))
		change := s.change
		s.mu.Unlock()
		if change == nil || !change(w, r) {
			h.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) set(change func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change = change
}

// requests returns the requests since the last call that hold part.
func (s *server) requests(part string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var got []string
	for _, r := range s.seen {
		if strings.Contains(r, part) {
			got = append(got, r)
		}
	}
	s.seen = nil
	return got
}

func (s *server) put(t testing.TB, path, mediaType string, b []byte) {
	t.Helper()
	method := http.MethodPut
	if strings.Contains(path, "/blobs/uploads/") {
		method = http.MethodPost
	}
	req, err := http.NewRequest(method, s.URL+path, bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", mediaType)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode >= 300 {
		t.Fatalf("%s: %s", path, resp.Status)
	}
}

// push stores an image and returns its reference.
func (s *server) push(t testing.TB, tag string, im fakeImage) string {
	t.Helper()
	for d, b := range im.blobs {
		s.put(t, "/v2/app/blobs/uploads/?digest="+d, "application/octet-stream", b)
	}
	s.put(t, "/v2/app/manifests/"+tag, im.mediaType, im.manifest)
	return strings.TrimPrefix(s.URL, "http://") + "/app:" + tag
}

// layout writes an OCI layout whose index lists descs.
func layout(t testing.TB, blobs map[string][]byte, descs ...obj) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "blobs/sha256"), 0o755); err != nil {
		t.Fatal(err)
	}
	for d, b := range blobs {
		write(t, filepath.Join(dir, "blobs", strings.Replace(d, ":", "/", 1)), b)
	}
	write(t, filepath.Join(dir, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`))
	write(t, filepath.Join(dir, "index.json"), marshal(t, obj{"schemaVersion": 2, "mediaType": ociIndex, "manifests": descs}))
	return dir
}

func write(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// add puts an image into the blobs of a layout or index and describes it.
func add(blobs map[string][]byte, im fakeImage, extra obj) obj {
	maps.Copy(blobs, im.blobs)
	blobs[unpacktest.Digest(im.manifest)] = im.manifest
	d := descriptor(im.mediaType, im.manifest)
	maps.Copy(d, extra)
	return d
}

// env is a data root and what to prepare with.
type env struct {
	root   string
	runner *unpacktest.Runner
	warned []string
}

func newEnv(t testing.TB) *env {
	t.Helper()
	testgate.Need(t, testgate.UserNS, testgate.SubIDs)
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	return &env{root: unpacktest.TempDir(t), runner: &unpacktest.Runner{}}
}

func (e *env) options(ref string) image.Options {
	return image.Options{
		Ref: ref, DataRoot: e.root, Platform: "linux/amd64", Mapping: unpack.MappingFull, Runner: e.runner,
		Warn: func(s string) { e.warned = append(e.warned, s) },
	}
}

func (e *env) prepare(t testing.TB, ref string) *image.Prepared {
	t.Helper()
	p, err := image.Prepare(context.Background(), e.options(ref))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// tree lists what is below the data root, without the insides of trees.
func (e *env) tree(t testing.TB) string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(e.root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(e.root, path)
		if d.IsDir() && (d.Name() == "root" || strings.HasPrefix(d.Name(), "unpack-")) {
			names = append(names, rel)
			return filepath.SkipDir
		}
		if !d.IsDir() {
			names = append(names, rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(names, "\n")
}

// clean asserts that nothing of a failed preparation is left.
func (e *env) clean(t testing.TB) {
	t.Helper()
	for name := range strings.SplitSeq(e.tree(t), "\n") {
		if strings.Contains(name, "unpack-") || strings.HasSuffix(name, ".intent") || strings.HasSuffix(name, "/root") || strings.HasSuffix(name, "meta.json") {
			t.Errorf("left: %s", name)
		}
	}
}

func file(name, body string) unpacktest.E { return unpacktest.E{Name: name, Body: body} }

func manyFiles(n int) []unpacktest.E {
	var es []unpacktest.E
	for i := range n {
		es = append(es, file(fmt.Sprintf("dir%d/file%d", i%50, i), strings.Repeat("x", 1000)))
	}
	return es
}
