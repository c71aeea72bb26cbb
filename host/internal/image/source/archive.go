package source

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/image/fault"
	"lazaret.dev/lazaret/host/internal/image/platform"
	"lazaret.dev/lazaret/host/internal/image/registry"
)

const (
	maxArchiveEntries = 100_000
	maxLinks          = 8
)

// archive is the backend of a `docker save` archive. Layers are parts of the
// file, used where they are.
type archive struct {
	f       *os.File
	entries map[string]archiveEntry
	layers  []archiveEntry
}

// archiveEntry is a part of the file, or a link to another entry.
type archiveEntry struct {
	offset, size int64
	link         string
}

func resolveArchive(ref Ref, o Options) (*Image, error) {
	f, err := os.OpenFile(ref.Path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, &fault.Error{Code: fault.NotFound, Message: fmt.Sprintf("cannot open image archive %s", ref.Path), Err: err}
	}
	a := &archive{f: f}
	im, err := a.resolve(ref, o.Platform)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return im, nil
}

func (a *archive) resolve(ref Ref, want platform.Platform) (*Image, error) {
	fi, err := a.f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read image archive: %w", err)
	}
	if !fi.Mode().IsRegular() {
		return nil, fault.BadImage("%s is no regular file", ref.Path)
	}
	if err := a.scan(); err != nil {
		return nil, err
	}
	raw, err := a.read("manifest.json")
	if err != nil {
		return nil, err
	}
	var images tarball.Manifest
	if err := json.Unmarshal(raw, &images); err != nil {
		return nil, &fault.Error{Code: fault.Malformed, Message: "manifest.json of the image archive is malformed", Err: err}
	}
	if len(images) != 1 {
		var tags []string
		for _, im := range images {
			tags = append(tags, im.RepoTags...)
		}
		slices.Sort(tags)
		return nil, &fault.Error{
			Code: fault.Reference, Message: fmt.Sprintf("image archive %s holds %d images: %.1000q", ref.Path, len(images), strings.Join(tags, ", ")),
			Fix: "save one image alone: docker save -o FILE IMAGE",
		}
	}
	rawConfig, err := a.read(images[0].Config)
	if err != nil {
		return nil, err
	}
	cfg, err := v1.ParseConfigFile(bytes.NewReader(rawConfig))
	if err != nil {
		return nil, &fault.Error{Code: fault.Malformed, Message: "image configuration is malformed", Err: err}
	}
	im, err := newImage(cfg, rawConfig, want)
	if err != nil {
		return nil, err
	}
	if len(images[0].Layers) != len(im.Layers) {
		return nil, fault.BadImage("the archive lists %d layers, the configuration %d", len(images[0].Layers), len(im.Layers))
	}
	for i, file := range images[0].Layers {
		e, err := a.find(file)
		if err != nil {
			return nil, err
		}
		a.layers = append(a.layers, e)
		im.Layers[i].Size = e.size
	}
	im.src = a
	return im, nil
}

// scan notes where each entry lies.
func (a *archive) scan() error {
	a.entries = map[string]archiveEntry{}
	tr := tar.NewReader(a.f)
	for n := 0; ; n++ {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return &fault.Error{Code: fault.Malformed, Message: "image archive is no tar file, or a broken one", Err: err}
		}
		if n >= maxArchiveEntries {
			return fault.BadImage("the archive has more than %d entries", maxArchiveEntries)
		}
		name := path.Join("/", h.Name)
		switch h.Typeflag {
		case tar.TypeReg:
			// The reader has consumed the headers and nothing more.
			at, err := a.f.Seek(0, io.SeekCurrent)
			if err != nil {
				return fmt.Errorf("read image archive: %w", err)
			}
			a.entries[name] = archiveEntry{offset: at, size: h.Size}
		case tar.TypeSymlink:
			a.entries[name] = archiveEntry{link: path.Join(path.Dir(name), h.Linkname)}
		case tar.TypeLink:
			a.entries[name] = archiveEntry{link: path.Join("/", h.Linkname)}
		}
	}
}

func (a *archive) find(name string) (archiveEntry, error) {
	at := path.Join("/", name)
	for range maxLinks {
		e, ok := a.entries[at]
		if !ok {
			break
		}
		if e.link == "" {
			return e, nil
		}
		at = e.link
	}
	return archiveEntry{}, &fault.Error{
		Code: fault.Malformed, Message: fmt.Sprintf("image archive has no file %.200q", name),
		Fix: "use an archive that docker save or podman save --format docker-archive has written",
	}
}

func (a *archive) read(name string) ([]byte, error) {
	e, err := a.find(name)
	if err != nil {
		return nil, err
	}
	if e.size > registry.MaxManifest {
		return nil, fault.BadImage("%.200q of the archive has %d bytes", name, e.size)
	}
	b := make([]byte, e.size)
	if _, err := a.f.ReadAt(b, e.offset); err != nil {
		return nil, &fault.Error{Code: fault.Malformed, Message: "image archive is cut off", Err: err}
	}
	return b, nil
}

// Close implements backend.
func (a *archive) Close() error { return a.f.Close() }

// blob implements backend; resolving an archive asks for none.
func (a *archive) blob(context.Context, descriptor) ([]byte, error) {
	return nil, errors.New("an image archive has no blobs")
}

// layer implements backend.
func (a *archive) layer(_ context.Context, i int, l Layer, progress func(done, total int64)) (Blob, error) {
	fd, err := unix.FcntlInt(a.f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return Blob{}, fmt.Errorf("open layer of the archive: %w", err)
	}
	progress(l.Size, l.Size)
	return Blob{File: os.NewFile(uintptr(fd), a.f.Name()), Offset: a.layers[i].offset, Size: l.Size}, nil
}
