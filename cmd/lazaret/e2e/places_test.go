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
)

// hostileNames are directory names that quoting, option parsing, mount options
// and configuration languages stumble over.
var hostileNames = []string{
	"a b", ` lead and trail `, `q'uote"s`, "co:lon,com;ma=", `back\slash\`, `\040\012`, "new\nline", "tab\tx",
	"uniécode✓日本\u202e", "-dash", "$HOME`id`&|", "%d%s%ID%", "#h?q=1", "*[a]", "{profile_name}", "esc\x1b[31m", strings.Repeat("long ", 50),
}

func tomlString(t *testing.T, s string) string {
	t.Helper()
	b, err := json.Marshal(s) // JSON's strings are TOML's too
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Case 8 of the acceptance list: a project and a volume of any name work, or are
// refused by name.
func TestProjectAndVolumeNames(t *testing.T) {
	h := e2etest.New(t)
	image := e2etest.SmallImage(t)
	base := h.Project
	for _, name := range hostileNames {
		t.Run(fmt.Sprintf("%.20q", name), func(t *testing.T) {
			h.Project = filepath.Join(base, name)
			volume := filepath.Join(h.Dir, name)
			for _, d := range []string{h.Project, volume} {
				if err := os.MkdirAll(d, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			h.Config(fmt.Sprintf("[profiles.small]\nimage = %q\nvolumes = [ { host = %s, container = \"/vol\", mode = \"rw\" } ]\n", image, tomlString(t, volume)))
			r := h.Run("sh", "-c", "pwd; echo w >w; echo v >/vol/v")
			if strings.Contains(name, "{") {
				// Configuration expands it in a volume; a project is not touched.
				if r.Status != 125 || !strings.Contains(r.Stderr, "volumes[0].host") {
					t.Errorf("a volume that expands to what is not there: %+v", r)
				}
				h.Config(fmt.Sprintf("[profiles.small]\nimage = %q\n", image))
				r = h.Run("sh", "-c", "pwd; echo w >w")
				if err := os.WriteFile(filepath.Join(volume, "v"), []byte("v\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if r.Stdout != "/workspace\n" || r.Status != 0 {
				t.Fatalf("%+v", r)
			}
			for path, want := range map[string]string{filepath.Join(h.Project, "w"): "w\n", filepath.Join(volume, "v"): "v\n"} {
				if b, err := os.ReadFile(path); err != nil || string(b) != want {
					t.Errorf("%q: %q, %v", path, b, err)
				}
			}
		})
	}
	h.Project = filepath.Join(base, "inv\xff")
	if err := os.Mkdir(h.Project, 0o700); err != nil {
		t.Fatal(err)
	}
	if r := h.Run("true"); r.Status != 125 || !strings.Contains(r.Stderr, `inv\xff`) || !strings.Contains(r.Stderr, "lazaret: hint: ") {
		t.Errorf("a name that is not UTF-8: %+v", r)
	}
}

// The data root and the runtime directory may have such names too, or the
// refusal (for the runtime directory: the one line on the fallback) names them.
func TestNamesOfLazaretsOwnPlaces(t *testing.T) {
	h := e2etest.New(t)
	image := e2etest.SmallImage(t)
	base, runtime := h.Dir, h.Runtime
	for _, name := range []string{"a b", `q'uote"s`, "co:lon,com,ma", `back\slash\`, "new\nline", "✓%ID%", "#h?q=1&x", "*[a]"} {
		t.Run(fmt.Sprintf("%.20q", name), func(t *testing.T) {
			h.Data, h.Runtime = filepath.Join(base, name), filepath.Join(runtime, name)
			if err := os.MkdirAll(h.Runtime, 0o700); err != nil {
				t.Fatal(err)
			}
			h.Setenv("XDG_RUNTIME_DIR", h.Runtime)
			h.Config(fmt.Sprintf("[profiles.small]\nimage = %q\n", image))
			for range 2 {
				r := h.Lazaret("", "run", "--", "sh", "-c", "echo x >>/root/f; cat /root/f")
				if r.Status != 0 || !strings.HasPrefix(r.Stdout, "x\n") {
					t.Fatalf("%+v", r)
				}
				if fellBack := strings.Contains(r.Stderr, "XDG_RUNTIME_DIR="); fellBack != strings.ContainsAny(name, `\*?[`) {
					t.Errorf("fallback: %v; stderr %s", fellBack, r.Stderr)
				}
			}
			if out := h.Must("cat", "/root/f"); out != "x\nx\n" {
				t.Errorf("the State Anchor holds %q", out)
			}
			h.NothingLeft(10 * time.Second)
		})
	}
}

