package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lazaret.dev/lazaret/cmd/lazaret/e2etest"
)

// Case 76: a proxy on the host's loopback is another machine's inside, which is
// said before the command runs; the settings are passed on as they are.
func TestProxyOnLoopback(t *testing.T) {
	h := e2etest.New(t)
	h.Config(fmt.Sprintf("[profiles.small]\nimage = %q\nenv = { https_proxy = \"env:https_proxy\", NO_PROXY = \"env:NO_PROXY\" }\n", e2etest.SmallImage(t)))
	h.Setenv("https_proxy", "http://me:secret@127.0.0.1:3128")
	h.Setenv("NO_PROXY", "10.0.0.0/8,[::1],.example")
	h.Setenv("no_proxy", "not asked for")
	r := h.Lazaret("", "run", "--env", "HTTP_PROXY=http://localhost:3128", "--env", "ALL_PROXY=socks5://proxy.example:1080", "--", "env")
	for _, name := range []string{"https_proxy names 127.0.0.1", "HTTP_PROXY names localhost"} {
		if strings.Count(r.Stderr, "lazaret: "+name) != 1 {
			t.Errorf("stderr does not say once %q: %s", name, r.Stderr)
		}
	}
	if strings.Contains(r.Stderr, "ALL_PROXY") || strings.Contains(r.Stderr, "secret") {
		t.Errorf("stderr: %s", r.Stderr)
	}
	for _, want := range []string{
		"https_proxy=http://me:secret@127.0.0.1:3128\n", "HTTP_PROXY=http://localhost:3128\n", "NO_PROXY=10.0.0.0/8,[::1],.example\n", "ALL_PROXY=socks5://proxy.example:1080\n",
	} {
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("inside there is no %q: %s", want, r.Stdout)
		}
	}
	if r.Status != 0 || strings.Contains(r.Stdout, "no_proxy=") {
		t.Errorf("%+v", r)
	}
}

// DESIGN section 9: an address that the host gains while a Domain runs is
// denied from the next start on, and a session that begins meanwhile says so.
// The host is a network namespace of the test's own, without a resolver.
func TestNewHostAddress(t *testing.T) {
	h := e2etest.New(t)
	h.Data = filepath.Join(h.Dir, "data") // of a single id
	h.Config(fmt.Sprintf("[profiles.small]\nimage = %q\n", e2etest.SmallImage(t)))
	none := filepath.Join(h.Dir, "none")
	if err := os.WriteFile(none, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	script := `
lazaret() { setpriv --ambient-caps=-all --inh-caps=-all -- "$LAZARET" "$@"; }
for f in resolv.conf subuid subgid; do mount --bind "$NONE" /etc/$f; done
ip link set lo up
ip link add d0 type veth peer name d1
ip addr add 198.51.100.9/24 dev d0
ip link set d0 up
ip link set d1 up
ip route add default via 198.51.100.1
mkfifo hold
lazaret run -- sh -c "echo held; read -r line" <hold >held 2>first &
exec 9>hold
until [ -s held ]; do kill -0 $! || { cat first; exit 1; }; sleep 0.05; done
lazaret run -- true 2>before
ip addr add 203.0.113.77/32 dev d0
lazaret run -- true 2>after
lazaret run --quiet -- true 2>quiet
exec 9>&-
wait
# A session that ended just now may still be on its way out.
until lazaret run -- true 2>next && grep -q "starting the sandbox" next; do sleep 0.1; done
`
	h.Setenv("LAZARET", e2etest.Binary())
	h.Setenv("NONE", none)
	r := h.Elsewhere("unshare --net --mount --propagation=private --keep-caps sh -euc '"+script+"' >&2", "--version")
	if r.Status != 0 {
		t.Fatalf("%+v", r)
	}
	said := func(name string) string {
		b, err := os.ReadFile(filepath.Join(h.Project, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if text := said("first"); strings.Count(text, "the sandbox starts offline: ") != 1 || strings.Contains(text, "new address") {
		t.Errorf("the first start: %s", text)
	}
	if text := said("before"); text != "" {
		t.Errorf("before: %s", text)
	}
	if text := said("after"); text != "lazaret: the host has the new address 203.0.113.77, which this sandbox may reach until it is started again\n" {
		t.Errorf("after: %s", text)
	}
	if text := said("quiet"); text != "" {
		t.Errorf("quiet: %s", text)
	}
	if text := said("next"); strings.Contains(text, "new address") {
		t.Errorf("the next start: %s", text)
	}
	h.NothingLeft(10 * time.Second)
}

// DESIGN section 3: the logs of a generation, and --verbose, which follows them.
func TestLogs(t *testing.T) {
	h := e2etest.New(t)
	h.Config(fmt.Sprintf("[profiles.small]\nimage = %q\n", e2etest.SmallImage(t)))
	r := h.Lazaret("", "run", "--verbose", "--", "sh", "-c", "echo out; ulimit -n")
	if r.Status != 0 || r.Stdout != "out\n65536\n" {
		t.Errorf("%+v", r)
	}
	for line := range strings.Lines(r.Stderr) {
		if !strings.HasPrefix(line, "lazaret: ") {
			t.Errorf("a line without prefix: %q", line)
		}
	}
	for _, from := range []string{"lazaret: coordinator: ", "lazaret: supervisor: ", "lazaret: slirp: "} {
		if !strings.Contains(r.Stderr, from) {
			t.Errorf("--verbose prints nothing of %q:\n%s", from, r.Stderr)
		}
	}
	dirs, err := filepath.Glob(filepath.Join(domainDir(t, h), "log/*"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("%q, %v", dirs, err)
	}
	want := map[string]bool{"coordinator.log": true, "supervisor.log": true, "runsc.log": true, "slirp.log": true}
	entries, err := os.ReadDir(dirs[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		fi, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if !want[e.Name()] || fi.Mode() != 0o600 {
			t.Errorf("%s: %v", e.Name(), fi.Mode())
		}
		delete(want, e.Name())
	}
	if len(want) != 0 {
		t.Errorf("there is no %v", want)
	}
}

// Values of env are given to the command and to nobody else: they are in no
// file that Lazaret keeps and on no command line (SECURITY.md).
func TestSecretsAreNotKept(t *testing.T) {
	h := e2etest.New(t)
	h.Config(fmt.Sprintf("[profiles.small]\nimage = %q\nenv = { TOKEN = \"env:TOKEN\" }\n", e2etest.SmallImage(t)))
	const secret = "canary-4f1a9b"
	h.Setenv("TOKEN", secret)
	release := h.Hold(`echo "$TOKEN" >/workspace/has`)
	if b, err := os.ReadFile(filepath.Join(h.Project, "has")); err != nil || string(b) != secret+"\n" {
		t.Fatalf("inside: %q, %v", b, err)
	}
	seen := 0
	look := func(root string) {
		err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil //nolint:nilerr // what cannot be entered belongs to the sandbox
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return nil //nolint:nilerr // as above
			}
			if seen++; strings.Contains(string(b), secret) {
				t.Errorf("%s holds a value of env", path)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	look(domainDir(t, h))
	look(h.Runtime)
	for _, p := range h.Processes() {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if err == nil && strings.Contains(string(b), secret) {
			t.Errorf("%q is on a command line", b)
		}
	}
	release()
	look(domainDir(t, h))
	if seen < 10 {
		t.Errorf("only %d files were looked at", seen)
	}
}
