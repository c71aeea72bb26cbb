// Package ttymode watches a program's terminal output for the modes that it
// switches on, and renders what switches off the ones that are still on.
//
// A program that is ended from outside cannot clean up after itself; who draws
// its output on the user's terminal then does it for it. The package holds no
// terminal and draws nothing; its memory is bounded, whatever it is fed. It
// runs in the Client CLI.
package ttymode

import (
	"bytes"
	"strconv"
)

// maxSequence bounds a control sequence's parameters, in bytes; longer ones are
// skipped as terminals skip them.
const maxSequence = 256

// state is the place in a stream of control sequences (ECMA-48 and xterm's
// ctlseqs).
type state uint8

const (
	ground state = iota
	escape       // after ESC
	inter        // after ESC and an intermediate byte
	csi          // after ESC [
	skip         // in a sequence that is too long
	osc          // in an operating system command: BEL ends it too
	text         // in another string: only ESC \ ends it
)

// Control characters.
const (
	bel = 0x07
	so  = 0x0e
	si  = 0x0f
	can = 0x18
	sub = 0x1a
	esc = 0x1b
)

// A mode is a DEC private mode and its value in a terminal at rest.
type mode struct {
	number int
	rest   bool
}

// modes are the private modes that matter to whoever uses the terminal next, in
// the order in which they are put to rest: first the terminal draws again, then
// it stops reporting what nobody asks for any more, then its screen.
var modes = [...]mode{
	{2026, false},                // synchronised update
	{2048, false}, {2031, false}, // reports of size and colours
	{1003, false}, {1002, false}, {1001, false}, {1000, false}, {9, false}, // mouse reports
	{1016, false}, {1015, false}, {1006, false}, {1005, false}, {1004, false}, // their encodings; focus reports
	{2004, false},           // bracketed paste
	{1, false}, {66, false}, // application cursor keys and keypad
	{5, false}, {7, true}, // reverse video, wrap
	{69, false}, {6, false}, // left and right margins, origin
}

// Indices of modes that need a place of their own.
const (
	sideMargins = len(modes) - 2
	origin      = len(modes) - 1
)

// maxDepth bounds a stack of keyboard flags. Terminals bound it lower.
const maxDepth = 64

// keyboard is one screen's stack of the kitty keyboard protocol's flags.
type keyboard struct {
	flags [maxDepth + 1]int // flags[0] is the screen's own, below the stack
	depth int
}

func (k *keyboard) push(flags int) {
	if k.depth < maxDepth {
		k.depth++
	}
	k.flags[k.depth] = flags
}

func (k *keyboard) pop(n int) {
	if n > k.depth {
		*k = keyboard{} // a terminal whose stack runs empty resets the flags
		return
	}
	k.depth -= n
}

func (k *keyboard) set(flags, how int) {
	top := &k.flags[k.depth]
	switch how {
	case 2:
		*top |= flags
	case 3:
		*top &^= flags
	default:
		*top = flags
	}
}

// off renders what empties the stack.
func (k *keyboard) off(b []byte) []byte {
	if k.depth > 0 {
		b = sequence(b, "<", k.depth, 'u')
	}
	if k.flags[0] != 0 {
		b = append(b, "\x1b[=0u"...)
	}
	return b
}

// Tracker follows one program's output. The zero value is a terminal at rest.
// It is not safe for concurrent use.
type Tracker struct {
	parser state
	seq    []byte // of the control sequence, behind "ESC [" or "ESC"

	private [len(modes)]bool // away from rest
	saved   [len(modes)]bool
	hidden  bool // the cursor
	alt     int  // the mode number that switched to the alternate screen, or 0

	keys       [2]keyboard // main and alternate screen
	otherKeys  bool        // xterm's modifyOtherKeys
	keypad     bool
	insert     bool
	attributes bool // colours and such
	charset    bool
	style      bool // of the cursor
	margins    bool
}

