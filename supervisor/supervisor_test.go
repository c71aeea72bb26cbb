package supervisor_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/handoff"
	"lazaret.dev/lazaret/protocol/launch"
	"lazaret.dev/lazaret/protocol/netpolicy"
)

// hcEnv makes the test binary a Host Coordinator that can be killed: it holds
// the plan's directories.
const hcEnv = "LAZARET_TEST_HC"

// The whole life of a generation. SR-1, SR-5, FR-12.
func TestStartAndStop(t *testing.T) {
	w := newWorld(t)
	c := w.bringUp(t)
	if c.hello.Mapping != handoff.MappingFull {
		t.Errorf("mapping %q", c.hello.Mapping)
	}
	if got := c.sh("id -u; hostname; cat /etc/resolv.conf"); got != "0\nlazaret-test\nnameserver 10.0.2.3" {
		t.Errorf("inside: %q", got)
	}
	c.sh("echo hello > /workspace/f; echo kept > /root/f; echo gone > /var/f; echo new > /srv/f")
	if b, err := os.ReadFile(w.at("workspace/f")); err != nil || string(b) != "hello\n" {
		t.Errorf("workspace: %q, %v", b, err)
	}
	fam := c.family()
	if len(fam) < 5 {
		t.Errorf("only %v are alive", fam)
	}
	if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", c.hello.Proc.PID)); err != nil || string(comm) != "lazaret-supervi\n" {
		t.Errorf("the supervisor is called %q (%v)", comm, err)
	}
	c.stop()
	gone(t, fam, time.Second)
	if b, err := os.ReadFile(w.at("anchors/root/upper/f")); err != nil || string(b) != "kept\n" {
		t.Errorf("anchor: %q, %v", b, err)
	}
	w.expectClean(t)
}

// expectClean checks that nothing of a generation is left on the host.
func (w *world) expectClean(t testing.TB) {
	t.Helper()
	for _, d := range []string{"transient/upper", "transient/work", "scratch"} {
		if ents, err := os.ReadDir(w.at(d)); err != nil || len(ents) > 0 {
			t.Errorf("%s: %v, %v", d, ents, err)
		}
	}
	if b, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(b), w.dir) {
		t.Errorf("mounts are left (%v)", err)
	}
}

// Lazaret's own parts of the root filesystem, and what happens to the others
// over a restart. Design section 8.
func TestRootFilesystem(t *testing.T) {
	w := newWorld(t)
	c := w.bringUp(t)
	for _, tc := range []struct{ line, want string }{
		{"readlink /usr/local/bin/escalate", "/run/lazaret/escalate"},
		{"escalate other; echo $?", "69"},
		{"stat -c '%a %u' /usr/local/bin /etc /root /tmp / | tr '\\n' ' '", "755 0 755 0 700 0 1777 0 755 0"},
		{"touch /run/lazaret/x 2>&1 | sed 's/.*: //'", "Read-only file system"},
		{"(echo x > /etc/resolv.conf) 2>&1 | sed 's/.*: //'", "Read-only file system"},
		{"touch /root/vol/x 2>&1 | sed 's/.*: //'", "Read-only file system"},
		{"touch /sys/x 2>&1 | sed 's/.*: //'", "Read-only file system"},
		{"cat /etc/hosts", "127.0.0.1 localhost lazaret-test"},
		{"ulimit -n", "16384"},
		{"echo a > /dev/shm/x && cat /dev/shm/x; ls -d /dev/pts", "a\n/dev/pts"},
		{"dmesg | grep -ci gvisor", "1"},
		{"cat /proc/net/dev | grep -c :", "2"},
		{"test -e " + w.dir + " || echo hidden", "hidden"},
		{"mv /usr/local /usr/local2 && ls -l /usr/local2/bin | grep -c escal", "1"},
	} {
		if got := c.sh(tc.line); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.line, got, tc.want)
		}
	}
	c.sh("mv /usr/local2 /usr/local; chmod 711 /root; echo a > /root/a; mkdir -p /usr/share/b; rm -rf /srv; echo t > /tmp/t; sync")
	c.stop()
	c.reap(5 * time.Second)

	c = w.bringUp(t)
	if got := c.sh("stat -c %a /root; cat /root/a; ls -d /usr/share/b; ls /tmp; stat -c %a /tmp"); got != "711\na\n/usr/share/b\n1777" {
		t.Errorf("after the restart: %q", got)
	}
	c.stop()
}

