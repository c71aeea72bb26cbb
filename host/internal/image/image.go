// Package image turns an image reference into a prepared lower: a verified,
// immutable root filesystem tree below the data root (spec 3.5, SR-15, FR-22).
//
// It owns `<data_root>/{blobs,prepared,refs}`: preparation, leases, removal and
// the recovery of what a dead preparer left. It must not mount, and it must not
// touch a file of an image itself: trees are made and removed by the programs
// of package unpack, inside a user namespace, through a Runner. It prints
// nothing. It runs in the Host Coordinator and in image commands.
//
//	prepared/<id>.intent        who is making or removing a tree, and which
//	prepared/<id>/lock          flock: preparation, leases, removal
//	prepared/<id>/meta.json     what was prepared; written before root appears
//	prepared/<id>/root/         the tree; complete if it exists
//	prepared/<id>/unpack-<hex>/ a tree on its way in or out, named by the intent
//	prepared/<id>/leases/<domain>.<generation>
//	refs/<hex>.json             which image a reference meant last
package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"lazaret.dev/lazaret/host/internal/image/blobs"
	"lazaret.dev/lazaret/host/internal/image/durable"
	"lazaret.dev/lazaret/host/internal/image/fault"
	"lazaret.dev/lazaret/host/internal/image/platform"
	"lazaret.dev/lazaret/host/internal/image/program"
	"lazaret.dev/lazaret/host/internal/image/source"
	"lazaret.dev/lazaret/host/internal/unpack"
)

// Runner runs a program of package unpack as root of a user namespace with the
// id mapping that Options.Mapping names.
type Runner = program.Runner

// Phase is a step of a preparation.
type Phase string

// The phases, in order.
const (
	PhaseWait   Phase = "wait" // for another process that prepares the same image
	PhasePull   Phase = "pull"
	PhaseUnpack Phase = "unpack"
)

// Progress is how far a preparation is. Layer counts from 1; while several
// layers are pulled at once, it is the one that moved.
type Progress struct {
	Phase       Phase
	Layer       int
	Layers      int
	Done, Total int64 // bytes of that layer
}

// Options say what to prepare.
type Options struct {
	Ref      string // oci:DIR[:REF], docker-archive:FILE, or a registry's image
	DataRoot string
	Platform string // os/arch[/variant]; empty: this machine's
	Mapping  unpack.Mapping
	Runner   Runner

	Progress func(Progress)    // called from one goroutine at a time; may be nil
	Warn     func(text string) // a line for the user; may be nil
	Stall    time.Duration     // a download without data is tried again; 0: a minute
}

// Source is the source identity of a prepared lower.
type Source struct {
	Ref            string      `json:"ref"`
	Kind           source.Kind `json:"kind"`
	ManifestDigest string      `json:"manifest_digest,omitempty"` // a docker-archive has none
	ConfigDigest   string      `json:"config_digest"`
	Platform       string      `json:"platform"`
	DiffIDs        []string    `json:"diff_ids"`
}

// Config is the part of an image's configuration that sessions use.
type Config = source.Config

// Note is an entry of the image that could not be carried over as it is. Its
// text is printable.
type Note struct {
	Layer int    `json:"layer"`
	Entry string `json:"entry"`
	What  string `json:"what"`
}

// Prepared is a published prepared lower. It stays until it is removed, which
// a lease prevents.
type Prepared struct {
	ID        string         `json:"id"`
	RootPath  string         `json:"-"`
	Source    Source         `json:"source"`
	Mapping   unpack.Mapping `json:"mapping"`
	Config    Config         `json:"config"`
	Notes     []Note         `json:"notes,omitempty"` // the first ones
	NoteCount int            `json:"note_count,omitempty"`
	Bytes     int64          `json:"bytes"` // of the layers' files
	Created   time.Time      `json:"created"`
}

// Error is a failure that its reader can act on; it has a Hint. See package
// source for the codes.
type Error = fault.Error

// ErrNotPrepared reports an artifact ID without a published tree.
var ErrNotPrepared = errors.New("image is not prepared")

