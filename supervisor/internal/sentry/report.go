package sentry

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"

	"lazaret.dev/lazaret/supervisor/internal/sentry/gitdir"
)

// journalLimit bounds what is kept for the report.
const journalLimit = 1000

// Refusal is a change that a rule forbids. It matches its errno.
type Refusal struct {
	Errno syscall.Errno
	Rule  Rule
	Op    OpKind
	Path  string
	Cause error // a gate's reason
}

func (r *Refusal) Error() string {
	text := fmt.Sprintf("cannot %s %q: %v (Git Sentry, rule %s)", r.Op, r.Path, r.Errno, r.Rule)
	if r.Cause != nil {
		text += ": " + r.Cause.Error()
	}
	return text
}

// Unwrap gives the errno and the gate's reason.
func (r *Refusal) Unwrap() []error {
	if r.Cause == nil {
		return []error{r.Errno}
	}
	return []error{r.Errno, r.Cause}
}

// Hint is one line on what protects the path.
func (r *Refusal) Hint() string {
	_, name := gitdir.Split(r.Path)
	switch r.Rule {
	case R1:
		return fmt.Sprintf("%q would make its directory a Git repository to the host: git init makes one that stays inside", r.Path)
	case R3:
		return fmt.Sprintf("%q belongs to the host's repository or to an operation that the host began: finish it on the host", r.Path)
	case R4:
		return fmt.Sprintf("the new %s is none that Git itself would write here, and was not handed to the host", name)
	case R5:
		return "in a repository of the host there are only plain files and directories"
	case R7:
		return fmt.Sprintf("%q is held by a Git process on the host", r.Path)
	case R8:
		return fmt.Sprintf("the host's Git configuration reads or runs %q: change it on the host", r.Path)
	case R2, R6:
	}
	return fmt.Sprintf("%q decides what the host's Git runs or uses: it is readable inside, and changed on the host only", r.Path)
}

// Refused is a refusal as the report tells it.
type Refused struct {
	Rule  Rule
	Op    OpKind
	Path  string
	Count int
}

// Report is what the session's report needs to know of the Sentry (R9).
type Report struct {
	Refused []Refused
	Born    []string // repositories, worktrees and submodules made inside
	Lost    int      // what was not kept, being too much
}

// journal collects the report.
type journal struct {
	mu      sync.Mutex
	refused map[Refused]int
	born    map[string]struct{}
	lost    int
}

func (j *journal) refuse(r *Refusal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.refused == nil {
		j.refused = map[Refused]int{}
	}
	key := Refused{Rule: r.Rule, Op: r.Op, Path: r.Path}
	if _, ok := j.refused[key]; !ok && len(j.refused) >= journalLimit {
		j.lost++
		return
	}
	key.Path = strings.Clone(key.Path)
	j.refused[key]++
}

func (j *journal) birth(path string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.born == nil {
		j.born = map[string]struct{}{}
	}
	if _, ok := j.born[path]; ok {
		return
	}
	if len(j.born) >= journalLimit {
		j.lost++
		return
	}
	j.born[strings.Clone(path)] = struct{}{}
}

// Report gives what was refused and what was born so far, sorted by path.
func (s *Sentry) Report() Report {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	r := Report{Born: slices.Sorted(maps.Keys(s.log.born)), Lost: s.log.lost}
	for key, n := range s.log.refused {
		key.Count = n
		r.Refused = append(r.Refused, key)
	}
	slices.SortFunc(r.Refused, func(a, b Refused) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Op, b.Op))
	})
	return r
}

// refuse makes a refusal, and keeps it unless it only says that a path lies in
// another storage.
func (s *Sentry) refuse(errno syscall.Errno, rule Rule, op OpKind, path string, cause error) *Refusal {
	r := &Refusal{Errno: errno, Rule: rule, Op: op, Path: path, Cause: cause}
	if errno != syscall.EXDEV {
		s.log.refuse(r)
	}
	return r
}

// Alias refuses and records a change through a second name of a protected file
// (Protected).
func (s *Sentry) Alias(op OpKind, path string) *Refusal {
	return s.refuse(syscall.EROFS, R2, op, path, nil)
}
