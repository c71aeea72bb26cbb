package view_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/view/viewtest"
)

// visible is how long a change of the host's may take to be seen inside.
const visible = time.Second

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
}

func stat(t *testing.T, path string) unix.Stat_t {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatalf("lstat %s: %v", path, err)
	}
	return st
}

// content is what is read of a file, which is an error when it is not as long
// as stat says.
func content(path string) (string, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	b, err := os.ReadFile(path)
	if err == nil && int64(len(b)) != fi.Size() {
		err = fmt.Errorf("%d bytes, and stat says %d", len(b), fi.Size())
	}
	return string(b), err
}

// soon waits until f has no complaint.
func soon(t *testing.T, what string, f func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(visible); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		// Twice: the kernel asks for the attributes of what was just read anew, and
		// remembers what it has got the second time.
		if err = f(); err == nil {
			if err = f(); err == nil {
				return
			}
		}
	}
	t.Errorf("%s: after %s: %v", what, visible, err)
}

func holds(path, want string) func() error {
	return func() error {
		got, err := content(path)
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("it holds %.60q, want %.60q", got, want)
		}
		return nil
	}
}

func absent(path string) func() error {
	return func() error {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("lstat: %w, want that it is not there", err)
		}
		return nil
	}
}

func lists(dir string, want ...string) func() error {
	return func() error {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		var got []string
		for _, e := range entries {
			got = append(got, e.Name())
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			return fmt.Errorf("it lists %q, want %q", got, want)
		}
		return nil
	}
}

// Case 51, must-show 7: an edit on the host is seen inside within a second,
// size and content agreeing, whatever kind of edit it is.
func TestHostEdits(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	hostEdits(t, viewtest.New(t, nil))
}

// Where there are fewer watches than directories the rest is asked for again.
func TestHostEditsUnwatched(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	write(t, "/proc/sys/user/max_inotify_watches", "0")
	hostEdits(t, viewtest.New(t, nil))
}

