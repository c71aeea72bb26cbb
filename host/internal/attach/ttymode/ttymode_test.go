package ttymode_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lazaret.dev/lazaret/host/internal/attach/ttymode"
)

func off(t *testing.T, chunks ...string) string {
	t.Helper()
	var tr ttymode.Tracker
	for _, c := range chunks {
		if n, err := tr.Write([]byte(c)); n != len(c) || err != nil {
			t.Fatalf("Write(%q) = %d, %v", c, n, err)
		}
	}
	return string(tr.Off())
}

// Case 19.
func TestOff(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"nothing", "hello\r\n\x1b[2J\x1b[H", ""},
		{"on and off", "\x1b[?1049h\x1b[?25l\x1b[?2004h\x1b[?2004l\x1b[?25h\x1b[?1049l", ""},
		{"alternate screen", "\x1b[?1049h", "\x1b[?1049l"},
		{"old alternate screen", "\x1b[?47h", "\x1b[?47l"},
		{"cursor", "\x1b[?25l", "\x1b[?25h"},
		{"several in one", "\x1b[?1000;1006h", "\x1b[?1000l\x1b[?1006l"},
		{"mouse and focus", "\x1b[?1003h\x1b[?1004h", "\x1b[?1003l\x1b[?1004l"},
		{"paste", "\x1b[?2004h", "\x1b[?2004l"},
		{"wrap", "\x1b[?7l", "\x1b[?7h"},
		{"synchronised update first", "\x1b[?2004h\x1b[?2026h", "\x1b[?2026l\x1b[?2004l"},
		{"kitty push", "\x1b[>7u", "\x1b[<1u"},
		{"kitty push and pop", "\x1b[>7u\x1b[>1u\x1b[<2u", ""},
		{"kitty pop has a default", "\x1b[>7u\x1b[<u", ""},
		{"kitty pops too many", "\x1b[=3u\x1b[>7u\x1b[<9u", ""},
		{"kitty set", "\x1b[=5;1u", "\x1b[=0u"},
		{"kitty set and clear bits", "\x1b[=5;1u\x1b[=5;3u", ""},
		{"kitty on both screens", "\x1b[>7u\x1b[?1049h\x1b[>7u\x1b[>1u", "\x1b[<2u\x1b[?1049l\x1b[<1u"},
		{"kitty left on the other screen", "\x1b[?1049h\x1b[>7u\x1b[?1049l", "\x1b[?1049h\x1b[<1u\x1b[?1049l"},
		{"modifyOtherKeys", "\x1b[>4;2m", "\x1b[>4m"},
		{"modifyOtherKeys reset", "\x1b[>4;2m\x1b[>4m", ""},
		{"modifyOtherKeys disabled", "\x1b[>4;2m\x1b[>4n", ""},
		{"application keys", "\x1b[?1h\x1b=", "\x1b[?1l\x1b>"},
		{"colour", "\x1b[1;31mred", "\x1b[0m"},
		{"colour reset", "\x1b[1;31mred\x1b[m", ""},
		{"line drawing", "\x1b(0qqq", "\x1b(B\x0f"},
		{"shift out and in", "\x0e\x0f", ""},
		{"cursor style", "\x1b[5 q", "\x1b[0 q"},
		{"insert", "\x1b[4h", "\x1b[4l"},
		{"margins keep the cursor", "\x1b[3;20r", "\x1b7\x1b[r\x1b8"},
		{"margins reset", "\x1b[3;20r\x1b[r", ""},
		{"saved and restored", "\x1b[?1000h\x1b[?1000s\x1b[?1000l\x1b[?1000r", "\x1b[?1000l"},
		{"full reset", "\x1b[?1049h\x1b[>7u\x1b[?1000h\x1bc", ""},
		{"soft reset", "\x1b[?25l\x1b[4h\x1b[?1h\x1b[!p", ""},
		{"in a title", "\x1b]0;\x5b?1049h\x07", ""},
		{"in a string", "\x1bPq[?1049h\x1b\\", ""},
		{"BEL is no end of a string", "\x1bPq\x07[?1049h", "\x18\x1b\\"},
		{"cancelled", "\x1b[?1049\x18h", ""},
		{"controls within a sequence", "\x1b[?10\n49h", "\x1b[?1049l"},
		{"unfinished sequence", "\x1b[?25l\x1b[?104", "\x18\x1b\\\x1b[?25h"},
		{"unfinished title", "\x1b]0;tit", "\x18\x1b\\"},
		{"too long", "\x1b[?" + strings.Repeat("1;", 200) + "1049h", ""},
		{"huge number", "\x1b[?18446744073709552665h", ""},
		{"invalid UTF-8 around", "\xff\xfe\x1b[?25l\xc3", "\x1b[?25h"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := off(t, tc.in); got != tc.want {
				t.Errorf("whole: %q, want %q", got, tc.want)
			}
			if got := off(t, strings.Split(tc.in, "")...); got != tc.want {
				t.Errorf("byte by byte: %q, want %q", got, tc.want)
			}
		})
	}
}

