package supervisor_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/handoff"
	"lazaret.dev/lazaret/protocol/launch"
	"lazaret.dev/lazaret/protocol/netpolicy"
	"lazaret.dev/lazaret/protocol/testgate"
	"lazaret.dev/lazaret/protocol/wire"
)

// binary returns a program of the built tree.
func binary(name string) string { return filepath.Join(testgate.Tree(), "libexec/lazaret", name) }

// policy is a policy as the Host Coordinator derives it.
func policy() netpolicy.Policy {
	p := netpolicy.Policy{
		Address: netip.MustParsePrefix("10.0.2.100/24"),
		Gateway: netip.MustParseAddr("10.0.2.2"),
		DNS:     netip.MustParseAddr("10.0.2.3"),
		MTU:     65520,
	}
	for _, d := range []string{"10.0.0.0/8", "10.0.2.2/32", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"} {
		p.Rules = append(p.Rules, netpolicy.Rule{Prefix: netip.MustParsePrefix(d), Action: netpolicy.Deny, Origin: "test"})
	}
	return p
}

// world is one Domain's directories and plan on the host.
type world struct {
	dir  string
	plan launch.Plan
	args []string // id mapping flags of the supervisor
}

func ref(t testing.TB, path string) launch.Ref {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatalf("stat %s: %v", path, err)
	}
	return launch.Ref{Path: path, Dev: st.Dev, Ino: st.Ino}
}

