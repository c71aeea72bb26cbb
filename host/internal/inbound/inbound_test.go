package inbound

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lazaret.dev/lazaret/host/internal/session"
	pc "lazaret.dev/lazaret/protocol/control"
	"lazaret.dev/lazaret/protocol/wire"
)

// What is put in comes out once, in order, and never more than a window of it is
// held.
func TestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := New(&session.Session{}, nil)
		var sent, got []byte
		held := 0
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "put") {
				p := bytes.Repeat([]byte{byte(len(sent))}, rapid.IntRange(0, pc.Window).Draw(t, "size"))
				err := in.put(p, false)
				if over := held+len(p) > pc.Window; over != errors.Is(err, errWindow) {
					t.Fatalf("%d bytes on top of %d: %v", len(p), held, err)
				}
				if err == nil {
					sent, held = append(sent, p...), held+len(p)
				}
				continue
			}
			if len(got) < len(sent) {
				p, eof := in.take()
				if eof {
					t.Fatal("an end that was not sent")
				}
				in.credit(len(p))
				got, held = append(got, p...), held-len(p)
			}
		}
		if err := in.put(nil, true); err != nil {
			t.Fatal(err)
		}
		for {
			p, eof := in.take()
			got = append(got, p...)
			if eof {
				break
			}
		}
		if !bytes.Equal(got, sent) {
			t.Fatalf("%d bytes came out, %d went in, or others", len(got), len(sent))
		}
	})
}

func TestCloseEndsTake(t *testing.T) {
	in := New(&session.Session{}, nil)
	time.AfterFunc(10*time.Millisecond, in.Close)
	if _, eof := in.take(); !eof {
		t.Error("the end of the session is no end of its input")
	}
}

var frames = []struct {
	typ     wire.FrameType
	payload string
	ok      bool
}{
	{pc.FrameStdin, "x", true},
	{pc.FrameStdin, "", true},
	{pc.FrameStdinEOF, "", true},
	{pc.FrameResize, `{"rows":1,"cols":2}`, true},
	{pc.FrameResize, `{"rows":0,"cols":2}`, false},
	{pc.FrameResize, `{"rows":1}`, false},
	{pc.FrameResize, `{"rows":70000,"cols":1}`, false},
	{pc.FrameResize, ``, false},
	{pc.FrameSignal, `{"name":"INT"}`, true},
	{pc.FrameSignal, `{"name":"KILL"}`, false},
	{pc.FrameSignal, `{"name":"INT"}{}`, false},
	{pc.FrameOpen, `{}`, false},
	{pc.FrameStdout, "x", false},
	{pc.FrameCredit, "\x00\x00\x00\x01", false},
	{0, "", false},
}

// A client that breaks the rules is told from one that does not.
func TestHandle(t *testing.T) {
	for _, f := range frames {
		in := New(&session.Session{}, nil)
		if err := in.handle(t.Context(), f.typ, []byte(f.payload)); (err == nil) != f.ok {
			t.Errorf("frame %q %q: %v", f.typ, f.payload, err)
		}
	}
}

func FuzzHandle(f *testing.F) {
	for _, fr := range frames {
		f.Add(byte(fr.typ), []byte(fr.payload))
	}
	f.Fuzz(func(t *testing.T, typ byte, payload []byte) {
		in := New(&session.Session{}, nil)
		err := in.handle(t.Context(), wire.FrameType(typ), payload)
		if in.held > pc.Window || len(in.buf) > pc.Window {
			t.Fatalf("%d bytes are held", in.held)
		}
		switch wire.FrameType(typ) {
		case pc.FrameStdin, pc.FrameStdinEOF, pc.FrameResize, pc.FrameSignal:
		default:
			if err == nil {
				t.Fatalf("frame %q is taken", typ)
			}
		}
	})
}
