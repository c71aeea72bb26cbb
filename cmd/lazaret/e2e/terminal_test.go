package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"lazaret.dev/lazaret/cmd/lazaret/e2etest"
)

// Times within which things must happen. Starting takes what the machine lets
// it take; what a person does in a running session is there at once, on a machine
// that is not busy.
const (
	starts = 30 * time.Second
	soon   = 5 * time.Second
)

// rounds is how often something is tried that goes wrong by chance.
func rounds(few, all int) int {
	if os.Getenv("LAZARET_TEST_LONG") != "" {
		return all
	}
	return few
}

func inside(command ...string) []string {
	return append([]string{"run", "--quiet", "--"}, command...)
}

// Case 11.
func TestFirstSize(t *testing.T) {
	h := e2etest.New(t)
	cold := h.Terminal(41, 97, inside("stty", "size")...)
	cold.Expect(`(?m)^41 97\r$`, starts)
	if s := cold.Status(starts); s != 0 {
		t.Errorf("status %d", s)
	}
	h.Hold("")
	for range rounds(6, 50) {
		term := h.Terminal(41, 97, inside("stty", "size")...)
		term.Status(starts)
		if out := term.Output(); !strings.HasPrefix(out, "41 97\r\n") {
			t.Errorf("41 by 97: %q", out)
		}
		term.Close()
	}
	term := h.Terminal(0, 0, inside("stty", "size")...)
	term.Status(starts)
	if out := term.Output(); !strings.HasPrefix(out, "24 80\r\n") {
		t.Errorf("0 by 0: %q", out)
	}
}

// onWinch says each change of its window, at once.
const onWinch = `trap "echo W; stty size" WINCH; echo ready; sleep 999 & while :; do wait; done`

// Case 10.
func TestResize(t *testing.T) {
	h := e2etest.New(t)
	inTmux := "tmux -f /dev/null new-session " + quoted(onWinch)
	for _, tc := range []struct {
		name, script string
		rows         int // lost to whatever is in between
	}{
		{"first session", onWinch, 0},
		{"second session", onWinch, 0},
		{"script", "script -qc " + quoted(onWinch) + " /dev/null", 0},
		{"tmux", inTmux, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			term := h.Terminal(24, 80, inside("bash", "-c", tc.script)...)
			term.Expect("ready", starts)
			for _, size := range [][2]int{{40, 120}, {30, 100}} {
				mark := term.Mark()
				term.Resize(uint16(size[0]), uint16(size[1]))
				term.ExpectAfter(mark, "W", soon)
				term.ExpectAfter(mark, fmt.Sprintf("%d %d", size[0]-tc.rows, size[1]), soon)
			}
		})
	}
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// Case 41.
func TestInterruptKey(t *testing.T) {
	h := e2etest.New(t)
	h.Hold("")
	term := h.Terminal(24, 80, inside("sh", "-c", "echo ready; exec sleep 99")...)
	term.Expect("ready", starts)
	term.Raw(starts)
	term.Type("\x03")
	if s := term.Status(soon); s != 130 {
		t.Errorf("^C: status %d", s)
	}
	term.Restored()
}

// Case 41.
func TestJobControl(t *testing.T) {
	h := e2etest.New(t)
	h.Hold("")
	shell := []string{"bash", "--norc", "--noprofile", "-i"}
	for _, tc := range []struct {
		name    string
		command []string
	}{
		{"bash", shell},
		{"bash in tmux", append([]string{"tmux", "-f", "/dev/null", "new-session"}, strings.Join(shell, " "))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			term := h.Terminal(24, 80, inside(tc.command...)...)
			term.Expect(`[$#] `, starts)
			// do types something and waits for what it must bring.
			do := func(keys, want string) {
				t.Helper()
				mark := term.Mark()
				term.Type(keys)
				term.ExpectAfter(mark, want, 5*time.Second)
			}
			do("PS1='@'\"@ \"\r", `@@ `)
			do("cat\r", `cat`)
			do("one\r", `one[^@]*one`) // cat is there and has the terminal
			do("\x1a", `Stopped[^@]*@@ `)
			do("jobs\r", `\[1\]\+ +Stopped +cat`)
			do("fg\r", `fg[^@]*cat`)
			do("two\r", `two[^@]*two`)
			do("\x04", `@@ `)
			do("echo s=$?\r", `s=0`)
			do("sh -c 'echo up; exec sleep 99'\r", `up\r\n`)
			do("\x03", `@@ `)
			do("echo s=$?\r", `s=130`)
			do("sh -c 'echo up; exec sleep 99'\r", `up\r\n`)
			do("\x1c", `Quit[^@]*@@ `)
			do("echo s=$?\r", `s=131[^@]*@@ `) // at the prompt: a ^D before it may be eaten with the mode
			mark := term.Mark()
			term.Type("\x04")
			term.ExpectAfter(mark, `\[exit \d+\]`, starts)
			term.Restored()
		})
	}
}

