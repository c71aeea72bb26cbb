// Package blobs keeps an image's blobs by digest while they are needed, and
// downloads them so that nothing that arrived is lost or believed too early.
//
// It knows no registry: how bytes are asked for is its caller's. It must not
// give a blob its name before the digest is verified. It runs in the Host
// Coordinator and in image commands.
package blobs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"lazaret.dev/lazaret/host/internal/image/durable"
	"lazaret.dev/lazaret/host/internal/image/fault"
)

const (
	maxTries     = 5 // downloads in a row that bring not one byte
	partialExt   = ".partial"
	defaultStall = time.Minute
)

// Store is the blob store below a data root: blobs by digest, each complete and
// verified when it has its name. Several processes may use it at once.
type Store struct {
	dir   string
	stall time.Duration
}

// Open opens the store below dataRoot and creates it if need be. A download
// that brings nothing for the duration stall is tried again; 0 means a minute.
func Open(dataRoot string, stall time.Duration) (*Store, error) {
	s := &Store{dir: filepath.Join(dataRoot, "blobs", "sha256"), stall: stall}
	if s.stall == 0 {
		s.stall = defaultStall
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fault.DiskFull(fmt.Errorf("create blob store: %w", err), dataRoot)
	}
	return s, nil
}

func (s *Store) path(digest string) (string, error) {
	hexa, ok := strings.CutPrefix(digest, "sha256:")
	if b, err := hex.DecodeString(hexa); !ok || err != nil || len(b) != sha256.Size || strings.ToLower(hexa) != hexa {
		return "", fmt.Errorf("digest %.100q is not a sha256 digest", digest)
	}
	return filepath.Join(s.dir, hexa), nil
}

// open returns a complete blob.
func (s *Store) open(path string, size int64) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if fi, err := f.Stat(); err != nil || fi.Size() != size || !fi.Mode().IsRegular() {
		_ = f.Close()
		return nil, fmt.Errorf("blob %s is not %d bytes long: %w", path, size, os.ErrNotExist)
	}
	return f, nil
}

// Put stores a small blob that has been verified.
func (s *Store) Put(digest string, data []byte) error {
	path, err := s.path(digest)
	if err != nil {
		return err
	}
	if f, err := s.open(path, int64(len(data))); err == nil {
		return f.Close()
	}
	f, err := os.CreateTemp(s.dir, ".small-")
	if err != nil {
		return fault.DiskFull(fmt.Errorf("store blob: %w", err), s.dir)
	}
	defer os.Remove(f.Name()) //nolint:errcheck // gone after the rename
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		return fault.DiskFull(fmt.Errorf("store blob: %w", err), s.dir)
	}
	return s.publish(f, f.Name(), path)
}

// Drop removes a blob and what is there of it. A process that has it open keeps
// it.
func (s *Store) Drop(digest string) error {
	path, err := s.path(digest)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove blob: %w", err)
	}
	return nil
}

// publish gives a complete file its final name, durably.
func (s *Store) publish(f *os.File, from, to string) error {
	if err := f.Sync(); err != nil {
		return fault.DiskFull(fmt.Errorf("sync blob: %w", err), s.dir)
	}
	if err := durable.Rename(from, to); err != nil {
		return fmt.Errorf("publish blob: %w", err)
	}
	return nil
}

// Fetch asks for a blob from offset on. It returns the offset at which the
// stream really starts: the same, or 0.
type Fetch func(ctx context.Context, offset int64) (body io.ReadCloser, start int64, err error)

// Get returns a blob, downloading it if it is not there. What an interrupted
// download left is continued. The digest is verified before the blob gets its
// name.
func (s *Store) Get(ctx context.Context, digest string, size int64, fetch Fetch, progress func(done, total int64)) (*os.File, error) {
	path, err := s.path(digest)
	if err != nil {
		return nil, err
	}
	if f, err := s.open(path, size); err == nil {
		progress(size, size)
		return f, nil
	}
	f, err := durable.Lock(ctx, path+partialExt, nil)
	if err != nil {
		return nil, fault.DiskFull(err, s.dir)
	}
	defer f.Close()
	// Whoever held the lock may have completed it.
	if f, err := s.open(path, size); err == nil {
		_ = os.Remove(path + partialExt)
		progress(size, size)
		return f, nil
	}
	d := download{f: f, sum: sha256.New(), size: size, stall: s.stall, fetch: fetch, progress: progress}
	if err := d.run(ctx, digest); err != nil {
		if err = fault.DiskFull(err, s.dir); fault.Has(err, fault.Full) || fault.Has(err, fault.Digest) {
			_ = os.Remove(path + partialExt)
		}
		return nil, err
	}
	if err := s.publish(f, path+partialExt, path); err != nil {
		return nil, err
	}
	return s.open(path, size)
}

