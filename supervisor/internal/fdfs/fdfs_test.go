package fdfs_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/launch"
	"lazaret.dev/lazaret/supervisor/internal/fdfs"
)

func dir(t *testing.T, path string) int {
	t.Helper()
	fd, err := fdfs.Open(unix.AT_FDCWD, path, unix.O_PATH|unix.O_DIRECTORY, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestOpenFollowsNothing(t *testing.T) {
	top := t.TempDir()
	must(t,
		os.MkdirAll(top+"/tree/sub", 0o755), os.WriteFile(top+"/secret", []byte("s"), 0o644),
		os.Symlink("..", top+"/tree/up"), os.Symlink(top+"/secret", top+"/tree/out"), os.Symlink("sub", top+"/tree/in"),
		os.Symlink("/proc/self/root", top+"/tree/magic"),
	)
	tree := dir(t, top+"/tree")
	for _, p := range []string{"out", "up/secret", "../secret", "/../secret", "in", "in/.", "magic/etc", "sub/../../secret"} {
		if fd, err := fdfs.Open(tree, p, unix.O_RDONLY, true); err == nil {
			_ = unix.Close(fd)
			t.Errorf("%s was opened", p)
		}
	}
	for _, p := range []string{"", "/", "sub", "/sub", "sub/.."} {
		fd, err := fdfs.Open(tree, p, unix.O_RDONLY, true)
		if err != nil {
			t.Errorf("%q: %v", p, err)
			continue
		}
		_ = unix.Close(fd)
	}
}

func TestOpenRefProvesIdentity(t *testing.T) {
	top := t.TempDir()
	must(t, os.WriteFile(top+"/a", nil, 0o644), os.WriteFile(top+"/b", nil, 0o644))
	var st unix.Stat_t
	must(t, unix.Stat(top+"/a", &st))
	r := launch.Ref{Path: top + "/a", Dev: st.Dev, Ino: st.Ino}
	fd, err := fdfs.OpenRef(r)
	must(t, err)
	_ = unix.Close(fd)
	must(t, os.Rename(top+"/b", top+"/a"))
	if _, err := fdfs.OpenRef(r); !errors.As(err, new(*fdfs.IdentityError)) {
		t.Errorf("a replaced file: %v", err)
	}
}

// Whatever a tree holds, emptying it touches nothing outside.
func TestEmpty(t *testing.T) {
	top := t.TempDir()
	deep := top + "/tree/upper" + "/d/d/d/d/d/d/d/d"
	must(t,
		os.MkdirAll(deep, 0o755), os.MkdirAll(top+"/victim/x", 0o755), os.WriteFile(top+"/victim/f", nil, 0o644),
		os.Symlink(top+"/victim", deep+"/link"), os.Symlink("../../victim", top+"/tree/upper/link"),
		unix.Mkfifo(deep+"/fifo", 0o644), os.Link(top+"/victim/f", deep+"/hard"),
		os.WriteFile(deep+"/new\nline", nil, 0o000), os.Mkdir(deep+"/-rf", 0o700),
	)
	tree := dir(t, top+"/tree")
	must(t, fdfs.Empty(tree, "upper"))
	if ents, err := os.ReadDir(top + "/tree/upper"); err != nil || len(ents) > 0 {
		t.Errorf("left %v (%v)", ents, err)
	}
	if ents, err := os.ReadDir(top + "/victim"); err != nil || len(ents) != 2 {
		t.Errorf("the victim has %v (%v)", ents, err)
	}
	must(t, os.Remove(top+"/tree/upper"), os.Symlink("../victim", top+"/tree/upper"))
	if err := fdfs.Empty(tree, "upper"); err == nil {
		t.Error("a link was emptied")
	}
	if _, err := os.Stat(filepath.Join(top, "victim/f")); err != nil {
		t.Error(err)
	}
}

func TestReadRegular(t *testing.T) {
	top := t.TempDir()
	must(t, os.WriteFile(top+"/f", []byte("12345"), 0o644), os.Symlink("f", top+"/link"), unix.Mkfifo(top+"/fifo", 0o644), os.Mkdir(top+"/dir", 0o755))
	fd := dir(t, top)
	if b, err := fdfs.ReadRegular(fd, "/f", 5); err != nil || string(b) != "12345" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := fdfs.ReadRegular(fd, "f", 4); err == nil {
		t.Error("a file above the limit was read")
	}
	for _, p := range []string{"link", "fifo", "dir", "none", "link/x", "f/x"} {
		if _, err := fdfs.ReadRegular(fd, p, 100); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", p, err)
		}
	}
}
