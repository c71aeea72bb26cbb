package image_test

import (
	"archive/tar"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"lazaret.dev/lazaret/host/internal/image"
	"lazaret.dev/lazaret/host/internal/image/fault"
	"lazaret.dev/lazaret/host/internal/image/source"
	"lazaret.dev/lazaret/host/internal/unpack"
	"lazaret.dev/lazaret/host/internal/unpack/unpacktest"
)

// SR-15, FR-22: a registry's image becomes an owned tree with identity, and
// starts offline from then on.
func TestPrepareFromRegistry(t *testing.T) {
	e, s := newEnv(t), newServer(t)
	base := gzipLayer(t, unpacktest.Tar(t, file("etc/os-release", "NAME=x"), unpacktest.E{Name: "su", Mode: 0o4755}))
	ref := s.push(t, "v1", newImage(t, "amd64", base, plainLayer(unpacktest.Tar(t, file("top", "2"), unpacktest.E{Name: "null", Type: tar.TypeChar, Major: 1, Minor: 3}))))
	o := e.options(ref)
	var phases []string
	o.Progress = func(p image.Progress) {
		if p.Layers != 2 || p.Layer < 1 || p.Layer > 2 || p.Done > p.Total {
			t.Errorf("progress %+v", p)
		}
		if p.Done == p.Total {
			phases = append(phases, string(p.Phase))
		}
	}
	p, err := image.Prepare(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(phases, " "); got != "pull pull unpack unpack" {
		t.Errorf("phases: %s", got)
	}
	files := unpacktest.Snapshot(t, p.RootPath)
	if files["etc/os-release"].Body != "NAME=x" || files["su"].Mode&0o7777 != 0o4755 || files["top"].Body != "2" {
		t.Errorf("tree: %+v", files)
	}
	if p.Config.WorkingDir != "/srv" || p.Config.User != "app" || strings.Join(p.Config.Env, " ") != "PATH=/opt/bin:/bin A=b=c" {
		t.Errorf("config: %+v", p.Config)
	}
	if p.NoteCount != 1 || len(p.Notes) != 1 || p.Notes[0].What != "device 1:3 skipped" || p.Bytes != 7 {
		t.Errorf("notes: %+v", p)
	}
	if len(p.Source.DiffIDs) != 2 || p.Source.Ref != ref || !strings.HasPrefix(p.Source.ManifestDigest, "sha256:") {
		t.Errorf("source: %+v", p.Source)
	}
	// The layers' blobs are gone; manifest and configuration are kept.
	blobs, err := os.ReadDir(filepath.Join(e.root, "blobs/sha256"))
	if err != nil || len(blobs) != 2 {
		t.Errorf("blobs: %v, %v", blobs, err)
	}
	if fi, err := os.Stat(filepath.Join(e.root, "prepared")); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("others can reach set-id programs: %v, %v", fi, err)
	}

	s.requests("")
	if again := e.prepare(t, ref); again.ID != p.ID || len(s.requests("")) != 0 {
		t.Error("a prepared image asked the registry")
	}
	// A new image under the tag: only Pull takes it.
	ref = s.push(t, "v1", newImage(t, "amd64", base))
	if again := e.prepare(t, ref); again.ID != p.ID {
		t.Error("prepare took another image without being asked to")
	}
	pulled, err := image.Pull(context.Background(), e.options(ref))
	if err != nil || pulled.ID == p.ID {
		t.Fatalf("pull: %+v, %v", pulled, err)
	}
	s.Close()
	if again := e.prepare(t, ref); again.ID != pulled.ID {
		t.Error("offline: another image")
	}
	_, err = image.Pull(context.Background(), e.options(ref))
	if !fault.Has(err, fault.Unreachable) {
		t.Errorf("pull without a registry: %v", err)
	}
	list, err := image.List(e.root)
	if err != nil || len(list) != 2 {
		t.Fatalf("list: %+v, %v", list, err)
	}
	for _, l := range list {
		if (l.ID == pulled.ID) != (len(l.Refs) == 1) {
			t.Errorf("refs of %s: %v", l.ID, l.Refs)
		}
	}
	// Another mapping is another artifact.
	o.Mapping, o.Progress, o.Runner = unpack.MappingSingle, nil, &unpacktest.Runner{Single: true}
	if _, err := image.Prepare(context.Background(), o); err == nil {
		t.Error("the single-id tree came from nowhere")
	}
}

