package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lazaret.dev/lazaret/cmd/lazaret/e2etest"
	"lazaret.dev/lazaret/protocol/testgate"
)

// check is one of doctor's, as --json prints it.
type check struct {
	ID, Name, Status, Found, Fix string
	Why                          string `json:"problem"`
}

// doctor decodes a report.
func doctor(t *testing.T, r e2etest.Result) (blocked bool, checks []check) {
	t.Helper()
	var report struct {
		Blocked bool
		Checks  []check
	}
	if err := json.Unmarshal([]byte(r.Stdout), &report); err != nil {
		t.Fatalf("doctor --json: %v: %+v", err, r)
	}
	if want := map[bool]int{false: 0, true: 1}[report.Blocked]; r.Status != want {
		t.Errorf("doctor: status %d where blocked is %v", r.Status, report.Blocked)
	}
	return report.Blocked, report.Checks
}

// refusal demands that `run` failed early and by name, that doctor says the same
// with the same fix, and that nothing is left.
func refusal(t *testing.T, h *e2etest.Home, run, asJSON, asText e2etest.Result, id, why, fix string) {
	t.Helper()
	if run.Status != 125 || run.Stdout != "" ||
		!strings.HasPrefix(run.Stderr, "lazaret: error: cannot start a sandbox: ") || !strings.Contains(run.Stderr, why) ||
		!strings.Contains(run.Stderr, "\nlazaret: hint: ") || !strings.Contains(run.Stderr, fix) || strings.Count(run.Stderr, "\n") > 3 {
		t.Errorf("run: status %d, stdout %q, stderr:\n%s\nwant why %q and fix %q", run.Status, run.Stdout, run.Stderr, why, fix)
	}
	_, hint, _ := strings.Cut(run.Stderr, "\nlazaret: hint: ")
	hint, _, _ = strings.Cut(hint, "\n") // a caution may follow
	blocked, checks := doctor(t, asJSON)
	found := false
	for _, c := range checks {
		if c.ID == id && c.Status == "block" {
			found = true
			if !strings.Contains(c.Why, why) || c.Fix != hint {
				t.Errorf("doctor says %q and %q, run says %q", c.Why, c.Fix, run.Stderr)
			}
		}
	}
	if !blocked || !found {
		t.Errorf("doctor does not block on %s: %s", id, asJSON.Stdout)
	}
	if asText.Status != 1 || !strings.Contains(asText.Stdout, why) || !strings.Contains(asText.Stdout, "fix: "+hint+"\n") ||
		!strings.Contains(asText.Stdout, "No sandbox can start: ") {
		t.Errorf("doctor's text: status %d\n%s", asText.Status, asText.Stdout)
	}
	h.NothingLeft(2 * time.Second)
	left, err := filepath.Glob(filepath.Join(h.Runtime, "lazaret/*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left in the runtime directory: %q, %v", left, err)
	}
	if made, err := os.ReadDir(h.Data); err == nil && len(made) != 0 {
		t.Errorf("made in the data root: %v", made)
	}
}

// pathWithout is a PATH with everything of this one but one program.
func pathWithout(t *testing.T, program string) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range filepath.SplitList(os.Getenv("PATH")) {
		entries, err := os.ReadDir(d)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if e.Name() != program {
				_ = os.Symlink(filepath.Join(d, e.Name()), filepath.Join(dir, e.Name())) // the first one in PATH counts
			}
		}
	}
	return dir
}

// fresh is a home whose data root must stay empty.
func fresh(t *testing.T) *e2etest.Home {
	t.Helper()
	h := e2etest.New(t)
	h.Data = filepath.Join(h.Dir, "data")
	h.Config("")
	return h
}

func TestMissingPrograms(t *testing.T) {
	for program, want := range map[string]struct{ id, why, fix string }{
		"newuidmap":   {"D2", "newuidmap is not found", "uidmap"},
		"newgidmap":   {"D2", "newgidmap is not found", "uidmap"},
		"slirp4netns": {"D4", "slirp4netns not found", "slirp4netns"},
	} {
		t.Run(program, func(t *testing.T) {
			h := fresh(t)
			h.Setenv("PATH", pathWithout(t, program))
			refusal(t, h, h.Lazaret("", "run", "--", "true"), h.Lazaret("", "doctor", "--json"), h.Lazaret("", "doctor"), want.id, want.why, want.fix)
		})
	}
}

