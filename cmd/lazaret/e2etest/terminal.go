package e2etest

import (
	"bytes"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// leader is what stands between a terminal and lazaret: as a person's shell does,
// it is the session's leader, gives each command a foreground process group of
// its own, and is there when the command is gone. Without it the kernel would
// put the terminal right.
const leader = `. "$1"; shift; set -m; "$@"; echo "[exit $?]"; while :; do read -r _ || exit 0; done`

// Terminal is a person's terminal in which one lazaret runs. The test is the
// person.
type Terminal struct {
	home   *Home
	master *os.File
	shell  *exec.Cmd
	before unix.Termios // as it was before lazaret

	mu     sync.Mutex
	out    []byte
	screen *Screen
	gone   chan struct{} // closed when the terminal has nothing more to say
	left   chan struct{} // closed when the leader has ended
}

// Terminal opens a terminal and starts lazaret with the given arguments in it.
// It is closed when the test ends.
func (h *Home) Terminal(rows, cols uint16, args ...string) *Terminal {
	h.tb.Helper()
	blocking, slave, err := pty.Open()
	if err != nil {
		h.tb.Fatal(err)
	}
	// Package pty leaves its master blocking, and Close would wait for Read.
	fd, err := unix.FcntlInt(blocking.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	_ = blocking.Close()
	if err != nil {
		h.tb.Fatal(err)
	}
	t := &Terminal{home: h, master: os.NewFile(uintptr(fd), "terminal"), screen: NewScreen(int(rows), int(cols)), gone: make(chan struct{}), left: make(chan struct{})}
	t.Resize(rows, cols)
	t.before = t.Termios()
	personsSignals()
	t.shell = exec.Command("bash", append([]string{"-c", leader, "leader", h.envFile(), h.binary()}, args...)...)
	t.shell.Dir, t.shell.Env = h.Project, []string{"PATH=" + os.Getenv("PATH")}
	t.shell.Stdin, t.shell.Stdout, t.shell.Stderr = slave, slave, slave
	t.shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = t.shell.Start()
	_ = slave.Close()
	if err != nil {
		h.tb.Fatal(err)
	}
	h.mu.Lock()
	h.leaders[t.shell.Process.Pid] = true
	h.mu.Unlock()
	go t.read()
	go func() {
		defer close(t.left)
		_ = t.shell.Wait() // what it says is in ProcessState
	}()
	h.tb.Cleanup(t.Close)
	return t
}

// personsSignals gives the keys their meaning back where the tests were started
// in the background: a signal that is ignored stays ignored in every child,
// unless its parent handles it.
func personsSignals() {
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

// envFile writes the home's environment for the leader to read, so that the
// leader itself is not taken for one of the home's processes.
func (h *Home) envFile() string {
	h.tb.Helper()
	f, err := os.CreateTemp(h.tb.TempDir(), "env")
	if err != nil {
		h.tb.Fatal(err)
	}
	defer f.Close()
	for _, kv := range h.Env {
		k, v, _ := strings.Cut(kv, "=")
		if _, err := f.WriteString("export " + k + "='" + strings.ReplaceAll(v, "'", `'\''`) + "'\n"); err != nil {
			h.tb.Fatal(err)
		}
	}
	return f.Name()
}

func (t *Terminal) read() {
	defer close(t.gone)
	buf := make([]byte, 32<<10)
	for {
		n, err := t.master.Read(buf)
		t.mu.Lock()
		t.out = append(t.out, buf[:n]...)
		_, _ = t.screen.Write(buf[:n])
		t.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Close hangs the terminal up and ends what still runs in it.
func (t *Terminal) Close() {
	_ = t.master.Close()
	_ = t.shell.Process.Kill()
	<-t.left
	t.home.mu.Lock()
	delete(t.home.leaders, t.shell.Process.Pid)
	t.home.mu.Unlock()
	<-t.gone
}

// Hangup closes the terminal, as a person closes its window.
func (t *Terminal) Hangup() { _ = t.master.Close() }

// Type sends what a person types.
func (t *Terminal) Type(s string) {
	t.home.tb.Helper()
	if _, err := t.master.WriteString(s); err != nil {
		t.home.tb.Fatal(err)
	}
}

// Output is everything that was drawn so far.
func (t *Terminal) Output() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.out)
}

// Lines is what the screen shows now, trailing blanks removed.
func (t *Terminal) Lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.screen.Lines()
}

// Mark is the length of the output so far, for Since and ExpectAfter.
func (t *Terminal) Mark() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.out)
}

