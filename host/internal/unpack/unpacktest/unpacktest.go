// Package unpacktest builds layers and runs the programs of package unpack for
// tests: a Runner that re-executes the test binary in a user namespace, and a
// look into trees that the test's own user cannot read.
//
// It must not be imported by product code. It runs in test processes.
package unpacktest

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/unpack"
)

const programEnv = "LAZARET_UNPACKTEST_PROGRAM"

// Main is called from TestMain first. In a re-executed test binary it runs the
// program and returns its exit status and true.
func Main() (status int, isProgram bool) {
	var err error
	switch os.Getenv(programEnv) {
	case "":
		return 0, false
	case unpack.Program:
		err = unpack.Serve(context.Background(), os.Stdin, os.Stdout)
	case unpack.RemoveProgram:
		err = unpack.RemoveTree(os.Stdin, os.Stdout)
	case "snapshot":
		err = writeSnapshot(os.Args[1], os.Stdout)
	default:
		err = fmt.Errorf("unknown program")
	}
	if err != nil {
		return 1, true
	}
	return 0, true
}

// Runner runs programs in a user namespace with the ids of the test's user.
type Runner struct {
	Single bool                // one id instead of the subordinate ones
	Umask  int                 // of the program's start
	Wrap   func(cmd *exec.Cmd) // last change to the command; may be nil
	Start  func(pid int)       // called when it runs; may be nil
	Prefix []string            // command to put before the test binary; may be nil
}

// Run implements image.Runner.
func (r *Runner) Run(ctx context.Context, program string, request []byte, files []*os.File, stdout io.Writer) error {
	return r.run(ctx, program, nil, request, files, stdout)
}

func (r *Runner) run(ctx context.Context, program string, args []string, request []byte, files []*os.File, stdout io.Writer) error {
	runtime.LockOSThread() // the parent of the death signal is a thread
	defer runtime.UnlockOSThread()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	argv := []string{"--user", "--map-root-user"}
	if !r.Single {
		argv = append(argv, "--map-auto")
	}
	argv = append(append(append(argv, r.Prefix...), self), args...)
	cmd := exec.CommandContext(ctx, "unshare", argv...)
	// A race detector would sleep for a second at the end of each program.
	cmd.Env = append(os.Environ(), programEnv+"="+program, "GORACE=atexit_sleep_ms=0")
	cmd.Stdin = bytes.NewReader(request)
	cmd.Stdout = stdout
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.ExtraFiles = files
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if r.Wrap != nil {
		r.Wrap(cmd)
	}
	old := unix.Umask(r.Umask)
	err = cmd.Start()
	unix.Umask(old)
	if err != nil {
		return err
	}
	if r.Start != nil {
		r.Start(cmd.Process.Pid)
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, stderr.String())
	}
	return nil
}

// TempDir is t.TempDir for directories that will hold trees of other owners.
func TempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "unpacktest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		parent, err := os.Open(filepath.Dir(dir))
		if err != nil {
			t.Error(err)
			return
		}
		defer parent.Close()
		req, _ := json.Marshal(unpack.RemoveRequest{Version: unpack.Version, Parent: 3, Name: filepath.Base(dir)})
		if err := (&Runner{}).Run(context.Background(), unpack.RemoveProgram, req, []*os.File{parent}, io.Discard); err != nil {
			t.Errorf("remove %s: %v", dir, err)
		}
	})
	return dir
}

// E is one entry of a layer. Mode is 0644 (0755 for directories) unless set;
// ModeZero is for mode 0.
type E struct {
	Name, Link, Body string
	Type             byte
	Mode             int64
	ModeZero         bool
	UID, GID         int
	Major, Minor     int64
	Xattrs           map[string]string
	Raw              bool // name as it is, without PAX
}

// Tar builds an uncompressed layer.
func Tar(t testing.TB, entries ...E) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{
			Name: e.Name, Linkname: e.Link, Typeflag: e.Type, Mode: e.Mode, Uid: e.UID, Gid: e.GID,
			Devmajor: e.Major, Devminor: e.Minor, ModTime: time.Unix(1_700_000_000, 0),
		}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Mode == 0 && !e.ModeZero {
			h.Mode = 0o644
			if h.Typeflag == tar.TypeDir {
				h.Mode = 0o755
			}
		}
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(e.Body))
		}
		if len(e.Xattrs) > 0 {
			h.PAXRecords = map[string]string{}
			for k, v := range e.Xattrs {
				h.PAXRecords["SCHILY.xattr."+k] = v
			}
		}
		if e.Raw {
			h.Format = tar.FormatGNU
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, e.Body); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Digest returns the sha256 digest of b.
func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// File is one file of a snapshot.
type File struct {
	Mode     uint32 // type and permissions, as stat gives them
	UID, GID uint32
	Ino      uint64
	Nlink    uint64
	Body     string // of a regular file; target of a link
	Xattrs   map[string]string
}

// Snapshot reads a whole tree as root of the namespace. Keys are the names from
// the root, in hex where they are not UTF-8; the root is ".".
func Snapshot(t testing.TB, root string) map[string]File {
	t.Helper()
	var out bytes.Buffer
	if err := (&Runner{}).run(context.Background(), "snapshot", []string{root}, nil, nil, &out); err != nil {
		t.Fatal(err)
	}
	var files map[string]File
	if err := json.Unmarshal(out.Bytes(), &files); err != nil {
		t.Fatal(err)
	}
	return files
}

func writeSnapshot(root string, w io.Writer) error {
	files := map[string]File{}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		f := File{Mode: st.Mode, UID: st.Uid, GID: st.Gid, Ino: st.Ino, Nlink: st.Nlink, Xattrs: xattrs(path)}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			f.Body = string(b)
		case unix.S_IFLNK:
			if f.Body, err = os.Readlink(path); err != nil {
				return err
			}
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if b, _ := json.Marshal(name); string(b) != fmt.Sprintf("%q", name) {
			name = hex.EncodeToString([]byte(name))
		}
		files[name] = f
		return nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return err
	}
	return json.NewEncoder(w).Encode(files)
}

func xattrs(path string) map[string]string {
	buf := make([]byte, 64<<10)
	n, err := unix.Llistxattr(path, buf)
	if err != nil || n == 0 {
		return nil
	}
	m := map[string]string{}
	for name := range bytes.SplitSeq(bytes.TrimSuffix(buf[:n], []byte{0}), []byte{0}) {
		v := make([]byte, 64<<10)
		if n, err := unix.Lgetxattr(path, string(name), v); err == nil {
			m[string(name)] = string(v[:n])
		}
	}
	return m
}