// Case 99: every way to name a project leads to one Domain.
func TestProjectBehindLinks(t *testing.T) {
	h := e2etest.New(t)
	top := filepath.Dir(h.Project)
	link := filepath.Join(top, "link")
	home := filepath.Join(top, "homelink")
	inHome := filepath.Join(h.Dir, "src", "p")
	if err := os.MkdirAll(inHome, 0o700); err != nil {
		t.Fatal(err)
	}
	for at, to := range map[string]string{link: h.Project, home: h.Dir} {
		if err := os.Symlink(to, at); err != nil {
			t.Fatal(err)
		}
	}
	joined := func(args ...string) {
		t.Helper()
		r := h.Lazaret("", append(append([]string{"run"}, args...), "--", "ps", "-eo", "args")...)
		if r.Status != 0 || r.Stderr != "" || !strings.Contains(r.Stdout, "echo held") {
			t.Errorf("%q in %q did not join: %+v", args, h.Project, r)
		}
	}
	real := h.Project
	release := h.Hold("")
	joined()
	joined("--workspace", link)
	joined("--workspace", filepath.Join(link, "..", filepath.Base(real))+"/")
	h.Project = link
	h.Setenv("PWD", link)
	joined()
	h.Project = real
	release()

	// A home that is a link, as on image-based systems.
	h.Setenv("HOME", home)
	h.Project = filepath.Join(home, "src", "p")
	h.Setenv("PWD", h.Project)
	release = h.Hold("")
	h.Setenv("HOME", h.Dir)
	h.Project = inHome
	h.Setenv("PWD", "")
	joined()
	release()
	h.NothingLeft(10 * time.Second)
}

// Case 104: what would show the agent the home directory or Lazaret's own files.
func TestRefusedWorkspaces(t *testing.T) {
	h := e2etest.New(t)
	h.Data = filepath.Join(h.Dir, "data")
	h.Config("")
	for _, dir := range []string{"/", "/proc", "/sys", "/dev", "/proc/self", h.Dir, filepath.Dir(h.Dir), h.Data, filepath.Join(h.Dir, ".config"), h.Runtime, filepath.Join(h.Project, "none")} {
		r := h.Lazaret("", "run", "--workspace", dir, "--", "true")
		if r.Status != 125 || !strings.Contains(r.Stderr, dir) || !strings.Contains(r.Stderr, "lazaret: hint: ") {
			t.Errorf("%s: %+v", dir, r)
		}
	}
	for _, volume := range []string{"/", "/proc", "/proc/cpuinfo", "/sys", "/dev", "/dev/null", h.Data, filepath.Join(h.Dir, ".config/lazaret"), h.Runtime} {
		h.Config(fmt.Sprintf("[profiles.some]\nvolumes = [ { host = %q, container = \"/vol\", mode = \"ro\" } ]\n", volume))
		r := h.Lazaret("", "run", "--", "true")
		if r.Status != 125 || !strings.Contains(r.Stderr, volume) || !strings.Contains(r.Stderr, "volumes[0].host") {
			t.Errorf("volume %s: %+v", volume, r)
		}
	}
	h.NothingLeft(time.Second)
}