func hostEdits(t *testing.T, w *viewtest.World) {
	host := func(name string) string { return filepath.Join(w.Host, name) }
	in := func(name string) string { return filepath.Join(w.Mount, name) }
	mkdir(t, host("d"))
	for i := range 5 {
		f := fmt.Sprintf("d/f%d", i)
		write(t, host(f), "one\n")
		soon(t, "created", holds(in(f), "one\n"))

		g, err := os.OpenFile(host(f), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.WriteString("two\n"); err != nil {
			t.Fatal(err)
		}
		soon(t, "appended", holds(in(f), "one\ntwo\n"))
		if err := g.Truncate(2); err != nil {
			t.Fatal(err)
		}
		soon(t, "truncated", holds(in(f), "on"))
		// The same size: nothing but the content and a time stamp differs.
		if _, err := g.WriteAt([]byte("NO"), 0); err == nil {
			t.Fatal("an appending file takes WriteAt")
		}
		_ = g.Close()
		write(t, host(f), "NO")
		soon(t, "overwritten", holds(in(f), "NO"))
		write(t, host("tmp"), strings.Repeat("replaced\n", 1000))
		if err := os.Rename(host("tmp"), host(f)); err != nil {
			t.Fatal(err)
		}
		soon(t, "replaced", holds(in(f), strings.Repeat("replaced\n", 1000)))
		if err := os.Chmod(host(f), 0o600); err != nil {
			t.Fatal(err)
		}
		soon(t, "chmod", func() error {
			if fi, err := os.Stat(in(f)); err != nil || fi.Mode() != 0o600 {
				return fmt.Errorf("%v, %w", fi, err)
			}
			return nil
		})
		if err := os.Remove(host(f)); err != nil {
			t.Fatal(err)
		}
		soon(t, "removed", absent(in(f)))
		soon(t, "removed", lists(in("d")))
		write(t, host(f), "again\n")
		soon(t, "made again, after it was found to be missing", holds(in(f), "again\n"))
		if err := os.Remove(host(f)); err != nil {
			t.Fatal(err)
		}
	}
	// Directories.
	soon(t, "no directory", absent(in("e/sub")))
	mkdir(t, host("e"))
	mkdir(t, host("e/sub"))
	write(t, host("e/sub/f"), "below")
	soon(t, "made below what was missing", holds(in("e/sub/f"), "below"))
	soon(t, "listed", lists(in("e"), "sub"))
	if err := os.Rename(host("e/sub"), host("d/moved")); err != nil {
		t.Fatal(err)
	}
	soon(t, "moved away", absent(in("e/sub/f")))
	soon(t, "moved", holds(in("d/moved/f"), "below"))
	soon(t, "listed", lists(in("e")))
	soon(t, "listed", lists(in("d"), "moved"))
	write(t, host("d/moved/f"), "changed")
	soon(t, "changed where it was moved to", holds(in("d/moved/f"), "changed"))
	if err := os.Symlink("d", host("link")); err != nil {
		t.Fatal(err)
	}
	soon(t, "a link", holds(in("link/moved/f"), "changed"))
	if err := errors.Join(os.Remove(host("link")), os.Symlink("e", host("link"))); err != nil {
		t.Fatal(err)
	}
	soon(t, "another link of that name", absent(in("link/moved/f")))
}

func TestHelperMapping(*testing.T) { viewtest.HelpMapping() }

// An edit is seen in a file that is open, and in one that is mapped.
func TestHostEditsOpenFile(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	w := viewtest.New(t, nil)
	write(t, filepath.Join(w.Host, "f"), strings.Repeat("a", 8192))
	f, err := os.Open(filepath.Join(w.Mount, "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	m := viewtest.Map(t, filepath.Join(w.Mount, "f"), 8192)
	if got := m.At(0); got != 'a' {
		t.Errorf("mapped: %q", got)
	}
	write(t, filepath.Join(w.Host, "f"), strings.Repeat("b", 8192))
	soon(t, "read", func() error {
		b := make([]byte, 8192)
		if _, err := f.ReadAt(b, 0); err != nil || !bytes.Equal(b, bytes.Repeat([]byte("b"), 8192)) {
			return fmt.Errorf("%.10q, %w", b, err)
		}
		return nil
	})
	soon(t, "mapped", func() error {
		if a, b := m.At(0), m.At(8191); a != 'b' || b != 'b' {
			return fmt.Errorf("%q and %q", a, b)
		}
		return nil
	})
	// Replaced and removed: what is open stays what it was.
	write(t, filepath.Join(w.Host, "g"), "other")
	if err := os.Rename(filepath.Join(w.Host, "g"), filepath.Join(w.Host, "f")); err != nil {
		t.Fatal(err)
	}
	soon(t, "replaced", holds(filepath.Join(w.Mount, "f"), "other"))
	b := make([]byte, 8192)
	if _, err := f.ReadAt(b, 0); err != nil || !bytes.Equal(b, bytes.Repeat([]byte("b"), 8192)) {
		t.Errorf("the replaced file: %.10q, %v", b, err)
	}
}

// Both sides append to one file: nothing is lost.
func TestAppendOnBothSides(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	w := viewtest.New(t, nil)
	const lines = 300
	path := filepath.Join(w.Host, "log")
	write(t, path, "")
	done := make(chan error, 2)
	for name, p := range map[string]string{"host": path, "view": filepath.Join(w.Mount, "log")} {
		go func() {
			f, err := os.OpenFile(p, os.O_APPEND|os.O_WRONLY, 0)
			for i := 0; i < lines && err == nil; i++ {
				_, err = fmt.Fprintf(f, "%s %d\n", name, i)
			}
			done <- errors.Join(err, f.Close())
		}()
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name := range map[string]bool{"host": true, "view": true} {
		for i := range lines {
			if !bytes.Contains(b, fmt.Appendf(nil, "%s %d\n", name, i)) {
				t.Fatalf("%s's line %d is lost", name, i)
			}
		}
	}
	soon(t, "the same inside", holds(filepath.Join(w.Mount, "log"), string(b)))
}

// What is changed inside is on the host at once, and the host's watchers are
// told.
func TestInsideEdits(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	w := viewtest.New(t, nil)
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if _, err := unix.InotifyAddWatch(fd, w.Host, unix.IN_ALL_EVENTS); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(w.Mount, "f"), "text")
	if got, err := content(filepath.Join(w.Host, "f")); got != "text" || err != nil {
		t.Errorf("on the host: %q, %v", got, err)
	}
	buf := make([]byte, 4096)
	if n, err := unix.Read(fd, buf); err != nil || !bytes.Contains(buf[:n], []byte("f\x00")) {
		t.Errorf("no event on the host: %q, %v", buf[:max(n, 0)], err)
	}
	// The host can run at once what was written inside, and is never told that
	// the text is busy.
	write(t, filepath.Join(w.Mount, "script"), "#!/bin/sh\nexit 0\n")
	if err := os.Chmod(filepath.Join(w.Mount, "script"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(w.Mount, "mapped"), strings.Repeat("\x00", 4096))
	if said := viewtest.Map(t, filepath.Join(w.Mount, "mapped"), 4096).Put("through a mapping"); said != "<nil>" {
		t.Errorf("msync: %s", said)
	}
	if got, err := content(filepath.Join(w.Host, "mapped")); !strings.HasPrefix(got, "through a mapping\x00") || err != nil {
		t.Errorf("mapped: %.20q, %v", got, err)
	}
}
