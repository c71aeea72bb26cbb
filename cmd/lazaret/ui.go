package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"lazaret.dev/lazaret/host"
	"lazaret.dev/lazaret/protocol/control"
)

// What is printed, and where. Everything of Lazaret's own goes to stderr, each
// ask prints a question and leaves the line open for the answer.
func (u *ui) ask(question string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.erase()
	fmt.Fprint(u.w, "lazaret: "+printable(question))
}

// line begins "lazaret: ", lower case, no full stop. A failure is one "error:"
// line and, where something can be typed to mend it, "hint:" lines. While a
// Domain starts, a terminal shows one line that is overwritten and erased at
// the end; anything else gets one line for each step. With --quiet there is
// nothing but errors. stdout belongs to the command that runs.

// Exit statuses of Lazaret's own.
const (
	exitFailed = 125
	exitUsage  = 2
)

// ui is the terminal side of every command. It is safe for concurrent use.
type ui struct {
	w     *os.File
	live  bool // w is a terminal
	quiet bool

	mu     sync.Mutex
	status string        // what is on the live line
	phase  control.Phase // the last one that got a line of its own
	follow *follower
	code   int // exit status of a command that ran, or -1
	fail   int // exit status of an error of Lazaret's own
	drawn  time.Time
}

func newUI(w *os.File) *ui {
	return &ui{w: w, live: term.IsTerminal(int(w.Fd())), code: -1, fail: 1}
}

// phases are the steps of a start, for people.
var phases = map[control.Phase]string{
	control.PhasePull:    "pulling the image",
	control.PhaseUnpack:  "unpacking the image",
	control.PhaseNetwork: "setting up the network",
	control.PhaseSandbox: "starting the sandbox",
}

// redraw is the shortest time between two drawings of one step.
const redraw = 100 * time.Millisecond

// Progress shows the current step of a start.
func (u *ui) Progress(p control.Progress) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.quiet {
		return
	}
	text := phases[p.Phase]
	if !u.live {
		if p.Phase != u.phase {
			u.phase = p.Phase
			u.line(text)
		}
		return
	}
	if p.Phase == u.phase && time.Since(u.drawn) < redraw {
		return
	}
	u.phase, u.drawn = p.Phase, time.Now()
	if p.Item != "" {
		text += ", " + printable(strings.ReplaceAll(p.Item, "\n", " "))
	}
	if p.Total > 0 {
		text += " " + bar(p.Done, p.Total)
	}
	u.erase()
	u.status = "lazaret: " + text
	fmt.Fprint(u.w, u.status)
}

// bar draws a progress bar with its amounts.
func bar(done, total int64) string {
	const width = 20
	n := int(min(max(done, 0), total) * width / total)
	return fmt.Sprintf("[%s%s] %d of %d MB", strings.Repeat("=", n), strings.Repeat(" ", width-n), done>>20, total>>20)
}

// Settle removes the live line.
func (u *ui) Settle() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.erase()
}

func (u *ui) erase() {
	if u.status != "" {
		fmt.Fprint(u.w, "\r\x1b[K")
		u.status = ""
	}
}

// Notice prints one line.
func (u *ui) Notice(text string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.quiet {
		u.line(text)
	}
}

// line prints text, each of its lines with the prefix. The text may quote names
// that others chose. A carriage return at a line's end is for a terminal in raw
// mode.
func (u *ui) line(text string) {
	u.erase()
	for l := range strings.Lines(strings.TrimRight(text, "\n")) {
		l = strings.TrimRight(l, "\n")
		l, cr := strings.CutSuffix(l, "\r")
		end := "\n"
		if cr {
			end = "\r\n"
		}
		fmt.Fprintf(u.w, "lazaret: %s%s", printable(l), end)
	}
}

// Verbose is called with the directory of the logs of a start.
func (u *ui) Verbose(dir string) {
	if u.follow != nil {
		u.follow.start(dir, u)
	}
}

// exit prints an error and returns the process's exit status.
func (u *ui) exit(err error) int {
	if u.follow != nil {
		u.follow.stop()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.erase()
	if err == nil {
		return max(u.code, 0)
	}
	var status interface{ ExitStatus() int }
	if errors.As(err, &status) {
		return status.ExitStatus()
	}
	u.line("error: " + err.Error())
	var hint interface{ Hint() string }
	if errors.As(err, &hint) && hint.Hint() != "" {
		for l := range strings.Lines(hint.Hint()) {
			u.line("hint: " + strings.TrimRight(l, "\n"))
		}
	}
	_, ours := errors.AsType[*usageError](err)
	if _, theirs := errors.AsType[*host.UsageError](err); ours || theirs {
		return exitUsage
	}
	return u.fail
}

// printable escapes what a terminal would act on; an error may quote names that
// others chose.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r == '\n' || strconv.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		q := strconv.QuoteRuneToASCII(r)
		b.WriteString(q[1 : len(q)-1])
	}
	return b.String()
}

func quote(s string) string { return strconv.Quote(s) }

// version is the module's version, or the revision that it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return "unknown"
}

// follower copies growing log files to stderr, for run --verbose.
type follower struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// logNames are the logs of a generation.
var logNames = []string{"coordinator.log", "supervisor.log", "slirp.log", "runsc.log"}

func (f *follower) start(dir string, u *ui) {
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel, f.done = cancel, make(chan struct{})
	go func() {
		defer close(f.done)
		root, err := os.OpenRoot(dir)
		if err != nil {
			return
		}
		defer root.Close()
		offsets := map[string]int64{}
		for {
			for _, name := range logNames {
				offsets[name] = copyNew(root, name, offsets[name], u)
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(redraw):
			}
		}
	}()
}

func (f *follower) stop() {
	if f.cancel != nil {
		f.cancel()
		<-f.done
	}
}

// copyNew prints the complete lines that a file has got since offset, and
// returns the new offset. A file that is shorter than that was cut.
func copyNew(root *os.Root, name string, offset int64, u *ui) int64 {
	file, err := root.Open(name)
	if err != nil {
		return offset
	}
	defer file.Close()
	if fi, err := file.Stat(); err == nil && fi.Size() < offset {
		offset = 0
	}
	b, err := io.ReadAll(io.NewSectionReader(file, offset, 1<<20))
	if err != nil {
		return offset
	}
	end := strings.LastIndexByte(string(b), '\n') + 1
	for l := range strings.Lines(string(b[:end])) {
		u.Notice(strings.TrimSuffix(name, ".log") + ": " + strings.TrimRight(l, "\n"))
	}
	return offset + int64(end)
}