// numbered is a file of many distinct lines.
func numbered(t *testing.T, h *e2etest.Home, name string) []string {
	t.Helper()
	var lines []string
	for i := range 200 {
		lines = append(lines, fmt.Sprintf("line %d of %s", i+1, name))
	}
	if err := os.WriteFile(filepath.Join(h.Project, name), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return lines
}

// shows waits until the screen begins with exactly these lines.
func shows(t *testing.T, term *e2etest.Terminal, want []string) {
	t.Helper()
	e2etest.Eventually(t, starts, func() bool { return slices.Equal(term.Lines()[:len(want)], want) },
		func() string { return "the screen is\n" + strings.Join(term.Lines(), "\n") })
}

// ^Z in a command that is no shell stops nothing for good: there is nobody to
// bring it back.
func TestStopKeyWithoutShell(t *testing.T) {
	for name, script := range map[string]string{
		"command": "echo ready; exec sleep 999",
		// What says that it is ready is the child: a ^C before it is there is for the
		// shell alone, which would await it in vain, on Linux too.
		"script": "sh -c 'echo ready; exec sleep 999'; echo over",
	} {
		t.Run(name, func(t *testing.T) {
			h := e2etest.New(t)
			term := h.Terminal(24, 80, inside("sh", "-c", script)...)
			term.Expect("ready", starts)
			term.Type("\x1a")
			term.Type("\x03")
			if s := term.Status(starts); s != 130 {
				t.Errorf("status %d", s)
			}
			term.Restored()
		})
	}
}

// alternate is what vi draws first: it takes the alternate screen.
const alternate = "\x1b[?1049h"

// prod presses Escape whenever vi's screen has stood still for two seconds.
// Debian's vi (9.0.1378) needs it: before each wait for a key it takes the time
// since its last look at the clock off the wait, so that a wait of nothing
// becomes an endless one where a busy machine took the processor away in
// between. It does so on any terminal; a key gets it going again.
func prod(t *testing.T, term *e2etest.Terminal) {
	t.Helper()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for drawn := term.Mark(); ; {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Second):
			}
			now := term.Mark()
			if now == drawn && strings.Contains(term.Output(), alternate) {
				t.Log("vi stands still")
				term.Type("\x1b")
			}
			drawn = now
		}
	}()
	t.Cleanup(func() { close(stop); <-stopped })
}

func TestVimDraws(t *testing.T) {
	h := e2etest.New(t)
	lines := numbered(t, h, "a.txt")
	term := h.Terminal(20, 60, inside("vi", "-u", "NONE", "-N", "a.txt")...)
	prod(t, term)
	term.Expect("line 1 of", starts)
	shows(t, term, lines[:19])
	term.Type("G")
	shows(t, term, lines[181:])
	term.Type("ggO")
	term.Type("new at the top\x1b")
	shows(t, term, append([]string{"new at the top"}, lines[:18]...))
	term.Type("ddjdd")
	shows(t, term, append([]string{lines[0]}, lines[2:20]...))
	// The redraw is waited for: a vi that is resized in the middle of :wq loses the
	// command, on any terminal. It scrolls the line with the cursor to the top.
	mark := term.Mark()
	term.Resize(12, 50)
	term.ExpectAfter(mark, lines[12], starts)
	shows(t, term, lines[2:13])
	term.Type(":wq\r")
	if s := term.Status(starts); s != 0 {
		t.Errorf("status %d", s)
	}
	term.Restored()
	// The alternate screen is gone, and what was there before is back.
	if got := term.Lines()[0]; strings.Contains(got, "line") {
		t.Errorf("vi's screen was left: %q", got)
	}
	got, err := os.ReadFile(filepath.Join(h.Project, "a.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Join(slices.Delete(slices.Clone(lines), 1, 2), "\n") + "\n"; string(got) != want {
		t.Errorf("vi wrote something else: %.80q", got)
	}
}

func TestLessDraws(t *testing.T) {
	h := e2etest.New(t)
	lines := numbered(t, h, "b.txt")
	term := h.Terminal(20, 60, inside("less", "b.txt")...)
	term.Expect("line 1 of", starts)
	shows(t, term, lines[:19])
	term.Type(" ")
	shows(t, term, lines[19:38])
	term.Type("k")
	shows(t, term, lines[18:37])
	term.Type("/line 150 \r")
	shows(t, term, lines[149:168])
	term.Type("q")
	if s := term.Status(starts); s != 0 {
		t.Errorf("status %d", s)
	}
	term.Restored()
}

// Case 40. ps has no name for any terminal: gVisor's /proc/PID/stat says 0.
func TestControllingTerminal(t *testing.T) {
	h := e2etest.New(t)
	term := h.Terminal(24, 80, inside("bash", "-c", `tty; ps -o tty= $$; script -qc tty /dev/null; echo direct >/dev/tty; tmux new-session -d -s x true && echo tmux=$?`)...)
	if s := term.Status(starts); s != 0 {
		t.Errorf("status %d: %q", s, term.Output())
	}
	term.Expect(`^/dev/pts/\d+\r\n(pts/\d+|\?)\s*\r\n/dev/pts/\d+\r\ndirect\r\ntmux=0\r\n`, soon)
}

// Case 84.
func TestColourVariables(t *testing.T) {
	h := e2etest.New(t)
	h.Env = append(h.Env, "COLORTERM=truecolor", "NO_COLOR=1", "LANG=C.UTF-8", "AWS_SECRET_ACCESS_KEY=canary")
	env := strings.Split(h.Must("env"), "\n")
	for _, want := range []string{"COLORTERM=truecolor", "NO_COLOR=1", "LANG=C.UTF-8", "TERM=xterm"} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is not passed; there is %q", want, env)
		}
	}
	for _, v := range env {
		if strings.Contains(v, "canary") || strings.Contains(v, h.Runtime) || strings.Contains(v, h.Dir) {
			t.Errorf("the host's %s is inside", v)
		}
	}
}

