package shellrule_test

import (
	"strings"
	"testing"

	"lazaret.dev/lazaret/host/internal/config/internal/shellrule"
)

func TestReason(t *testing.T) {
	links := map[string]string{"/usr/bin/editor": "/usr/bin/vim.basic", "/usr/local/bin/deploy": "/home/u/p/deploy.sh", "/usr/bin/x": "/usr/bin/bash"}
	resolve := func(p string) string {
		if to, ok := links[p]; ok {
			return to
		}
		return p
	}
	for _, tt := range []struct{ command, why string }{
		{"bash -c x", "a shell"},
		{"/bin/sh", "a shell"},
		{"/usr/bin/x", "a shell"},
		{"python3 -V", "an interpreter"},
		{"python3.11 x.py", "an interpreter"},
		{"perl5.36", "an interpreter"},
		{"node x", "an interpreter"},
		{"env A=1 ls", "runs other programs"},
		{"xargs ls", "runs other programs"},
		{"find . -name x", "runs other programs"},
		{"ssh host", "another machine"},
		{"sudo ls", "another machine or user"},
		{"doas ls", "another machine or user"},
		{"pkexec ls", "another machine or user"},
		{"make", "a build tool"},
		{"gcc-12 x.c", "a build tool"},
		{"cargo build", "a build tool"},
		{"go test", "a build tool"},
		{"npm run x", "a package manager"},
		{"npx x", "a package manager"},
		{"pip3 install x", "a package manager"},
		{"git push", "Git"},
		{"git", "Git"},
		{"/usr/lib/git-core/git-push", "Git"},
		{"docker ps", "container"},
		{"lazaret approvals", "Lazaret itself"},
		{"./deploy.sh", "relative"},
		{"bin/deploy", "relative"},
		{"/home/u/p/deploy.sh", "in the workspace"},
		{"/home/u/p", "in the workspace"},
		{"/usr/local/bin/deploy", "in the workspace"},
		{"notify-send /home/u/p/x", "in the workspace"},
		{"notify-send done", ""},
		{"/home/u/p2/deploy.sh", ""},
		{"true", ""},
		{"shellcheck x", ""},
		{"pbcopy", ""},
		{"", ""},
	} {
		got := shellrule.Reason(strings.Fields(tt.command), "/home/u/p", resolve)
		if (tt.why == "") != (got == "") || !strings.Contains(got, tt.why) {
			t.Errorf("%q: got %q, want %q", tt.command, got, tt.why)
		}
	}
}