// An installation that lacks one of its own programs.
func TestIncompleteInstallation(t *testing.T) {
	for program, want := range map[string]struct{ id, fix string }{
		"runsc":              {"runsc", "install Lazaret again"},
		"lazaret-supervisor": {"supervisor", "install Lazaret again"},
		"lazaret-escalate":   {"escalate", "install Lazaret again"},
	} {
		t.Run(program, func(t *testing.T) {
			h := fresh(t)
			h.Tree = copyTree(t, program)
			h.Setenv("PATH", pathWithout(t, "runsc")) // another one may lie in PATH
			refusal(t, h, h.Lazaret("", "run", "--", "true"), h.Lazaret("", "doctor", "--json"), h.Lazaret("", "doctor"),
				want.id, program+" is missing from "+filepath.Join(h.Tree, "libexec/lazaret"), want.fix)
		})
	}
}

// copyTree is the built tree without one of its programs. lazaret itself is
// copied, since it looks beside itself with every link resolved.
func copyTree(t *testing.T, without string) string {
	t.Helper()
	tree, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(e2etest.Binary())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"bin", "libexec/lazaret"} {
		if err := os.MkdirAll(filepath.Join(tree, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(tree, "bin/lazaret"), binary, 0o755); err != nil {
		t.Fatal(err)
	}
	programs, err := filepath.Glob(filepath.Join(testgate.Tree(), "libexec/lazaret/*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range append(programs, filepath.Join(testgate.Tree(), "image")) {
		to := filepath.Join(tree, "libexec/lazaret", filepath.Base(p))
		if filepath.Base(p) == "image" {
			to = filepath.Join(tree, "image")
		}
		if filepath.Base(p) == without {
			continue
		}
		if p, err = filepath.Abs(p); err == nil {
			err = os.Symlink(p, to)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

// Cases 101 and those of the devices: each on a host that lacks it.
func TestMissingDevicesAndNamespaces(t *testing.T) {
	for name, tt := range map[string]struct{ setup, id, why, fix string }{
		"no tun": {
			"mount -t tmpfs none /dev/net", "D6",
			"/dev/net/tun is missing: the kernel module tun is not loaded", "sudo modprobe tun; persist: echo tun | sudo tee /etc/modules-load.d/tun.conf",
		},
		"closed tun": {
			"mount --bind CLOSED /dev/net/tun", "D6", "/dev/net/tun is 0000; expected 0666", "sudo udevadm trigger /dev/net/tun",
		},
		"no fuse": {
			"mount --rbind /dev EMPTY && mount -t tmpfs none /dev && mkdir /dev/net && for d in null zero urandom net/tun; do : >/dev/$d && mount --bind EMPTY/$d /dev/$d || exit; done", "D5",
			"/dev/fuse is missing: the kernel module fuse is not loaded", "sudo modprobe fuse; persist: echo fuse | sudo tee /etc/modules-load.d/fuse.conf",
		},
		"closed fuse": {
			"mount --bind CLOSED /dev/fuse", "D5", "/dev/fuse is 0000; expected 0666", "sudo udevadm trigger /dev/fuse",
		},
		"no user namespaces": {
			"echo 0 >/proc/sys/user/max_user_namespaces", "D1", "user.max_user_namespaces", "sysctl",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := fresh(t)
			closed, empty := filepath.Join(h.Dir, "closed"), filepath.Join(h.Dir, "empty")
			if err := os.WriteFile(closed, nil, 0); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(empty, 0o700); err != nil {
				t.Fatal(err)
			}
			setup := strings.NewReplacer("CLOSED", closed, "EMPTY", empty).Replace(tt.setup)
			refusal(t, h, h.Elsewhere(setup, "run", "--", "true"), h.Elsewhere(setup, "doctor", "--json"), h.Elsewhere(setup, "doctor"), tt.id, tt.why, tt.fix)
		})
	}
}

// Without subordinate ids a sandbox has one user id, which is said once.
func TestWithoutSubordinateIDs(t *testing.T) {
	h := e2etest.New(t)
	h.Data = filepath.Join(h.Dir, "data")
	h.Config(fmt.Sprintf("[profiles.small]\nimage = %q\n", e2etest.SmallImage(t)))
	none := filepath.Join(h.Dir, "none")
	if err := os.WriteFile(none, []byte("somebody-else:100000:65536\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	setup := fmt.Sprintf("mount --bind %s /etc/subuid && mount --bind %[1]s /etc/subgid", none)
	r := h.Elsewhere(setup, "run", "--", "sh", "-c", "id -u; whoami; echo x >/root/f; echo w >w; chown 33 /root/f 2>/dev/null || echo one id")
	if r.Status != 0 || r.Stdout != "0\nroot\none id\n" || strings.Count(r.Stderr, "single user id") != 1 {
		t.Errorf("%+v", r)
	}
	for line := range strings.Lines(r.Stderr) {
		if !strings.HasPrefix(line, "lazaret: ") {
			t.Errorf("a line without prefix: %q", line)
		}
	}
	if r := h.Elsewhere(setup, "run", "--quiet", "--", "cat", "/root/f", "w"); r.Stdout != "x\nw\n" || r.Stderr != "" {
		t.Errorf("a second run, quiet: %+v", r)
	}
	blocked, checks := doctor(t, h.Elsewhere(setup, "doctor", "--json"))
	found := false
	for _, c := range checks {
		if c.ID == "D3" {
			found = c.Status == "warn" && strings.Contains(c.Fix, "usermod --add-subuids")
		}
	}
	if blocked || !found {
		t.Errorf("doctor: blocked %v, %+v", blocked, checks)
	}
	h.NothingLeft(10 * time.Second)
}

// On a host that has everything, doctor says so in both forms, and changes
// nothing.
func TestDoctor(t *testing.T) {
	h := fresh(t)
	blocked, checks := doctor(t, h.Lazaret("", "doctor", "--json"))
	if blocked {
		t.Errorf("blocked: %+v", checks)
	}
	text := h.Lazaret("", "doctor")
	ids := map[string]bool{}
	for _, c := range checks {
		ids[c.ID] = true
		if c.Status == "ok" && c.Found == "" || c.Status != "ok" && (c.Why == "" || c.Fix == "") {
			t.Errorf("a check without its text: %+v", c)
		}
		if !strings.Contains(text.Stdout, c.Name) {
			t.Errorf("the text has no %q:\n%s", c.Name, text.Stdout)
		}
	}
	for _, id := range []string{"D1", "D2", "D3", "D4", "D5", "D6", "D12", "runsc"} {
		if !ids[id] {
			t.Errorf("no check %s", id)
		}
	}
	if text.Status != 0 || !strings.Contains(text.Stdout, "Sandboxes can start") || text.Stderr != "" {
		t.Errorf("%+v", text)
	}
	if _, err := os.Stat(h.Data); err == nil {
		t.Error("doctor has made the data root")
	}
	h.NothingLeft(time.Second)
}

// A configuration that run would refuse is what doctor says first.
func TestDoctorNamesABrokenConfiguration(t *testing.T) {
	h := e2etest.New(t)
	h.Config("netwrok = 1\n")
	r := h.Lazaret("", "doctor")
	if r.Status != 1 || !strings.Contains(r.Stdout, "netwrok") {
		t.Errorf("status %d, stdout %s", r.Status, r.Stdout)
	}
}

// What no session can carry is refused before anything starts, and a wrong
// argument is wrong usage.
func TestArgumentsThatCannotBe(t *testing.T) {
	h := e2etest.New(t)
	if r := h.Lazaret("", "run", "--env", "FOO", "--", "true"); r.Status != 2 {
		t.Errorf("--env without a value: status %d, stderr %q", r.Status, r.Stderr)
	}
	big := strings.Repeat("x", 100<<10)
	r := h.Run("true", big, big, big)
	if r.Status != 125 || !strings.Contains(r.Stderr, "arguments and environment") {
		t.Errorf("status %d, stderr %q", r.Status, r.Stderr)
	}
	h.NothingLeft(gone)
}