// switchOn is what agents switch on (case 19), and off is what undoes it.
const (
	switchOn = `\033[>7u\033[?1049h\033[?25l\033[?1000h\033[?1002h\033[?1003h\033[?1006h\033[?1004h\033[?2004h\033[>7u\033[>4;2m\033[?2026h`
	off      = "\x1b[<1u\x1b[>4m\x1b[?2026l\x1b[?1003l\x1b[?1002l\x1b[?1000l\x1b[?1006l\x1b[?1004l\x1b[?2004l\x1b[?1049l\x1b[<1u\x1b[?25h"
)

// Case 19. The outer terminal is as it was, whatever ends the session.
func TestTerminalIsGivenBack(t *testing.T) {
	for _, tc := range []struct {
		name   string
		end    func(h *e2etest.Home, term *e2etest.Terminal)
		status int
		says   string
	}{
		{"coordinator killed", kill("lazaret _coordinator"), 125, "lazaret: error: the Host Coordinator has gone"},
		{"runsc killed", kill("runsc run"), 125, "lazaret: error: .*runsc"},
		{"client terminated", signalClient(syscall.SIGTERM), 143, ""},
		{"client hung up", signalClient(syscall.SIGHUP), 129, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := e2etest.New(t)
			term := h.Terminal(24, 80, inside("sh", "-c", "printf '"+switchOn+"'; echo ready; exec sleep 99")...)
			term.Expect("ready", starts)
			term.Raw(soon)
			mark := term.Mark()
			tc.end(h, term)
			if s := term.Status(10 * time.Second); s != tc.status {
				t.Errorf("status %d, want %d: %q", s, tc.status, term.Output()[mark:])
			}
			term.Restored()
			if out := term.Output()[mark:]; !strings.Contains(out, off) {
				t.Errorf("not switched off: %q", out)
			}
			if tc.says != "" {
				term.ExpectAfter(mark, tc.says, soon)
			}
			h.NothingLeft(10 * time.Second)
		})
	}
}

func kill(name string) func(*e2etest.Home, *e2etest.Terminal) {
	return func(h *e2etest.Home, _ *e2etest.Terminal) {
		_ = syscall.Kill(h.Find(name).PID, syscall.SIGKILL)
	}
}

func signalClient(s syscall.Signal) func(*e2etest.Home, *e2etest.Terminal) {
	return func(_ *e2etest.Home, term *e2etest.Terminal) { _ = syscall.Kill(term.Client().PID, s) }
}

// A program that ends by itself leaves the terminal as it likes.
func TestOrderlyEndAddsNothing(t *testing.T) {
	h := e2etest.New(t)
	term := h.Terminal(24, 80, inside("printf", `\033[?2004h`)...)
	if s := term.Status(starts); s != 0 {
		t.Errorf("status %d", s)
	}
	term.Restored()
	if out := term.Output(); strings.Contains(out, "\x1b[?2004l") {
		t.Errorf("something was switched off: %q", out)
	}
}

// Case 24: closing the terminal's window ends the session and all of it.
func TestWindowClosed(t *testing.T) {
	h := e2etest.New(t)
	term := h.Terminal(24, 80, inside("sh", "-c", "sleep 998 & echo ready; sleep 999")...)
	term.Expect("ready", starts)
	were := h.Processes()
	term.Hangup()
	h.Gone(were, 10*time.Second)
	h.NothingLeft(10 * time.Second)
}

// Case 41: pid 1 of the sandbox killed from inside.
func TestInitKilledInside(t *testing.T) {
	h := e2etest.New(t)
	term := h.Terminal(24, 80, inside("bash", "-c", "echo kept >/root/kept; sync; kill -9 1; sleep 5; echo still here")...)
	s := term.Status(starts)
	switch out := term.Output(); {
	case s == 0 && strings.Contains(out, "still here"): // as on Linux: pid 1 cannot be killed from inside
	case s == 125 && strings.Contains(out, "lazaret: error: "):
	default:
		t.Errorf("status %d: %q", s, out)
	}
	term.Restored()
	h.NothingLeft(10 * time.Second)
	if got := h.Must("cat", "/root/kept"); got != "kept\n" {
		t.Errorf("the state is not intact: %q", got)
	}
}