// Everything that case 19 names, at once.
func TestOffOrder(t *testing.T) {
	got := off(t, "\x1b[>7u\x1b[?1049h\x1b[?25l\x1b[?1000h\x1b[?1002h\x1b[?1003h\x1b[?1006h\x1b[?1004h\x1b[?2004h\x1b[>7u\x1b[>4;2m\x1b[?2026h")
	want := "\x1b[<1u\x1b[>4m\x1b[?2026l\x1b[?1003l\x1b[?1002l\x1b[?1000l\x1b[?1006l\x1b[?1004l\x1b[?2004l\x1b[?1049l\x1b[<1u\x1b[?25h"
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// pieces are what streams are made of: whole sequences, parts, and text.
var pieces = []string{
	"\x1b", "\x1b[", "?", ">", "<", "=", "!", " ", ";", ":", "4", "7", "25", "47", "1049", "1000", "2004", "2026", "6", "69",
	"h", "l", "u", "m", "n", "q", "p", "r", "s", "c", "(", "0", "B", "]", "P", "\\", "\a", "\x18", "\x0e", "\x0f", "é", "\xff", "x",
	"\x1b[?1049h", "\x1b[?1049l", "\x1b[>7u", "\x1b[<u", "\x1b[=1u", "\x1b[2;5r", "\x1b[?6h", "\x1b[?25l", "\x1b[1m", "\x1b[>4;2m",
}

// What is switched off is off: a second look finds nothing, wherever the stream
// was cut.
func TestOffLeavesNothingOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 60).Draw(t, "in"), "")
		checkRest(t, []byte(in))
	})
}

func FuzzTracker(f *testing.F) {
	for _, p := range pieces {
		f.Add([]byte(p))
	}
	f.Add([]byte("\x1b[>7u\x1b[?1049h\x1b[>7u\x1b[3;4r\x1b[?6;69h\x1b]0;"))
	f.Fuzz(func(t *testing.T, in []byte) { checkRest(t, in) })
}

func checkRest(t interface {
	Helper()
	Fatalf(string, ...any)
}, in []byte,
) {
	t.Helper()
	var tr, split ttymode.Tracker
	_, _ = tr.Write(in)
	for _, c := range in {
		_, _ = split.Write([]byte{c})
	}
	first := string(tr.Off())
	if got := string(split.Off()); got != first {
		t.Fatalf("%q: byte by byte %q, whole %q", in, got, first)
	}
	// Off must not change the state that it renders.
	if again := string(tr.Off()); again != first {
		t.Fatalf("%q: %q, then %q", in, first, again)
	}
	_, _ = tr.Write([]byte(first))
	if rest := tr.Off(); len(rest) > 0 {
		t.Fatalf("%q: still on after %q: %q", in, first, rest)
	}
}