// A working directory that is gone, and a caller without any environment.
func TestOddCallers(t *testing.T) {
	h := e2etest.New(t)
	h.Config(fmt.Sprintf("[profiles.small]\nimage = %q\n", e2etest.SmallImage(t)))
	gone := filepath.Join(filepath.Dir(h.Project), "gone")
	r := h.Elsewhere(fmt.Sprintf("mkdir %s && cd %[1]s && rmdir %[1]s", gone), "run", "--", "true")
	if r.Status != 125 || !strings.Contains(r.Stderr, "current directory") || !strings.Contains(r.Stderr, "--workspace DIR") {
		t.Errorf("in a directory that is gone: %+v", r)
	}
	h.Env = []string{"HOME=" + h.Dir, "XDG_RUNTIME_DIR=" + h.Runtime}
	if out := h.Must("sh", "-c", "echo $HOME; echo x >w"); out != "/root\n" {
		t.Errorf("without PATH, TERM and the like: %q", out)
	}
	h.NothingLeft(10 * time.Second)
}

// Case 27: each length of the runtime directory works, or the error names the
// limit and the path.
func TestRuntimeDirectoryLengths(t *testing.T) {
	h := e2etest.New(t)
	h.Config(fmt.Sprintf("[profiles.small]\nimage = %q\n", e2etest.SmallImage(t)))
	base := h.Runtime + "/"
	works, refused := 0, 0
	for n := 110; n >= 60; n-- {
		dir := base + strings.Repeat("d", max(n-len(base), 1))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		h.Setenv("XDG_RUNTIME_DIR", dir)
		r := h.Run("true")
		switch {
		case r.Status == 0:
			works++
		case r.Status == 125 && strings.Contains(r.Stderr, dir) && strings.Contains(r.Stderr, "limited to 107 bytes") && strings.Contains(r.Stderr, "lazaret: hint: set XDG_RUNTIME_DIR"):
			refused++
		default:
			t.Errorf("%d bytes: %+v", len(dir), r)
		}
	}
	if refused == 0 || works == 0 {
		t.Errorf("%d lengths work, %d are refused", works, refused)
	}
	h.NothingLeft(10 * time.Second)
}

// Case 27: neither a long data root nor a project at the limit of what a path
// can be comes near a socket's address.
func TestLongPaths(t *testing.T) {
	h := e2etest.New(t)
	h.Data = filepath.Join(h.Dir, strings.Repeat("d", 200))
	h.Config(fmt.Sprintf("[profiles.small]\nimage = %q\n", e2etest.SmallImage(t)))
	for _, length := range []int{1000, 4000, 4095} {
		h.Project = longDir(t, filepath.Dir(h.Runtime), length)
		r := h.Run("sh", "-c", "pwd; echo w >w; cat w")
		if r.Status == 125 && length == 4095 && strings.Contains(r.Stderr, "lazaret: hint: ") && !strings.Contains(r.Stderr, "invalid argument") {
			continue // nothing fits behind it
		}
		if r.Status != 0 || r.Stdout != "/workspace\nw\n" {
			t.Errorf("a project of %d bytes: %+v", length, r)
		}
	}
	h.NothingLeft(10 * time.Second)
}

