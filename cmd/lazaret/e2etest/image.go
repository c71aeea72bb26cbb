package e2etest

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"lazaret.dev/lazaret/protocol/testgate"
)

// applets are the programs of a small image.
const applets = "cat chmod chown echo env grep head hostname id ls mkdir mount pwd rm sh sleep sync touch true whoami"

// SmallImage builds an image of one program, a few megabytes that are unpacked
// in no time, and returns how a profile names it. env is its environment. It
// has no /etc/passwd and no directory but /bin.
func SmallImage(tb testing.TB, env ...string) string {
	tb.Helper()
	dir := filepath.Join(tb.TempDir(), "image")
	p, err := layout.Write(dir, empty.Index)
	if err != nil {
		tb.Fatal(err)
	}
	if err := p.AppendImage(Small(tb, v1.Config{Env: env})); err != nil {
		tb.Fatal(err)
	}
	return "oci:" + dir
}

// Archive writes an image as `docker save` does, and returns how a profile
// names it.
func Archive(tb testing.TB, img v1.Image) string {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "image.tar")
	tag, err := name.NewTag("small:latest")
	if err != nil {
		tb.Fatal(err)
	}
	if err := tarball.WriteToFile(file, tag, img); err != nil {
		tb.Fatal(err)
	}
	return "docker-archive:" + file
}

// Small builds the image of [SmallImage] with a configuration and with more
// entries of its one layer, of which a regular file's content is its Linkname.
func Small(tb testing.TB, config v1.Config, more ...tar.Header) v1.Image {
	tb.Helper()
	testgate.Need(tb, testgate.Busybox)
	program, err := os.ReadFile(testgate.BusyboxPath)
	if err != nil {
		tb.Fatal(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	write := func(h tar.Header, content []byte) {
		h.Size = int64(len(content))
		if err := w.WriteHeader(&h); err != nil {
			tb.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			tb.Fatal(err)
		}
	}
	write(tar.Header{Name: "bin/", Typeflag: tar.TypeDir, Mode: 0o755}, nil)
	write(tar.Header{Name: "bin/busybox", Typeflag: tar.TypeReg, Mode: 0o755}, program)
	for name := range strings.FieldsSeq(applets) {
		write(tar.Header{Name: "bin/" + name, Typeflag: tar.TypeSymlink, Linkname: "busybox"}, nil)
	}
	for _, h := range more {
		var content []byte
		if h.Typeflag == tar.TypeReg {
			content, h.Linkname = []byte(h.Linkname), ""
		}
		write(h, content)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(b.Bytes())), nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		tb.Fatal(err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		tb.Fatal(err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	file.Config = config
	if img, err = mutate.ConfigFile(img, file); err != nil {
		tb.Fatal(err)
	}
	return img
}
