package hostfacts_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/hostfacts"
	"lazaret.dev/lazaret/host/internal/hostfacts/subid"
	"lazaret.dev/lazaret/protocol/handoff"
)

// system is a scripted host. What is not scripted is as on a good host.
type system struct {
	devices map[string]error
	fsType  map[string]int64 // absent paths do not exist; nil: everything is ext4
	caps    map[string]bool
	release string
	run     map[string]func(context.Context) (hostfacts.Output, error) // by base name and arguments
}

func (s *system) Open(path string) error { return s.devices[filepath.Base(path)] }

func (s *system) FSType(path string) (int64, error) {
	if s.fsType == nil {
		return 0xef53, nil
	}
	if t, ok := s.fsType[path]; ok {
		return t, nil
	}
	return 0, unix.ENOENT
}

func (s *system) FileCaps(path string) bool { return s.caps[filepath.Base(path)] }

func (s *system) Release() (string, error) { return s.release, nil }

func (s *system) Run(ctx context.Context, path string, args ...string) (hostfacts.Output, error) {
	if len(args) > 2 && args[0] == "probe-userns" {
		args = []string{"probe-userns", "MAP"}
	}
	key := strings.Join(append([]string{filepath.Base(path)}, args...), " ")
	if f, ok := s.run[key]; ok {
		return f(ctx)
	}
	return hostfacts.Output{}, errors.New("not scripted: " + key)
}

func says(out hostfacts.Output) func(context.Context) (hostfacts.Output, error) {
	return func(context.Context) (hostfacts.Output, error) { return out, nil }
}

