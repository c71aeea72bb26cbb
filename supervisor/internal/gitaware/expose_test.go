package gitaware_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/gitaware"
	"lazaret.dev/lazaret/supervisor/internal/view/viewtest"
)

// FR-9: what is exposed is read inside, and gets no other name and no other
// content, mode or place.
func TestExposedStays(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	w := newWorld(t, func(o *gitaware.Options) { o.Expose = []string{".env", "secret"} }, (*world).ignored)
	before := w.tree(w.Host)
	for _, name := range []string{".env", "secret/key"} {
		w.holds(w.in(name), "host's "+name)
		open, err := unix.Open(w.in(name), unix.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, written := unix.Write(open, []byte("x"))
		_ = unix.Close(open)
		for what, err := range map[string]error{
			"write":     written,
			"link":      os.Link(w.in(name), w.in("linked")),
			"rename":    unix.Rename(w.in(name), w.in("moved")),
			"over":      unix.Rename(w.in("src/main.c"), w.in(name)),
			"exchange":  unix.Renameat2(unix.AT_FDCWD, w.in(name), unix.AT_FDCWD, w.in("src/main.c"), unix.RENAME_EXCHANGE),
			"exchanged": unix.Renameat2(unix.AT_FDCWD, w.in("src/main.c"), unix.AT_FDCWD, w.in(name), unix.RENAME_EXCHANGE),
			"unlink":    unix.Unlink(w.in(name)), "chmod": os.Chmod(w.in(name), 0), "truncate": os.Truncate(w.in(name), 0),
		} {
			if !errors.Is(err, unix.EROFS) {
				t.Errorf("%s of %s: %v", what, name, err)
			}
		}
	}
	for what, err := range map[string]error{
		"rename": unix.Rename(w.in("secret"), w.in("moved")), "make": os.WriteFile(w.in("secret/new"), nil, 0o600), "link": os.Link(w.in("src/main.c"), w.in("secret/new")),
	} {
		if !errors.Is(err, unix.EROFS) {
			t.Errorf("%s of an exposed directory: %v", what, err)
		}
	}
	if after := w.tree(w.Host); after != before {
		t.Errorf("the host has changed:\n%s\nbefore:\n%s", after, before)
	}
	if out := w.git(w.Host, "status", "--porcelain"); strings.TrimSpace(out) != "" {
		t.Errorf("git status: %s", out)
	}
}