// SR-12: the sandbox's processes share no namespace with the host.
func TestNamespaces(t *testing.T) {
	w := newWorld(t)
	c := w.bringUp(t)
	ns := func(pid int, kind string) string {
		l, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, kind))
		if err != nil {
			t.Errorf("%d %s: %v", pid, kind, err)
		}
		return l
	}
	kinds := []string{"user", "pid", "ipc", "uts", "mnt", "net", "cgroup"}
	for _, word := range []string{"runsc-sandbox", "runsc-gofer"} {
		p := c.role(word)
		for _, k := range kinds {
			if ns(p.pid, k) == ns(os.Getpid(), k) {
				t.Errorf("%s is in the host's %s namespace", word, k)
			}
		}
	}
	rs := c.hello.Proc.PID
	for _, k := range []string{"user", "mnt", "net", "cgroup"} {
		if ns(rs, k) == ns(os.Getpid(), k) {
			t.Errorf("the supervisor is in the host's %s namespace", k)
		}
	}
	if got, want := ns(rs, "net"), fmt.Sprintf("net:[%d]", c.net.NetNS); got != want {
		t.Errorf("enforcement namespace %s, attested %s", got, want)
	}
	// Below the supervisor's, whose kernel enforces the policy. SR-6.
	if sentry := ns(c.role("runsc-sandbox").pid, "net"); sentry == ns(rs, "net") {
		t.Errorf("the sentry is in the supervisor's network namespace %s", sentry)
	}
	if got, want := ns(c.slirp.PID, "net"), ns(os.Getpid(), "net"); got != want {
		t.Errorf("slirp4netns's network namespace is %s, the host's %s", got, want)
	}
	caps := c.sh("grep CapEff /proc/self/status | cut -f2")
	v, err := strconv.ParseUint(caps, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	for name, bit := range map[string]uint{"NET_ADMIN": unix.CAP_NET_ADMIN, "SYS_ADMIN": unix.CAP_SYS_ADMIN, "NET_RAW": unix.CAP_NET_RAW, "SYS_PTRACE": unix.CAP_SYS_PTRACE} {
		if v>>bit&1 != 0 {
			t.Errorf("the sandbox has CAP_%s", name)
		}
	}
	if v>>unix.CAP_CHOWN&1 == 0 {
		t.Error("the sandbox lacks CAP_CHOWN")
	}
	if rel := "lo\ntap0"; c.sh("ls /sys/class/net 2>/dev/null || ip -o link | cut -d: -f2 | tr -d ' '") == "" {
		t.Errorf("no interfaces, want %s", rel)
	}
	c.stop()
}

// The attestation names the namespace and the policy. FR-20.
func TestReadinessFingerprint(t *testing.T) {
	w := newWorld(t)
	c := w.bringUp(t)
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/ns/net", c.hello.Proc.PID), &st); err != nil {
		t.Fatal(err)
	}
	p := w.plan
	want := netpolicy.Fingerprint(p.DomainID, p.Generation, p.ConfigFingerprint, p.NetworkID, p.Network.Digest(), st.Dev, st.Ino)
	if c.net.Fingerprint != want {
		t.Errorf("fingerprint %s, want %s", c.net.Fingerprint, want)
	}
	if !c.net.Sandboxed {
		t.Error("slirp4netns runs without its sandbox")
	}
	for _, path := range []string{"/", "/root", "/usr", "/srv", "/workspace", "/root/vol"} {
		if c.ids[path] == 0 {
			t.Errorf("no mount id for %s", path)
		}
	}
	c.stop()
}

