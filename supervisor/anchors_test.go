package supervisor_test

import (
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"lazaret.dev/lazaret/protocol/handoff"
	"lazaret.dev/lazaret/protocol/launch"
)

func pemCert(body string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(body)}))
}

// The host's certificates are trusted inside, can be rebuilt there, and come
// back where an earlier generation has lost them. Design section 8.
func TestCertificates(t *testing.T) {
	const bundle = "/etc/ssl/certs/ca-certificates.crt"
	w := newWorld(t)
	if err := os.WriteFile(w.at("prepared", bundle), []byte(pemCert("image's")), 0o644); err != nil {
		t.Fatal(err)
	}
	mkdirs(t, w.at("anchors/etc/upper"), w.at("anchors/etc/work"))
	w.plan.Rootfs.Anchors = append(w.plan.Rootfs.Anchors, launch.Anchor{Path: "/etc", Dir: ref(t, w.at("anchors/etc"))})
	w.plan.Files.CABundle = pemCert("image's") + pemCert("host's")
	want := pemCert("host's") + pemCert("image's")

	c := w.bringUp(t)
	if got := c.sh("cat "+bundle) + "\n"; got != want {
		t.Errorf("bundle %q, want %q", got, want)
	}
	if got := c.sh("ls /usr/local/share/ca-certificates; cat /usr/local/share/ca-certificates/*") + "\n"; got != "lazaret-host-0.crt\n"+pemCert("host's") {
		t.Errorf("local certificates %q", got)
	}
	// As update-ca-certificates does it, here without the local ones.
	c.sh("cd /etc/ssl/certs && echo '" + strings.TrimSpace(pemCert("rebuilt")) + "' > new && mv -f new ca-certificates.crt")
	c.stop()
	c.reap(5 * time.Second)

	c = w.bringUp(t)
	if got := c.sh("cat "+bundle) + "\n"; got != pemCert("image's")+pemCert("host's")+pemCert("rebuilt") {
		t.Errorf("after a rebuild: %q", got)
	}
	c.sh("rm " + bundle + "; ln -s /workspace/x " + bundle)
	c.stop()
	c.reap(5 * time.Second)

	// A link is the sandbox's own choice, and nothing is written through it.
	c = w.bringUp(t)
	if got := c.sh("readlink " + bundle); got != "/workspace/x" {
		t.Errorf("link %q", got)
	}
	c.stop()
	if ents, err := os.ReadDir(w.at("workspace")); err != nil || len(ents) > 0 {
		t.Errorf("workspace %v (%v)", ents, err)
	}
}

// What a sandbox left in a State Anchor cannot divert a mount of the next
// generation, on the host or anywhere.
func TestHostileAnchor(t *testing.T) {
	w := newWorld(t)
	victim := w.at("victim")
	mkdirs(t, victim)
	upper := w.at("anchors/root/upper")
	if err := os.Symlink(victim, upper+"/vol"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.at("volume/here"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c := w.bringUp(t)
	if got := c.sh("ls /root/vol"); got != "here" {
		t.Errorf("volume shows %q", got)
	}
	c.stop()
	c.reap(5 * time.Second)
	if ents, err := os.ReadDir(victim); err != nil || len(ents) > 0 {
		t.Errorf("victim %v (%v)", ents, err)
	}

	// A link on the way is refused by name.
	w.plan.Mounts[1].Target = "/root/a/vol"
	if err := os.Symlink(victim, upper+"/a"); err != nil {
		t.Fatal(err)
	}
	w.freshState(t)
	c = w.start(t)
	c.sendPlan()
	var f handoff.Failed
	c.expect(handoff.KindFailed, &f)
	if f.Step != "anchor" || !strings.Contains(f.Error, "/root/a/vol") || !strings.Contains(f.Hint, "/root/a/vol") {
		t.Errorf("failed %+v", f)
	}
	c.reap(5 * time.Second)
	if ents, err := os.ReadDir(victim); err != nil || len(ents) > 0 {
		t.Errorf("victim %v (%v)", ents, err)
	}
}

// Odd host paths: for the workspace, and for everything that Lazaret keeps.
// Issue 2, must show 8.
func TestOddPaths(t *testing.T) {
	w := newWorld(t)
	for i, name := range []string{"a b", `q"'`, "colon:comma,", `back\slash`, "new\nline", "ünïcode", strings.Repeat("long", 60)} {
		ws, state := w.at(name), w.at("state "+name, "anchor")
		if i == 6 {
			state = w.at("s"+name, "anchor")
		}
		mkdirs(t, ws, state+"/upper", state+"/work")
		w.plan.Mounts[0].Host = ref(t, ws)
		w.plan.Rootfs.Anchors[0].Dir = ref(t, state)
		c := w.bringUp(t)
		c.sh("echo x > /workspace/f; echo x > /root/f")
		c.stop()
		c.reap(5 * time.Second)
		for _, f := range []string{ws + "/f", state + "/upper/f"} {
			if _, err := os.Stat(f); err != nil {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
}

// The image's own links and owners. A root whose /usr/local is a link has no
// place for the escalate link; one whose /etc is a link is refused.
func TestImageLinks(t *testing.T) {
	w := newWorld(t)
	root := w.at("prepared")
	if err := os.RemoveAll(root + "/usr/local"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/var/local", root+"/usr/local"); err != nil {
		t.Fatal(err)
	}
	c := w.bringUp(t)
	if got := c.sh("readlink /usr/local"); got != "/var/local" {
		t.Errorf("/usr/local is %q", got)
	}
	c.stop()
	c.reap(5 * time.Second)

	if out, err := exec.Command("mv", root+"/etc", root+"/etc2").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Symlink("etc2", root+"/etc"); err != nil {
		t.Fatal(err)
	}
	w.freshState(t)
	c = w.start(t)
	c.sendPlan()
	var f handoff.Failed
	c.expect(handoff.KindFailed, &f)
	if f.Step != "anchor" || !strings.Contains(f.Error, "symbolic link or a file at /etc") {
		t.Errorf("failed %+v", f)
	}
}

// slirp4netns where its own sandbox is refused, and with a resolver of its
// own. Design section 9.
func TestSlirpVariants(t *testing.T) {
	w := newWorld(t)
	script := w.at("slirp")
	text := "#!/bin/sh\ncase \"$*\" in *enable-sandbox*) exit 1;; esac\nexec " + w.plan.Slirp.Path + " \"$@\"\n"
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	real := w.plan.Slirp.Path
	w.plan.Slirp.Path = script
	c := w.bringUp(t)
	if c.net.Sandboxed {
		t.Error("reported as sandboxed")
	}
	c.stop()
	c.reap(5 * time.Second)

	w.plan.Slirp.Path, w.plan.Slirp.PrivateResolver = real, "192.0.2.53"
	c = w.bringUp(t)
	if !c.net.Sandboxed {
		t.Error("reported as not sandboxed")
	}
	got, err := os.ReadFile(fmt.Sprintf("/proc/%d/root/etc/resolv.conf", c.slirp.PID))
	if err != nil || string(got) != "nameserver 192.0.2.53\n" {
		t.Errorf("slirp4netns reads %q (%v)", got, err)
	}
	fam := c.family()
	c.stop()
	gone(t, fam, 5*time.Second)
}
