package gitfacts_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/gitfacts"
	"lazaret.dev/lazaret/host/internal/paths"
	"lazaret.dev/lazaret/protocol/launch"
)

// world is a developer's home beside a project.
type world struct {
	t             *testing.T
	dir, home, ws string
	env           map[string]string
	o             gitfacts.Options
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: dir, home: filepath.Join(dir, "home"), ws: filepath.Join(dir, "w s")}
	for _, d := range []string{w.home, w.ws} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w.env = map[string]string{"HOME": w.home, "GIT_CONFIG_SYSTEM": w.write("system", "")}
	w.o = gitfacts.Options{
		Git: git, SearchPath: os.Getenv("PATH"), Workspace: w.ws,
		Host: paths.Host{Getenv: func(name string) string { return w.env[name] }, UID: os.Getuid()},
	}
	return w
}

// write writes a file below the world's directory and returns its path. "~"
// is the home, "$WS" in the text the project.
func (w *world) write(name, text string) string {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "$WS", w.ws)), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

func (w *world) gather() *gitfacts.Facts {
	w.t.Helper()
	f, err := gitfacts.Gather(w.t.Context(), w.o)
	if err != nil {
		w.t.Fatal(err)
	}
	return f
}

// git runs Git as the developer would.
func (w *world) git(args ...string) string {
	w.t.Helper()
	return w.gitIn(w.ws, args...)
}

