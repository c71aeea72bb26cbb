package image_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lazaret.dev/lazaret/host/internal/image"
	"lazaret.dev/lazaret/host/internal/unpack/unpacktest"
)

// preparer is another process that prepares an image.
type preparer struct {
	cmd *exec.Cmd
	out *bufio.Reader
}

func startPreparer(t *testing.T, ref, dataRoot string) *preparer {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), prepareEnv+"="+string(marshal(t, prepareRequest{Ref: ref, DataRoot: dataRoot})))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &preparer{cmd, bufio.NewReader(out)}
}

// until reads lines to one with the prefix, or the end.
func (p *preparer) until(prefix string) string {
	for {
		line, err := p.out.ReadString('\n')
		if strings.HasPrefix(line, prefix) || err != nil {
			return strings.TrimSpace(line)
		}
	}
}

// FR-22: processes that prepare the same image at the same time get the same
// tree, made once.
func TestParallelProcesses(t *testing.T) {
	e, s := newEnv(t), newServer(t)
	l := gzipLayer(t, unpacktest.Tar(t, manyFiles(500)...))
	ref := s.push(t, "v1", newImage(t, "amd64", l))
	s.requests("")
	var ps []*preparer
	for range 4 {
		ps = append(ps, startPreparer(t, ref, e.root))
	}
	want := ""
	for _, p := range ps {
		got := p.until("prepared")
		if err := p.cmd.Wait(); err != nil || !strings.HasPrefix(got, "prepared ") || (want != "" && got != want) {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
		want = got
	}
	if got := s.requests(unpacktest.Digest(l.blob)); len(got) != 1 {
		t.Errorf("the layer was downloaded %d times", len(got))
	}
	if list, err := image.List(e.root); err != nil || len(list) != 1 {
		t.Errorf("list: %+v, %v", list, err)
	}
	if tree := e.tree(t); strings.Contains(tree, "unpack-") || strings.Contains(tree, ".intent") {
		t.Errorf("left: %s", tree)
	}
}

// OR-7: a preparer killed at any time leaves nothing that is published, and the
// next one removes its tree and succeeds. Started at once, it waits for the
// unpack program that has inherited the lock.
func TestKilledPreparer(t *testing.T) {
	e, s := newEnv(t), newServer(t)
	l := plainLayer(unpacktest.Tar(t, manyFiles(4000)...))
	ref := s.push(t, "v1", newImage(t, "amd64", l))
	killed := 0
	for _, at := range []string{"progress pull", "progress unpack", "progress unpack", "progress unpack"} {
		p := startPreparer(t, ref, e.root)
		if got := p.until(at); !strings.HasPrefix(got, at) {
			t.Fatalf("%q", got)
		}
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := p.cmd.Wait(); err == nil {
			t.Fatal("it was not killed")
		}
		if strings.Contains(e.tree(t), ".intent") {
			killed++
		}
		if list, err := image.List(e.root); err != nil || len(list) != 0 {
			t.Fatalf("published: %+v, %v", list, err)
		}
	}
	if killed == 0 {
		t.Error("no kill hit the unpacking")
	}
	p := e.prepare(t, ref)
	if n := len(unpacktest.Snapshot(t, p.RootPath)); n != 4000+50+1 {
		t.Errorf("%d files", n)
	}
	if tree := e.tree(t); strings.Contains(tree, "unpack-") || strings.Contains(tree, ".intent") {
		t.Errorf("left: %s", tree)
	}
}

// A cancelled preparation removes its tree at once.
func TestCancelled(t *testing.T) {
	e := newEnv(t)
	blobs := map[string][]byte{}
	dir := layout(t, blobs, add(blobs, newImage(t, "amd64", plainLayer(unpacktest.Tar(t, manyFiles(4000)...))), nil))
	ctx, cancel := context.WithCancelCause(context.Background())
	o := e.options("oci:" + dir)
	why := errors.New("the user left")
	o.Progress = func(p image.Progress) {
		if p.Phase == image.PhaseUnpack {
			cancel(why)
		}
	}
	if _, err := image.Prepare(ctx, o); !errors.Is(err, why) {
		t.Errorf("error: %v", err)
	}
	e.clean(t)
	e.prepare(t, "oci:"+dir)
}

// deadIntent leaves what a killed preparer leaves, with a tree of id 5.
func deadIntent(t *testing.T, e *env, id string, change func(intent map[string]any)) (intentFile, tree string) {
	t.Helper()
	name := "unpack-" + strings.Repeat("ab", 16)
	dir := filepath.Join(e.root, "prepared", id)
	tree = filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Join(tree, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	var st syscall.Stat_t
	if err := syscall.Lstat(tree, &st); err != nil {
		t.Fatal(err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	in := map[string]any{"pid": 1 << 22, "start_ticks": 1, "boot_id": strings.TrimSpace(string(boot)), "tree": name, "dev": st.Dev, "ino": st.Ino}
	change(in)
	intentFile = filepath.Join(e.root, "prepared", id+".intent")
	write(t, intentFile, marshal(t, in))
	return intentFile, tree
}

// OR-7: only the tree that a dead process's intent names, by name and identity,
// is reclaimed; everything else stays.
func TestReclaim(t *testing.T) {
	id := strings.Repeat("0a", 32)
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", os.Getppid()))
	if err != nil {
		t.Fatal(err)
	}
	parentStart := json.Number(strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')'):]))[20])
	for name, c := range map[string]struct {
		change func(map[string]any)
		gone   bool
	}{
		"dead":           {func(map[string]any) {}, true},
		"pid used again": {func(in map[string]any) { in["pid"], in["start_ticks"] = os.Getppid(), 1 }, true},
		"earlier boot": {func(in map[string]any) {
			in["pid"], in["start_ticks"], in["boot_id"] = os.Getppid(), parentStart, "other"
		}, true},
		"alive":         {func(in map[string]any) { in["pid"], in["start_ticks"] = os.Getppid(), parentStart }, false},
		"another inode": {func(in map[string]any) { in["ino"] = 1 }, false},
		"unknown inode": {func(in map[string]any) { in["ino"] = 0 }, false},
		"another name":  {func(in map[string]any) { in["tree"] = "root" }, false},
		"a way out":     {func(in map[string]any) { in["tree"] = "../../x" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			intentFile, tree := deadIntent(t, e, id, c.change)
			foreign := filepath.Join(e.root, "prepared", strings.Repeat("0b", 32), "unpack-"+strings.Repeat("cd", 16))
			if err := os.MkdirAll(foreign, 0o700); err != nil {
				t.Fatal(err)
			}
			n, err := image.Reclaim(context.Background(), e.root, e.runner)
			_, treeErr := os.Lstat(tree)
			_, intentErr := os.Lstat(intentFile)
			if c.gone != (err == nil && n == 1 && os.IsNotExist(treeErr) && os.IsNotExist(intentErr)) {
				t.Errorf("reclaimed %d, %v; tree %v, intent %v", n, err, treeErr, intentErr)
			}
			if !c.gone && (treeErr != nil || intentErr != nil || err == nil) {
				t.Errorf("touched: tree %v, intent %v, error %v", treeErr, intentErr, err)
			}
			if _, err := os.Lstat(foreign); err != nil {
				t.Errorf("a foreign tree: %v", err)
			}
		})
	}
}

