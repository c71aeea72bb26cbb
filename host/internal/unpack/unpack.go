// Package unpack holds the two programs that handle an image's file tree inside
// a user namespace: Serve applies layers, RemoveTree removes a tree.
//
// It owns the conversation with those programs (Request, Event) and the rules
// for entries that cannot be carried over: devices, foreign owners, attributes
// that mean something to an overlay. The applier is umoci's layer package; this
// package only decides which entries it sees, and in what form. It must not
// resolve, download or choose anything, and it must not open a path before it
// has confined itself to the target directory. The programs run in a process of
// their own, as `lazaret _unpack` and `lazaret _rmtree`, as root of a user
// namespace; the Host Coordinator links the types only.
//
//	host                                  program (user namespace)
//	  | Request, JSON, on fd 0                  |
//	  | target directory, layers on fds 3...    |
//	  |---------------------------------------->| chroot into the target
//	  |            Event, JSON lines, on fd 1   | apply layer 1, 2, ...
//	  |<----------------------------------------| progress*, note*
//	  |<----------------------------------------| done | failed, then EOF
package unpack

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	stdlog "log"
	"os"
	"strconv"
	"strings"

	"github.com/opencontainers/umoci/oci/layer"
	"golang.org/x/sys/unix"
)

// implied is the umask under which layers are applied. The modes that a layer
// spells out are set by chmod, which no umask touches; this one gives
// directories that a layer only implies mode 0755.
const implied = 0o022

// Serve is the program `_unpack`: it reads one Request from in, applies the
// layers to the target directory and writes Events to out. It confines the
// whole process to the target directory, for good, before it looks at a layer,
// so it must not be called in a process that has other work.
//
// The returned error has already been reported as an Event; the caller only
// turns it into an exit status.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	r := newReporter(out)
	return r.finish(serve(ctx, in, r))
}

func serve(ctx context.Context, in io.Reader, r *reporter) error {
	var req Request
	if err := readRequest(in, &req); err != nil {
		return err
	}
	if err := req.validate(); err != nil {
		return err
	}
	// Everything that needs a path of the host comes before the chroot.
	ids, err := readIDs(req.Mapping)
	if err != nil {
		return err
	}
	target := os.NewFile(uintptr(req.Target), "target")
	layers := make([]*os.File, len(req.Layers))
	for i, l := range req.Layers {
		layers[i] = os.NewFile(uintptr(l.FD), "layer "+strconv.Itoa(i+1))
	}
	// The applier logs names out of the image; what matters of it comes as notes.
	stdlog.SetOutput(io.Discard)

	if err := confine(target); err != nil {
		return err
	}
	unix.Umask(implied)
	for i, l := range req.Layers {
		if err := applyLayer(ctx, i, l, layers[i], ids, r); err != nil {
			return fmt.Errorf("layer %d of %d: %w", i+1, len(req.Layers), err)
		}
		_ = layers[i].Close()
	}
	if err := unix.Syncfs(int(target.Fd())); err != nil {
		return fmt.Errorf("sync unpacked tree: %w", err)
	}
	return nil
}

// confine makes dir the root of this process. The process keeps no descriptor
// of a directory outside it: files are all that it has inherited.
func confine(dir *os.File) error {
	if err := unix.Fchdir(int(dir.Fd())); err != nil {
		return fmt.Errorf("enter target directory: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("chroot to target directory: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return fmt.Errorf("enter target directory: %w", err)
	}
	return nil
}

// applyLayer applies one layer to the root directory and verifies both of its
// digests on the way.
func applyLayer(ctx context.Context, i int, l Layer, f *os.File, ids idSets, r *reporter) error {
	raw := &meter{
		r:   io.NewSectionReader(f, l.Offset, l.Size),
		sum: sha256.New(),
		step: func(done int64) error {
			r.progress(i+1, done, l.Size)
			return ctx.Err()
		},
	}
	plain, err := decompress(raw)
	if err != nil {
		return err
	}
	defer plain.Close()
	body := &meter{r: plain, sum: sha256.New(), limit: maxLayerBytes}

	written, err := applyTar(body, ids, r.noter(i+1))
	r.bytes += written
	if err != nil {
		return err
	}
	// A tar reader stops at the end marker; the digests cover what follows, too.
	if _, err := io.Copy(io.Discard, body); err != nil {
		return &layerError{ErrLayer, err}
	}
	if _, err := io.Copy(io.Discard, raw); err != nil {
		return &layerError{ErrLayer, err}
	}
	if got := raw.digest(); l.Digest != "" && got != l.Digest {
		return &layerError{ErrDigest, fmt.Errorf("digest is %s, want %s", got, l.Digest)}
	}
	if got := body.digest(); got != l.DiffID {
		return &layerError{ErrDiffID, fmt.Errorf("content digest (diffID) is %s, want %s", got, l.DiffID)}
	}
	r.end(i+1, l.Size)
	return nil
}

// applyTar applies the entries of one tar stream that pass the filter, and
// returns the size of their regular files.
func applyTar(stream io.Reader, ids idSets, note func(entry, what string)) (written int64, err error) {
	te := layer.NewTarExtractor(&layer.UnpackOptions{OnDiskFormat: layer.DirRootfs{}})
	flt := newFilter(ids, note)
	err = eachEntry(stream, func(e entry) error {
		keep, err := flt.apply(e.Header)
		if err != nil {
			return &layerError{ErrLayer, err}
		}
		if !keep {
			return nil
		}
		name := e.Header.Name
		if e.Header.Typeflag == tar.TypeReg {
			written += e.Header.Size
		}
		if err := te.UnpackEntry("/", e.Header, e.Body); err != nil {
			return fmt.Errorf("entry %s: %w", quote(name), err)
		}
		return nil
	})
	return written, err
}

// meter counts, bounds and hashes what is read through it.
type meter struct {
	r     io.Reader
	n     int64
	limit int64 // 0: none
	sum   hash.Hash
	step  func(done int64) error
}

// Read implements io.Reader.
func (m *meter) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	m.sum.Write(p[:n])
	m.n += int64(n)
	if m.limit > 0 && m.n > m.limit {
		return n, fmt.Errorf("layer unpacks to more than %d bytes", m.limit)
	}
	if m.step != nil && n > 0 {
		if e := m.step(m.n); e != nil {
			return n, e
		}
	}
	return n, err
}

func (m *meter) digest() string { return "sha256:" + hex.EncodeToString(m.sum.Sum(nil)) }

// readRequest reads one JSON value and nothing after it.
func readRequest(in io.Reader, into any) error {
	d := json.NewDecoder(io.LimitReader(in, maxRequest))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	return nil
}

// quote renders text from an image so that no terminal and no log interprets
// it.
func quote(s string) string { return strconv.QuoteToASCII(s) }

// printable is quote for a whole message: without the quotation marks, and with
// the message's own ones as they are.
func printable(s string) string {
	q := strconv.QuoteToASCII(s)
	q = strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
	return strings.ReplaceAll(q, `\\`, `\`)
}

// errorCode classifies err for the host, which cannot see the error itself.
func errorCode(err error) ErrorCode {
	var le *layerError
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return ErrDiskFull
	case errors.As(err, &le):
		return le.code
	}
	return ErrOther
}

// layerError is a failure that lies in the layer, not in the machine.
type layerError struct {
	code ErrorCode
	err  error
}

func (e *layerError) Error() string { return e.err.Error() }
func (e *layerError) Unwrap() error { return e.err }
