package workspace_test

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// seen is what a poll inside has seen of a file.
type seen struct {
	Name string
	Size *int64
	Text *string
}

// is tells whether the size and the content agree and are what they should be;
// nil for a file that is not there.
func (s seen) is(want *string) bool {
	if want == nil || s.Text == nil || s.Size == nil {
		return want == nil && s.Text == nil
	}
	return *s.Text == *want && *s.Size == int64(len(*want))
}

// poller watches files from inside.
type poller struct {
	w    *world
	took []time.Duration

	mu   sync.Mutex
	last map[string]seen
	news chan struct{} // closed at each report
}

// poll starts to watch, and returns when everything has been seen once.
func (w *world) poll(names ...string) *poller {
	w.t.Helper()
	program, err := os.ReadFile("testdata/poll.py")
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := w.Command(ctx, append([]string{"run", "--quiet", "--", "python3", "-c", string(program)}, names...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	p := &poller{w: w, last: map[string]seen{}, news: make(chan struct{})}
	over := make(chan struct{})
	go func() {
		defer close(over)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 4<<20)
		for lines.Scan() {
			var s seen
			if json.Unmarshal(lines.Bytes(), &s) != nil {
				continue
			}
			p.mu.Lock()
			p.last[s.Name] = s
			close(p.news)
			p.news = make(chan struct{})
			p.mu.Unlock()
		}
	}()
	w.t.Cleanup(func() {
		cancel()
		<-over
		_ = cmd.Wait()
	})
	for _, name := range names {
		p.wait(name, func(seen) bool { return true })
	}
	return p
}

// wait waits for a report on a file.
func (p *poller) wait(name string, good func(seen) bool) {
	p.w.t.Helper()
	limit := time.After(20 * time.Second)
	for {
		p.mu.Lock()
		s, ok := p.last[name]
		news := p.news
		p.mu.Unlock()
		if ok && good(s) {
			return
		}
		select {
		case <-news:
		case <-limit:
			b, _ := json.Marshal(s)
			p.w.t.Fatalf("%s inside is still %s", name, b)
		}
	}
}

// until waits until a file has a content, and takes down how long that lasts.
func (p *poller) until(name, text string) { p.w.t.Helper(); p.await(name, &text) }

// untilGone waits until a file is not there.
func (p *poller) untilGone(name string) { p.w.t.Helper(); p.await(name, nil) }

func (p *poller) await(name string, want *string) {
	p.w.t.Helper()
	start := time.Now()
	p.wait(name, func(s seen) bool {
		if s.Text != nil && strings.Contains(*s.Text, "\x00") {
			p.w.t.Errorf("%s: zeros inside where there are none: %q", name, *s.Text)
		}
		return s.is(want)
	})
	p.took = append(p.took, time.Since(start))
}

// fast fails the test unless what was awaited came within a second: half of it
// at least, since on a busy machine any one may be late.
func (p *poller) fast(t *testing.T) {
	t.Helper()
	sorted := slices.Sorted(slices.Values(p.took))
	t.Logf("visible inside after %v, at most %v", sorted[len(sorted)/2], sorted[len(sorted)-1])
	if m := sorted[len(sorted)/2]; m > time.Second {
		t.Errorf("the median of %d edits is visible inside after %v", len(sorted), m)
	}
}

// Case 51: host edits are seen inside within a second, the size and the content
// agreeing, by a process that has looked before and keeps looking.
func TestHostEditsAreSeen(t *testing.T) {
	w := newWorld(t)
	w.host("git init -q; mkdir -p d/e; echo a >d/f; git add .; git commit -qm first")
	names := []string{"d/f", "d/new", "d/e/moved", "top", "tree/a/b"}
	p := w.poll(names...)
	text := "a\n"
	for n := range 3 {
		text += strings.Repeat("appended\n", 200*(n+1))
		w.host(`printf %s "$1" >new; tail -c +$(($(stat -c %s d/f) + 1)) new >>d/f; rm new`, text)
		p.until("d/f", text)
	}
	w.host("truncate -s 3 d/f")
	p.until("d/f", text[:3])
	w.host("truncate -s 0 d/f")
	p.until("d/f", "")
	for _, s := range []string{"one\n", "a longer text\n", "2\n"} {
		w.host(`printf %s "$1" >d/tmp; mv d/tmp d/f`, s)
		p.until("d/f", s)
	}
	w.host("rm d/f")
	p.untilGone("d/f")
	w.host("echo again >d/f")
	p.until("d/f", "again\n")
	w.host("echo x >d/new")
	p.until("d/new", "x\n")
	w.host("mv d/new d/e/moved")
	p.until("d/e/moved", "x\n")
	p.untilGone("d/new")
	w.host("mkdir -p t/a; echo b >t/a/b; mv t tree")
	p.until("tree/a/b", "b\n")
	w.host("rm -r tree")
	p.untilGone("tree/a/b")
	w.host("ln -s d/f top")
	p.until("top", "again\n")
	w.host("printf 0123456789 >d/f; printf XY | dd of=d/f bs=1 seek=4 conv=notrunc 2>/dev/null")
	p.until("d/f", "0123XY6789")
	p.fast(t)
}

// Case 51, the other way: what is done inside is on the host when the command
// inside has ended, and those who watch on the host hear of it.
func TestSandboxEditsReachTheHost(t *testing.T) {
	w := newWorld(t)
	w.host("git init -q; mkdir d; echo a >d/f; git add .; git commit -qm first")
	defer w.Hold("")()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	watch := os.NewFile(uintptr(fd), "inotify")
	defer watch.Close()
	if _, err := unix.InotifyAddWatch(fd, filepath.Join(w.Project, "d"), unix.IN_ALL_EVENTS&^unix.IN_ACCESS); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ script, name, text, event string }{
		{"echo b >>d/f", "d/f", "a\nb\n", "f"},
		{"echo c >d/new", "d/new", "c\n", "new"},
		{"echo d >t; mv t d/f", "d/f", "d\n", "f"},
		{"truncate -s 1 d/f", "d/f", "d", "f"},
		{"mkdir d/e; echo x >d/e/x", "d/e/x", "x\n", "e"},
		{"mv d/new d/other", "d/other", "c\n", "other"},
		{"ln d/other d/linked", "d/linked", "c\n", "linked"},
		{"ln -s other d/link", "d/link", "c\n", "link"},
	} {
		w.must(tt.script)
		if got := w.read(tt.name); got != tt.text {
			t.Errorf("%s: on the host %s is %q", tt.script, tt.name, got)
		}
		if err := watch.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		events := ""
		for b := make([]byte, 64<<10); !strings.Contains(events, tt.event+"\x00"); {
			n, err := watch.Read(b)
			if err != nil {
				t.Errorf("%s: who watches on the host has heard %q: %v", tt.script, events, err)
				break
			}
			events += string(b[:n])
		}
	}
	w.must("rm -r d/e d/other d/link")
	if _, err := os.Lstat(filepath.Join(w.Project, "d/other")); err == nil {
		t.Error("removed inside, it is still on the host")
	}
}
