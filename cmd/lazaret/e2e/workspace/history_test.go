package workspace_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
)

// history makes the project a repository of so many commits and files, always
// the same for the same random numbers, with an origin, branches that merge
// with and without conflicts, tags, a submodule, and a linked worktree
// elsewhere.
func (w *world) history(random *rand.Rand, commits, files int) {
	w.t.Helper()
	stream, err := os.CreateTemp("", "history")
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() {
		_ = stream.Close()
		_ = os.Remove(stream.Name())
	}()
	fastImport(stream, random, commits, files)
	if _, err := stream.Seek(0, 0); err != nil {
		w.t.Fatal(err)
	}
	w.host("git init -q -b main")
	cmd := exec.Command("git", "fast-import", "--quiet", "--force")
	cmd.Dir, cmd.Env, cmd.Stdin = w.Project, w.hostEnv(), stream
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("git fast-import: %v\n%s", err, out)
	}
	w.host(`git checkout -q main
git init -q -b main ../module; cd ../module; echo m >m.txt; git add .; git commit -qm m1; echo m2 >m.txt; git commit -qam m2; cd - >/dev/null
git submodule --quiet add ../module sub 2>/dev/null || git submodule --quiet add "$(cd ..; pwd)/module" sub; git commit -qm submodule
printf 'l1\nl2\nl3\nl4\nl5\n' >lines.txt; git add lines.txt; git commit -qm lines
git branch topic; git branch conflict; sed -i s/l3/L3/ lines.txt; git commit -qam main; git tag -a v1 -m v1
git checkout -q topic; echo t >topic.txt; git add .; git commit -qm t1; echo u >>topic.txt; git commit -qam t2; echo v >>topic.txt; git commit -qam t3
git checkout -q conflict; sed -i s/l3/C3/ lines.txt; git commit -qam c; git checkout -q main; git gc -q
git init -q --bare ../remote.git; git remote add origin ../remote.git; git push -q origin main topic conflict 2>/dev/null; git branch -qu origin/main
git push -q origin main~5:refs/heads/elsewhere; git fetch -q; git remote add box /tmp/box.git`)
}

// fastImport writes a history: every file is made, and then changed, moved and
// removed, with a merge now and then.
func fastImport(to *os.File, random *rand.Rand, commits, files int) {
	name := func(n int) string {
		return fmt.Sprintf("dir%d/part%d/file%d.%s", n%17, n%7, n, []string{"c", "txt", "go", "md"}[n%4])
	}
	text := func() string {
		var b strings.Builder
		for range 3 + random.IntN(60) {
			fmt.Fprintf(&b, "line %x %x\n", random.Uint32(), random.Uint32())
		}
		return b.String()
	}
	var live []int
	made := 0
	for c := 1; c <= commits; c++ {
		fmt.Fprintf(to, "commit refs/heads/main\nmark :%d\ncommitter Dev <dev@example.org> %d +0000\ndata <<E\nchange %d\n\nbody\nE\n", c, 1600000000+c*60, c)
		if c > 1 {
			fmt.Fprintf(to, "from :%d\n", c-1)
			if c%50 == 0 {
				fmt.Fprintf(to, "merge :%d\n", c-1-random.IntN(20))
			}
		}
		put := func(n int) {
			s := text()
			fmt.Fprintf(to, "M %s inline %s\ndata %d\n%s\n", []string{"100644", "100644", "100755"}[n%3], name(n), len(s), s)
		}
		for made < files*c/commits {
			put(made)
			live = append(live, made)
			made++
		}
		for range 1 + random.IntN(4) {
			if len(live) > 0 {
				put(live[random.IntN(len(live))])
			}
		}
		if c%20 == 0 && len(live) > 10 {
			i := random.IntN(len(live))
			fmt.Fprintf(to, "D %s\n", name(live[i]))
			live = append(live[:i], live[i+1:]...)
		}
	}
	fmt.Fprint(to, "done\n")
}