func mkdirs(t testing.TB, paths ...string) {
	t.Helper()
	for _, p := range paths {
		if err := os.MkdirAll(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// newWorld makes a root tree of busybox and everything else that a plan names.
func newWorld(t testing.TB) *world {
	t.Helper()
	testgate.Need(t, testgate.UserNS, testgate.Runsc, testgate.Slirp, testgate.SubIDs, testgate.Tun, testgate.Busybox)
	dir, err := os.MkdirTemp("", "lz") //nolint:usetesting // short: sockets lie in it
	if err != nil {
		t.Fatal(err)
	}
	w := &world{dir: dir, args: subIDArgs(t)}
	t.Cleanup(func() { w.remove(t) })
	at := func(n ...string) string { return filepath.Join(append([]string{dir}, n...)...) }
	mkdirs(t, at("ignored"), at("git"), at("routes"), at("scratch"), at("transient/upper"), at("transient/work"), at("workspace"), at("state"), at("log"),
		at("anchors/root/upper"), at("anchors/root/work"), at("anchors/usr/upper"), at("anchors/usr/work"),
		at("anchors/srv/upper"), at("anchors/srv/work"), at("volume"))
	busyboxRoot(t, at("prepared"))
	w.plan = launch.Plan{
		Version: launch.Version, DomainID: "0123456789ab", Profile: "test", Generation: "g1",
		SandboxID: "lz-" + filepath.Base(dir), NetworkID: "n1", ConfigFingerprint: "c0ffee",
		Scratch: ref(t, at("scratch")),
		Rootfs: launch.Rootfs{
			PreparedID: "p1", Prepared: ref(t, at("prepared")), Transient: ref(t, at("transient")),
			Anchors: []launch.Anchor{
				{Path: "/root", Dir: ref(t, at("anchors/root"))},
				{Path: "/usr", Dir: ref(t, at("anchors/usr"))},
				{Path: "/srv", Dir: ref(t, at("anchors/srv"))},
			},
			Escalate: ref(t, sleeper(t, dir)),
		},
		View: launch.View{Ignored: ref(t, at("ignored")), Private: ref(t, at("git")), Record: ref(t, at("routes")), Isolate: true},
		Mounts: []launch.Mount{
			{Kind: launch.MountWorkspace, Host: ref(t, at("workspace")), Target: "/workspace"},
			{Kind: launch.MountVolume, Host: ref(t, at("volume")), Target: "/root/vol", ReadOnly: true},
		},
		Files: launch.Files{
			Hostname: "lazaret-test", Hosts: "127.0.0.1 localhost lazaret-test\n",
			ResolvConf: "nameserver 10.0.2.3\n",
		},
		Network: policy(),
		Runsc: launch.Runsc{
			Path: binary("runsc"), StateDir: at("state"), LogPath: at("log/runsc.log"), NoFile: 16384, Dcache: 2000,
		},
		Slirp: launch.Slirp{Path: lookPath(t, "slirp4netns"), LogPath: at("log/slirp.log")},
	}
	return w
}

func (w *world) at(n ...string) string { return filepath.Join(append([]string{w.dir}, n...)...) }

// remove removes the tree, files of subordinate ids included.
func (w *world) remove(t testing.TB) {
	args := append(append([]string{"enter"}, w.args...), "--", "rm", "-rf", w.dir)
	if out, err := exec.Command(binary("lazaret-supervisor"), args...).CombinedOutput(); err != nil {
		t.Errorf("remove %s: %v: %s", w.dir, err, out)
	}
}

func lookPath(t testing.TB, name string) string {
	t.Helper()
	p, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// subIDArgs renders the caller's subordinate ranges as flags.
func subIDArgs(t testing.TB) []string {
	t.Helper()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	find := func(file string) string {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			f := strings.Split(strings.TrimSpace(line), ":")
			if len(f) == 3 && (f[0] == me.Username || f[0] == me.Uid) {
				return f[1] + ":" + f[2]
			}
		}
		t.Fatalf("no range in %s", file)
		return ""
	}
	return []string{
		"--newuidmap", lookPath(t, "newuidmap"), "--newgidmap", lookPath(t, "newgidmap"),
		"--uid-range", find("/etc/subuid"), "--gid-range", find("/etc/subgid"),
	}
}

// busyboxRoot makes a root tree with busybox and a certificate bundle.
func busyboxRoot(t testing.TB, root string) {
	t.Helper()
	mkdirs(t, root+"/bin", root+"/etc/ssl/certs", root+"/root", root+"/usr/bin", root+"/usr/local/bin", root+"/var", root+"/tmp")
	b, err := os.ReadFile(testgate.BusyboxPath)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(root+"/bin/busybox", b, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(root+"/bin/busybox", "--install", "-s", root+"/bin").CombinedOutput(); err != nil {
		t.Fatalf("busybox --install: %v: %s", err, out)
	}
	ents, err := os.ReadDir(root + "/bin")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range ents { // the links name the host's path of the tree
		if e.Type()&os.ModeSymlink != 0 {
			p := root + "/bin/" + e.Name()
			if err := errors.Join(os.Remove(p), os.Symlink("busybox", p)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(os.Chmod(root+"/tmp", 0o1777|os.ModeSticky), os.Chmod(root+"/root", 0o700)); err != nil {
		t.Fatal(err)
	}
}

// sleeper provides the sandbox's first process: busybox under a name that
// makes it sleep for ever cannot be had, so that a script does.
func sleeper(t testing.TB, dir string) string {
	t.Helper()
	p := filepath.Join(dir, "escalate")
	if err := os.WriteFile(p, []byte("#!/bin/sh\n[ \"$1\" = _init ] || exit 69\nwhile :; do /bin/busybox sleep 1000; done\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return p
}

// coordinator is a test's Host Coordinator: the other end of the handoff.
type coordinator struct {
	t     testing.TB
	w     *world
	seq   *wire.Seq
	first *exec.Cmd // the first stage
	hello handoff.Hello
	slirp handoff.Proc
	runsc handoff.Proc
	net   handoff.NetworkReady
	ids   map[string]uint64
}

// start runs the supervisor up to hello.
func (w *world) start(t testing.TB) *coordinator {
	t.Helper()
	seq, peer, err := wire.SeqPair("handoff")
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(w.at("log/supervisor.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	c := &coordinator{t: t, w: w, seq: seq}
	c.first = exec.Command(binary("lazaret-supervisor"), w.args...)
	c.first.ExtraFiles = []*os.File{peer, log}
	c.first.Stderr = os.Stderr
	// The supervisor's parent-death signal is bound to the thread that starts
	// its first stage.
	runtime.LockOSThread()
	err = c.first.Start()
	_ = peer.Close()
	_ = log.Close()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := seq.Expect(handoff.KindHello, &c.hello, 0); err != nil {
		t.Fatalf("hello: %v\n%s", err, w.logs())
	}
	if err := c.first.Wait(); err != nil {
		t.Errorf("first stage: %v", err)
	}
	t.Cleanup(func() {
		_ = seq.Close()
		c.reap(15 * time.Second)
		if t.Failed() {
			t.Log(w.logs())
		}
	})
	return c
}

// logs returns the logs for a failed test.
func (w *world) logs() string {
	var b strings.Builder
	for _, n := range []string{"supervisor", "slirp", "runsc"} {
		text, _ := os.ReadFile(w.at("log", n+".log"))
		fmt.Fprintf(&b, "--- %s\n%s\n", n, text)
	}
	return b.String()
}

// sendPlan sends the plan in a sealed memfd.
func (c *coordinator) sendPlan() {
	c.t.Helper()
	b, err := c.w.plan.Encode()
	if err != nil {
		c.t.Fatal(err)
	}
	fd, err := unix.MemfdCreate("plan", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		c.t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "plan")
	defer func() { _ = f.Close() }()
	if _, err := f.Write(b); err != nil {
		c.t.Fatal(err)
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE); err != nil {
		c.t.Fatal(err)
	}
	if err := c.seq.Send(handoff.KindPlan, handoff.PlanHeader{Size: int64(len(b))}, f); err != nil {
		c.t.Fatal(err)
	}
}

// expect receives one message or fails the test with the supervisor's own
// words.
func (c *coordinator) expect(kind wire.Kind, v any) {
	c.t.Helper()
	p, err := c.seq.Recv()
	if err != nil {
		c.t.Fatalf("waiting for %s: %v\n%s", kind, err, c.w.logs())
	}
	if p.Kind != kind {
		c.t.Fatalf("got %s %s, want %s\n%s", p.Kind, p.Body, kind, c.w.logs())
	}
	if err := p.Decode(v); err != nil {
		c.t.Fatal(err)
	}
}

// freshState gives the generation a state directory of its own, as the
// coordinator does.
func (w *world) freshState(t testing.TB) {
	t.Helper()
	state, err := os.MkdirTemp(w.dir, "state") //nolint:usetesting // part of the world
	if err != nil {
		t.Fatal(err)
	}
	w.plan.Runsc.StateDir = state
}

// bringUp does everything up to the running sandbox.
func (w *world) bringUp(t testing.TB) *coordinator {
	t.Helper()
	w.freshState(t)
	c := w.start(t)
	c.sendPlan()
	var a handoff.AnchorReady
	c.expect(handoff.KindAnchorReady, &a)
	c.ids = a.MountIDs
	c.expect(handoff.KindNetworkReady, &c.net)
	c.slirp = c.net.Slirp
	if err := c.seq.Send(handoff.KindStartSandbox, handoff.Empty{}); err != nil {
		t.Fatal(err)
	}
	var s handoff.SandboxReady
	c.expect(handoff.KindSandboxReady, &s)
	c.runsc = s.Runsc
	return c
}

// stop asks for the teardown and checks its order.
func (c *coordinator) stop() {
	c.t.Helper()
	if err := c.seq.Send(handoff.KindStop, handoff.Empty{}); err != nil {
		c.t.Fatal(err)
	}
	c.expectTeardown()
}

func (c *coordinator) expectTeardown() {
	c.t.Helper()
	for _, want := range []handoff.Component{handoff.ComponentSandbox, handoff.ComponentNetwork, handoff.ComponentMounts} {
		var s handoff.Stopped
		c.expect(handoff.KindStopped, &s)
		if s.Component != want {
			c.t.Errorf("stopped %s, want %s", s.Component, want)
		}
	}
	if _, err := c.seq.Recv(); !errors.Is(err, io.EOF) {
		c.t.Errorf("after stopped: %v, want EOF", err)
	}
}

// reap waits for the supervisor, a child of this process although its first
// stage started it, and returns how it ended.
func (c *coordinator) reap(d time.Duration) syscall.WaitStatus {
	var ws syscall.WaitStatus
	deadline := time.Now().Add(d)
	for {
		pid, err := syscall.Wait4(c.hello.Proc.PID, &ws, syscall.WNOHANG, nil)
		if pid == c.hello.Proc.PID || err != nil {
			return ws
		}
		if time.Now().After(deadline) {
			c.t.Errorf("the supervisor %d does not end", c.hello.Proc.PID)
			return ws
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// exec runs a command in the sandbox from the host's namespaces.
func (c *coordinator) exec(args ...string) (string, error) { return c.execInput("", args...) }

// execInput runs a command in the sandbox with the given standard input.
func (c *coordinator) execInput(in string, args ...string) (string, error) {
	cmd := exec.Command(binary("runsc"), append([]string{"--root=" + c.w.plan.Runsc.StateDir, "--rootless", "exec", c.w.plan.SandboxID}, args...)...)
	cmd.Stdin = strings.NewReader(in)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// sh runs a shell line in the sandbox and returns its output.
func (c *coordinator) sh(line string) string {
	c.t.Helper()
	out, err := c.exec("/bin/sh", "-c", line)
	if err != nil {
		c.t.Errorf("%s: %v: %s", line, err, out)
	}
	return strings.TrimSpace(out)
}

// process is one row of /proc.
type process struct {
	pid, ppid int
	comm      string
	state     string
	cmdline   string
}

// processes lists all live processes; a zombie is dead.
func processes(t testing.TB) []process {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var out []process
	for _, d := range dirs {
		b, err := os.ReadFile(d + "/stat")
		if err != nil {
			continue
		}
		i, j := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
		f := strings.Fields(string(b[j+1:]))
		if len(f) < 2 || f[0] == "Z" || f[0] == "X" {
			continue
		}
		p := process{comm: string(b[i+1 : j]), state: f[0]}
		p.pid, _ = strconv.Atoi(filepath.Base(d))
		p.ppid, _ = strconv.Atoi(f[1])
		cl, _ := os.ReadFile(d + "/cmdline")
		p.cmdline = strings.ReplaceAll(string(cl), "\x00", " ")
		out = append(out, p)
	}
	return out
}

// family returns the supervisor and all its descendants.
func (c *coordinator) family() []process {
	c.t.Helper()
	all := processes(c.t)
	in := map[int]bool{c.hello.Proc.PID: true}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if in[p.ppid] && !in[p.pid] {
				in[p.pid] = true
				grown = true
			}
		}
	}
	return slices.DeleteFunc(all, func(p process) bool { return !in[p.pid] })
}

// role finds the family's process with the word in its command line.
func (c *coordinator) role(word string) process {
	c.t.Helper()
	fam := c.family()
	for _, p := range fam {
		if strings.Contains(p.cmdline, word) {
			return p
		}
	}
	c.t.Fatalf("no %s among %v", word, fam)
	return process{}
}

// gone waits until none of the processes lives any more.
func gone(t testing.TB, fam []process, d time.Duration) {
	t.Helper()
	deadline := time.Now().Add(d)
	for {
		live := map[int]string{}
		for _, p := range processes(t) {
			live[p.pid] = p.cmdline
		}
		var left []string
		for _, p := range fam {
			if live[p.pid] == p.cmdline && p.cmdline != "" {
				left = append(left, fmt.Sprintf("%d %s", p.pid, p.cmdline))
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("still there after %s:\n%s", d, strings.Join(left, "\n"))
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}
