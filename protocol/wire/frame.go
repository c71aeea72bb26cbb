package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// MaxFrame bounds a frame's payload, in bytes.
const MaxFrame = 256 << 10

// FrameType names what a frame carries.
type FrameType byte

// frameHeader is one byte of type and four of length, big endian.
const frameHeader = 5

// FrameWriter writes frames. It is safe for concurrent use; a frame is written
// whole or the writer is broken.
type FrameWriter struct {
	mu  sync.Mutex
	w   io.Writer
	buf []byte
}

// NewFrameWriter returns a writer on w.
func NewFrameWriter(w io.Writer) *FrameWriter { return &FrameWriter{w: w} }

// Write writes one frame. An empty payload is allowed.
func (f *FrameWriter) Write(t FrameType, payload []byte) error {
	if len(payload) > MaxFrame {
		return fmt.Errorf("frame of %d bytes, limit %d", len(payload), MaxFrame)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.buf = append(f.buf[:0], byte(t))
	f.buf = binary.BigEndian.AppendUint32(f.buf, uint32(len(payload)))
	f.buf = append(f.buf, payload...)
	_, err := f.w.Write(f.buf)
	return err
}

// WriteJSON writes one frame with v's JSON encoding as payload.
func (f *FrameWriter) WriteJSON(t FrameType, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return f.Write(t, b)
}

// FrameReader reads frames. It belongs to one goroutine.
type FrameReader struct {
	r   io.Reader
	hdr [frameHeader]byte
	buf []byte
}

// NewFrameReader returns a reader on r.
func NewFrameReader(r io.Reader) *FrameReader { return &FrameReader{r: r} }

// Read returns the next frame. The payload is valid until the next Read. At a
// clean end of the stream the error is io.EOF.
func (f *FrameReader) Read() (FrameType, []byte, error) {
	if _, err := io.ReadFull(f.r, f.hdr[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(f.hdr[1:])
	if n > MaxFrame {
		return 0, nil, fmt.Errorf("frame of %d bytes, limit %d", n, MaxFrame)
	}
	if cap(f.buf) < int(n) {
		f.buf = make([]byte, n)
	}
	f.buf = f.buf[:n]
	if _, err := io.ReadFull(f.r, f.buf); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return FrameType(f.hdr[0]), f.buf, nil
}
