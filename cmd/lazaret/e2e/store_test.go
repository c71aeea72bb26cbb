package e2e_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/cmd/lazaret/e2etest"
)

// storeName begins the names of a Domain's database and of SQLite's files beside
// it.
const storeName = "store.db"

// watch counts the opens of a Domain's database. The kernel queues an event
// before an open returns, so that what a process has opened is known when it has
// ended.
type watch struct {
	fd    int
	files map[int32]string // watched for themselves: they may have other names
}

func watchStore(t *testing.T, domain string) *watch {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	w := &watch{fd: fd, files: map[int32]string{}}
	if _, err := unix.InotifyAddWatch(fd, domain, unix.IN_OPEN|unix.IN_ONLYDIR); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(domain)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), storeName) {
			wd, err := unix.InotifyAddWatch(fd, filepath.Join(domain, e.Name()), unix.IN_OPEN)
			if err != nil {
				t.Fatal(err)
			}
			w.files[int32(wd)] = "(" + e.Name() + ")"
		}
	}
	if len(w.files) == 0 {
		t.Fatalf("there is no %s in %s", storeName, domain)
	}
	return w
}

// opened returns what was opened since it was last asked, with how often; the
// files themselves are in parentheses.
func (w *watch) opened(t *testing.T) map[string]int {
	t.Helper()
	out := map[string]int{}
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Read(w.fd, buf)
		if errors.Is(err, unix.EAGAIN) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		for b := buf[:n]; len(b) > 0; {
			// struct inotify_event: wd, mask, cookie, len, name[len]
			wd, mask := int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:])
			end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
			name := string(bytes.TrimRight(b[unix.SizeofInotifyEvent:end], "\x00"))
			b = b[end:]
			if mask&unix.IN_Q_OVERFLOW != 0 {
				t.Fatal("opens were lost")
			}
			if mask&unix.IN_OPEN == 0 {
				continue
			}
			if file := w.files[wd]; file != "" {
				out[file]++
			} else if strings.HasPrefix(name, storeName) {
				out[name]++
			}
		}
	}
}

// FR-17: while a coordinator lives, nobody else opens its Domain's database:
// none of our commands, whatever it is asked for (the supervisor and escalate
// link no SQLite: TestBinaries). The coordinator itself opens it before it
// publishes and keeps it open, so that no open at all is seen.
func TestNobodyElseOpensTheStore(t *testing.T) {
	h := e2etest.New(t)
	h.Config("[profiles.other]\ncommand = [\"true\"]\n")
	h.Hold("")
	w := watchStore(t, domainDir(t, h))
	commands := [][]string{
		{"run", "--quiet", "--", "true"},
		{"run", "--quiet", "--env", "A=b", "--", "sh", "-c", "exit 3"},
		{"run", "other"},
		{"ps"},
		{"ps", "--json"},
		{"stop"}, // nobody can be asked
		{"stop", "ffffffffffff"},
		{"recover"}, // in use
		{"recover", "ffffffffffff"},
		{"doctor"},
		{"doctor", "--json"},
		{"ignore", "ls"},
		{"ignore", "ls", "--json"},
		{"ignore", "review"},
		{"ignore", "accept", "--yes"},
		{"profile", "ls"},
		{"profile", "ls", "--json"},
		{"profile", "show", "other"},
		{"net", "show"},
		{"net", "test"},
		{"help"},
		{"--version"},
		{"completion", "bash"},
		{"_coordinator"}, // by hand
	}
	// The list knows every command that there is.
	for line := range strings.Lines(h.Lazaret("", "__complete", "").Stdout) {
		name, _, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if !ok {
			continue
		}
		if !slices.ContainsFunc(commands, func(c []string) bool { return c[0] == name }) {
			t.Errorf("what %s opens is not tested", name)
		}
		commands = append(commands, []string{"__complete", name, ""}, []string{"__complete", name, "--"})
	}
	for _, c := range commands {
		h.Lazaret("", c...)
		if got := w.opened(t); len(got) > 0 {
			t.Errorf("lazaret %q has opened %v", c, got)
		}
	}
	// An open is seen, whoever does it.
	name := filepath.Join(domainDir(t, h), storeName)
	link := filepath.Join(h.Dir, "link")
	if err := os.Symlink(name, link); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(link)
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	want := map[string]int{storeName: 1, "(" + storeName + ")": 1}
	if got := w.opened(t); !maps.Equal(got, want) {
		t.Errorf("opened by hand: %v, want %v", got, want)
	}
	if r := h.Lazaret("", "stop", "--yes"); r.Status != 0 {
		t.Errorf("%+v", r)
	}
	if got := w.opened(t); len(got) > 0 {
		t.Errorf("an end has opened %v", got)
	}
}

// FR-17: of those who start a Domain at once, the winner of the lock alone opens
// the database: it is opened as often as in a start without others.
func TestLosersDoNotOpenTheStore(t *testing.T) {
	h := e2etest.New(t)
	h.Must("true")
	h.NothingLeft(gone)
	w := watchStore(t, domainDir(t, h))
	h.Must("true")
	h.NothingLeft(gone)
	alone := w.opened(t)
	if alone[storeName] == 0 {
		t.Fatalf("a start opens %v", alone)
	}
	before := len(h.Traces())
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() { h.Run("true") })
	}
	all.Wait()
	h.NothingLeft(gone)
	want := map[string]int{}
	for name, n := range alone {
		want[name] = n * (len(h.Traces()) - before) // one who comes late may start one more
	}
	if got := w.opened(t); !maps.Equal(got, want) {
		t.Errorf("opened %v, want %v", got, want)
	}
}
