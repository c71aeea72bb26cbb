package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"lazaret.dev/lazaret/host/internal/image/blobs"
	"lazaret.dev/lazaret/host/internal/image/durable"
	"lazaret.dev/lazaret/host/internal/image/fault"
	"lazaret.dev/lazaret/host/internal/image/program"
	"lazaret.dev/lazaret/host/internal/image/source"
	"lazaret.dev/lazaret/host/internal/unpack"
	"lazaret.dev/lazaret/protocol/faults"
)

const (
	parallelPulls = 3
	// cleanupTime bounds the removal of a tree after its preparation failed or
	// was cancelled. What remains is recovered from the intent.
	cleanupTime = time.Minute
)

// work is one preparation.
type work struct {
	o     Options
	im    *source.Image
	store *blobs.Store
	id    string
	dir   string

	mu sync.Mutex // serialises Progress
}

// run makes the tree and publishes it, unless another process has meanwhile.
func (w *work) run(ctx context.Context) (*Prepared, error) {
	lock, err := lockArtifact(ctx, w.o.DataRoot, w.id, func() { w.progress(Progress{Phase: PhaseWait}) })
	if err != nil {
		return nil, err
	}
	defer lock.Close() //nolint:errcheck // releases the lock
	if p, err := load(w.o.DataRoot, w.id); !errors.Is(err, ErrNotPrepared) {
		return p, err
	}
	faults.Point("image.hc.locked")
	if err := recoverIntent(ctx, w.o.DataRoot, w.id, w.o.Runner); err != nil {
		return nil, err
	}
	fetched, err := w.pull(ctx)
	defer func() {
		for _, b := range fetched {
			if b.File != nil {
				_ = b.File.Close()
			}
		}
	}()
	if err != nil {
		return nil, err
	}
	p, err := w.unpack(ctx, lock, fetched)
	if err != nil {
		return nil, err
	}
	return p, w.tidy()
}

// pull fetches all layers, a few at a time.
func (w *work) pull(parent context.Context) ([]source.Blob, error) {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	fetched := make([]source.Blob, len(w.im.Layers))
	errs := make([]error, len(w.im.Layers))
	slots := make(chan struct{}, parallelPulls)
	var wg sync.WaitGroup
	for i := range w.im.Layers {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if errs[i] = ctx.Err(); errs[i] != nil {
				return
			}
			fetched[i], errs[i] = w.im.Fetch(ctx, i, func(done, total int64) {
				w.progress(Progress{Phase: PhasePull, Layer: i + 1, Layers: len(fetched), Done: done, Total: total})
			})
			if errs[i] != nil {
				cancel() // the first failure ends the others
			}
		})
	}
	wg.Wait()
	var cancelled error
	for i, err := range errs {
		if err == nil {
			continue
		}
		err = fmt.Errorf("layer %d of %d: %w", i+1, len(errs), err)
		if !errors.Is(err, context.Canceled) {
			return fetched, err
		}
		cancelled = err
	}
	return fetched, cancelled
}

func (w *work) progress(p Progress) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.o.Progress(p)
}

// unpack makes the tree beside its final place, and publishes it. The order:
// intent before tree (recovery touches nothing else), metadata before root
// (whoever sees the root finds it described), root before the intent ends.
func (w *work) unpack(ctx context.Context, lock *os.File, fetched []source.Blob) (p *Prepared, err error) {
	in, target, err := begin(w.o.DataRoot, w.id)
	if err != nil {
		return nil, err
	}
	defer target.Close() //nolint:errcheck // a directory
	defer func() {
		if err != nil {
			// Cancelled or not, the tree goes; the cause stays the error.
			ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
			defer stop()
			_ = in.abandon(ctx, w.o.Runner)
		}
	}()
	faults.Point("image.hc.tree-identified")
	ev, err := w.apply(ctx, lock, target, fetched)
	if err != nil {
		return nil, err
	}
	faults.Point("image.hc.unpacked")
	p = &Prepared{
		ID: w.id, RootPath: filepath.Join(w.dir, "root"), Mapping: w.o.Mapping, Config: w.im.Config,
		Notes: notes(ev), NoteCount: ev.Last.Notes, Bytes: ev.Last.Bytes, Created: time.Now().UTC(),
		Source: Source{
			Ref: w.im.Ref.Text, Kind: w.im.Ref.Kind, ManifestDigest: w.im.ManifestDigest,
			ConfigDigest: w.im.ConfigDigest, Platform: w.im.Platform.String(),
		},
	}
	for _, l := range w.im.Layers {
		p.Source.DiffIDs = append(p.Source.DiffIDs, l.DiffID)
	}
	if err := durable.WriteJSON(filepath.Join(w.dir, "meta.json"), p); err != nil {
		return nil, err
	}
	faults.Point("image.hc.described")
	if err := durable.Rename(in.tree(), p.RootPath); err != nil {
		return nil, fmt.Errorf("publish prepared tree: %w", err)
	}
	faults.Point("image.hc.published")
	return p, in.end()
}

// apply runs the unpack program. The program inherits the lock, too: if this
// process dies first, nobody else starts until the program is gone.
func (w *work) apply(ctx context.Context, lock, target *os.File, fetched []source.Blob) (*program.Events, error) {
	const first = 3
	files := []*os.File{target, lock}
	req := unpack.Request{Version: unpack.Version, Mapping: w.o.Mapping, Target: first}
	for i, b := range fetched {
		l := w.im.Layers[i]
		req.Layers = append(req.Layers, unpack.Layer{
			FD: first + len(files), Offset: b.Offset, Size: b.Size, Digest: l.Digest, DiffID: l.DiffID,
		})
		files = append(files, b.File)
	}
	ev := &program.Events{OnProgress: func(e unpack.Event) {
		w.progress(Progress{Phase: PhaseUnpack, Layer: e.Layer, Layers: len(fetched), Done: e.Done, Total: e.Total})
	}}
	err := program.Run(ctx, w.o.Runner, unpack.Program, req, files, ev)
	if fault.Has(err, fault.Digest) && w.im.Ref.Kind == source.KindRegistry {
		// A blob of the store is not what it was when it was verified.
		for _, l := range w.im.Layers {
			err = errors.Join(err, w.store.Drop(l.Digest))
		}
	}
	return ev, err
}

// tidy keeps the manifest and the configuration, and frees the layers' space.
func (w *work) tidy() error {
	if w.im.Ref.Kind != source.KindRegistry {
		return nil
	}
	if err := w.store.Put(w.im.ManifestDigest, w.im.RawManifest); err != nil {
		return err
	}
	if err := w.store.Put(w.im.ConfigDigest, w.im.RawConfig); err != nil {
		return err
	}
	for _, l := range w.im.Layers {
		if err := w.store.Drop(l.Digest); err != nil {
			return err
		}
	}
	return nil
}

func notes(ev *program.Events) []Note {
	var ns []Note
	for _, e := range ev.Notes {
		ns = append(ns, Note{Layer: e.Layer, Entry: e.Entry, What: e.What})
	}
	return ns
}