// OR-7: whoever uses a published artifact ends the intent of a process that
// died after it had published it, and is stopped by none that it cannot end.
func TestPublishedAndDied(t *testing.T) {
	e, s := newEnv(t), newServer(t)
	blobs := map[string][]byte{}
	l := plainLayer(unpacktest.Tar(t, file("a", "1")))
	for name, ref := range map[string]string{
		"layout":   "oci:" + layout(t, blobs, add(blobs, newImage(t, "amd64", l), nil)),
		"registry": s.push(t, "v1", newImage(t, "amd64", gzipLayer(t, unpacktest.Tar(t, file("a", "2"))))),
	} {
		p := e.prepare(t, ref)
		for _, foreign := range []bool{false, true} {
			intentFile, tree := deadIntent(t, e, p.ID, func(in map[string]any) {
				if foreign {
					in["tree"] = "root"
				}
			})
			if err := os.RemoveAll(tree); err != nil {
				t.Fatal(err)
			}
			if again := e.prepare(t, ref); again.RootPath != p.RootPath {
				t.Errorf("%s: made again", name)
			}
			if _, err := os.Lstat(intentFile); os.IsNotExist(err) == foreign {
				t.Errorf("%s: the intent: %v", name, err)
			}
			if err := os.RemoveAll(intentFile); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// OR-7: a lease keeps an artifact; without one it can be removed, and be made
// again.
func TestLeases(t *testing.T) {
	e, ctx := newEnv(t), context.Background()
	blobs := map[string][]byte{}
	ref := "oci:" + layout(t, blobs, add(blobs, newImage(t, "amd64", plainLayer(unpacktest.Tar(t,
		unpacktest.E{Name: "d/f", UID: 3, ModeZero: true}))), nil))
	p := e.prepare(t, ref)
	for _, g := range []string{"g1", "g2", "g1"} {
		if err := image.AcquireLease(ctx, e.root, p.ID, "0123456789ab", g); err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range []string{"g1", "g2"} {
		var leased *image.LeasedError
		if err := image.Remove(ctx, e.root, p.ID, e.runner); !errors.As(err, &leased) || leased.Leases[len(leased.Leases)-1].Generation != "g2" {
			t.Fatalf("remove with a lease: %v", err)
		}
		if err := image.ReleaseLease(ctx, e.root, p.ID, "0123456789ab", g); err != nil {
			t.Fatal(err)
		}
	}
	if err := image.ReleaseLease(ctx, e.root, p.ID, "0123456789ab", "g1"); err != nil {
		t.Errorf("second release: %v", err)
	}
	if err := image.Remove(ctx, e.root, p.ID, e.runner); err != nil {
		t.Fatal(err)
	}
	if es, err := os.ReadDir(filepath.Join(e.root, "prepared")); err != nil || len(es) != 0 {
		t.Errorf("left: %v, %v", es, err)
	}
	for _, f := range []func() error{
		func() error { return image.AcquireLease(ctx, e.root, p.ID, "0123456789ab", "g3") },
		func() error { return image.Remove(ctx, e.root, p.ID, e.runner) },
	} {
		if err := f(); !errors.Is(err, image.ErrNotPrepared) {
			t.Errorf("after removal: %v", err)
		}
	}
	for _, bad := range [][3]string{{"../" + p.ID, "ab", "g"}, {p.ID, "../ab", "g"}, {p.ID, "ab", "../g"}, {p.ID, "ab", ""}} {
		if err := image.AcquireLease(ctx, e.root, bad[0], bad[1], bad[2]); err == nil {
			t.Errorf("lease %q", bad)
		}
	}
	if again := e.prepare(t, ref); again.ID != p.ID {
		t.Error("made again, it is another artifact")
	}
}

// failingRunner is a program that fails in a way of its own.
type failingRunner struct{ out string }

func (f failingRunner) Run(_ context.Context, _ string, _ []byte, _ []*os.File, stdout io.Writer) error {
	if _, err := io.WriteString(stdout, f.out); err != nil {
		return err
	}
	return errors.New("exit status 1")
}

// What the program reports, which has parsed a hostile image, is not believed
// more than it must be.
func TestProgramReports(t *testing.T) {
	e := newEnv(t)
	blobs := map[string][]byte{}
	ref := "oci:" + layout(t, blobs, add(blobs, newImage(t, "amd64", plainLayer(unpacktest.Tar(t, file("a", "1")))), nil))
	for name, c := range map[string]struct{ out, text string }{
		"nothing":       {"", "exit status 1"},
		"unknown event": {`{"kind":"shell"}` + "\n", "unknown event"},
		"no line":       {strings.Repeat("x", 200<<10), "line without end"},
		"escapes":       {`{"kind":"failed","code":"layer","message":"\u001b[31mred"}` + "\n", `\x1b[31mred`},
		"disk full":     {`{"kind":"failed","code":"disk_full","message":"write"}` + "\n", "no space left"},
		"done, status":  {`{"kind":"done"}` + "\n", "exit status 1"},
	} {
		o := e.options(ref)
		o.Runner = failingRunner{c.out}
		_, err := image.Prepare(context.Background(), o)
		if err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", name, err)
		}
		if list, _ := image.List(e.root); len(list) != 0 {
			t.Errorf("%s: published", name)
		}
	}
	// The failing programs have not removed their tree either.
	if n, err := image.Reclaim(context.Background(), e.root, e.runner); n != 1 || err != nil {
		t.Errorf("reclaim: %d, %v", n, err)
	}
	e.clean(t)
}

// A full disk is named, with a hint, publishes nothing and leaves nothing
// half-made; with space, the next try works. The data root is a small
// filesystem in a mount namespace.
func TestDiskFull(t *testing.T) {
	e, s := newEnv(t), newServer(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const script = `
mount -t tmpfs -o size=40m none "$0" && head -c 36M /dev/zero >"$0/ballast" || exit 99
"$1"; echo "status $?"
find "$0" -name 'unpack-*' -o -name '*.intent' -o -name '*.partial' -o -name meta.json -o -name root
rm "$0/ballast"
"$1"; echo "status $?"`
	for name, l := range map[string]fakeLayer{
		"pull":   plainLayer(unpacktest.Tar(t, file("a", strings.Repeat("x", 9<<20)))),
		"unpack": gzipLayer(t, unpacktest.Tar(t, file("a", strings.Repeat("x", 9<<20)))),
	} {
		t.Run(name, func(t *testing.T) {
			ref := s.push(t, name, newImage(t, "amd64", l))
			cmd := exec.Command("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, e.root, self)
			cmd.Env = append(os.Environ(), prepareEnv+"="+string(marshal(t, prepareRequest{ref, e.root, true})))
			out, err := cmd.CombinedOutput()
			var got []string
			for line := range strings.Lines(string(out)) {
				if !strings.HasPrefix(line, "progress") {
					got = append(got, strings.TrimSpace(line))
				}
			}
			if err != nil || len(got) != 4 || !strings.HasPrefix(got[0], "error no space left for the image") || !strings.HasSuffix(got[0], " true") ||
				got[1] != "status 1" || !strings.HasPrefix(got[2], "prepared ") || got[3] != "status 0" {
				t.Errorf("%v: %q", err, got)
			}
		})
	}
}

// Waiting for another preparer is said, and can be cancelled.
func TestWaiting(t *testing.T) {
	e, s := newEnv(t), newServer(t)
	l := plainLayer(unpacktest.Tar(t, file("a", "1")))
	ref := s.push(t, "v1", newImage(t, "amd64", l))
	reached, release := make(chan struct{}, 1), make(chan struct{})
	s.set(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, unpacktest.Digest(l.blob)) {
			reached <- struct{}{}
			<-release
		}
		return false
	})
	p := startPreparer(t, ref, e.root)
	<-reached
	o := e.options(ref)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	o.Progress = func(p image.Progress) {
		if p.Phase == image.PhaseWait {
			cancel()
		}
	}
	if _, err := image.Prepare(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("error: %v", err)
	}
	close(release)
	if got := p.until("prepared"); got == "" {
		t.Error("the other one failed")
	}
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
}