// Write follows p, which may end anywhere. It never fails.
func (t *Tracker) Write(p []byte) (int, error) {
	for i := 0; i < len(p); i++ {
		if t.parser == ground {
			// Most output is text.
			next := bytes.IndexFunc(p[i:], func(r rune) bool { return r == esc || r == so || r == si })
			if next < 0 {
				break
			}
			i += next
		}
		t.next(p[i])
	}
	return len(p), nil
}

func (t *Tracker) next(c byte) {
	switch c {
	case esc:
		// In a string too: ESC ends it, with or without its backslash.
		t.parser, t.seq = escape, t.seq[:0]
		return
	case can, sub:
		t.parser = ground
		return
	}
	switch t.parser {
	case ground:
		switch c {
		case so:
			t.charset = true
		case si:
			t.charset = false
		}
	case escape:
		t.escape(c)
	case inter:
		t.intermediate(c)
	case csi, skip:
		t.control(c)
	case osc:
		if c == bel {
			t.parser = ground
		}
	case text:
	}
}

// escape takes the byte after ESC.
func (t *Tracker) escape(c byte) {
	t.parser = ground
	switch {
	case c < 0x20:
		t.parser = escape // executed in passing
	case c < 0x30:
		t.parser, t.seq = inter, append(t.seq, c)
	case c == '[':
		t.parser = csi
	case c == ']':
		t.parser = osc
	case c == 'P' || c == '_' || c == '^' || c == 'X':
		t.parser = text
	case c == 'c':
		*t = Tracker{seq: t.seq[:0]}
	case c == '=':
		t.keypad = true
	case c == '>':
		t.keypad = false
	}
}

// intermediate takes a byte of an escape sequence with intermediate bytes.
func (t *Tracker) intermediate(c byte) {
	switch {
	case c < 0x20:
	case c < 0x30:
		if len(t.seq) < maxSequence {
			t.seq = append(t.seq, c)
		}
	default:
		t.parser = ground
		if string(t.seq) == "(" {
			t.charset = c != 'B'
		}
	}
}

// control takes a byte of a control sequence.
func (t *Tracker) control(c byte) {
	switch {
	case c < 0x20 || c == 0x7f:
	case c < 0x40:
		if len(t.seq) == maxSequence {
			t.parser = skip
		}
		if t.parser == csi {
			t.seq = append(t.seq, c)
		}
	case c < 0x7f:
		whole := t.parser == csi
		t.parser = ground
		if whole {
			t.dispatch(c)
		}
	default:
		t.parser = ground
	}
}

// dispatch applies a whole control sequence.
func (t *Tracker) dispatch(final byte) {
	prefix, params, inter := split(t.seq)
	switch prefix + inter + string(final) {
	case "?h", "?l":
		for _, n := range params {
			t.setPrivate(n, final == 'h')
		}
	case "?s", "?r":
		for _, n := range params {
			for i := range modes {
				if modes[i].number != n {
					continue
				}
				if final == 's' {
					t.saved[i] = t.private[i]
				} else {
					t.private[i] = t.saved[i]
				}
			}
		}
	case "h", "l":
		for _, n := range params {
			if n == 4 {
				t.insert = final == 'h'
			}
		}
	case "m":
		t.attributes = len(params) != 1 || params[0] != 0
	case "r":
		t.margins = len(params) != 1 || params[0] != 0
	case " q":
		t.style = params[0] != 0
	case "!p":
		t.softReset()
	case ">m":
		if params[0] == 0 || params[0] == 4 {
			t.otherKeys = len(params) > 1 && params[1] != 0
		}
	case ">n":
		if params[0] == 4 {
			t.otherKeys = false
		}
	case ">u":
		t.screen().push(params[0])
	case "<u":
		t.screen().pop(max(params[0], 1))
	case "=u":
		how := 1
		if len(params) > 1 {
			how = params[1]
		}
		t.screen().set(params[0], how)
	}
}

// screen is the keyboard stack of the screen that is shown.
func (t *Tracker) screen() *keyboard {
	if t.alt != 0 {
		return &t.keys[1]
	}
	return &t.keys[0]
}

