package workspace_test

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// ownWork is what a session does that is its own affair: ignored files, private
// Git state, births, locks, and changes that are refused.
const ownWork = `set +e
mkdir -p node_modules/a/b build; echo x >node_modules/a/b/c; echo x >build/f; echo x >.env; ln -s c node_modules/a/b/l; mkfifo build/p
printf '#!/bin/sh\n' >.git/hooks/post-index-change; mkdir -p .git/rebase-merge .git/unknown; echo x >.git/unknown/f; echo x >.git/description
git config a.b c; git remote add x y; : >.git/config.lock; mv .git/config.lock .git/config; ln -s /etc .git/l; mkdir .git/modules; git init -q --bare .git/modules/x
GIT_OPTIONAL_LOCKS=0 git status >/dev/null; git log >/dev/null; find . -type f -exec cat {} + >/dev/null
`

// DX-2: what Lazaret itself needs lies in its data root and its runtime
// directory, and nowhere else, however it ends.
func TestNoLitter(t *testing.T) {
	w := newWorld(t)
	w.write(".gitignore", "node_modules/\nbuild/\n.env\n")
	w.write("src/main.c", "int main(void) { return 0; }\n")
	w.write("node_modules/host/f", "host\n")
	w.write(".env", "host\n")
	w.host("git init -q; git add .; git commit -qm first; mkfifo src/fifo; ln -s main.c src/link; git add src/link; git commit -qm second; git gc -q; git status >/dev/null")
	w.write("../home/notes/todo", "mine\n")
	look := func() map[string][]string {
		return map[string][]string{
			"project": listing(t, w.Project, aspects{mtime: true, content: true}, nil),
			"home":    listing(t, w.Dir, aspects{mtime: true, content: true}, nil),
		}
	}
	before := look()
	compare := func(when string) {
		t.Helper()
		after := look()
		for place := range before {
			same(t, when+", "+place, before[place], after[place])
		}
	}
	w.inside(ownWork)
	w.NothingLeft(10 * time.Second)
	compare("after an end")

	release := w.Hold(ownWork)
	compare("while it runs")
	were := w.Processes()
	if len(were) < 4 {
		t.Fatalf("only %v run: the test is worth nothing", were)
	}
	for _, p := range were {
		_ = syscall.Kill(p.PID, syscall.SIGKILL)
	}
	release()
	w.Gone(were, 10*time.Second)
	compare("after kill -9 of everything")

	if got := w.must("cat node_modules/a/b/c build/f .env"); strings.Count(got, "x\n") != 3 {
		t.Errorf("the session's own files after all that: %q", got)
	}
	w.NothingLeft(10 * time.Second)
	compare("after the next generation")
}