// good makes a host on which nothing is wrong: an installation, the tools, the
// files. The tests then take one thing away.
func good(t testing.TB) (hostfacts.Env, *system) {
	t.Helper()
	root := t.TempDir()
	sys := &system{release: "6.18.44", run: map[string]func(context.Context) (hostfacts.Output, error){
		"lazaret-supervisor probe-userns":     says(hostfacts.Output{}),
		"lazaret-supervisor probe-userns MAP": says(hostfacts.Output{}),
		"runsc --version":                     says(hostfacts.Output{Stdout: "runsc version " + hostfacts.PinnedRunsc + "\nspec: 1.2.1\n"}),
		"runsc help kill":                     says(hostfacts.Output{Stderr: "  -pgid int\n"}),
		"slirp4netns --version":               says(hostfacts.Output{Stdout: "slirp4netns version 1.2.0\ncommit: x\n"}),
	}}
	e := hostfacts.Env{
		Root: root, UID: 1000, User: "ann", Exe: root + "/opt/bin/lazaret", Path: []string{"relative", root + "/usr/bin"},
		RuntimeDir: root + "/run/user/1000", DataRoot: "/home/ann/.local/share/lazaret", System: sys,
	}
	for _, name := range []string{
		"opt/bin/lazaret", "opt/libexec/lazaret/lazaret-supervisor", "opt/libexec/lazaret/lazaret-escalate",
		"opt/libexec/lazaret/runsc", "usr/bin/slirp4netns",
	} {
		put(t, e, name, "", 0o755)
	}
	put(t, e, "usr/bin/newuidmap", "", 0o755|fs.ModeSetuid)
	put(t, e, "usr/bin/newgidmap", "", 0o755|fs.ModeSetuid)
	put(t, e, "etc/subuid", "bob:100000:65536\nann:165536:65536\n", 0o644)
	put(t, e, "etc/subgid", "bob:100000:65536\n1000:165536:65536\n", 0o644)
	put(t, e, "etc/os-release", "ID=debian\n", 0o644)
	put(t, e, "proc/sys/user/max_user_namespaces", "31000\n", 0o644)
	if err := os.MkdirAll(e.RuntimeDir, 0o700); err != nil {
		t.Fatal(err)
	}
	e.UID = 1000
	if os.Getuid() != 0 {
		e.UID = os.Getuid()
		put(t, e, "etc/subgid", "ann:165536:65536\n", 0o644)
	} else if err := os.Chown(e.RuntimeDir, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	return e, sys
}

func put(t testing.TB, e hostfacts.Env, name, text string, mode fs.FileMode) {
	t.Helper()
	path := filepath.Join(e.Root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, e hostfacts.Env, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.Remove(filepath.Join(e.Root, name)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestGoodHost(t *testing.T) {
	e, _ := good(t)
	r := hostfacts.Examine(context.Background(), e)
	for _, c := range r.Checks {
		if c.Status != hostfacts.OK || c.Why != "" || c.Fix != "" {
			t.Errorf("%+v", c)
		}
	}
	if r.ExitStatus() != 0 || r.Blocked() {
		t.Errorf("exit status %d", r.ExitStatus())
	}
	if err := hostfacts.Explain(context.Background(), e); err != nil {
		t.Errorf("Explain = %v", err)
	}
	e.System.(*system).run = nil // Quick starts no process
	f, err := hostfacts.Quick(context.Background(), e)
	if err != nil {
		t.Fatal(err)
	}
	want := hostfacts.Facts{
		Tools: hostfacts.Tools{
			NewUIDMap: e.Root + "/usr/bin/newuidmap", NewGIDMap: e.Root + "/usr/bin/newgidmap",
			Slirp4netns: e.Root + "/usr/bin/slirp4netns",
			Runsc:       e.Root + "/opt/libexec/lazaret/runsc",
			Supervisor:  e.Root + "/opt/libexec/lazaret/lazaret-supervisor",
			Escalate:    e.Root + "/opt/libexec/lazaret/lazaret-escalate",
		},
		Mapping: hostfacts.Mapping{
			Mode: handoff.MappingFull, UIDs: subid.Range{Start: 165536, Count: 65536},
			GIDs: subid.Range{Start: 165536, Count: 65536},
		},
	}
	if d := cmp.Diff(want, f); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

// Every thing that can be wrong, alone: which check says so, how bad it is, and
// the words. quick tells whether a start sees it before it tries.
func TestEachFault(t *testing.T) {
	eperm := func(step string) func(context.Context) (hostfacts.Output, error) {
		return says(hostfacts.Output{Status: 1, Stderr: step + "\n"})
	}
	const probe = "lazaret-supervisor probe-userns"
	for name, c := range map[string]struct {
		break_ func(t *testing.T, e *hostfacts.Env, s *system)
		id     string
		status hostfacts.Status
		why    string // a part of it
		fix    string // a part of it
		quick  bool
	}{
		"root": {
			func(t *testing.T, e *hostfacts.Env, s *system) { e.UID = 0 },
			"uid", hostfacts.Block, "does not run as root", "ordinary user", true,
		},
		"no supervisor": {
			func(t *testing.T, e *hostfacts.Env, s *system) {
				remove(t, *e, "opt/libexec/lazaret/lazaret-supervisor")
			},
			"supervisor", hostfacts.Block, "lazaret-supervisor is missing from", "install Lazaret again", true,
		},
		"no escalate": {
			func(t *testing.T, e *hostfacts.Env, s *system) { remove(t, *e, "opt/libexec/lazaret/lazaret-escalate") },
			"escalate", hostfacts.Block, "lazaret-escalate is missing", "install Lazaret again", true,
		},
		"D1a": {
			func(t *testing.T, e *hostfacts.Env, s *system) {
				put(t, *e, "proc/sys/user/max_user_namespaces", "0\n", 0o644)
				s.run[probe] = eperm("clone: ENOSPC")
			}, "D1", hostfacts.Block, "User namespaces are switched off (user.max_user_namespaces=0).",
			"echo 'user.max_user_namespaces=28633' | sudo tee /etc/sysctl.d/60-lazaret.conf && sudo sysctl --system", true,
		},
		"D1a, by its errno": {
			func(t *testing.T, e *hostfacts.Env, s *system) { s.run[probe] = eperm("clone: ENOSPC") },
			"D1", hostfacts.Block, "switched off", "user.max_user_namespaces=28633", false,
		},
		"D1b": {
			func(t *testing.T, e *hostfacts.Env, s *system) {
				put(t, *e, "proc/sys/kernel/unprivileged_userns_clone", "0\n", 0o644)
				s.run[probe] = eperm("clone: EPERM")
			}, "D1", hostfacts.Block, "This kernel forbids unprivileged user namespaces.",
			"echo 'kernel.unprivileged_userns_clone=1' | sudo tee /etc/sysctl.d/60-lazaret.conf && sudo sysctl --system", true,
		},
		"D1c": {
			func(t *testing.T, e *hostfacts.Env, s *system) {
				put(t, *e, "proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n", 0o644)
				put(t, *e, "proc/self/attr/current", "unconfined\n", 0o644)
				s.run[probe] = eperm("mount: EACCES")
			}, "D1", hostfacts.Block, "opt/libexec/lazaret/lazaret-supervisor (label: unconfined)",
			"opt/libexec/lazaret/lazaret-supervisor\" flags=(unconfined) {\\n  userns,\\n}\\n' | sudo tee /etc/apparmor.d/lazaret", false,
		},
		"D1d": {func(t *testing.T, e *hostfacts.Env, s *system) {
			put(t, *e, ".dockerenv", "", 0o644)
			s.run[probe] = eperm("clone: EPERM")
		}, "D1", hostfacts.Block, "Running inside a container that filters namespaces", "seccomp/AppArmor profile", false},
		"D1d, by cgroup": {func(t *testing.T, e *hostfacts.Env, s *system) {
			put(t, *e, "proc/1/cgroup", "0::/system.slice/docker-abc.scope\n", 0o644)
			s.run[probe] = eperm("mount: EPERM")
		}, "D1", hostfacts.Block, "inside a container", "on the host", false},
		"D1d, by systemd": {func(t *testing.T, e *hostfacts.Env, s *system) {
			put(t, *e, "usr/bin/systemd-detect-virt", "", 0o755)
			s.run["systemd-detect-virt -c -q"] = says(hostfacts.Output{})
			s.run[probe] = eperm("mount: EPERM")
		}, "D1", hostfacts.Block, "inside a container", "on the host", false},
		"D1, unknown": {
			func(t *testing.T, e *hostfacts.Env, s *system) { s.run[probe] = eperm("clone: EINVAL") },
			"D1", hostfacts.Block, "Namespaces cannot be made: clone: EINVAL.", "CONFIG_USER_NS", false,
		},
		"D2, no newuidmap": {
			func(t *testing.T, e *hostfacts.Env, s *system) { remove(t, *e, "usr/bin/newuidmap") },
			"D2", hostfacts.Block, "newuidmap is not found.", "sudo apt install uidmap", true,
		},
		"D2, not setuid": {
			func(t *testing.T, e *hostfacts.Env, s *system) { put(t, *e, "usr/bin/newgidmap", "", 0o755) },
			"D2", hostfacts.Block, "newgidmap is neither setuid", "sudo chmod u+s ", true,
		},
		"D2, refused": {func(t *testing.T, e *hostfacts.Env, s *system) {
			s.run[probe+" MAP"] = eperm("idmap: newuidmap: exit status 1: Operation not permitted")
		}, "D2", hostfacts.Block, "cannot be mapped: idmap: newuidmap: exit status 1", "nosuid", false},
		"D2 without D3": {func(t *testing.T, e *hostfacts.Env, s *system) {
			remove(t, *e, "usr/bin/newuidmap", "usr/bin/newgidmap", "etc/subuid", "etc/subgid")
		}, "D2", hostfacts.Warn, "newgidmap and newuidmap are not found.", "uidmap", false},
		"D3": {
			func(t *testing.T, e *hostfacts.Env, s *system) {
				put(t, *e, "etc/subuid", "bob:100000:65536\ncarl:300000:65536\n", 0o644)
			}, "D3", hostfacts.Warn, "No subordinate ids for ann in /etc/subuid.",
			"sudo usermod --add-subuids 365536-431071 --add-subgids 365536-431071 ann", false,
		},
		"D4": {
			func(t *testing.T, e *hostfacts.Env, s *system) { remove(t, *e, "usr/bin/slirp4netns") },
			"D4", hostfacts.Block, "slirp4netns not found.", "sudo apt install slirp4netns", true,
		},
		"D4, does not run": {func(t *testing.T, e *hostfacts.Env, s *system) {
			s.run["slirp4netns --version"] = says(hostfacts.Output{Status: 127, Stderr: "libslirp.so.0: cannot open\n"})
		}, "D4", hostfacts.Block, "does not run: libslirp.so.0: cannot open.", "sudo apt install slirp4netns", false},
		"D5": {
			func(t *testing.T, e *hostfacts.Env, s *system) { s.devices = map[string]error{"fuse": unix.ENOENT} },
			"D5", hostfacts.Block, "/dev/fuse is missing", "sudo modprobe fuse; persist: echo fuse | sudo tee /etc/modules-load.d/fuse.conf", true,
		},
		"D5, mode": {func(t *testing.T, e *hostfacts.Env, s *system) {
			put(t, *e, "dev/fuse", "", 0o600)
			s.devices = map[string]error{"fuse": unix.EACCES}
		}, "D5", hostfacts.Block, "/dev/fuse is 0600; expected 0666 (systemd default).", "sudo udevadm trigger /dev/fuse", true},
		"D6": {
			func(t *testing.T, e *hostfacts.Env, s *system) { s.devices = map[string]error{"tun": unix.ENODEV} },
			"D6", hostfacts.Block, "/dev/net/tun is missing", "sudo modprobe tun; persist: echo tun | sudo tee /etc/modules-load.d/tun.conf", true,
		},
		"D6, mode": {
			func(t *testing.T, e *hostfacts.Env, s *system) { s.devices = map[string]error{"tun": unix.EACCES} },
			"D6", hostfacts.Block, "/dev/net/tun is not open to you", "sudo udevadm trigger /dev/net/tun", true,
		},
		"D6, odd": {
			func(t *testing.T, e *hostfacts.Env, s *system) { s.devices = map[string]error{"tun": unix.EIO} },
			"D6", hostfacts.Block, "/dev/net/tun does not open", "dmesg", true,
		},
		"D12, unset": {
			func(t *testing.T, e *hostfacts.Env, s *system) { e.RuntimeDir = "" },
			"D12", hostfacts.Warn, "XDG_RUNTIME_DIR is not set", "loginctl enable-linger ann", false,
		},
		"D12, missing": {
			func(t *testing.T, e *hostfacts.Env, s *system) { e.RuntimeDir += "x" },
			"D12", hostfacts.Warn, "no such file", "pam_systemd", false,
		},
		"D12, mode": {func(t *testing.T, e *hostfacts.Env, s *system) {
			if err := os.Chmod(e.RuntimeDir, 0o755); err != nil {
				t.Fatal(err)
			}
		}, "D12", hostfacts.Warn, "not a directory of yours with mode 0700", "pam_systemd", false},
		"old kernel": {
			func(t *testing.T, e *hostfacts.Env, s *system) { s.release = "5.10.0-28-amd64" },
			"kernel", hostfacts.Block, "at least 5.12 is needed", "newer kernel", true,
		},
		"ancient kernel": {
			func(t *testing.T, e *hostfacts.Env, s *system) { s.release = "4.18.0" },
			"kernel", hostfacts.Block, "at least 5.12", "newer kernel", true,
		},
		"no runsc": {
			func(t *testing.T, e *hostfacts.Env, s *system) { remove(t, *e, "opt/libexec/lazaret/runsc") },
			"runsc", hostfacts.Block, "runsc is missing from", "install Lazaret again", true,
		},
		"runsc does not run": {func(t *testing.T, e *hostfacts.Env, s *system) {
			s.run["runsc --version"] = func(context.Context) (hostfacts.Output, error) {
				return hostfacts.Output{}, errors.New("exec format error")
			}
		}, "runsc", hostfacts.Block, "does not run: exec format error.", "install Lazaret again", false},
		"old runsc in PATH": {func(t *testing.T, e *hostfacts.Env, s *system) {
			remove(t, *e, "opt/libexec/lazaret/runsc")
			put(t, *e, "usr/bin/runsc", "", 0o755)
			s.run["runsc --version"] = says(hostfacts.Output{Stdout: "runsc version release-20260831.0\n"})
		}, "runsc", hostfacts.Block, "is of version release-20260831.0; at least " + hostfacts.PinnedRunsc, "install Lazaret again", true},
		"runsc without kill --pgid": {func(t *testing.T, e *hostfacts.Env, s *system) {
			s.run["runsc help kill"] = says(hostfacts.Output{Stdout: "  -pid int\n"})
		}, "runsc", hostfacts.Block, "has no kill --pgid", "install Lazaret again", false},
		// Case 103: named before anything is pulled.
		"data root on nfs": {
			func(t *testing.T, e *hostfacts.Env, s *system) { s.fsType = map[string]int64{"/home/ann": 0x6969} },
			"data-root", hostfacts.Block, "/home/ann/.local/share/lazaret is on a filesystem of type nfs", "storage.data_root", true,
		},
		"data root on gocryptfs": {func(t *testing.T, e *hostfacts.Env, s *system) {
			s.fsType = map[string]int64{"/home/ann/.local/share/lazaret": 0x65735546}
		}, "data-root", hostfacts.Block, "type fuse", "storage.data_root", true},
		"data root on ecryptfs": {
			func(t *testing.T, e *hostfacts.Env, s *system) { s.fsType = map[string]int64{"/": 0xf15f} },
			"data-root", hostfacts.Block, "type ecryptfs", "storage.data_root", true,
		},
		"data root on overlay": {
			func(t *testing.T, e *hostfacts.Env, s *system) { s.fsType = map[string]int64{"/": 0x794c7630} },
			"data-root", hostfacts.Block, "type overlay", "storage.data_root", true,
		},
		"data root on cifs, signed": {
			func(t *testing.T, e *hostfacts.Env, s *system) { s.fsType = map[string]int64{"/": -0xacb2be} },
			"data-root", hostfacts.Block, "type cifs", "storage.data_root", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			e, s := good(t)
			c.break_(t, &e, s)
			r := hostfacts.Examine(ctx, e)
			var found bool
			for _, got := range r.Checks {
				if got.ID == c.id && got.Status == c.status && strings.Contains(got.Why, c.why) && strings.Contains(got.Fix, c.fix) {
					found = true
				}
			}
			if !found {
				t.Fatalf("no check says so:\n%s", text(t, r))
			}
			if want := c.status == hostfacts.Block; r.Blocked() != want || (r.ExitStatus() == 1) != want {
				t.Errorf("blocked = %v, exit status %d", r.Blocked(), r.ExitStatus())
			}
			var blocked *hostfacts.BlockedError
			if _, err := hostfacts.Quick(ctx, e); errors.As(err, &blocked) != c.quick {
				t.Errorf("Quick = %v", err)
			} else if c.quick && (!strings.Contains(err.Error(), strings.TrimSuffix(c.why, ".")) || !strings.Contains(blocked.Hint(), c.fix)) {
				t.Errorf("Quick = %v, hint %s: not the words of doctor", err, blocked.Hint())
			}
			if err := hostfacts.Explain(ctx, e); errors.As(err, &blocked) != (c.status == hostfacts.Block) {
				t.Errorf("Explain = %v", err)
			}
		})
	}
}

// A program that hangs costs its limit, once, and blocks no other check.
func TestHangingProbes(t *testing.T) {
	t.Parallel()
	e, s := good(t)
	hang := func(ctx context.Context) (hostfacts.Output, error) {
		<-ctx.Done()
		return hostfacts.Output{}, ctx.Err()
	}
	s.run["slirp4netns --version"], s.run["runsc --version"], s.run["lazaret-supervisor probe-userns"] = hang, hang, hang
	start := time.Now()
	r := hostfacts.Examine(context.Background(), e)
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("took %v", d)
	}
	blocked := 0
	for _, c := range r.Checks {
		if c.Status == hostfacts.Block {
			blocked++
		}
	}
	if blocked != 3 {
		t.Errorf("%d checks blocked:\n%s", blocked, text(t, r))
	}
}

func text(t *testing.T, r hostfacts.Report) string {
	t.Helper()
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestRenderers(t *testing.T) {
	r := hostfacts.Report{Checks: []hostfacts.Check{
		{ID: "D5", Name: "/dev/fuse", Status: hostfacts.OK, Found: "opens\x1b[31m"},
		{ID: "D1", Name: "namespaces", Status: hostfacts.Block, Why: "They are off.", Fix: "echo '<a>' && b", Note: "Ask first."},
		{ID: "D3", Name: "ids", Status: hostfacts.Warn, Why: "None.", Fix: "c"},
	}}
	want := `ok     D5          /dev/fuse: opens` + "\uFFFD" + `[31m
block  D1          namespaces
       They are off.
       fix: echo '<a>' && b
       Ask first.
warn   D3          ids
       None.
       fix: c

No sandbox can start: 1 blocking, 1 warnings.
`
	if d := cmp.Diff(want, text(t, r)); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	var b bytes.Buffer
	if err := r.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), `echo '<a>' && b`) {
		t.Errorf("the fix is not readable in %s", b.String())
	}
	var back struct {
		Blocked bool
		Checks  []hostfacts.Check
	}
	if err := json.Unmarshal(b.Bytes(), &back); err != nil || !back.Blocked {
		t.Fatalf("%v: %+v", err, back)
	}
	if d := cmp.Diff(r.Checks, back.Checks); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}
