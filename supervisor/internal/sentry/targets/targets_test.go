package targets_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lazaret.dev/lazaret/supervisor/internal/sentry/targets"
)

var place = targets.Place{Root: "/home/dev/ws", Home: "/home/dev", File: "/home/dev/ws/.git/config", Tops: []string{"", "sub"}}

// TestFind names the vectors whose path is found.
func TestFind(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ config, want string }{
		{"[core]\nhooksPath = .husky", ".husky/ sub/.husky/"}, // h_husky, h_husky_absent, h_husky_global
		{"[core]\nhooksPath = .", "/ sub/"},
		{"[core]\nhooksPath = /home/dev/ws/h", "h/"},
		{"[core]\nhooksPath = ~/ws/h/", "h/"},
		{"[core]\nhooksPath = ~/h", ""},
		{"[include]\npath = ../.gitconfig", ".gitconfig"}, // h_incfile, h_incabsent
		{"[includeIf \"onbranch:main\"]\npath = ../inc", "inc"},
		{"[include]\npath = ../../outside", ""},
		{"[filter \"t\"]\nclean = ./tools/f --x", "tools/f sub/tools/f"}, // h_cfgcmd, a_attr_global
		{"[filter \"t\"]\nprocess = python3 -u tools/f.py", "tools/f.py sub/tools/f.py"},
		{"[alias]\nx = !./x.sh", "x.sh sub/x.sh"},
		{"[alias]\nx = log --oneline", ""},
		{"[alias \"y\"]\ncommand = ./x.sh", "x.sh sub/x.sh"},
		{"[alias]\nx = \"!f() { cd sub && 'my tools/y' ; }; f\"", "my tools/y sub/my tools/y tools/y sub/tools/y"},
		{"[diff \"d\"]\ntextconv = sh -c 'tools/x %f'", "tools/x %f sub/tools/x %f tools/x sub/tools/x"},
		{"[core]\neditor = \"sh -c \\\"FOO=bar exec tools/x\\\"\"", "FOO=bar exec tools/x sub/FOO=bar exec tools/x tools/x sub/tools/x"},
		{"[core]\nsshCommand = GIT=conf/a ./ssh -i k", "conf/a sub/conf/a ssh sub/ssh"},
		{"[core]\nfsmonitor = true", ""},
		{"[core]\npager = less -R", ""},
		{"[credential]\nhelper = \"!/home/dev/ws/cred x\"", "cred"},
		{"[merge \"m\"]\ndriver = ./m %A %O", "m sub/m"},
		{"[difftool \"d\"]\npath = ./d", "d sub/d"},
		{"[submodule \"s\"]\npath = lib/s\nupdate = !./u", "u sub/u"},
		{"[hook \"h\"]\ncommand = ./h", "h sub/h"},
		{"[url \"ext::./x \"]\ninsteadOf = file://", "x sub/x"},
		{"[remote \"o\"]\nurl = ext::./x\nuploadpack = bin/up;git-upload-pack", "x sub/x bin/up sub/bin/up"},
		{"[remote \"o\"]\nurl = https://example.org/x\nfetch = +refs/heads/*:refs/remotes/o/*", ""},
		{"[core]\nattributesFile = .at", ".at sub/.at"}, // c_attributesFile
		{"[gpg \"ssh\"]\nallowedSignersFile = .signers", ".signers sub/.signers"},
		{"[init]\ntemplateDir = /home/dev/ws/t", "t/"},
		{"[sendemail]\nsmtpServer = mail.example.org", ""},
		{"[core]\nhooksPath", ""},
		{"[core]\npager =", ""},
	} {
		found, _, err := targets.Find([]byte(tc.config), place)
		if err != nil {
			t.Errorf("%q: %v", tc.config, err)
		}
		var got []string
		for _, f := range found {
			if f.Dir {
				f.Path += "/"
			}
			got = append(got, f.Path)
		}
		if s := strings.Join(got, " "); s != tc.want {
			t.Errorf("%q: %q, want %q", tc.config, s, tc.want)
		}
	}
	if found, _, _ := targets.Find([]byte("[core]\nhooksPath = ~/ws/h"), targets.Place{Root: "/home/dev/ws", Tops: []string{""}}); len(found) != 0 {
		t.Errorf("without a home: %v", found)
	}
}

func TestFindIncludes(t *testing.T) {
	t.Parallel()
	text := "[include]\npath = a\npath = /etc/x\npath = ~/y\n[includeIf \"gitdir:x\"]\npath = ../in\n[core]\nhooksPath = h\nbad"
	found, includes, err := targets.Find([]byte(text+" line"), place)
	if err == nil {
		t.Error("a syntax error is passed over")
	}
	if diff := cmp.Diff([]string{"/home/dev/ws/.git/a", "/etc/x", "/home/dev/y", "/home/dev/ws/in"}, includes); diff != "" {
		t.Errorf("includes (-want +got):\n%s", diff)
	}
	if !slices.Contains(found, targets.Target{Path: "in", Key: "includeif.path"}) || !slices.Contains(found, targets.Target{Path: "h", Dir: true, Key: "core.hookspath"}) {
		t.Errorf("found %v", found)
	}
}

// TestHomeInside: the start is refused (h_home).
func TestHomeInside(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		root, home, xdg string
		want            bool
	}{
		{"/home/dev/ws", "/home/dev", "", false},
		{"/home/dev", "/home/dev", "", true},
		{"/", "/home/dev", "", true},
		{"/home/dev/.config", "/home/dev", "", true},
		{"/home/dev/.config/git", "/home/dev", "", false},
		{"/home/dev/ws", "/home/dev", "/home/dev/ws/.config", true},
		{"/home/dev/ws", "/home/dev/ws/h", "/x", true},
	} {
		if got := targets.HomeInside(tc.root, tc.home, tc.xdg); got != tc.want {
			t.Errorf("HomeInside(%q, %q, %q) = %v", tc.root, tc.home, tc.xdg, got)
		}
	}
}

func FuzzFind(f *testing.F) {
	f.Add([]byte("[core]\nhooksPath = .husky\n[alias]\nx = \"!sh -c './x y'\"\n[include]\npath = ../a\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		found, includes, _ := targets.Find(b, place)
		for _, x := range found {
			if strings.HasPrefix(x.Path, "/") || strings.HasPrefix(x.Path, "../") || x.Path == ".." || x.Path == "." || x.Path == "" && !x.Dir || strings.HasSuffix(x.Path, "/") {
				t.Errorf("%+v", x)
			}
		}
		for _, x := range includes {
			if !strings.HasPrefix(x, "/") {
				t.Errorf("%q", x)
			}
		}
	})
}