// Layouts and archives are read where they are; layers that two images share
// are no trouble.
func TestPrepareFromDisk(t *testing.T) {
	e := newEnv(t)
	l := gzipLayer(t, unpacktest.Tar(t, file("a", "1")))
	blobs := map[string][]byte{}
	dir := layout(t, blobs, add(blobs, newImage(t, "amd64", l, l), nil))
	layoutAgain := layout(t, blobs, add(blobs, newImage(t, "amd64", l, l), obj{"annotations": obj{"org.opencontainers.image.ref.name": "base"}}))
	p := e.prepare(t, "oci:"+layoutAgain+":base")
	if again := e.prepare(t, "oci:"+layoutAgain); again.ID != p.ID {
		t.Error("the only image of a layout is not the one of its name")
	}
	_ = dir
	if f := unpacktest.Snapshot(t, p.RootPath)["a"]; f.Body != "1" {
		t.Errorf("tree: %+v", f)
	}
	p = e.prepare(t, "docker-archive:"+archive(t, []byte("2")))
	if f := unpacktest.Snapshot(t, p.RootPath)["f"]; f.Body != "2" || p.Source.Kind != source.KindArchive {
		t.Errorf("tree: %+v", f)
	}
	if es, err := os.ReadDir(filepath.Join(e.root, "blobs/sha256")); err != nil || len(es) != 0 {
		t.Errorf("blobs were copied: %v, %v", es, err)
	}
}

// archive writes a `docker save` archive whose second layer is a link, as older
// versions wrote them.
func archive(t *testing.T, body []byte) string {
	l := unpacktest.Tar(t, file("f", string(body)))
	config := marshal(t, obj{"os": "linux", "architecture": "amd64", "rootfs": obj{"type": "layers", "diff_ids": []string{unpacktest.Digest(l), unpacktest.Digest(l)}}})
	path := filepath.Join(t.TempDir(), "image.tar")
	write(t, path, unpacktest.Tar(t,
		file("one/layer.tar", string(l)), unpacktest.E{Name: "two/layer.tar", Type: tar.TypeSymlink, Link: "../one/layer.tar"},
		file("c.json", string(config)),
		file("manifest.json", string(marshal(t, []obj{{"Config": "c.json", "RepoTags": []string{"app:1"}, "Layers": []string{"one/layer.tar", "two/layer.tar"}}})))))
	return path
}

// Data that is not what its digest says is never published, and the next try
// with good data works.
func TestTampered(t *testing.T) {
	l := gzipLayer(t, unpacktest.Tar(t, file("a", strings.Repeat("1", 5000))))
	t.Run("layer from the registry", func(t *testing.T) {
		e, s := newEnv(t), newServer(t)
		ref := s.push(t, "v1", newImage(t, "amd64", l))
		s.set(func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/blobs/"+unpacktest.Digest(l.blob)) {
				return false
			}
			bad := append([]byte{}, l.blob...)
			bad[len(bad)/2] ^= 1
			w.Write(bad)
			return true
		})
		_, err := image.Prepare(context.Background(), e.options(ref))
		if !fault.Has(err, fault.Digest) {
			t.Errorf("error: %v", err)
		}
		e.clean(t)
		s.set(nil)
		e.prepare(t, ref)
	})
	t.Run("diffID", func(t *testing.T) {
		e, s := newEnv(t), newServer(t)
		bad := l
		bad.diffID = unpacktest.Digest([]byte("other"))
		_, err := image.Prepare(context.Background(), e.options(s.push(t, "v1", newImage(t, "amd64", bad))))
		if !fault.Has(err, fault.Digest) {
			t.Errorf("error: %v", err)
		}
		e.clean(t)
	})
	t.Run("layer in a layout", func(t *testing.T) {
		e := newEnv(t)
		blobs := map[string][]byte{}
		d := add(blobs, newImage(t, "amd64", l), nil)
		bad := append([]byte{}, l.blob...)
		bad[len(bad)-10] ^= 1
		blobs[unpacktest.Digest(l.blob)] = bad
		_, err := image.Prepare(context.Background(), e.options("oci:"+layout(t, blobs, d)))
		if err == nil {
			t.Error("it was prepared")
		}
		e.clean(t)
	})
	t.Run("manifest and configuration in a layout", func(t *testing.T) {
		for _, what := range []string{"manifest", "config"} {
			e := newEnv(t)
			im := newImage(t, "amd64", l)
			blobs := map[string][]byte{}
			d := add(blobs, im, nil)
			for digest, b := range blobs {
				isConfig := strings.Contains(string(b), "diff_ids")
				if (what == "config" && isConfig) || (what == "manifest" && digest == unpacktest.Digest(im.manifest)) {
					blobs[digest] = append(b, ' ')
				}
			}
			_, err := image.Prepare(context.Background(), e.options("oci:"+layout(t, blobs, d)))
			if !fault.Has(err, fault.Digest) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// A connection that breaks is resumed where it broke; so is the download of a
// process that died.
func TestResume(t *testing.T) {
	e, s := newEnv(t), newServer(t)
	l := plainLayer(unpacktest.Tar(t, manyFiles(1000)...))
	ref := s.push(t, "v1", newImage(t, "amd64", l))
	blobPath := "/v2/app/blobs/" + unpacktest.Digest(l.blob)
	cut, ranges := 0, true
	s.set(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != blobPath {
			return false
		}
		from := 0
		if h := r.Header.Get("Range"); h != "" && ranges {
			from, _ = strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(h, "bytes="), "-"))
			w.Header().Set("Content-Range", "bytes "+strconv.Itoa(from)+"-"+strconv.Itoa(len(l.blob)-1)+"/"+strconv.Itoa(len(l.blob)))
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(l.blob)-from))
		if from > 0 {
			w.WriteHeader(http.StatusPartialContent)
		}
		if cut < 3 {
			cut++
			w.Write(l.blob[from : from+len(l.blob)/5])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		w.Write(l.blob[from:])
		return true
	})
	e.prepare(t, ref)
	got := s.requests(blobPath)
	if len(got) != 4 || !strings.HasSuffix(got[0], " ") || !strings.Contains(got[3], "bytes=") {
		t.Errorf("requests: %q", got)
	}

	// Ranges ignored: restarted clean.
	e, cut, ranges = newEnv(t), 2, false
	e.prepare(t, ref)

	// What an earlier process left is used when right, and dropped when wrong.
	for _, good := range []bool{true, false} {
		e, cut, ranges = newEnv(t), 3, true
		part := append([]byte{}, l.blob[:len(l.blob)/2]...)
		if !good {
			part[0] ^= 1
		}
		dir := filepath.Join(e.root, "blobs/sha256")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, strings.TrimPrefix(unpacktest.Digest(l.blob), "sha256:")+".partial"), part)
		s.requests("")
		e.prepare(t, ref)
		if got := s.requests(blobPath); len(got) != map[bool]int{true: 1, false: 2}[good] || !strings.Contains(got[0], "bytes="+strconv.Itoa(len(part))) {
			t.Errorf("good %v: %q", good, got)
		}
	}
}

