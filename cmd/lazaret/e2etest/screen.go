package e2etest

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
)

// Screen is a small terminal: as much of one as vi and less ask of TERM=xterm.
type Screen struct {
	rows, cols  int
	cells       [][]rune
	row, col    int
	top, bottom int // of the scrolling region
	wrap        bool
	saved       [2]int
	alt         [][]rune // the main screen while the alternate one is shown
	pending     []byte   // an unfinished UTF-8 sequence
}

// NewScreen makes an empty screen; one of no size is 24 by 80.
func NewScreen(rows, cols int) *Screen {
	if rows == 0 || cols == 0 {
		rows, cols = 24, 80
	}
	return &Screen{rows: rows, cols: cols, cells: blank(rows, cols), bottom: rows - 1}
}

func blank(rows, cols int) [][]rune {
	cells := make([][]rune, rows)
	for i := range cells {
		cells[i] = []rune(strings.Repeat(" ", cols))
	}
	return cells
}

// Lines is what the screen shows, trailing blanks removed.
func (s *Screen) Lines() []string {
	out := make([]string, s.rows)
	for i, l := range s.cells {
		out[i] = strings.TrimRight(string(l), " ")
	}
	return out
}

// control matches one control sequence or string at the start of the output.
var control = regexp.MustCompile(`^\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]+[0-~]|[0-Z\\^-~])`)

// Write draws p.
func (s *Screen) Write(p []byte) (int, error) {
	s.pending = append(s.pending, p...)
	for len(s.pending) > 0 {
		if s.pending[0] == 0x1b {
			m := control.Find(s.pending)
			if m == nil {
				break // unfinished
			}
			s.control(string(m[1:]))
			s.pending = s.pending[len(m):]
			continue
		}
		end := bytes.IndexByte(s.pending, 0x1b)
		if end < 0 {
			end = len(s.pending)
		}
		for _, r := range string(s.pending[:end]) {
			s.put(r)
		}
		s.pending = s.pending[end:]
	}
	return len(p), nil
}

func (s *Screen) put(r rune) {
	switch r {
	case '\r':
		s.col, s.wrap = 0, false
	case '\n':
		s.wrap = false
		s.down()
	case '\b':
		s.col, s.wrap = max(s.col-1, 0), false
	case '\t':
		s.col = min(s.col/8*8+8, s.cols-1)
	default:
		if r < ' ' {
			return
		}
		if s.wrap {
			s.col, s.wrap = 0, false
			s.down()
		}
		s.cells[s.row][s.col] = r
		if s.col++; s.col == s.cols {
			s.col, s.wrap = s.cols-1, true
		}
	}
}

func (s *Screen) down() {
	if s.row == s.bottom {
		s.scroll(s.top, 1)
	} else {
		s.row = min(s.row+1, s.rows-1)
	}
}

// scroll moves the lines from top to the region's end up by n, or down by -n.
func (s *Screen) scroll(top, n int) {
	region := s.cells[top : s.bottom+1]
	n = max(-len(region), min(n, len(region)))
	if n > 0 {
		copy(region, append(append([][]rune{}, region[n:]...), blank(n, s.cols)...))
	} else {
		copy(region, append(blank(-n, s.cols), append([][]rune{}, region[:len(region)+n]...)...))
	}
}

func (s *Screen) clear(row, from, to int) {
	for i := from; i < to; i++ {
		s.cells[row][i] = ' '
	}
}

func (s *Screen) control(seq string) {
	if seq[0] != '[' {
		switch seq {
		case "7":
			s.saved = [2]int{s.row, s.col}
		case "8":
			s.row, s.col, s.wrap = s.saved[0], s.saved[1], false
		case "M":
			if s.row == s.top {
				s.scroll(s.top, -1)
			} else {
				s.row = max(s.row-1, 0)
			}
		case "D":
			s.down()
		}
		return
	}
	final, body := seq[len(seq)-1], seq[1:len(seq)-1]
	if strings.HasPrefix(body, "?") {
		if body == "?1049" {
			s.alternate(final == 'h')
		}
		return
	}
	var args []int
	for f := range strings.SplitSeq(body, ";") {
		n, _ := strconv.Atoi(f) // none is 0
		args = append(args, n)
	}
	n := max(args[0], 1)
	if final != 'm' {
		s.wrap = false
	}
	switch final {
	case 'H', 'f':
		s.row, s.col = min(n, s.rows)-1, 0
		if len(args) > 1 {
			s.col = min(max(args[1], 1), s.cols) - 1
		}
	case 'A':
		s.row = max(s.row-n, 0)
	case 'B':
		s.row = min(s.row+n, s.rows-1)
	case 'C':
		s.col = min(s.col+n, s.cols-1)
	case 'D':
		s.col = max(s.col-n, 0)
	case 'G':
		s.col = min(n, s.cols) - 1
	case 'd':
		s.row = min(n, s.rows) - 1
	case 'J':
		s.eraseDisplay(args[0])
	case 'K':
		s.eraseLine(args[0])
	case 'L':
		s.scroll(s.row, -n)
	case 'M':
		s.scroll(s.row, n)
	case 'S':
		s.scroll(s.top, n)
	case 'T':
		s.scroll(s.top, -n)
	case 'P':
		l := s.cells[s.row]
		copy(l[s.col:], l[min(s.col+n, s.cols):])
		s.clear(s.row, max(s.cols-n, s.col), s.cols)
	case '@':
		l := s.cells[s.row]
		copy(l[min(s.col+n, s.cols):], append([]rune{}, l[s.col:]...))
		s.clear(s.row, s.col, min(s.col+n, s.cols))
	case 'X':
		s.clear(s.row, s.col, min(s.col+n, s.cols))
	case 'r':
		s.top, s.bottom = 0, s.rows-1
		if len(args) > 1 {
			s.top, s.bottom = n-1, min(args[1], s.rows)-1
		}
		s.row, s.col = 0, 0
	}
}

func (s *Screen) eraseDisplay(how int) {
	for i := range s.cells {
		if how >= 2 || how == 0 && i > s.row || how == 1 && i < s.row {
			s.clear(i, 0, s.cols)
		}
	}
	if how < 2 {
		s.eraseLine(how)
	}
}

func (s *Screen) eraseLine(how int) {
	switch how {
	case 0:
		s.clear(s.row, s.col, s.cols)
	case 1:
		s.clear(s.row, 0, s.col+1)
	case 2:
		s.clear(s.row, 0, s.cols)
	}
}

func (s *Screen) alternate(on bool) {
	switch {
	case on && s.alt == nil:
		s.saved = [2]int{s.row, s.col}
		s.alt, s.cells = s.cells, blank(s.rows, s.cols)
	case !on && s.alt != nil:
		s.cells, s.alt = s.alt, nil
		s.row, s.col = s.saved[0], s.saved[1]
	}
}