func (t *Tracker) setPrivate(n int, on bool) {
	switch n {
	case 25:
		t.hidden = !on
	case 47, 1047, 1049:
		t.alt = 0
		if on {
			t.alt = n
		}
	default:
		for i := range modes {
			if modes[i].number == n {
				t.private[i] = on != modes[i].rest
			}
		}
	}
}

// softReset is what DECSTR does.
func (t *Tracker) softReset() {
	t.hidden, t.insert, t.keypad, t.attributes, t.charset, t.margins = false, false, false, false, false, false
	for _, n := range []int{1, 6, 69} {
		t.setPrivate(n, false)
	}
	t.setPrivate(7, true)
}

// split takes a control sequence apart: its private prefix, its parameters, of
// which there is at least one, and its intermediate bytes. A missing parameter
// is 0; of one with parts, the first counts.
func split(seq []byte) (prefix string, params []int, inter string) {
	if len(seq) > 0 && seq[0] >= 0x3c {
		prefix, seq = string(seq[:1]), seq[1:]
	}
	end := bytes.IndexFunc(seq, func(r rune) bool { return r < 0x30 })
	if end >= 0 {
		seq, inter = seq[:end], string(seq[end:])
	}
	for field := range bytes.SplitSeq(seq, []byte{';'}) {
		whole, _, _ := bytes.Cut(field, []byte{':'})
		n := 0
		for _, d := range whole {
			if d < '0' || d > '9' || n > 1<<16 {
				n = 1 << 16 // no number of ours
				break
			}
			n = n*10 + int(d-'0')
		}
		params = append(params, n)
	}
	return prefix, params, inter
}

// sequence appends ESC [ prefix n final.
func sequence(b []byte, prefix string, n int, final byte) []byte {
	b = append(b, "\x1b["+prefix...)
	return append(strconv.AppendInt(b, int64(n), 10), final)
}

// Off renders what brings the terminal back to rest; it is empty for one that
// is there. The order matters: a sequence that the program did not finish is
// abandoned first, or it would swallow the rest; each screen's keyboard is reset
// while that screen is shown; margins and origin, whose reset moves the cursor,
// come with the cursor kept; the cursor is shown last.
func (t *Tracker) Off() []byte {
	var b []byte
	if t.parser != ground {
		b = append(b, can, esc, '\\')
	}
	b = t.screen().off(b)
	if t.otherKeys {
		b = append(b, "\x1b[>4m"...)
	}
	for i := range sideMargins {
		if t.private[i] {
			b = t.rest(b, i)
		}
	}
	for _, f := range []struct {
		on  bool
		off string
	}{
		{t.keypad, "\x1b>"}, {t.insert, "\x1b[4l"}, {t.attributes, "\x1b[0m"}, {t.charset, "\x1b(B\x0f"}, {t.style, "\x1b[0 q"},
	} {
		if f.on {
			b = append(b, f.off...)
		}
	}
	if t.alt != 0 {
		b = sequence(b, "?", t.alt, 'l')
		b = t.keys[0].off(b)
	} else if other := t.keys[1].off(nil); len(other) > 0 {
		b = append(b, "\x1b[?1049h"...)
		b = append(b, other...)
		b = append(b, "\x1b[?1049l"...)
	}
	if t.margins || t.private[sideMargins] || t.private[origin] {
		b = append(b, "\x1b7"...)
		for _, i := range []int{sideMargins, origin} {
			if t.private[i] {
				b = t.rest(b, i)
			}
		}
		if t.margins {
			b = append(b, "\x1b[r"...)
		}
		b = append(b, "\x1b8"...)
		if t.private[origin] {
			// The cursor was kept with its origin mode.
			b = t.rest(b, origin)
		}
	}
	if t.hidden {
		b = append(b, "\x1b[?25h"...)
	}
	return b
}

// rest appends what puts a private mode to rest.
func (t *Tracker) rest(b []byte, i int) []byte {
	final := byte('l')
	if modes[i].rest {
		final = 'h'
	}
	return sequence(b, "?", modes[i].number, final)
}