// Expect waits until the output holds a match of the regular expression, and
// returns it with its groups.
func (t *Terminal) Expect(re string, within time.Duration) []string {
	t.home.tb.Helper()
	return t.ExpectAfter(0, re, within)
}

// ExpectAfter is Expect for output behind a mark.
func (t *Terminal) ExpectAfter(mark int, re string, within time.Duration) []string {
	t.home.tb.Helper()
	r := regexp.MustCompile(re)
	var m []string
	Eventually(t.home.tb, within, func() bool {
		m = r.FindStringSubmatch(t.Output()[mark:])
		return m != nil
	}, func() string { return "no " + strconv.Quote(re) + " in " + strconv.Quote(t.Output()[mark:]) })
	return m
}

// Status waits for lazaret's exit status. A shell whose command was ended by ^C
// before it could catch it ends with it, as shells do.
func (t *Terminal) Status(within time.Duration) int {
	t.home.tb.Helper()
	exit := regexp.MustCompile(`\[exit (\d+)\]`)
	status := -1
	Eventually(t.home.tb, within, func() bool {
		if m := exit.FindStringSubmatch(t.Output()); m != nil {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				t.home.tb.Fatal(err)
			}
			status = n
			return true
		}
		select {
		case <-t.left:
			ws, ok := t.shell.ProcessState.Sys().(syscall.WaitStatus)
			if ok && (ws.Signaled() && ws.Signal() == syscall.SIGINT || ws.ExitStatus() == 128+int(syscall.SIGINT)) {
				status = 130
				return true
			}
		default:
		}
		return false
	}, func() string { return "no exit status in " + strconv.Quote(t.Output()) })
	return status
}

// Resize changes the window's size.
func (t *Terminal) Resize(rows, cols uint16) {
	t.home.tb.Helper()
	t.control(func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	})
}

// control does something to the terminal itself. Not by Fd, which would make
// the master blocking.
func (t *Terminal) control(f func(fd int) error) {
	t.home.tb.Helper()
	c, err := t.master.SyscallConn()
	if err != nil {
		t.home.tb.Fatal(err)
	}
	if cerr := c.Control(func(fd uintptr) { err = f(int(fd)) }); cerr != nil || err != nil {
		t.home.tb.Fatal(cerr, err)
	}
}

// Termios is the terminal's mode, as TCGETS has it.
func (t *Terminal) Termios() unix.Termios {
	t.home.tb.Helper()
	var tio *unix.Termios
	t.control(func(fd int) (err error) {
		tio, err = unix.IoctlGetTermios(fd, unix.TCGETS)
		return err
	})
	return *tio
}

// Restored fails the test unless the terminal's mode is what it was before
// lazaret.
func (t *Terminal) Restored() {
	t.home.tb.Helper()
	if got := t.Termios(); got != t.before {
		t.home.tb.Errorf("the terminal's mode is not what it was:\ngot  %+v\nwant %+v", got, t.before)
	}
}

// Raw waits until lazaret has put the terminal into raw mode: a session is
// attached.
func (t *Terminal) Raw(within time.Duration) {
	t.home.tb.Helper()
	Eventually(t.home.tb, within, func() bool { return t.Termios().Lflag&unix.ICANON == 0 },
		func() string { return "the terminal is not raw; output " + strconv.Quote(t.Output()) })
}

// Client is the lazaret that runs in this terminal.
func (t *Terminal) Client() Proc {
	t.home.tb.Helper()
	var found Proc
	Eventually(t.home.tb, 10*time.Second, func() bool {
		for _, p := range t.home.Processes() {
			if p.PPID == t.shell.Process.Pid && p.Name == "lazaret run" {
				found = p
				return true
			}
		}
		return false
	}, func() string { return "no lazaret in the terminal; output " + strconv.Quote(t.Output()) })
	return found
}

// Eventually polls until ok, and fails the test with why once the time is over.
func Eventually(tb testing.TB, within time.Duration, ok func() bool, why func() string) {
	tb.Helper()
	for deadline := time.Now().Add(within); ; {
		if ok() {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("not within %s: %s", within, why())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

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