// gitIn is git in another directory, where nothing is configured.
func (w *world) gitIn(dir string, args ...string) string {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	for k, v := range w.env {
		if dir == w.ws {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// inside reads the facts' configuration as Git inside does.
func (w *world) inside(f *gitfacts.Facts) map[string]string {
	w.t.Helper()
	path := w.write("inside", f.Config)
	out := map[string]string{}
	for item := range strings.SplitSeq(strings.TrimSuffix(w.gitIn(w.dir, "config", "--file", path, "-z", "--list"), "\x00"), "\x00") {
		k, v, _ := strings.Cut(item, "\n")
		out[k] = v
	}
	return out
}

// always is what Git inside is told in every case.
func always(more ...string) map[string]string {
	m := map[string]string{
		"core.checkstat": "minimal", "core.trustctime": "false", "safe.directory": "*",
		"core.untrackedcache": "false", "gc.worktreepruneexpire": "never", "branch.autosetupmerge": "false",
	}
	for i := 0; i < len(more); i += 2 {
		m[more[i]] = more[i+1]
	}
	return m
}

// The developer's own settings, of every file that Git reads and under the
// conditions that hold in this project, and none that could hold a secret or a
// program.
func TestSettings(t *testing.T) {
	w := newWorld(t)
	w.git("init", "-q")
	w.git("config", "user.name", "of the repository")
	w.write("system", "[user]\n name = system\n email = system@x\n[core]\n autocrlf = input\n")
	w.write("home/.config/git/config", "[user]\n name = xdg\n[pull]\n rebase\n")
	w.write("home/.gitconfig", `
[user]
 name = "Zoë \"quoted\" \\ back; # no comment"
 signingKey = secret-key
[includeIf "gitdir:$WS/"]
 path = work
[includeIf "gitdir:/elsewhere/"]
 path = absent
[commit]
 gpgSign = true
[credential]
 helper = secret-helper
[credential "https://secret@host"]
 username = secret
[url "https://secret-token@host/"]
 insteadOf = https://host/
[http]
 extraHeader = Authorization: secret
[alias]
 x = !secret
[core]
 sshCommand = secret
 eol = surprising
[merge]
 conflictStyle = zdiff3
[init]
 defaultBranch = "x\ty"
[diff]
 algorithm = patience
`)
	w.write("home/work", "[user]\n email = work@x\n")
	w.write("home/.config/git/ignore", "*.swp\n\xff\n")
	f := w.gather()
	if d := cmp.Diff(always(
		"core.excludesfile", launch.GuestGitExclude, "core.autocrlf", "input", "pull.rebase", "true", "merge.conflictstyle", "diff3",
		"diff.algorithm", "patience", "user.name", `Zoë "quoted" \ back; # no comment`, "user.email", "work@x",
	), w.inside(f)); d != "" {
		t.Error(d)
	}
	if strings.Contains(f.Config, "secret") {
		t.Errorf("a secret goes inside:\n%s", f.Config)
	}
	if string(f.Excludes) != "*.swp\n\xff\n" {
		t.Errorf("excludes: %q", f.Excludes)
	}
	if len(f.Warnings) != 0 {
		t.Errorf("warnings: %q", f.Warnings)
	}
	var got []string
	for _, s := range f.Host.Sources {
		b, err := os.ReadFile(s.Path)
		if err != nil || string(b) != string(s.Text) {
			t.Errorf("%s: %q, %v", s.Path, s.Text, err)
		}
		ref, err := paths.Identify(s.Path)
		if err != nil || ref != (launch.Ref{Path: s.Path, Dev: s.Dev, Ino: s.Ino}) {
			t.Errorf("%+v, %v", ref, err)
		}
		got = append(got, string(s.Scope)+" "+strings.TrimPrefix(s.Path, w.dir+"/"))
	}
	want := []string{"system system", "global home/.config/git/config", "global home/.gitconfig", "global home/work"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}

	// Elsewhere the condition does not hold; the file counts all the same for
	// what Git may read.
	w.ws = filepath.Join(w.dir, "other")
	w.o.Workspace = w.ws
	w.o.ConfigGate = true
	if err := os.Mkdir(w.ws, 0o700); err != nil {
		t.Fatal(err)
	}
	f = w.gather()
	got2 := w.inside(f)
	if _, set := got2["branch.autosetupmerge"]; set || got2["user.email"] != "system@x" || len(f.Host.Sources) != 4 {
		t.Errorf("elsewhere: %q, %d sources", got2, len(f.Host.Sources))
	}
}

// What is missing or broken gives fewer facts, and says so where it is of use.
func TestFewerFacts(t *testing.T) {
	identity := "[user]\n name = me\n[includeIf \"hasconfig:remote.*.url:x\"]\n path = absent\n"
	for name, tc := range map[string]struct {
		set     func(w *world)
		want    map[string]string
		warning string
	}{
		"nothing at all": {func(*world) {}, always(), ""},
		"no git": {func(w *world) {
			w.write("home/.gitconfig", identity)
			w.o.Git = ""
		}, always(), ""},
		"no system file": {func(w *world) {
			w.write("home/.gitconfig", identity)
			w.env["GIT_CONFIG_SYSTEM"] = filepath.Join(w.dir, "absent")
		}, always("user.name", "me"), ""},
		"broken configuration": {func(w *world) {
			w.write("home/.gitconfig", identity+"[[\n")
		}, always(), "your Git configuration is not used inside: git says \"fatal: bad config line"},
		"a system file that is broken does not hide the developer's": {func(w *world) {
			w.write("system", "[[")
			w.write("home/.gitconfig", identity)
		}, always("user.name", "me"), "your Git configuration is not used inside: "},
		"a repository that is broken": {func(w *world) {
			w.git("init", "-q")
			w.write("w s/.git/config", "[[")
			w.write("home/.gitconfig", identity)
		}, always("user.name", "me"), "Git cannot read all configuration in this project"},
		"a repository that would hang": {func(w *world) {
			w.git("init", "-q")
			pipe := filepath.Join(w.ws, ".git/config")
			if err := errors.Join(os.Remove(pipe), unix.Mkfifo(pipe, 0o600)); err != nil {
				t.Fatal(err)
			}
			w.write("home/.gitconfig", identity)
		}, always("user.name", "me"), "git config took longer"},
		"a repository of somebody else": {func(w *world) {
			w.git("init", "-q")
			w.write("home/.gitconfig", identity)
			w.o.Git = w.write("git", "#!/bin/sh\nGIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec git \"$@\"\n")
			if err := os.Chmod(w.o.Git, 0o700); err != nil {
				t.Fatal(err)
			}
		}, always("user.name", "me"), ""},
		"files that are none": {func(w *world) {
			w.write("home/.gitconfig", identity+"[core]\n excludesFile = /dev/null\n")
			if err := unix.Mkfifo(w.write("home/.config/git/x", "")+"y", 0o600); err != nil {
				t.Fatal(err)
			}
		}, always("user.name", "me"), ""},
		"an empty excludesFile": {func(w *world) {
			w.write("home/.gitconfig", identity+"[core]\n excludesFile =\n")
			w.write("home/.config/git/ignore", "not looked for")
		}, always("user.name", "me"), ""},
		"values that cannot be": {func(w *world) {
			w.write("home/.gitconfig", "[user]\n name = \"a\\nb\"\n email = \xff\n[pull]\n rebase = perhaps\n")
		}, always(), ""},
		"relative places in the environment": {func(w *world) {
			w.env["GIT_CONFIG_GLOBAL"], w.env["XDG_CONFIG_HOME"] = "x", "y"
			w.write("home/.gitconfig", identity)
			w.write("w s/x", "[user]\n email = forged\n")
		}, always("user.name", "me"), ""},
		"GIT_CONFIG_GLOBAL": {func(w *world) {
			w.env["GIT_CONFIG_GLOBAL"] = w.write("mine", "[user]\n email = e\n")
			w.write("home/.gitconfig", identity)
		}, always("user.email", "e"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tc.set(w)
			f := w.gather()
			if d := cmp.Diff(tc.want, w.inside(f)); d != "" {
				t.Error(d)
			}
			text := strings.Join(f.Warnings, "\n")
			if (tc.warning == "") != (text == "") || !strings.Contains(text, tc.warning) {
				t.Errorf("warnings: %q, want %q", f.Warnings, tc.warning)
			}
		})
	}
}

// Limits: what is too large is refused, never half read.
func TestLimits(t *testing.T) {
	for name, set := range map[string]func(w *world){
		"a large ignore file":   func(w *world) { w.write("home/.config/git/ignore", strings.Repeat("x\n", 200<<10)) },
		"a large configuration": func(w *world) { w.write("home/.gitconfig", strings.Repeat("# comment\n", 30<<10)) },
		"many files": func(w *world) {
			var b strings.Builder
			for i := range 300 {
				fmt.Fprintf(&b, "[include]\n path = %d\n", i)
			}
			w.write("home/.gitconfig", b.String())
		},
	} {
		w := newWorld(t)
		set(w)
		if _, err := gitfacts.Gather(t.Context(), w.o); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// Vector h_home and its like: a file that Git on the host obeys lies where the
// sandbox can write.
func TestRefused(t *testing.T) {
	link := func(w *world, from, to string) {
		w.t.Helper()
		from = filepath.Join(w.dir, from)
		if err := errors.Join(os.MkdirAll(filepath.Dir(from), 0o700), os.Symlink(to, from)); err != nil {
			w.t.Fatal(err)
		}
	}
	global := func(text string) func(w *world) {
		return func(w *world) { w.write("home/.gitconfig", text) }
	}
	for name, tc := range map[string]struct {
		set  func(w *world)
		what string // empty: accepted
	}{
		"HOME":                      {func(w *world) { w.env["HOME"] = w.ws }, "configuration"},
		"HOME without git":          {func(w *world) { w.env["HOME"] = w.ws; w.o.Git = "" }, "configuration"},
		"XDG_CONFIG_HOME":           {func(w *world) { w.env["XDG_CONFIG_HOME"] = w.ws + "/.config" }, "configuration"},
		"GIT_CONFIG_GLOBAL":         {func(w *world) { w.env["GIT_CONFIG_GLOBAL"] = w.ws + "/absent" }, "configuration"},
		"GIT_CONFIG_SYSTEM":         {func(w *world) { w.env["GIT_CONFIG_SYSTEM"] = w.ws + "/absent" }, "configuration"},
		"a link to dotfiles":        {func(w *world) { link(w, "home/.gitconfig", w.ws+"/gitconfig") }, "configuration"},
		"a link to nothing yet":     {func(w *world) { link(w, "home/.config/git", "../../w s/absent/git") }, "configuration"},
		"a link to a link":          {func(w *world) { link(w, "w s/a", "/etc"); link(w, "home/.gitconfig", w.ws+"/a/gitconfig") }, "configuration"},
		"a link of the ignore file": {func(w *world) { link(w, "home/.config/git/ignore", w.ws+"/ignore") }, "configuration"},
		"a writable volume":         {func(w *world) { w.o.Untrusted = []string{w.home + "/.config"} }, "configuration"},
		"include":                   {global("[include]\n path = $WS/c\n"), "includes"},
		"relative include":          {global("[include]\n path = \"../w s/c\"\n"), "includes"},
		"conditional include":       {global("[includeIf \"gitdir:/nowhere/\"]\n path = $WS/c\n"), "includes"},
		"include in an included file": {func(w *world) {
			w.write("home/.gitconfig", "[include]\npath = ~/a\n")
			w.write("home/a", "[include]\n path = $WS/c\n")
		}, "includes"},
		"include in the system's": {func(w *world) { w.write("system", "[include]\n path = $WS/c\n") }, "includes"},
		"excludesFile":            {global("[core]\n excludesFile = $WS/ignore\n"), "core.excludesfile"},
		"relative excludesFile":   {global("[core]\n excludesFile = ignore\n"), "core.excludesfile"},
		"hooks":                   {func(w *world) { w.write("w s/hooks/x", ""); global("[core]\n hooksPath = $WS/hooks\n")(w) }, "core.hookspath"},
		"filter":                  {global("[filter \"x\"]\n clean = sh -c '\"$WS/clean\" %f'\n"), "filter.x.clean"},
		"alias":                   {global("[alias]\n x = \"!cd /tmp && '$WS/tool' x\"\n"), "alias.x"},
		"alias by home": {func(w *world) {
			w.env["HOME"] = w.dir
			w.write(".gitconfig", "[alias]\n x = \"!$HOME/plain/tool\"\n")
			w.o.Untrusted = []string{w.dir + "/plain"}
		}, "alias.x"},
		"tilde": {func(w *world) {
			w.env["HOME"] = w.dir
			w.write(".gitconfig", "[core]\n pager = less | ~/plain/tool\n")
			w.o.Untrusted = []string{w.dir + "/plain"}
		}, "core.pager"},
		"a key that nobody knows yet":  {global("[new]\n thing = $WS/tool\n"), "new.thing"},
		"directories of trust":         {global("[safe]\n directory = $WS\n[maintenance]\n repo = $WS\n[url \"$WS/x\"]\n insteadOf = $WS/y\n"), ""},
		"an alias about the project":   {global("[alias]\n p = \"!git -C '$WS' status\"\n"), ""},
		"relative hooks":               {global("[core]\n hooksPath = .githooks\n"), ""},
		"files beside it":              {global("[include]\n path = $WS.d/c\n[core]\n excludesFile = ~/ignore\n pager = /usr/bin/less\n"), ""},
		"a repository's configuration": {func(w *world) { w.git("init", "-q"); w.git("config", "include.path", w.ws+"/c") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tc.set(w)
			f, err := gitfacts.Gather(t.Context(), w.o)
			if tc.what == "" {
				if err != nil || len(f.Warnings) != 0 {
					t.Errorf("%v %v", f, err)
				}
				return
			}
			refused, ok := errors.AsType[*gitfacts.RefusedError](err)
			if !ok || !strings.Contains(refused.What, tc.what) || refused.Hint() == "" {
				t.Errorf("got %v, want a refusal for %s", err, tc.what)
			}
		})
	}
}

// The same directory mounted a second time is the same place.
func TestRefusedByIdentity(t *testing.T) {
	w := newWorld(t)
	// What a bind mount shows, as far as names and identities go.
	other, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w.o.Untrusted = []string{"/proc/self/root" + other}
	w.env["GIT_CONFIG_GLOBAL"] = filepath.Join(other, "config")
	if _, err := gitfacts.Gather(t.Context(), w.o); err == nil {
		t.Error("another name of the directory was accepted")
	}
}

// A git that is a shim and looks around where it is started finds nothing of
// the project's.
func TestShim(t *testing.T) {
	w := newWorld(t)
	w.git("init", "-q")
	w.write("home/.gitconfig", "[includeIf \"gitdir:$WS/\"]\n path = w\n")
	w.write("home/w", "[user]\n name = me\n")
	fired := w.write("fired", "")
	w.write("w s/.shim", "echo x >>'"+fired+"'\n")
	real := w.o.Git
	w.o.Git = w.write("git", "#!/bin/sh\n[ ! -e .shim ] || . ./.shim\nexec '"+real+"' \"$@\"\n")
	if err := os.Chmod(w.o.Git, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := w.inside(w.gather())["user.name"]; got != "me" {
		t.Errorf("name %q", got)
	}
	if b, err := os.ReadFile(fired); err != nil || len(b) != 0 {
		t.Errorf("the shim ran something of the project's: %q, %v", b, err)
	}
}

// Case 28: a repository whose configuration runs programs in every way that
// Git has runs none, and its index is left alone.
func TestHostileRepository(t *testing.T) {
	w := newWorld(t)
	canaries := filepath.Join(w.dir, "canaries")
	if err := os.Mkdir(canaries, 0o700); err != nil {
		t.Fatal(err)
	}
	fire := func(name string) string {
		path := w.write("bin/"+filepath.Base(name), "#!/bin/sh\n: >'"+canaries+"/"+name+"'\ncat 2>/dev/null\n")
		if err := os.Chmod(path, 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	w.git("init", "-q", "-b", "main")
	w.write("w s/a.txt", "a\n")
	w.write("w s/.gitattributes", "*.txt filter=x diff=x\n")
	w.git("add", ".")
	w.git("-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "m")
	w.write("w s/a.txt", "other\n")
	// After the repository is set up: from here on nothing may run.
	for key, name := range map[string]string{
		"core.fsmonitor": "fsmonitor", "filter.x.clean": "clean", "filter.x.smudge": "smudge", "filter.x.process": "process",
		"diff.external": "external", "diff.x.textconv": "textconv", "diff.x.command": "command", "core.pager": "pager",
		"pager.config": "pager-config", "core.sshCommand": "ssh", "core.editor": "editor", "core.hooksPath": "hookspath",
		"credential.helper": "credential", "uploadpack.packObjectsHook": "pack", "core.alternateRefsCommand": "alternate",
		"gpg.program": "gpg", "sequence.editor": "sequence", "core.askPass": "askpass", "core.gitProxy": "proxy",
	} {
		w.git("config", key, fire(name))
	}
	for _, alias := range []string{"config", "status", "ls-files"} {
		w.git("config", "alias."+alias, "!"+fire("alias-"+alias))
	}
	w.git("config", "extensions.partialClone", "origin")
	w.git("config", "remote.origin.url", "ext::"+fire("ext"))
	w.write("w s/evil", "[core]\n fsmonitor = "+fire("included")+"\n[user]\n name = forged\n")
	w.git("config", "include.path", "../evil")
	for _, hook := range []string{"post-index-change", "pre-commit", "reference-transaction"} {
		w.write("w s/.git/hooks/"+hook, "#!/bin/sh\n: >'"+canaries+"/hook'\n")
	}
	fired := func() []string {
		t.Helper()
		var names []string
		all, err := os.ReadDir(canaries)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			names = append(names, e.Name())
			if err := os.Remove(filepath.Join(canaries, e.Name())); err != nil {
				t.Fatal(err)
			}
		}
		return names
	}
	if ran := fired(); len(ran) != 0 {
		t.Fatalf("the test's own preparation ran %q", ran)
	}
	before := tree(t, w.ws)
	w.write("home/.gitconfig", "[user]\n name = me\n[includeIf \"onbranch:main\"]\n path = more\n[includeIf \"hasconfig:remote.*.url:ext::**\"]\n path = more\n")
	w.write("home/more", "[user]\n email = m@x\n")
	f := w.gather()
	if ran := fired(); len(ran) != 0 {
		t.Errorf("gathering the facts ran %q", ran)
	}
	if d := cmp.Diff(before, tree(t, w.ws)); d != "" {
		t.Errorf("gathering the facts changed the project:\n%s", d)
	}
	if got := w.inside(f); got["user.name"] != "me" || got["user.email"] != "m@x" {
		t.Errorf("settings: %q", got)
	}
	// The canaries sing where somebody else asks.
	w.git("status")
	w.git("diff", "--no-ext-diff")
	if ran := fired(); !slices.Contains(ran, "included") || !slices.Contains(ran, "clean") && !slices.Contains(ran, "process") {
		t.Errorf("the repository is harmless: only %q ran", ran)
	}
}

// tree is what can be seen of every file below a directory.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		st, ok := fi.Sys().(*syscall.Stat_t)
		if !ok {
			return errors.New("no stat")
		}
		text := ""
		if fi.Mode().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = string(b)
		}
		out[path] = fmt.Sprintf("%v %d %v %v %q", fi.Mode(), st.Ino, st.Mtim, st.Ctim, text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