// Prepare returns the prepared lower of an image, making it if need be. An
// image of a registry that has been prepared before is returned as the
// reference meant it then, without asking the registry. Several processes may
// prepare the same image; one does, and the others wait for it. When Prepare
// fails, is cancelled or killed, nothing is published, and the next call
// continues the downloads and starts the rest anew.
func Prepare(ctx context.Context, o Options) (*Prepared, error) {
	return prepare(ctx, o, false)
}

// Pull is Prepare, but asks the registry what the reference means now.
func Pull(ctx context.Context, o Options) (*Prepared, error) {
	return prepare(ctx, o, true)
}

func prepare(ctx context.Context, o Options, refresh bool) (*Prepared, error) {
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	if o.Runner == nil || o.DataRoot == "" || o.Mapping == "" {
		return nil, errors.New("prepare image: runner, data root and mapping are required")
	}
	ref, err := source.Parse(o.Ref)
	if err != nil {
		return nil, err
	}
	want := platform.Host()
	if o.Platform != "" {
		if want, err = platform.Parse(o.Platform); err != nil {
			return nil, err
		}
	}
	if ref.Kind == source.KindRegistry && !refresh {
		if p := recorded(o.DataRoot, ref.Text, want.String(), o.Mapping); p != nil {
			settle(ctx, o, p.ID)
			return p, nil
		}
	}
	store, err := blobs.Open(o.DataRoot, o.Stall)
	if err != nil {
		return nil, err
	}
	im, err := source.Resolve(ctx, ref, source.Options{Platform: want, Store: store, Warn: o.Warn})
	if err != nil {
		return nil, err
	}
	defer im.Close() //nolint:errcheck // nothing was written to it

	id := artifactID(im.ConfigDigest, o.Mapping)
	p, err := load(o.DataRoot, id)
	if err == nil {
		settle(ctx, o, id)
	}
	if errors.Is(err, ErrNotPrepared) {
		w := &work{o: o, im: im, store: store, id: id, dir: filepath.Join(preparedDir(o.DataRoot), id)}
		p, err = w.run(ctx)
	}
	if err != nil {
		return nil, fault.DiskFull(err, o.DataRoot)
	}
	if ref.Kind == source.KindRegistry {
		err = writeRecord(o.DataRoot, record{
			Ref: ref.Text, Platform: want.String(),
			ManifestDigest: im.ManifestDigest, ConfigDigest: im.ConfigDigest, Updated: time.Now().UTC(),
		})
	}
	return p, fault.DiskFull(err, o.DataRoot)
}

// artifactID names the tree that this version of the unpacker makes of an
// image: the configuration's digest covers the layers' content and the
// environment.
func artifactID(configDigest string, m unpack.Mapping) string {
	sum := sha256.Sum256([]byte("lazaret prepared lower\n" + configDigest + "\n" + string(m) + "\n" + strconv.Itoa(unpack.Version) + "\n"))
	return hex.EncodeToString(sum[:])
}

// artifactName is what an artifact ID looks like.
var artifactName = regexp.MustCompile(`^[0-9a-f]{64}$`)

func preparedDir(dataRoot string) string { return filepath.Join(dataRoot, "prepared") }

// load returns a published artifact, or an error that is ErrNotPrepared.
func load(dataRoot, id string) (*Prepared, error) {
	if !artifactName.MatchString(id) {
		return nil, fmt.Errorf("prepared artifact %.100q: %w", id, ErrNotPrepared)
	}
	dir := filepath.Join(preparedDir(dataRoot), id)
	fi, err := os.Lstat(filepath.Join(dir, "root"))
	if err != nil || !fi.IsDir() {
		return nil, fmt.Errorf("prepared artifact %s: %w", id, errors.Join(ErrNotPrepared, err))
	}
	var p Prepared
	if err := durable.ReadJSON(filepath.Join(dir, "meta.json"), &p); err != nil {
		return nil, fmt.Errorf("prepared artifact %s: %w", id, err)
	}
	if p.ID != id {
		return nil, fmt.Errorf("prepared artifact %s calls itself %.100q", id, p.ID)
	}
	p.RootPath = filepath.Join(dir, "root")
	return &p, nil
}
