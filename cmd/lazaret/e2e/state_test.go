package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lazaret.dev/lazaret/cmd/lazaret/e2etest"
)

// eventually polls until ok says yes.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 15 s: %s", what)
		}
	}
}

// domainDir is the Domain Root of the home's one Domain, which has run.
func domainDir(t *testing.T, h *e2etest.Home) string {
	t.Helper()
	records, err := filepath.Glob(filepath.Join(h.Data, "domains/*/domain.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if b, err := os.ReadFile(r); err == nil && strings.Contains(string(b), `"`+h.Project+`"`) {
			return filepath.Dir(r)
		}
	}
	t.Fatalf("no Domain Root for %s", h.Project)
	return ""
}

// FR-4: the workspace is shared in place, both ways, at once, and what is made
// inside belongs to the developer.
func TestWorkspaceIsShared(t *testing.T) {
	h := e2etest.New(t)
	defer h.Hold("")()
	h.Must("sh", "-c", "echo inside >made; mkdir -p d/e; ln made d/e/link; echo x >script; chmod 750 script")
	for name, mode := range map[string]os.FileMode{"made": 0o644, "d/e/link": 0o644, "script": 0o750, "d/e": os.ModeDir | 0o755} {
		fi, err := os.Lstat(filepath.Join(h.Project, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if st := fi.Sys().(*syscall.Stat_t); int(st.Uid) != os.Getuid() || int(st.Gid) != os.Getgid() || fi.Mode() != mode {
			t.Errorf("%s on the host: owner %d:%d, mode %v; want %d:%d, %v", name, st.Uid, st.Gid, fi.Mode(), os.Getuid(), os.Getgid(), mode)
		}
	}
	if b, err := os.ReadFile(filepath.Join(h.Project, "made")); err != nil || string(b) != "inside\n" {
		t.Errorf("on the host: %q, %v", b, err)
	}
	for n := range 5 {
		// Longer each time, so that a stale size would cut it.
		text := strings.Repeat(fmt.Sprintln("host", n), n+1)
		if err := os.WriteFile(filepath.Join(h.Project, "host.txt"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out := h.Must("cat", "host.txt"); out != text {
			t.Errorf("edit %d: inside there is %q", n, out)
		}
	}
	if out := h.Must("stat", "-c", "%u:%g", "host.txt"); out != "0:0\n" {
		t.Errorf("the developer's file belongs to %q inside", out)
	}
	h.Must("rm", "-r", "d")
	if _, err := os.Lstat(filepath.Join(h.Project, "d")); err == nil {
		t.Error("what was removed inside is still on the host")
	}
}

// deb makes a package inside, so that installing needs no network.
const deb = `set -e
d=$(mktemp -d); mkdir -p $d/DEBIAN $d/usr/bin $d/etc/probe
printf 'Package: lz-probe\nVersion: 1.0\nArchitecture: all\nMaintainer: x <x@example.org>\nDescription: probe\n' >$d/DEBIAN/control
printf '#!/bin/sh\necho probe %s\n' "$1" >$d/usr/bin/lz-probe; chmod 755 $d/usr/bin/lz-probe
printf '#!/bin/sh\nadduser --system --quiet --no-create-home --home /nonexistent lzprobe 2>/dev/null || useradd -r lzprobe\nchown lzprobe /etc/probe\n' >$d/DEBIAN/postinst; chmod 755 $d/DEBIAN/postinst
dpkg-deb --root-owner-group -b $d /workspace/probe.deb
`

// FR-6, case 32: what is installed in a persistent directory is there in the
// next generation, owners included; what is written elsewhere is not.
func TestInstalledProgramsStay(t *testing.T) {
	h := e2etest.New(t)
	h.Must("sh", "-c", deb+`
apt-get install -y -q /workspace/probe.deb >&2
mkdir -p /srv/gone /root/.cache/k; echo kept >/root/.cache/k/f; echo x >/srv/gone/f; echo x >/tmp/f; mkdir /opt/tool; chown 33:33 /opt/tool`, "sh", "one")
	h.NothingLeft(10 * time.Second)

	if out := h.Must("lz-probe"); out != "probe one\n" {
		t.Errorf("the installed program says %q", out)
	}
	if out := h.Must("sh", "-c", "dpkg -s lz-probe | grep Status; cat /root/.cache/k/f; stat -c %U /etc/probe; stat -c %u:%g /opt/tool"); out !=
		"Status: install ok installed\nkept\nlzprobe\n33:33\n" {
		t.Errorf("persistent directories hold %q", out)
	}
	if out := h.Must("sh", "-c", "ls -A /srv /tmp"); strings.Contains(out, "gone") || strings.Contains(out, "f\n") {
		t.Errorf("transient directories hold %q", out)
	}
	h.Must("sh", "-c", deb+`dpkg -i /workspace/probe.deb >&2; dpkg -r lz-probe >&2; dpkg -i /workspace/probe.deb >&2`, "sh", "two")
	if out := h.Must("lz-probe"); out != "probe two\n" {
		t.Errorf("after dpkg -i the program says %q", out)
	}
}

// Case 32: what is synced is on the host's disk, in the upper directory, while
// the session runs, and survives kill -9 of runsc.
func TestSyncedDataSurvivesRunsc(t *testing.T) {
	for _, victim := range []string{"runsc-sandbox", "runsc run"} {
		t.Run(victim, func(t *testing.T) {
			h := e2etest.New(t)
			release := h.Hold("rm -rf /root/d; mkdir -p /root/d /usr/local/lz; for i in $(seq 200); do echo $i >/root/d/$i; done; echo tool >/usr/local/lz/tool; echo w >/workspace/w; sync")
			upper := filepath.Join(domainDir(t, h), "anchors/root/upper/d/200")
			if b, err := os.ReadFile(upper); err != nil || string(b) != "200\n" {
				t.Errorf("in the upper directory while the session runs: %q, %v", b, err)
			}
			if err := syscall.Kill(h.Find(victim).PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			release()
			h.NothingLeft(10 * time.Second)
			if out := h.Must("sh", "-c", "cat /root/d/* | wc -l; cat /root/d/7 /usr/local/lz/tool /workspace/w"); out != "200\n7\ntool\nw\n" {
				t.Errorf("afterwards: %q", out)
			}
		})
	}
}

// DESIGN section 8: State Anchors of one id mapping are refused under the other,
// and the hint's command resets them without destroying anything.
func TestAnchorsOfTheOtherMapping(t *testing.T) {
	h := e2etest.New(t)
	h.Data = filepath.Join(h.Dir, "data")
	h.Config("[profiles.small]\nimage = \"" + e2etest.SmallImage(t) + "\"\n")
	h.Must("sh", "-c", "echo full >/root/f; chown 33 /root/f")
	none := filepath.Join(h.Dir, "none")
	if err := os.WriteFile(none, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	noSubIDs := fmt.Sprintf("mount --bind %s /etc/subuid && mount --bind %[1]s /etc/subgid", none)
	single := func(command ...string) e2etest.Result {
		t.Helper()
		return h.Elsewhere(noSubIDs, append([]string{"run", "--quiet", "--"}, command...)...)
	}
	reset := func(r e2etest.Result) {
		t.Helper()
		_, command, ok := strings.Cut(r.Stderr, "put them aside: ")
		if r.Status != 125 || !strings.Contains(r.Stderr, "State Anchors") || !ok {
			t.Fatalf("status %d, stderr %s", r.Status, r.Stderr)
		}
		if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
			t.Fatalf("the hint's command fails: %v: %s", err, out)
		}
	}
	r := single("cat", "/root/f")
	if !strings.Contains(r.Stderr, "get your subordinate ids back") {
		t.Errorf("the hint does not say how to go on with them: %s", r.Stderr)
	}
	reset(r)
	if r := single("sh", "-c", "echo single >/root/f; cat /root/f"); r.Status != 0 || r.Stdout != "single\n" {
		t.Fatalf("after the reset: %+v", r)
	}
	// And the reverse.
	reset(h.Run("cat", "/root/f"))
	if r := h.Run("cat", "/root/f"); r.Status != 1 {
		t.Errorf("after the second reset: %+v", r)
	}
	kept, err := filepath.Glob(filepath.Join(h.Data, "domains/*/.anchors-*/root/upper/f"))
	if err != nil || len(kept) != 2 {
		t.Errorf("put aside: %q, %v; want the files of both", kept, err)
	}
	h.NothingLeft(10 * time.Second)
	removeMapped(t, h.Data)
}

// removeMapped removes a data root in which files belong to subordinate ids.
func removeMapped(t *testing.T, dir string) {
	t.Helper()
	if out, err := exec.Command("unshare", "--user", "--map-auto", "--map-root-user", "rm", "-rf", dir).CombinedOutput(); err != nil {
		t.Errorf("remove %s: %v: %s", dir, err, out)
	}
}

// DESIGN section 3: dead generations leave five logs and no transient layer,
// whoever owns what is in it, also when the coordinator was killed.
func TestDeadGenerationsAreTidiedUp(t *testing.T) {
	h := e2etest.New(t)
	h.Config("[profiles.small]\nimage = \"" + e2etest.SmallImage(t) + "\"\n")
	const litter = "mkdir -p /srv/d; touch /srv/d/f; chown -R 33 /srv/d; chmod 0 /srv/d"
	for range 3 {
		h.Must("sh", "-c", litter)
	}
	dir := domainDir(t, h)
	entries := func(name string) int {
		t.Helper()
		e, err := os.ReadDir(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return len(e)
	}
	h.NothingLeft(10 * time.Second)
	if n := entries("transient"); n != 0 {
		t.Errorf("%d transient layers after three ends", n)
	}
	release := h.Hold(litter)
	if err := syscall.Kill(h.Find("lazaret _coordinator").PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	release()
	eventually(t, "the killed generation's processes are gone", func() bool { return len(h.Processes()) == 0 })
	if n := entries("transient"); n != 1 {
		t.Errorf("%d transient layers after a kill, want 1: the test is worth nothing", n)
	}
	for range 3 {
		h.Must("true")
	}
	release = h.Hold("mkdir -p /srv; echo x >/srv/alive")
	eventually(t, "the living generation's transient layer alone", func() bool { return entries("transient") == 1 })
	eventually(t, "five generations' logs", func() bool { return entries("log") == 5 })
	if out := h.Must("cat", "/srv/alive"); out != "x\n" {
		t.Errorf("the living generation's layer: %q", out)
	}

	// A log that grows without end is cut while the Domain runs.
	logs, err := filepath.Glob(filepath.Join(dir, "log/*/supervisor.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("logs: %q, %v", logs, err)
	}
	last := logs[len(logs)-1]
	f, err := os.OpenFile(last, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(make([]byte, 9<<20))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the log is cut", func() bool {
		fi, err := os.Stat(last)
		return err == nil && fi.Size() < 1<<20
	})
	release()
}