// A registry that goes silent is given up with a name, and cancelling does not
// wait for it.
func TestStalledDownload(t *testing.T) {
	e, s := newEnv(t), newServer(t)
	l := plainLayer(unpacktest.Tar(t, file("a", "1")))
	ref := s.push(t, "v1", newImage(t, "amd64", l))
	stop := make(chan struct{})
	defer close(stop)
	s.set(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, unpacktest.Digest(l.blob)) {
			return false
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(l.blob)))
		w.(http.Flusher).Flush()
		select {
		case <-stop:
		case <-r.Context().Done():
		}
		return true
	})
	o := e.options(ref)
	o.Stall = 50 * time.Millisecond
	_, err := image.Prepare(context.Background(), o)
	if !fault.Has(err, fault.Unreachable) || !strings.Contains(err.Error(), "no data arrived") {
		t.Errorf("error: %v", err)
	}
	o.Stall = time.Hour
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if _, err = image.Prepare(ctx, o); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error: %v", err)
	}
	e.clean(t)
}

// Cases 91, 92 and what is like them: refused by name, before any download.
func TestRefusals(t *testing.T) {
	l := plainLayer(unpacktest.Tar(t, file("a", "1")))
	odd := l
	odd.mediaType = "application/vnd.example.layer+lz4"
	many := make([]fakeLayer, 201)
	for i := range many {
		many[i] = l
	}
	big := newImage(t, "amd64", l)
	big.manifest = append(big.manifest, make([]byte, 5<<20)...)
	for i := range big.manifest[len(big.manifest)-5<<20:] {
		big.manifest[len(big.manifest)-5<<20+i] = ' '
	}
	both := newImage(t, "amd64", l)
	both.manifest = append(both.manifest[:len(both.manifest)-1], `,"manifests":[]}`...)
	for name, c := range map[string]struct {
		im   fakeImage
		code fault.Code
		text string
	}{
		"unknown layer type": {newImage(t, "amd64", odd), fault.MediaType, "vnd.example.layer+lz4"},
		"other machine":      {newImage(t, "s390x", l), fault.Platform, "linux/s390x"},
		"too many layers":    {newImage(t, "amd64", many...), fault.Malformed, "201 layers"},
		"huge manifest":      {big, fault.Malformed, "bytes"},
		"index and image":    {both, fault.Malformed, "both an index and an image"},
	} {
		t.Run(name, func(t *testing.T) {
			e, s := newEnv(t), newServer(t)
			_, err := image.Prepare(context.Background(), e.options(s.push(t, "v1", c.im)))
			if !fault.Has(err, c.code) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("error: %v", err)
			}
			e.clean(t)
		})
	}
	e, s := newEnv(t), newServer(t)
	s.push(t, "v1", newImage(t, "amd64", l))
	for _, ref := range []string{strings.TrimPrefix(s.URL, "http://") + "/app:none", "oci:" + t.TempDir(), "docker-archive:/nonexistent"} {
		if _, err := image.Prepare(context.Background(), e.options(ref)); !fault.Has(err, fault.NotFound) {
			t.Errorf("%s: %v", ref, err)
		}
	}
	for _, ref := range []string{"", "UPPER/case:x", "a b", "oci:", "docker-archive:"} {
		if _, err := image.Prepare(context.Background(), e.options(ref)); !fault.Has(err, fault.Reference) {
			t.Errorf("%q: %v", ref, err)
		}
	}
}
