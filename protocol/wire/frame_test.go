package wire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"lazaret.dev/lazaret/protocol/wire"
)

type frame struct {
	typ     wire.FrameType
	payload []byte
}

// readAll reads frames to the end of the stream, which must be a clean one.
func readAll(r io.Reader) ([]frame, error) {
	fr := wire.NewFrameReader(r)
	var out []frame
	for {
		typ, p, err := fr.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, frame{typ, bytes.Clone(p)})
	}
}

func TestFramesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var buf bytes.Buffer
		w := wire.NewFrameWriter(&buf)
		var want []frame
		for range rapid.IntRange(0, 8).Draw(t, "frames") {
			f := frame{wire.FrameType(rapid.Byte().Draw(t, "type")), rapid.SliceOfN(rapid.Byte(), 0, 4096).Draw(t, "payload")}
			if err := w.Write(f.typ, f.payload); err != nil {
				t.Fatal(err)
			}
			want = append(want, f)
		}
		// A stream hands its bytes over as it likes.
		got, err := readAll(iotest.OneByteReader(&buf))
		if err != nil || len(got) != len(want) {
			t.Fatalf("%d frames (%v), want %d", len(got), err, len(want))
		}
		for i := range want {
			if got[i].typ != want[i].typ || !bytes.Equal(got[i].payload, want[i].payload) {
				t.Fatalf("frame %d: %v, want %v", i, got[i], want[i])
			}
		}
	})
}

func TestFrameLimits(t *testing.T) {
	var buf bytes.Buffer
	w := wire.NewFrameWriter(&buf)
	if err := w.Write('x', make([]byte, wire.MaxFrame+1)); err == nil || buf.Len() > 0 {
		t.Errorf("a frame beyond the limit: %v, %d bytes written", err, buf.Len())
	}
	if err := w.Write('x', make([]byte, wire.MaxFrame)); err != nil {
		t.Errorf("a frame at the limit: %v", err)
	}
	if got, err := readAll(&buf); err != nil || len(got) != 1 || len(got[0].payload) != wire.MaxFrame {
		t.Errorf("a frame at the limit is read as %d frames, %v", len(got), err)
	}
	// An announcement alone must not cost memory.
	huge := binary.BigEndian.AppendUint32([]byte{'x'}, 1<<32-1)
	if _, _, err := wire.NewFrameReader(bytes.NewReader(huge)).Read(); err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("an announced frame of 4 GiB: %v", err)
	}
}

func TestFrameCutOff(t *testing.T) {
	var buf bytes.Buffer
	if err := wire.NewFrameWriter(&buf).Write('x', []byte("payload")); err != nil {
		t.Fatal(err)
	}
	for n := 1; n < buf.Len(); n++ {
		if _, err := readAll(bytes.NewReader(buf.Bytes()[:n])); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut after %d bytes: %v", n, err)
		}
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte("x\x00\x00\x00\x01y"))
	f.Add([]byte("x\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, in []byte) {
		got, _ := readAll(bytes.NewReader(in))
		// What was read whole is written as it was.
		var buf bytes.Buffer
		w := wire.NewFrameWriter(&buf)
		for _, fr := range got {
			if err := w.Write(fr.typ, fr.payload); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.HasPrefix(in, buf.Bytes()) {
			t.Fatalf("%q is read as %q", in, buf.Bytes())
		}
	})
}