// Whatever is killed, nothing is left within ten seconds, and the next start
// works. Issue 2, must show 6.
func TestKill(t *testing.T) {
	victims := map[string]func(c *coordinator) int{
		"supervisor":  func(c *coordinator) int { return c.hello.Proc.PID },
		"runsc":       func(c *coordinator) int { return c.runsc.PID },
		"sentry":      func(c *coordinator) int { return c.role("runsc-sandbox").pid },
		"gofer":       func(c *coordinator) int { return c.role("runsc-gofer").pid },
		"slirp4netns": func(c *coordinator) int { return c.slirp.PID },
	}
	w := newWorld(t)
	for name, victim := range victims {
		t.Run(name, func(t *testing.T) {
			c := w.bringUp(t)
			fam := c.family()
			killed(t, victim(c))
			if name == "supervisor" {
				gone(t, fam, 10*time.Second)
				return
			}
			want := handoff.ComponentSandbox
			if name == "slirp4netns" {
				want = handoff.ComponentNetwork
			}
			var l handoff.HelperLost
			c.expect(handoff.KindHelperLost, &l)
			if l.Component != want || l.Reason == "" {
				t.Errorf("lost %+v, want %s", l, want)
			}
			c.expectTeardown()
			gone(t, fam, 10*time.Second)
			w.expectClean(t)
		})
	}
	t.Run("next start", func(t *testing.T) {
		c := w.bringUp(t)
		c.sh("true")
		c.stop()
	})
}

func killed(t testing.TB, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// The lease: the Host Coordinator's death, by its socket and by its process.
func TestCoordinatorDies(t *testing.T) {
	w := newWorld(t)
	b, err := json.Marshal(struct {
		Dir  string
		Plan launch.Plan
		Args []string
	}{w.dir, w.plan, w.args})
	if err != nil {
		t.Fatal(err)
	}
	for _, holdLease := range []bool{false, true} {
		t.Run(fmt.Sprintf("lease held elsewhere %v", holdLease), func(t *testing.T) {
			hc := exec.Command("/proc/self/exe", "-test.run=^TestHelperCoordinator$", "-test.v")
			hc.Env = append(os.Environ(), hcEnv+"="+string(b), "LAZARET_TEST_HOLD="+strconv.FormatBool(holdLease))
			out, err := hc.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := hc.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = hc.Wait() }()
			defer func() { _ = hc.Process.Kill() }()
			var pid, holder int
			for pid == 0 {
				var line string
				if _, err := fmt.Fscanln(out, &line); err != nil && line == "" {
					continue
				}
				_, _ = fmt.Sscanf(line, "up:%d:%d", &pid, &holder)
			}
			c := &coordinator{t: t, w: w}
			c.hello.Proc.PID = pid
			fam := c.family()
			if len(fam) < 5 {
				t.Fatalf("only %v are alive", fam)
			}
			_ = hc.Process.Kill()
			gone(t, fam, 10*time.Second)
			w.expectClean(t)
			if holder > 0 {
				_ = unix.Kill(holder, unix.SIGKILL)
			}
		})
	}
}

// TestHelperCoordinator is TestCoordinatorDies' victim, and nothing by itself.
func TestHelperCoordinator(t *testing.T) {
	text := os.Getenv(hcEnv)
	if text == "" {
		return
	}
	var in struct {
		Dir  string
		Plan launch.Plan
		Args []string
	}
	if err := json.Unmarshal([]byte(text), &in); err != nil {
		t.Fatal(err)
	}
	w := &world{dir: in.Dir, plan: in.Plan, args: in.Args}
	c := w.bringUp(t)
	holder := 0
	if os.Getenv("LAZARET_TEST_HOLD") == "true" {
		hold := exec.Command("sleep", "60")
		hold.ExtraFiles = []*os.File{c.seq.File()}
		if err := hold.Start(); err != nil {
			t.Fatal(err)
		}
		holder = hold.Process.Pid
	}
	fmt.Printf("\nup:%d:%d\n", c.hello.Proc.PID, holder)
	time.Sleep(time.Minute)
}

// Without subordinate ids: one id, which is the caller. Issue 2, must show 10.
func TestSingleID(t *testing.T) {
	w := newWorld(t)
	w.args = nil
	c := w.bringUp(t)
	if c.hello.Mapping != handoff.MappingSingle {
		t.Errorf("mapping %q", c.hello.Mapping)
	}
	if got := c.sh("id -u; echo x > /root/x; chown 5 /root/x 2>/dev/null || echo refused"); got != "0\nrefused" {
		t.Errorf("inside: %q", got)
	}
	c.stop()
}

