package paths_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"lazaret.dev/lazaret/host/internal/paths"
	"lazaret.dev/lazaret/protocol/handoff"
)

// host makes a host of its own below a temporary directory.
func host(t *testing.T, env map[string]string) paths.Host {
	t.Helper()
	tmp := filepath.Join(realTemp(t), "tmp")
	mkdir(t, tmp, 0o1777)
	return paths.Host{Getenv: func(k string) string { return env[k] }, UID: os.Getuid(), TempDir: tmp}
}

func realTemp(t *testing.T) string {
	t.Helper()
	d, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func mkdir(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func symlink(t *testing.T, to, at string) {
	t.Helper()
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}

func wantKind(t *testing.T, err error, k paths.Kind, text string) {
	t.Helper()
	var e *paths.Error
	if !errors.As(err, &e) || e.Kind != k {
		t.Fatalf("error %v, want one of kind %s", err, k)
	}
	if !strings.Contains(err.Error(), text) {
		t.Fatalf("error %q does not name %q", err, text)
	}
}

func TestRuntimeInXDG(t *testing.T) {
	base := filepath.Join(realTemp(t), "run")
	mkdir(t, base, 0o700)
	r, warning, err := host(t, map[string]string{"XDG_RUNTIME_DIR": base}).Runtime()
	if err != nil || warning != "" || r.Path() != filepath.Join(base, "lazaret") {
		t.Fatalf("got %q, warning %q, error %v", r.Path(), warning, err)
	}
	dir, err := r.DomainDir("0123456789ab", "r")
	if err != nil || dir != filepath.Join(base, "lazaret/0123456789ab/r") {
		t.Fatalf("got %q, error %v", dir, err)
	}
	for _, d := range []string{r.Path(), filepath.Dir(dir), dir} {
		if fi, err := os.Stat(d); err != nil || fi.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, error %v; want 0700", d, fi.Mode(), err)
		}
	}
	got, err := r.Domains()
	if diff := cmp.Diff([]string{"0123456789ab"}, got); err != nil || diff != "" {
		t.Errorf("Domains: %v\n%s", err, diff)
	}
	if _, err := r.Domain("../x"); err == nil {
		t.Error("a Domain named ../x was made")
	}
}

// Case 100: an XDG_RUNTIME_DIR that is unset or unsafe leads to a private
// directory elsewhere, and to one warning that says why.
func TestRuntimeFallback(t *testing.T) {
	base := realTemp(t)
	mkdir(t, filepath.Join(base, "open"), 0o755)
	mkdir(t, filepath.Join(base, "group"), 0o710)
	mkdir(t, filepath.Join(base, "private"), 0o700)
	mkdir(t, filepath.Join(base, `back\slash`), 0o700)
	symlink(t, filepath.Join(base, "private"), filepath.Join(base, "link"))
	if err := os.WriteFile(filepath.Join(base, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, dir, why string }{
		{"unset", "", "not set"},
		{"relative", "run/user", "not an absolute path"},
		{"missing", filepath.Join(base, "none"), "does not exist"},
		{"open to all", filepath.Join(base, "open"), "not yours alone"},
		{"open to the group", filepath.Join(base, "group"), "not yours alone"},
		{"a link", filepath.Join(base, "link"), "not a directory"},
		{"a file", filepath.Join(base, "file"), "not a directory"},
		{"a pattern", filepath.Join(base, `back\slash`), "takes for a pattern"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := host(t, map[string]string{"XDG_RUNTIME_DIR": tt.dir})
			r, warning, err := h.Runtime()
			if err != nil {
				t.Fatal(err)
			}
			want := filepath.Join(h.TempDir, fmt.Sprintf("lazaret-%d", os.Getuid()))
			if r.Path() != want || !strings.Contains(warning, tt.why) || strings.Contains(warning, "\n") {
				t.Errorf("got %q and warning %q, want %q and a line with %q", r.Path(), warning, want, tt.why)
			}
			if fi, err := os.Stat(want); err != nil || fi.Mode().Perm() != 0o700 {
				t.Errorf("%s has mode %v, error %v", want, fi.Mode(), err)
			}
			if got := h.Runtimes(); len(got) != 1 || got[0].Path() != want {
				t.Errorf("Runtimes: %v", got)
			}
		})
	}
}

// Case 100: the fallback itself is refused when somebody else could be in it.
func TestRuntimeFallbackUnsafe(t *testing.T) {
	name := fmt.Sprintf("lazaret-%d", os.Getuid())
	t.Run("mode", func(t *testing.T) {
		h := host(t, nil)
		mkdir(t, filepath.Join(h.TempDir, name), 0o750)
		_, _, err := h.Runtime()
		wantKind(t, err, paths.KindUnsafe, name)
		if len(h.Runtimes()) != 0 {
			t.Error("Runtimes names the open directory")
		}
	})
	t.Run("link", func(t *testing.T) {
		h := host(t, nil)
		mkdir(t, filepath.Join(h.TempDir, "elsewhere"), 0o700)
		symlink(t, "elsewhere", filepath.Join(h.TempDir, name))
		_, _, err := h.Runtime()
		wantKind(t, err, paths.KindUnsafe, name)
	})
	t.Run("owner", func(t *testing.T) {
		h := host(t, nil)
		h.UID++
		mkdir(t, filepath.Join(h.TempDir, fmt.Sprintf("lazaret-%d", h.UID)), 0o700)
		_, _, err := h.Runtime()
		wantKind(t, err, paths.KindUnsafe, fmt.Sprintf("belongs to uid %d", os.Getuid()))
	})
}

// Case 27: for every length of the runtime directory the check says the truth,
// with limit and path.
func TestCheckSockets(t *testing.T) {
	suffixes := []string{"control.sock", "enroll.sock", "r/runsc-" + strings.Repeat("a", 32) + ".sock"}
	longest := len("/" + suffixes[2])
	for n := 20; n <= 200; n++ {
		dir := "/" + strings.Repeat("d", n-1)
		err := paths.CheckSockets(dir, suffixes...)
		if n+longest <= 107 {
			if err != nil {
				t.Fatalf("length %d: %v", n, err)
			}
			continue
		}
		wantKind(t, err, paths.KindSocketPath, "107")
		wantKind(t, err, paths.KindSocketPath, filepath.Join(dir, suffixes[2]))
		if !strings.Contains(func() *paths.Error {
			target := &paths.Error{}
			_ = errors.As(err, &target)
			return target
		}().Hint(), "XDG_RUNTIME_DIR") {
			t.Fatalf("hint %q names no way out", func() *paths.Error {
				target := &paths.Error{}
				_ = errors.As(err, &target)
				return target
			}().Hint())
		}
	}
}

func TestHomeAndConfigDir(t *testing.T) {
	h := host(t, map[string]string{"HOME": "/h/u/"})
	if d, err := h.ConfigDir(); err != nil || d != "/h/u/.config/lazaret" {
		t.Errorf("%q, %v", d, err)
	}
	h = host(t, map[string]string{"HOME": "/h/u", "XDG_CONFIG_HOME": "/c"})
	if d, err := h.ConfigDir(); err != nil || d != "/c/lazaret" {
		t.Errorf("%q, %v", d, err)
	}
	h = host(t, map[string]string{"HOME": "relative", "XDG_CONFIG_HOME": "c"})
	if d, err := h.Home(); err != nil || !filepath.IsAbs(d) {
		t.Errorf("a relative HOME: %q, %v", d, err)
	}
	h.UID = 1<<31 - 7
	_, err := h.Home()
	wantKind(t, err, paths.KindHome, "HOME")
}

// FR-1
func TestDomainID(t *testing.T) {
	// printf %s 'claude:/home/u/p' | sha256sum | cut -c1-12
	if got := paths.DomainID("claude", "/home/u/p"); got != "a5c803a06379" || !paths.IsDomainID(got) {
		t.Errorf("got %q", got)
	}
	if paths.DomainID("a", "/b") == paths.DomainID("a", "/c") || paths.DomainID("a", "/b") == paths.DomainID("c", "/b") {
		t.Error("two pairs have one id")
	}
}

func dataRoot(t *testing.T) paths.DataRoot {
	t.Helper()
	r, err := host(t, nil).OpenDataRoot(filepath.Join(realTemp(t), "new", "data"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestDomainRootLayout(t *testing.T) {
	r := dataRoot(t)
	id := paths.DomainID("claude", "/w")
	d, err := r.Domain(id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.ReadRecord(); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("ReadRecord of nothing: %v", err)
	}
	if got, err := r.Domains(); err != nil || len(got) != 0 {
		t.Fatalf("Domains of nothing: %v, %v", got, err)
	}
	if _, err := d.Ensure(); err != nil {
		t.Fatal(err)
	}
	a, err := d.EnsureAnchor("/var/lib")
	if err != nil {
		t.Fatal(err)
	}
	again, err := d.EnsureAnchor("/var/lib")
	if diff := cmp.Diff(a, again); err != nil || diff != "" {
		t.Errorf("a second EnsureAnchor: %v\n%s", err, diff)
	}
	tr, err := d.EnsureTransient("g1")
	if err != nil {
		t.Fatal(err)
	}
	log, err := d.EnsureLog("g1")
	if err != nil {
		t.Fatal(err)
	}
	f, err := d.OpenLock()
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	for p, mode := range map[string]os.FileMode{
		"new":                             0o700,
		"new/data":                        0o700,
		"new/data/domains/" + id:          0o700,
		"new/data/domains/" + id + "/log": 0o700,
	} {
		abs := filepath.Join(filepath.Dir(filepath.Dir(r.Path())), p)
		if fi, err := os.Stat(abs); err != nil || fi.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", p, fi, err)
		}
	}
	want := map[string]string{
		a.Path:    filepath.Join(d.Path(), "anchors/var%2Flib"),
		tr.Path:   filepath.Join(d.Path(), "transient/g1"),
		log:       filepath.Join(d.Path(), "log/g1"),
		d.Lock():  f.Name(),
		d.Store(): filepath.Join(r.Path(), "domains", id, "store.db"),
	}
	for got, w := range want {
		if got != w {
			t.Errorf("got %q, want %q", got, w)
		}
	}
	for _, dir := range []string{a.Path, tr.Path} {
		for _, sub := range []string{"upper", "work"} {
			if fi, err := os.Lstat(filepath.Join(dir, sub)); err != nil || !fi.IsDir() {
				t.Errorf("%s/%s: %v", dir, sub, err)
			}
		}
	}
	if got, err := d.Anchors(); err != nil || !cmp.Equal(got, []string{"/var/lib"}) {
		t.Errorf("Anchors: %q, %v", got, err)
	}
	if got, err := r.Domains(); err != nil || !cmp.Equal(got, []string{id}) {
		t.Errorf("Domains: %q, %v", got, err)
	}
	for _, g := range []string{"", "..", ".", "a/b", "a\x00", strings.Repeat("g", 200)} {
		if _, err := d.EnsureLog(g); err == nil {
			t.Errorf("generation %q was taken", g)
		}
	}
	if _, err := r.Domain("xyz"); err == nil {
		t.Error("Domain xyz was taken")
	}
}

// A link in Lazaret's own tree, or a directory that others can write, is never
// used, whatever made it.
func TestLayoutUnsafe(t *testing.T) {
	id := paths.DomainID("claude", "/w")
	for _, at := range []string{"domains", "domains/" + id, "domains/" + id + "/anchors", "domains/" + id + "/anchors/root"} {
		t.Run("link "+at, func(t *testing.T) {
			r, elsewhere := dataRoot(t), realTemp(t)
			mkdir(t, filepath.Dir(filepath.Join(r.Path(), at)), 0o700)
			symlink(t, elsewhere, filepath.Join(r.Path(), at))
			d, _ := r.Domain(id)
			_, err := d.EnsureAnchor("/root")
			wantKind(t, err, paths.KindUnsafe, at)
			if left, _ := os.ReadDir(elsewhere); len(left) != 0 {
				t.Errorf("something was made behind the link: %v", left)
			}
		})
	}
	t.Run("mode", func(t *testing.T) {
		r := dataRoot(t)
		mkdir(t, filepath.Join(r.Path(), "domains", id), 0o770)
		d, _ := r.Domain(id)
		_, err := d.Ensure()
		wantKind(t, err, paths.KindUnsafe, "mode")
	})
	t.Run("data root mode", func(t *testing.T) {
		dir := realTemp(t)
		mkdir(t, dir, 0o777)
		_, err := host(t, nil).OpenDataRoot(dir)
		wantKind(t, err, paths.KindUnsafe, dir)
	})
	t.Run("owner", func(t *testing.T) {
		h := host(t, nil)
		h.UID++
		_, err := h.OpenDataRoot(realTemp(t))
		wantKind(t, err, paths.KindUnsafe, "belongs to")
	})
	t.Run("lock is a link", func(t *testing.T) {
		r := dataRoot(t)
		d, _ := r.Domain(id)
		if _, err := d.Ensure(); err != nil {
			t.Fatal(err)
		}
		victim := filepath.Join(realTemp(t), "victim")
		symlink(t, victim, d.Lock())
		if f, err := d.OpenLock(); err == nil {
			f.Close()
			t.Error("the link was followed")
		}
		if _, err := os.Lstat(victim); err == nil {
			t.Error("a file was made behind the link")
		}
	})
}

// Case 99: a data root behind a link is one place.
func TestDataRootBehindLink(t *testing.T) {
	base := realTemp(t)
	mkdir(t, filepath.Join(base, "var/home"), 0o700)
	symlink(t, "var/home", filepath.Join(base, "home"))
	r, err := host(t, nil).OpenDataRoot(filepath.Join(base, "home/u/data"))
	if err != nil || r.Path() != filepath.Join(base, "var/home/u/data") {
		t.Fatalf("%q, %v", r.Path(), err)
	}
}

func TestClaim(t *testing.T) {
	r := dataRoot(t)
	id := paths.DomainID("claude", "/w")
	d, _ := r.Domain(id)
	now := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	if err := d.Claim("claude", "/w", now); err != nil {
		t.Fatal(err)
	}
	// What a writer that was killed left is no obstacle.
	if err := os.WriteFile(filepath.Join(d.Path(), ".domain.json.new"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Claim("claude", "/w", now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	rec, err := d.ReadRecord()
	want := paths.Record{Version: 1, DomainID: id, Profile: "claude", Workspace: "/w", LastUse: now.Add(time.Hour).Truncate(time.Second)}
	if diff := cmp.Diff(want, rec); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if got, _ := os.ReadDir(d.Path()); len(got) != 1 {
		t.Errorf("left behind: %v", got)
	}
	// A collision: another pair with this id.
	err = d.Claim("codex", "/other", now)
	wantKind(t, err, paths.KindMismatch, "codex")
	wantKind(t, err, paths.KindMismatch, `"/w"`)

	// Moved data: the record is of another Domain.
	other, _ := r.Domain(paths.DomainID("codex", "/w"))
	if err := os.Rename(d.Path(), other.Path()); err != nil {
		t.Fatal(err)
	}
	err = other.Claim("codex", "/w", now)
	wantKind(t, err, paths.KindMismatch, "claude")

	// Damage.
	for _, text := range []string{"", "{", "[]", `{"version":2}`, `{"version":1,"surprise":1}`} {
		if err := os.WriteFile(filepath.Join(other.Path(), "domain.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := other.ReadRecord()
		wantKind(t, err, paths.KindRecord, "domain.json")
	}
	for kind, plant := range oddFiles {
		t.Run(kind, func(t *testing.T) {
			for _, name := range []string{"domain.json", "lock"} {
				path := filepath.Join(other.Path(), name)
				if err := errors.Join(os.RemoveAll(path), plant(path)); err != nil {
					t.Fatal(err)
				}
			}
			_, err := other.ReadRecord()
			wantKind(t, err, paths.KindRecord, "domain.json")
			_, err = other.OpenLock()
			wantKind(t, err, paths.KindUnsafe, "lock")
		})
	}
}

// oddFiles plant what is no regular file.
var oddFiles = map[string]func(path string) error{
	"directory": func(path string) error { return os.Mkdir(path, 0o700) },
	"link":      func(path string) error { return os.Symlink("elsewhere", path) },
	"pipe":      func(path string) error { return unix.Mkfifo(path, 0o600) },
	"socket": func(path string) error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	},
}

// A State Anchor's files have the owners of one id mapping; under the other
// they would belong to somebody else (DESIGN section 8).
func TestBindAnchors(t *testing.T) {
	d, err := dataRoot(t).Domain("0123456789ab")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	bind := func(m handoff.Mapping) error { return d.BindAnchors(m, now) }
	// Without anchors there is nothing to mix up.
	for _, m := range []handoff.Mapping{handoff.MappingSingle, handoff.MappingFull, handoff.MappingFull} {
		if err := bind(m); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.EnsureAnchor("/usr"); err != nil {
		t.Fatal(err)
	}
	if err := bind(handoff.MappingFull); err != nil {
		t.Error(err)
	}
	err = bind(handoff.MappingSingle)
	wantKind(t, err, paths.KindMapping, "subordinate")
	anchors, aside := filepath.Join(d.Path(), "anchors"), filepath.Join(d.Path(), ".anchors-full-20260102T030405Z")
	var refused *paths.Error
	if !errors.As(err, &refused) || !strings.Contains(refused.Fix, "mv '"+anchors+"' '"+aside+"'") {
		t.Errorf("the fix is not the command that resets: %q", refused.Fix)
	}
	// The command does what it says.
	if err := os.Rename(anchors, aside); err != nil {
		t.Fatal(err)
	}
	if !paths.DomainOwned(filepath.Base(aside)) {
		t.Error("a volume could show the anchors that were put aside")
	}
	if err := bind(handoff.MappingSingle); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(anchors, ".mapping"), []byte("nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantKind(t, bind(handoff.MappingSingle), paths.KindRecord, ".mapping")
}

func TestPrepared(t *testing.T) {
	r := dataRoot(t)
	p, err := r.Prepared("sha256-" + strings.Repeat("a", 64))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Ensure(); err != nil {
		t.Fatal(err)
	}
	lease, err := p.Lease("0123456789ab", "g1")
	if err != nil || lease != filepath.Join(p.Path(), "leases/0123456789ab.g1") {
		t.Errorf("%q, %v", lease, err)
	}
	if fi, err := os.Stat(p.Leases()); err != nil || !fi.IsDir() {
		t.Error(err)
	}
	if p.Intent() != p.Path()+".intent" || p.Root() != p.Path()+"/root" {
		t.Errorf("%q, %q", p.Intent(), p.Root())
	}
	if _, err := p.Lease("x", "../../y"); err == nil {
		t.Error("a lease ../../y was named")
	}
	if _, err := r.Prepared("../x"); err == nil {
		t.Error("a prepared lower ../x was named")
	}
}

func TestAnchorNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.StringMatching(`[a-z%F2.][a-z%F2]{1,8}`), 1, 5).Draw(t, "parts")
		p := "/" + strings.Join(parts, "/")
		name, err := paths.EncodeAnchor(p)
		if err != nil {
			t.Fatalf("%q: %v", p, err)
		}
		if strings.Contains(name, "/") {
			t.Fatalf("%q holds a slash", name)
		}
		if back, err := paths.DecodeAnchor(name); err != nil || back != p {
			t.Fatalf("%q became %q and then %q (%v)", p, name, back, err)
		}
	})
	for _, p := range []string{"/", "", "usr", "/a/../b", "/a/", "/" + strings.Repeat("a", 300), "/a\x00b"} {
		if _, err := paths.EncodeAnchor(p); err == nil {
			t.Errorf("%q was encoded", p)
		}
	}
	for _, n := range []string{"%2f", "%", "", "a/b", "a%2F"} {
		if _, err := paths.DecodeAnchor(n); err == nil {
			t.Errorf("%q was decoded", n)
		}
	}
}

func TestEnsureVolume(t *testing.T) {
	r := dataRoot(t)
	v := filepath.Join(r.Path(), "profiles/claude/home")
	ref, err := r.EnsureVolume(v)
	if err != nil || ref.Path != v {
		t.Fatalf("%v, %v", ref, err)
	}
	got, err := paths.Identify(v)
	if diff := cmp.Diff(ref, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	for _, bad := range []string{r.Path(), filepath.Dir(r.Path()), "/etc", r.Path() + "x/y"} {
		if _, err := r.EnsureVolume(bad); err == nil {
			t.Errorf("%q was made as a volume", bad)
		}
	}
}

func TestRecordIsPlainJSON(t *testing.T) {
	r := dataRoot(t)
	ws := "/w/with \"quotes\"\nand ünïcode"
	d, _ := r.Domain(paths.DomainID("claude", ws))
	if err := d.Claim("claude", ws, time.Now()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(d.Path(), "domain.json"))
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil || m["workspace"] != ws {
		t.Errorf("%v: %s", err, b)
	}
}
