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
	file.Config = v1.Config{Env: env}
	if img, err = mutate.ConfigFile(img, file); err != nil {
		tb.Fatal(err)
	}
	dir := filepath.Join(tb.TempDir(), "image")
	p, err := layout.Write(dir, empty.Index)
	if err != nil {
		tb.Fatal(err)
	}
	if err := p.AppendImage(img); err != nil {
		tb.Fatal(err)
	}
	return "oci:" + dir
}