// Refusals are reported once, with their step. Design section 3.
func TestRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		break_ func(t *testing.T, w *world)
		step   string
		text   string
	}{
		"replaced workspace": {func(t *testing.T, w *world) { w.plan.Mounts[0].Host.Ino++ }, "anchor", "was replaced"},
		"link in a host path": {func(t *testing.T, w *world) {
			if err := os.Symlink(".", w.at("link")); err != nil {
				t.Fatal(err)
			}
			w.plan.Mounts[0].Host.Path = w.at("link/workspace")
		}, "anchor", "too many levels of symbolic links"},
		"nested anchors": {func(t *testing.T, w *world) {
			w.plan.Rootfs.Anchors = append(w.plan.Rootfs.Anchors, launch.Anchor{Path: "/usr/share", Dir: w.plan.Rootfs.Anchors[0].Dir})
		}, "anchor", "within one another"},
		"no slirp4netns":        {func(t *testing.T, w *world) { w.plan.Slirp.Path = "/nonexistent" }, "network", "slirp4netns"},
		"slirp4netns that ends": {func(t *testing.T, w *world) { w.plan.Slirp.Path = lookPath(t, "false") }, "network", "exited with status 1"},
		"no runsc":              {func(t *testing.T, w *world) { w.plan.Runsc.Path = "/nonexistent" }, "sandbox", "/nonexistent"},
		"runsc that ends":       {func(t *testing.T, w *world) { w.plan.Runsc.Path = lookPath(t, "false") }, "sandbox", "exited with status 1"},
		"no init in the sandbox": {func(t *testing.T, w *world) {
			if err := os.WriteFile(w.at("escalate"), []byte("#!/nonexistent\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}, "sandbox", "runsc exited"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tc.break_(t, w)
			c := w.start(t)
			c.sendPlan()
			var f handoff.Failed
			for {
				p, err := c.seq.Recv()
				if err != nil {
					t.Fatalf("no failure was reported: %v\n%s", err, w.logs())
				}
				if p.Kind == handoff.KindFailed {
					if err := p.Decode(&f); err != nil {
						t.Fatal(err)
					}
					break
				}
				if p.Kind == handoff.KindNetworkReady {
					if err := c.seq.Send(handoff.KindStartSandbox, handoff.Empty{}); err != nil {
						t.Fatal(err)
					}
				}
			}
			if f.Step != tc.step || !strings.Contains(f.Error, tc.text) {
				t.Errorf("failed %+v, want %s: …%s…", f, tc.step, tc.text)
			}
			if p, err := c.seq.Recv(); err == nil {
				t.Errorf("after the failure: %s", p.Kind)
			}
			c.reap(5 * time.Second)
			for _, p := range processes(t) {
				if strings.Contains(p.cmdline, filepath.Base(w.dir)) {
					t.Errorf("left: %d %s", p.pid, p.cmdline)
				}
			}
			w.expectClean(t)
		})
	}
}

// leftovers returns the processes that belong to the world: by their command
// line, or by the log that they hold open.
func (w *world) leftovers(t testing.TB) []process {
	t.Helper()
	var out []process
	for _, p := range processes(t) {
		fd, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/2", p.pid))
		if strings.Contains(p.cmdline, w.dir) || strings.HasPrefix(fd, w.dir) {
			out = append(out, p)
		}
	}
	return out
}

// A supervisor that is killed, or loses its coordinator, at any moment of its
// start leaves nothing, and the next start works.
func TestKillAnyTime(t *testing.T) {
	w := newWorld(t)
	for i := range 24 {
		w.freshState(t)
		c := w.start(t)
		c.sendPlan()
		if err := c.seq.Send(handoff.KindStartSandbox, handoff.Empty{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(rand.N(120 * time.Millisecond))
		if i%2 == 0 {
			killed(t, c.hello.Proc.PID)
		} else {
			_ = c.seq.Close()
		}
		c.reap(10 * time.Second)
		gone(t, w.leftovers(t), 10*time.Second)
		if left := w.leftovers(t); len(left) > 0 {
			t.Fatalf("round %d: left %v\n%s", i, left, w.logs())
		}
	}
	c := w.bringUp(t)
	c.sh("true")
	// Were these not seen, nothing above would have been shown.
	seen := fmt.Sprint(w.leftovers(t))
	for _, name := range []string{"slirp4netns", "runsc-sandbox", "runsc-gofer", "run --bundle"} {
		if !strings.Contains(seen, name) {
			t.Errorf("%s is not among %s", name, seen)
		}
	}
	c.stop()
	w.expectClean(t)
}
