package e2etest

import (
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
	h.collect()
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

// personsSignals gives the keys, and the closing of a window, their meaning back
// where the tests were started in the background or by nohup: a signal that is ignored stays ignored in every child,
// unless its parent handles it.
func personsSignals() {
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP} {
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