// download is one blob on its way into a partial file.
type download struct {
	f        *os.File
	sum      hash.Hash
	at, size int64
	stall    time.Duration
	fetch    Fetch
	progress func(done, total int64)
}

// run completes the file, trying again where a connection breaks, and verifies
// it. What an earlier run left is not trusted: if the whole has another digest,
// it is fetched once more from its beginning.
func (d *download) run(ctx context.Context, digest string) error {
	if err := d.resume(); err != nil {
		return err
	}
	resumed := d.at > 0
	for {
		if err := d.fill(ctx); err != nil {
			return err
		}
		got := "sha256:" + hex.EncodeToString(d.sum.Sum(nil))
		if got == digest {
			return nil
		}
		if !resumed {
			return &fault.Error{
				Code: fault.Digest, Message: fmt.Sprintf("downloaded data does not match its digest: %s is not %s", got, digest),
				Fix: "try again; if it stays, the registry or a proxy changes what it sends",
			}
		}
		resumed = false
		if err := d.restart(); err != nil {
			return err
		}
	}
}

// resume hashes what the file holds.
func (d *download) resume() error {
	n, err := io.Copy(d.sum, io.NewSectionReader(d.f, 0, d.size))
	if err != nil {
		return fmt.Errorf("read partial download: %w", err)
	}
	d.at = n
	if err := d.f.Truncate(n); err != nil {
		return fmt.Errorf("truncate partial download: %w", err)
	}
	return nil
}

func (d *download) restart() error {
	d.at = 0
	d.sum.Reset()
	if err := d.f.Truncate(0); err != nil {
		return fmt.Errorf("truncate partial download: %w", err)
	}
	return nil
}

// fill downloads until the file has its size.
func (d *download) fill(ctx context.Context) error {
	for tries := 0; d.at < d.size; {
		before := d.at
		err := d.once(ctx)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("download layer: %w", context.Cause(ctx))
		case err == nil:
			continue
		case !fault.Temporary(err):
			return err
		case d.at > before:
			tries = 0
		default:
			tries++
		}
		if tries >= maxTries {
			return &fault.Error{
				Code: fault.Unreachable, Message: fmt.Sprintf("connection lost after %d of %d bytes of a layer", d.at, d.size),
				Fix: "try again; what has arrived is kept", Err: err,
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(tries+1) * 100 * time.Millisecond):
		}
	}
	return nil
}

// errStalled is the cause of a download's cancellation by its own watchdog.
var errStalled = errors.New("no data arrived")

// once makes one request and writes what it brings.
func (d *download) once(parent context.Context) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	watchdog := time.AfterFunc(d.stall, func() { cancel(errStalled) })
	defer watchdog.Stop()

	body, start, err := d.fetch(ctx, d.at)
	if err != nil {
		return err
	}
	defer body.Close()
	if start != d.at {
		if err := d.restart(); err != nil {
			return err
		}
	}
	buf := make([]byte, 256<<10)
	for d.at < d.size {
		n, err := body.Read(buf[:min(int64(len(buf)), d.size-d.at)])
		watchdog.Reset(d.stall)
		if n > 0 {
			if _, err := d.f.WriteAt(buf[:n], d.at); err != nil {
				return fmt.Errorf("write layer: %w", err)
			}
			d.sum.Write(buf[:n])
			d.at += int64(n)
			d.progress(d.at, d.size)
		}
		if err == io.EOF && d.at < d.size {
			return broken(io.ErrUnexpectedEOF)
		}
		if err != nil && err != io.EOF {
			return broken(errors.Join(context.Cause(ctx), err))
		}
	}
	return nil
}

func broken(err error) error {
	return &fault.Error{Code: fault.Unreachable, Message: "connection broke", Err: err, Temporary: true}
}