// longDir makes a directory whose path has a length.
func longDir(t *testing.T, base string, length int) string {
	t.Helper()
	dir := base
	for len(dir) < length {
		n := min(length-len(dir)-1, 250)
		if rest := length - len(dir) - 1 - n; rest == 1 {
			n-- // a slash alone would be left
		}
		dir += "/" + strings.Repeat("p", max(n, 1))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Case 100: without a usable XDG_RUNTIME_DIR it works, with one line about it.
func TestWithoutRuntimeDirectory(t *testing.T) {
	h := e2etest.New(t)
	h.Config(fmt.Sprintf("[profiles.small]\nimage = %q\n", e2etest.SmallImage(t)))
	open := filepath.Join(filepath.Dir(h.Runtime), "open")
	if err := os.Mkdir(open, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", open, "/nonexistent", "relative", "/var/lib"} {
		h.Setenv("XDG_RUNTIME_DIR", dir)
		h.Setenv("DBUS_SESSION_BUS_ADDRESS", "")
		r := h.Lazaret("", "run", "--", "true")
		lines := 0
		for line := range strings.Lines(r.Stderr) {
			if strings.Contains(line, "XDG_RUNTIME_DIR") {
				lines++
			} else if !strings.HasPrefix(line, "lazaret: s") { // setting up the network, starting the sandbox
				t.Errorf("%q: %s", dir, line)
			}
		}
		if r.Status != 0 || lines != 1 {
			t.Errorf("%q: %+v", dir, r)
		}
		fallback := fmt.Sprintf("/tmp/lazaret-%d", os.Getuid())
		if fi, err := os.Stat(fallback); err != nil || fi.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", fallback, fi, err)
		}
	}
}

// Case 103: a data root that cannot hold an upper layer is refused before
// anything is pulled, with its path and filesystem; a private home is no
// obstacle (all of these tests' homes are 0700).
func TestDataRootOnOverlay(t *testing.T) {
	h := e2etest.New(t)
	h.Data = filepath.Join(h.Dir, "data")
	h.Config(fmt.Sprintf("[profiles.small]\nimage = %q\n", e2etest.SmallImage(t)))
	for _, d := range []string{"l", "u", "w", "data"} {
		if err := os.Mkdir(filepath.Join(h.Dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r := h.Elsewhere("cd "+h.Dir+" && mount -t overlay -o userxattr,lowerdir=l,upperdir=u,workdir=w overlay data && cd "+h.Project, "run", "--", "true")
	if r.Status != 125 || !strings.Contains(r.Stderr, h.Data) || !strings.Contains(r.Stderr, "type overlay") || !strings.Contains(r.Stderr, "storage.data_root") {
		t.Errorf("%+v", r)
	}
	if made, err := os.ReadDir(filepath.Join(h.Dir, "u")); err != nil || len(made) != 0 {
		t.Errorf("made in the refused data root: %v, %v", made, err)
	}
}

// Case 103: tmpfs holds upper layers where the kernel gives it attributes for
// users; else it is refused by name.
func TestDataRootInMemory(t *testing.T) {
	h := e2etest.New(t)
	h.Data = filepath.Join(h.Dir, "data")
	h.Config(fmt.Sprintf("[profiles.small]\nimage = %q\n", e2etest.SmallImage(t)))
	if err := os.Mkdir(h.Data, 0o700); err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(h.Dir, "none")
	if err := os.WriteFile(none, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	setup := fmt.Sprintf("mount --bind %s /etc/subuid && mount --bind %[1]s /etc/subgid && mount -t tmpfs -o mode=0700 none %s", none, h.Data)
	r := h.Elsewhere(setup, "run", "--", "sh", "-c", "echo x >/root/f; cat /root/f")
	works := r.Status == 0 && r.Stdout == "x\n"
	refused := r.Status == 125 && strings.Contains(r.Stderr, h.Data) && strings.Contains(r.Stderr, "tmpfs") && strings.Contains(r.Stderr, "data_root") &&
		!strings.Contains(r.Stderr, "unpacking")
	if !works && !refused {
		t.Errorf("%+v", r)
	}
	h.NothingLeft(10 * time.Second)
}

// A data root that cannot be written, or is full, is named with what to do.
func TestUnwritableDataRoot(t *testing.T) {
	h := small(t)
	h.Must("true")
	h.Gone(h.Processes(), gone)
	for setup, want := range map[string][2]string{
		"mount --bind %[1]s %[1]s && mount -o remount,bind,ro %[1]s":                                      {"is read-only", "lazaret: hint: set data_root"},
		"mount --bind %[2]s %[2]s && mount -o remount,bind,ro %[2]s":                                      {"is read-only", "lazaret: hint: see what it is mounted from: findmnt -T '"},
		"mount -t tmpfs -o size=16k,mode=700 none %[2]s && cat /dev/zero >%[2]s/full || touch %[2]s/lock": {"cannot write ", "lazaret: hint: free some space: df -h '"},
	} {
		r := h.Elsewhere(fmt.Sprintf(setup, h.Data, domainDir(t, h)), "run", "--quiet", "--", "true")
		if r.Status != 125 || !strings.Contains(r.Stderr, want[0]) || !strings.Contains(r.Stderr, want[1]) {
			t.Errorf("%s: status %d, %q", setup, r.Status, r.Stderr)
		}
	}
	h.Must("true")
}
