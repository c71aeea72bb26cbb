package paths_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lazaret.dev/lazaret/host/internal/paths"
)

func world(t *testing.T) (base string, g paths.Guard) {
	t.Helper()
	base = realTemp(t)
	for _, d := range []string{"home/u/proj/sub", "home/u/.local/share/lazaret/domains", "home/u/.config/lazaret", "run/lazaret", "elsewhere"} {
		mkdir(t, filepath.Join(base, d), 0o700)
	}
	return base, paths.Guard{Home: base + "/home/u", Places: []paths.Place{
		{What: "the data root", Path: base + "/home/u/.local/share/lazaret"},
		{What: "the configuration directory", Path: base + "/home/u/.config/lazaret"},
		{What: "the configuration file", Path: base + "/elsewhere/conf/c.toml"},
		{What: "the runtime directory", Path: base + "/run/lazaret"},
	}}
}

// Case 104, SR-2
func TestWorkspaceRefused(t *testing.T) {
	base, g := world(t)
	if err := os.WriteFile(base+"/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	symlink(t, "home/u", base+"/homelink")
	mkdir(t, base+"/bad\xffname", 0o700)
	for _, tt := range []struct{ dir, why string }{
		{"/", "root of the file system"},
		{base + "/home/u", "home directory"},
		{base + "/home/u/", "home directory"},
		{base + "/homelink", "home directory"},
		{base + "/home", "home directory"},
		{base, "home directory"},
		{base + "/home/u/.local", "the data root"},
		{base + "/home/u/.local/share/lazaret", "the data root"},
		{base + "/home/u/.local/share/lazaret/domains", "the data root"},
		{base + "/home/u/.config", "the configuration directory"},
		{base + "/home/u/.config/lazaret", "the configuration directory"},
		{base + "/elsewhere", "the configuration file"},
		{base + "/run", "the runtime directory"},
		{base + "/run/lazaret", "the runtime directory"},
		{base + "/file", "not a directory"},
		{"/proc", "type proc"},
		{"/proc/self/", "type proc"},
		{"/sys", "type sysfs"},
		{"/dev", "type devtmpfs"},
		{base + "/none", "no such file"},
		{base + "/a\x00b", "NUL"},
		{base + "/bad\xffname", "not valid UTF-8"},
	} {
		_, err := g.Workspace(tt.dir)
		wantKind(t, err, paths.KindWorkspace, tt.why)
		if func() *paths.Error {
			target := &paths.Error{}
			_ = errors.As(err, &target)
			return target
		}().Hint() == "" {
			t.Errorf("%q: no hint", tt.dir)
		}
	}
}

// Case 99: a HOME that is a link still names the home directory.
func TestWorkspaceHomeBehindLink(t *testing.T) {
	base, g := world(t)
	symlink(t, base+"/home/u", base+"/alias")
	g.Home = base + "/alias"
	_, err := g.Workspace(base + "/home/u")
	wantKind(t, err, paths.KindWorkspace, "home directory")
}

// Must-show 8 of issue 2; case 99.
func TestWorkspaceNames(t *testing.T) {
	base, g := world(t)
	for _, name := range []string{
		"with space", `quo'te"s`, "a:b", "a,b", `back\slash`, "new\nline", "ünïcode-日本", strings.Repeat("l", 220), "{profile_dir}", "-dash", "$HOME", "~",
	} {
		dir := filepath.Join(base, "home/u/proj", name)
		mkdir(t, dir, 0o700)
		if got, err := g.Workspace(dir); err != nil || got != dir {
			t.Errorf("%q: got %q, %v", name, got, err)
		}
	}
	want := base + "/home/u/proj/sub"
	symlink(t, want, base+"/home/u/link")
	symlink(t, base+"/home", base+"/logical")
	for _, way := range []string{want, want + "/", want + "/../sub", base + "/home/u/link", base + "/logical/u/proj/sub", base + "/logical/u/link/"} {
		if got, err := g.Workspace(way); err != nil || got != want {
			t.Errorf("%q: got %q, %v", way, got, err)
		}
	}
	t.Chdir(want)
	if got, err := g.Workspace("."); err != nil || got != want {
		t.Errorf("\".\": got %q, %v", got, err)
	}
}

func TestResolve(t *testing.T) {
	base, _ := world(t)
	symlink(t, "home/u", base+"/l")
	symlink(t, "nowhere", base+"/dangling")
	symlink(t, "loop", base+"/loop")
	for in, want := range map[string]string{
		base + "/l/proj":        base + "/home/u/proj",
		base + "/l/new/deep":    base + "/home/u/new/deep",
		base + "/home/../run":   base + "/run",
		base + "/l/proj/":       base + "/home/u/proj",
		base + "/none/../run/x": base + "/run/x",
	} {
		if got, err := paths.Resolve(in); err != nil || got != want {
			t.Errorf("%q: got %q, %v; want %q", in, got, err, want)
		}
		if got, err := paths.ResolveTrusted(in, nil); err != nil || got != want {
			t.Errorf("ResolveTrusted %q: got %q, %v; want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"relative", base + "/dangling/x", base + "/loop/x"} {
		if got, err := paths.Resolve(in); err == nil {
			t.Errorf("%q resolved to %q", in, got)
		}
	}
	if got, err := paths.ResolveTrusted(base+"/loop/x", nil); err == nil {
		t.Errorf("a loop resolved to %q", got)
	}
}

// SR-3, case 104: a link that an agent left does not choose what is mounted.
func TestResolveTrusted(t *testing.T) {
	base, _ := world(t)
	secret := base + "/elsewhere"
	proj := base + "/home/u/proj"
	symlink(t, secret, proj+"/k")
	symlink(t, proj+"/k", base+"/outer")         // a trusted link into a link of the agent's
	symlink(t, proj+"/sub", base+"/fine")        // a trusted link to a directory of the agent's
	symlink(t, "../../../../run", proj+"/sub/r") // relative
	for _, in := range []string{proj + "/k", proj + "/k/below", base + "/outer", proj + "/sub/r", base + "/fine/r"} {
		_, err := paths.ResolveTrusted(in, []string{proj})
		wantKind(t, err, paths.KindUnsafe, "symbolic link")
	}
	if got, err := paths.ResolveTrusted(base+"/fine/new", []string{proj}); err != nil || got != proj+"/sub/new" {
		t.Errorf("got %q, %v", got, err)
	}
}
