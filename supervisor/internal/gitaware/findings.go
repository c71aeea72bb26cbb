package gitaware

import (
	"context"
	"errors"
	"slices"
	"strings"

	"lazaret.dev/lazaret/protocol/findings"
	"lazaret.dev/lazaret/supervisor/internal/report"
	"lazaret.dev/lazaret/supervisor/internal/route"
	"lazaret.dev/lazaret/supervisor/internal/sentry"
	"lazaret.dev/lazaret/supervisor/internal/view/policy"
)

// snapshot is the state at the start.
type snapshot struct {
	repos   *report.Snapshot
	relaxed map[string]bool
}

// errNoStart says that the state at the start was not kept.
var errNoStart = errors.New("the findings were asked for twice")

// gitdirs are those of the host's repositories.
func (a *Aware) gitdirs() []string {
	a.mu.RLock()
	defer a.mu.RUnlock()
	var out []string
	for _, r := range a.repos {
		out = append(out, r.Gitdir)
	}
	return out
}

// tops are the roots of the repositories' working trees, by gitdir.
func (a *Aware) tops() map[string]string {
	a.mu.RLock()
	defer a.mu.RUnlock()
	out := map[string]string{}
	for _, r := range a.repos {
		out[r.Gitdir] = r.Top
	}
	return out
}

// obeyed says who on the host obeys or runs the file at a path.
func (a *Aware) obeyed(name string) string {
	a.mu.RLock()
	defer a.mu.RUnlock()
	for _, t := range a.reads {
		if name == t.Path || t.Dir && strings.HasPrefix(name, t.Path+"/") {
			return "Git, by " + t.Key
		}
	}
	tool, byGit := report.Obeyed(name)
	if byGit {
		return "Git"
	}
	return tool
}

// remember keeps the state at the start.
func (a *Aware) remember() {
	s := snapshot{repos: report.Take(context.Background(), a.o.Host, a.gitdirs()), relaxed: map[string]bool{}}
	for _, r := range a.router.Relaxed() {
		s.relaxed[key(r)] = true
	}
	a.start <- s
}

// Remembered waits until the state at the start is kept, which must be before
// anything can be changed from inside.
func (a *Aware) Remembered() {
	s := <-a.start
	a.start <- s
}

func key(r route.Relaxation) string {
	return strings.Join(append([]string{r.File, r.Path, r.Repo}, r.Lines...), "\x00")
}

// note keeps what was made from inside.
func (a *Aware) note(op policy.Op) {
	switch op.Kind {
	case policy.Create, policy.MakeLink:
		a.touched.Note(op.Path)
	case policy.Link:
		a.touched.Note(op.To)
	case policy.Rename:
		a.touched.Moved(op.Path, op.To)
	case policy.Exchange:
		a.touched.Note(op.Path)
		a.touched.Note(op.To)
	default: // a directory by itself is nothing, and neither is what is gone
	}
}

// Findings are what there is to say at the end. Nothing inside may change
// anything any more. It answers once.
func (a *Aware) Findings(ctx context.Context) (findings.Report, error) {
	var before snapshot
	select {
	case before = <-a.start:
	default:
		return findings.Report{}, errNoStart
	}
	dirs := a.gitdirs()
	files, lost := a.files()
	all := report.Compare(ctx, a.o.Host, before.repos, report.Take(ctx, a.o.Host, dirs), a.tops(), a.obeyed)
	all = append(all, report.Private(a.o.State, dirs)...)
	guarded := a.sentry.Report()
	for _, r := range guarded.Refused {
		if r.Op == sentry.Rmdir {
			continue // Git tries it by itself, on directories that are not empty
		}
		all = append(all, findings.Finding{
			Kind: findings.Refused, Path: []byte(r.Path), Count: r.Count, Note: []byte(r.Op.String()),
			Hint: []byte((&sentry.Refusal{Rule: r.Rule, Op: r.Op, Path: r.Path}).Hint()),
		})
	}
	for _, dir := range guarded.Born {
		if dir == "" {
			dir = "."
		}
		all = append(all, findings.Finding{Kind: findings.Born, Path: []byte(dir)})
	}
	for _, r := range a.router.Relaxed() {
		if before.relaxed[key(r)] {
			continue
		}
		f := findings.Finding{Kind: findings.Relaxed, Path: []byte(r.File + r.Path + r.Repo), Note: []byte(strings.Join(r.Lines, ", "))}
		all = append(all, f)
	}
	all = append(withoutCommitted(all, files), files...)
	report.Sort(all)
	return findings.Fit(all, guarded.Lost+lost), nil
}

// withoutCommitted leaves out what is in commits and is told of the workspace.
func withoutCommitted(all, files []findings.Finding) []findings.Finding {
	told := map[string]bool{}
	for _, f := range files {
		told[string(f.Path)] = true
	}
	return slices.DeleteFunc(all, func(f findings.Finding) bool {
		return f.Kind == findings.Committed && len(f.Repo) == 0 && told[string(f.Path)]
	})
}

// files are those that were made or changed from inside, and that the host's
// tools obey.
func (a *Aware) files() (out []findings.Finding, lost int) {
	paths, lost := a.touched.Paths()
	for _, name := range slices.Compact(paths) {
		// It may be ignored by now: on the host it is there all the same.
		if _, err := a.host.lstat(name); err != nil {
			continue
		}
		f := findings.Finding{Kind: findings.Metadata, Path: []byte(name)}
		if tool, _ := report.Obeyed(name); tool != "" {
			f.Kind, f.Note = findings.Autorun, []byte(tool)
		}
		out = append(out, f)
	}
	return out, lost
}
