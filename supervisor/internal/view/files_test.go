package view_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/view/viewtest"
)

// Case 4: two names are one file, whichever way they came to be.
func TestHardLinks(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	w := viewtest.New(t, nil)
	in := func(name string) string { return filepath.Join(w.Mount, name) }
	write(t, in("a"), "a")
	if err := os.Link(in("a"), in("b")); err != nil {
		t.Fatal(err)
	}
	mkdir(t, filepath.Join(w.Host, "d"))
	if err := os.Link(filepath.Join(w.Host, "a"), filepath.Join(w.Host, "d/c")); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(in("b"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("bc"); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	a, b, c := stat(t, in("a")), stat(t, in("b")), stat(t, in("d/c"))
	if a.Ino != b.Ino || a.Ino != c.Ino || a.Size != 3 || b.Size != 3 || c.Size != 3 || a.Nlink != 3 {
		t.Errorf("%d %d %d: sizes %d %d %d, %d links", a.Ino, b.Ino, c.Ino, a.Size, b.Size, c.Size, a.Nlink)
	}
	if host := stat(t, filepath.Join(w.Host, "a")); host.Ino != a.Ino {
		t.Errorf("inode %d on the host, %d inside", host.Ino, a.Ino)
	}
	// One name goes; the others stay, and are still one file.
	if err := os.Remove(in("a")); err != nil {
		t.Fatal(err)
	}
	if b := stat(t, in("b")); b.Nlink != 2 {
		t.Errorf("%d links are left", b.Nlink)
	}
	write(t, in("b"), "through b")
	if got, err := content(in("d/c")); got != "through b" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// Case 3: a node follows its file, not its path.
func TestRenames(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	w := viewtest.New(t, nil)
	in := func(name string) string { return filepath.Join(w.Mount, name) }
	ok := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		write(t, in("x.tmp"), "new")
		ok(os.Rename(in("x.tmp"), in("x")))
		if got, err := content(in("x")); got != "new" || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
	}
	// Through an open file, when its directory was renamed.
	mkdir(t, in("d"))
	write(t, in("d/f"), "")
	f, err := os.OpenFile(in("d/f"), os.O_WRONLY, 0)
	ok(err)
	ok(os.Rename(in("d"), in("e")))
	_, err = f.WriteString("moved along")
	ok(err, f.Close())
	if got, err := content(filepath.Join(w.Host, "e/f")); got != "moved along" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := os.Lstat(filepath.Join(w.Host, "d")); err == nil {
		t.Error("the old path has come back")
	}
	// Through an open file, when its name is another's.
	write(t, in("a"), "first")
	f, err = os.Open(in("a"))
	ok(err)
	ok(os.Rename(in("a"), in("b")))
	write(t, in("a"), "second")
	b, err := io.ReadAll(f)
	ok(err, f.Close())
	if string(b) != "first" {
		t.Errorf("%q", b)
	}
	// Exchanged.
	ok(unix.Renameat2(unix.AT_FDCWD, in("a"), unix.AT_FDCWD, in("e"), unix.RENAME_EXCHANGE))
	if got, err := content(in("a/f")); got != "moved along" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := content(in("e")); got != "second" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for _, flag := range []uint{unix.RENAME_WHITEOUT, unix.RENAME_NOREPLACE} {
		if err := unix.Renameat2(unix.AT_FDCWD, in("e"), unix.AT_FDCWD, in("b"), flag); err == nil {
			t.Errorf("renameat2 with %d works", flag)
		}
	}
	// Not into itself, not over what is not empty.
	mkdir(t, in("a/sub"))
	if err := os.Rename(in("a"), in("a/sub/a")); !errors.Is(err, unix.EINVAL) {
		t.Errorf("into itself: %v", err)
	}
	mkdir(t, in("empty"))
	if err := unix.Rename(in("empty"), in("a")); !errors.Is(err, unix.ENOTEMPTY) {
		t.Errorf("over a directory with files: %v", err)
	}
	ok(unix.Rename(in("a"), in("empty")))
	if got, err := content(in("empty/f")); got != "moved along" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// A file that is open lives on without a name.
func TestUnlinkedFile(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	w := viewtest.New(t, nil)
	path := filepath.Join(w.Mount, "f")
	write(t, path, "text")
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	mkdir(t, filepath.Join(w.Mount, "over"))
	for i := range 50 {
		// Its inode is free for others.
		if i == 0 {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		write(t, filepath.Join(w.Mount, "over", fmt.Sprint(i)), "other")
	}
	if _, err := f.WriteAt([]byte("more"), 4); err != nil {
		t.Error(err)
	}
	b := make([]byte, 8)
	if _, err := f.ReadAt(b, 0); err != nil || string(b) != "textmore" {
		t.Errorf("%q, %v", b, err)
	}
	if fi, err := f.Stat(); err != nil || fi.Size() != 8 {
		t.Errorf("%v, %v", fi, err)
	}
	if err := errors.Join(f.Chmod(0o600), f.Truncate(2), f.Sync()); err != nil {
		t.Error(err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Nlink != 0 || st.Size != 2 || st.Mode&0o777 != 0o600 {
		t.Errorf("%+v, %v", st, err)
	}
}

// Case 74: special files of the host are seen and lead nowhere; inside none can
// be made on the host.
func TestSpecialFiles(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	w := viewtest.New(t, nil)
	host := func(name string) string { return filepath.Join(w.Host, name) }
	in := func(name string) string { return filepath.Join(w.Mount, name) }
	if err := unix.Mkfifo(host("fifo"), 0o666); err != nil {
		t.Fatal(err)
	}
	t.Chdir(w.Host) // the address is short
	l, err := net.Listen("unix", "socket")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for _, name := range []string{"fifo", "socket"} {
		if st := stat(t, in(name)); st.Mode&unix.S_IFMT != unix.S_IFSOCK {
			t.Errorf("%s: mode %o", name, st.Mode)
		}
		for _, flags := range []int{unix.O_RDONLY, unix.O_WRONLY, unix.O_RDWR | unix.O_NONBLOCK} {
			if fd, err := unix.Open(in(name), flags, 0); err == nil {
				_ = unix.Close(fd)
				t.Errorf("%s opens with flags %x", name, flags)
			}
		}
	}
	t.Chdir(w.Mount)
	if c, err := net.Dial("unix", "socket"); err == nil {
		_ = c.Close()
		t.Error("the host's socket is reached")
	}
	if err := lists(w.Mount, "fifo", "socket")(); err != nil {
		t.Error(err)
	}
	for mode, name := range map[uint32]string{
		unix.S_IFIFO: "newfifo", unix.S_IFSOCK: "newsocket", unix.S_IFCHR: "whiteout", unix.S_IFBLK: "block",
	} {
		if err := unix.Mknod(in(name), mode|0o666, 0); !errors.Is(err, unix.EPERM) {
			t.Errorf("mknod of %o: %v", mode, err)
		}
	}
	if err := unix.Mknod(in("regular"), unix.S_IFREG|0o644, 0); err != nil {
		t.Errorf("mknod of a regular file: %v", err)
	}
	if err := os.Remove(in("fifo")); err != nil {
		t.Error(err)
	}
}

// No set-id bit gets to the host, and modes are otherwise kept.
func TestModes(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	w := viewtest.New(t, nil)
	host := func(name string) string { return filepath.Join(w.Host, name) }
	in := func(name string) string { return filepath.Join(w.Mount, name) }
	mode := func(name string) uint32 { return stat(t, host(name)).Mode & 0o7777 }
	fd, err := unix.Open(in("f"), unix.O_CREAT|unix.O_WRONLY, 0o6755)
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(fd)
	if got := mode("f"); got != 0o755 {
		t.Errorf("created: %o", got)
	}
	for ask, want := range map[uint32]uint32{0o4711: 0o711, 0o2755: 0o755, 0o6777: 0o777, 0o1777: 0o1777, 0: 0, 0o400: 0o400, 0o666: 0o666} {
		if err := unix.Chmod(in("f"), ask); err != nil {
			t.Errorf("chmod %o: %v", ask, err)
		}
		if got := mode("f"); got != want {
			t.Errorf("chmod %o: %o, want %o", ask, got, want)
		}
	}
	if err := unix.Mkdir(in("d"), 0o2770); err != nil {
		t.Fatal(err)
	}
	if got := mode("d"); got != 0o770 {
		t.Errorf("directory: %o", got)
	}
	// What the host has set goes when the file is written inside.
	write(t, host("s"), "x")
	if err := unix.Chmod(host("s"), 0o4755); err != nil {
		t.Fatal(err)
	}
	if got := stat(t, in("s")).Mode & 0o7777; got != 0o4755 {
		t.Errorf("the host's own: %o", got)
	}
	if err := os.WriteFile(in("s"), []byte("changed"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := mode("s"); got != 0o755 {
		t.Errorf("written inside: %o", got)
	}
}

// On the host everything belongs to the developer; inside, a file was given to
// whom it was given to.
func TestOwners(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	w := viewtest.New(t, nil)
	path := filepath.Join(w.Mount, "f")
	write(t, path, "")
	// This namespace has one id, so that nobody else can be named through the
	// kernel.
	if err := os.Chown(path, 0, 0); err != nil {
		t.Error(err)
	}
	if st := stat(t, path); st.Uid != 0 || st.Gid != 0 {
		t.Errorf("owner %d:%d", st.Uid, st.Gid)
	}
}

// Extended attributes are the user's own, and none that an overlay heeds.
func TestExtendedAttributes(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	w := viewtest.New(t, nil)
	path := filepath.Join(w.Mount, "f")
	write(t, path, "")
	for _, name := range []string{"user.overlay.opaque", "user.overlay.whiteout", "trusted.overlay.opaque", "security.capability", "security.selinux"} {
		if err := unix.Setxattr(path, name, []byte("y"), 0); err == nil {
			t.Errorf("%s can be set", name)
		}
		if err := unix.Setxattr(filepath.Join(w.Host, "f"), name, []byte("y"), 0); err == nil {
			if _, err := unix.Getxattr(path, name, make([]byte, 8)); err == nil {
				t.Errorf("%s can be read", name)
			}
		}
	}
	if err := unix.Setxattr(path, "user.mine", []byte("value"), 0); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	if n, err := unix.Listxattr(path, b); err != nil || string(b[:n]) != "user.mine\x00" {
		t.Errorf("list: %q, %v", b[:max(n, 0)], err)
	}
	if n, err := unix.Getxattr(path, "user.mine", b); err != nil || string(b[:n]) != "value" {
		t.Errorf("get: %q, %v", b[:max(n, 0)], err)
	}
	if err := unix.Removexattr(path, "user.mine"); err != nil {
		t.Error(err)
	}
	if n, err := unix.Listxattr(filepath.Join(w.Host, "f"), b); err != nil || strings.Contains(string(b[:n]), "mine") {
		t.Errorf("on the host: %q, %v", b[:max(n, 0)], err)
	}
}

// Case 104: no link leads out, in a name or in the middle of a path, and a
// directory that the host has moved away is not followed.
func TestNothingOutside(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	w := viewtest.New(t, nil)
	outside := filepath.Join(filepath.Dir(w.Host), "outside")
	mkdir(t, outside)
	write(t, filepath.Join(outside, "secret"), "secret")
	mkdir(t, filepath.Join(w.Host, "d"))
	write(t, filepath.Join(w.Host, "d/secret"), "mine")
	if got, err := content(filepath.Join(w.Mount, "d/secret")); got != "mine" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	dir, err := unix.Open(filepath.Join(w.Mount, "d"), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(dir) }()
	// The directory becomes a link that leads outside.
	if err := errors.Join(os.Rename(filepath.Join(w.Host, "d"), filepath.Join(outside, "d")), os.Symlink(outside, filepath.Join(w.Host, "d"))); err != nil {
		t.Fatal(err)
	}
	if target, err := os.Readlink(filepath.Join(w.Mount, "d")); err != nil || target != outside {
		soon(t, "the link", func() error {
			_, err := os.Readlink(filepath.Join(w.Mount, "d"))
			return err
		})
	}
	soon(t, "the moved directory", func() error {
		fd, err := unix.Openat(dir, "new", unix.O_CREAT|unix.O_WRONLY, 0o644)
		if err == nil {
			_ = unix.Close(fd)
			_ = os.Remove(filepath.Join(outside, "d/new"))
			return errors.New("it can be written through a descriptor that is older")
		}
		return nil //nolint:nilerr // as it should be
	})
	if _, err := os.Lstat(filepath.Join(outside, "d/new")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file outside: %v", err)
	}
}

// The connection is held by nobody but the server: a child that held it would
// turn the server's end into a hang.
func TestConnectionIsNotInherited(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	viewtest.New(t, nil)
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "ls -l /proc/$$/fd").CombinedOutput()
	if err != nil || strings.Contains(string(out), "fuse") {
		t.Errorf("%v\n%s", err, out)
	}
}

// Unmounted and mounted over and over, with files in use: nothing is left, and
// nothing hangs (case 75).
func TestMountCycles(t *testing.T) {
	if !viewtest.Inside(t) {
		return
	}
	w := viewtest.New(t, nil)
	for i := range 30 {
		name := filepath.Join(w.Mount, fmt.Sprint(i))
		write(t, name, "x")
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		viewtest.Stop(t, w.Mount, w.View)
		w.Serve(t, nil)
	}
	if entries, err := os.ReadDir(w.Mount); err != nil || len(entries) != 30 {
		t.Errorf("%d files, %v", len(entries), err)
	}
	// What the kernel does not know any more is not kept.
	viewtest.Stop(t, w.Mount, w.View)
	if nodes, fds := w.View.Statistics(); fds != 0 || nodes > 40 {
		t.Errorf("%d nodes and %d descriptors are left", nodes, fds)
	}
}
