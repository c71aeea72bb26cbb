package sentry_test

import (
	"errors"
	"strings"
	"syscall"

	"lazaret.dev/lazaret/supervisor/internal/sentry"
	"lazaret.dev/lazaret/supervisor/internal/sentry/gitdir"
	"lazaret.dev/lazaret/supervisor/internal/sentry/gitdirtest"
	"lazaret.dev/lazaret/supervisor/internal/sentry/targets"
)

const (
	hostConfig = "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = file:///r\n"
	goodIndex  = "good index"
	oid        = "0123456789012345678901234567890123456789"
)

// hostTree is what the vectors' fixture has on the host.
func hostTree() *gitdirtest.Tree {
	tree := gitdirtest.New(
		"a.txt", "dir/b.txt", ".gitignore", ".gitattributes", ".gitmodules", "sub/s.txt", "sub/.git = gitdir: ../.git/modules/sub\n",
		"deep/sub2/.git = gitdir: ../../.git/modules/sub2\n", "deep/sub2/x",
		"hardlink",
	)
	for _, g := range []string{".git", ".git/modules/sub", ".git/modules/sub2"} {
		for _, e := range []string{
			"HEAD = ref: refs/heads/main\n", "config = " + hostConfig, "description", "index = " + goodIndex, "hooks/pre-commit.sample",
			"info/exclude", "objects/info/", "objects/pack/pack-aa.pack", "objects/ab/cdef", "refs/heads/main = " + oid, "refs/tags/",
			"logs/HEAD", "logs/refs/heads/main", "packed-refs", "COMMIT_EDITMSG", "ORIG_HEAD",
		} {
			tree.Add(g + "/" + e)
		}
	}
	for _, e := range []string{"HEAD = ref: refs/heads/wtb\n", "commondir = ../..\n", "gitdir = /elsewhere/.git\n", "index = " + goodIndex, "logs/HEAD", "ORIG_HEAD"} {
		tree.Add(".git/worktrees/wt/" + e)
	}
	return tree
}

// tb is what tests, benchmarks and properties have in common.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// sim performs operations on a tree in memory as the workspace view would.
type sim struct {
	t       tb
	host    *gitdirtest.Tree
	s       *sentry.Sentry
	made    map[string]bool
	domain  map[string]string
	refused int
	strict  bool // what a file system refuses by itself is refused first
}

func newSim(t tb, host *gitdirtest.Tree, o sentry.Options) *sim {
	t.Helper()
	if o.VerifyIndex == nil {
		o.VerifyIndex = func(x sentry.Index) error {
			b := make([]byte, x.Size)
			if _, err := x.ReadAt(b, 0); err != nil {
				return err
			}
			if x.HashSize != 20 || !strings.HasPrefix(string(b), "good") {
				return errors.New("a forged index")
			}
			return nil
		}
	}
	o.Root = "/home/dev/ws"
	m := &sim{t: t, host: host, s: sentry.New(host, o), made: map[string]bool{}, domain: map[string]string{}}
	if _, err := m.s.Scan(); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *sim) targets(list ...targets.Target) *sim {
	m.s.SetTargets(list)
	return m
}

// run performs operations and gives the first error; those after it run too,
// as an attacker would.
func (m *sim) run(ops ...string) error {
	var first error
	for _, op := range ops {
		if err := m.do(op); err != nil {
			m.refused++
			if first == nil {
				first = err
			}
		}
	}
	return first
}

// do performs one operation: a verb, paths, and for "create" and "write" text.
func (m *sim) do(line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	rest, text, _ := strings.Cut(rest, " = ")
	from, to, _ := strings.Cut(rest, " ")
	switch verb {
	case "mv", "xchg", "ln":
		return m.two(verb, from, to)
	case "lock": // as Git writes a file
		if err := m.do("create " + from + ".lock = " + text); err != nil {
			return err
		}
		return m.do("mv " + from + ".lock " + from)
	case "put": // write, or create
		if m.host.Get(from).Kind != gitdir.Absent && !m.s.Classify(from).Class.Domain() {
			return m.do("write " + from + " = " + text)
		}
		return m.do("create " + from + " = " + text)
	}
	kinds := map[string]sentry.OpKind{
		"create": sentry.Create, "mkdir": sentry.Mkdir, "symlink": sentry.Symlink, "mkfifo": sentry.Mknod,
		"rm": sentry.Unlink, "rmdir": sentry.Rmdir, "write": sentry.Write, "chmod": sentry.Chmod, "touch": sentry.Utimes,
	}
	kind, ok := kinds[verb]
	if !ok {
		m.t.Fatalf("no such operation: %q", line)
	}
	if err := m.possible(kind, from, ""); err != nil {
		return err
	}
	act, err := m.s.Check(sentry.Op{Kind: kind, Path: from, Made: m.made[from]})
	if err != nil {
		return err
	}
	if act != sentry.Perform {
		m.t.Fatalf("%q: action %v", line, act)
	}
	if m.s.Classify(from).Class.Domain() {
		m.domain[from] = text
		return nil
	}
	switch kind {
	case sentry.Create:
		m.host.Put(from, gitdir.File, text)
		m.made[from] = true
	case sentry.Mkdir:
		m.host.Put(from, gitdir.Dir, "")
		m.made[from] = true
	case sentry.Symlink:
		m.host.Put(from, gitdir.Symlink, to)
	case sentry.Mknod:
		m.host.Put(from, gitdir.Other, "")
	case sentry.Unlink, sentry.Rmdir:
		m.host.Remove(from)
		delete(m.made, from)
	case sentry.Write:
		if m.host.Get(from).Kind != gitdir.File {
			return syscall.EISDIR
		}
		m.host.Put(from, gitdir.File, m.host.Get(from).Data+text)
	default:
		m.host.Put(from+"!", gitdir.File, verb) // a trace of it
	}
	m.s.Changed(from)
	return nil
}

func (m *sim) two(verb, from, to string) error {
	kind := map[string]sentry.OpKind{"mv": sentry.Rename, "xchg": sentry.Exchange, "ln": sentry.Link}[verb]
	if err := m.possible(kind, from, to); err != nil {
		return err
	}
	fromDomain, toDomain := m.s.Classify(from).Class.Domain(), m.s.Classify(to).Class.Domain()
	act, err := m.s.Check(sentry.Op{Kind: kind, Path: from, To: to, Links: 1, Made: m.made[from], ToMade: m.made[to]})
	if err != nil {
		return err
	}
	if act == sentry.Publish {
		return m.publish(from, to)
	}
	switch {
	case fromDomain != toDomain:
		m.t.Fatalf("%s %s %s is allowed between two storages", verb, from, to)
	case fromDomain:
		m.domain[to] = m.domain[from]
		delete(m.domain, from)
	case kind == sentry.Rename:
		m.host.Move(from, to)
		delete(m.made, from)
		m.made[to] = true
	case kind == sentry.Exchange:
		m.host.Move(from, "!")
		m.host.Move(to, from)
		m.host.Move("!", to)
	default:
		f := m.host.Get(from)
		m.host.Put(to, f.Kind, f.Data)
		m.made[to] = true
	}
	m.s.Forget(from)
	m.s.Forget(to)
	return nil
}

// possible is what the host's file system says itself, of names that are its.
func (m *sim) possible(kind sentry.OpKind, from, to string) error {
	if !m.strict {
		return nil
	}
	empty := func(dir string) bool {
		entries, err := m.host.ReadDir(dir)
		return err == nil && len(entries) == 0
	}
	at := func(path string) (kind gitdir.Kind, ours bool) {
		return m.host.Get(path).Kind, m.s.Classify(path).Class.Domain()
	}
	parent := func(path string) bool {
		dir, _ := gitdir.Split(path)
		kind, ours := at(dir)
		return dir == "" || ours || kind == gitdir.Dir
	}
	have, ours := at(from)
	switch kind {
	case sentry.Create, sentry.Mkdir, sentry.Symlink, sentry.Mknod:
		if ours || parent(from) && have == gitdir.Absent {
			return nil
		}
		return syscall.EEXIST
	case sentry.Rename, sentry.Exchange, sentry.Link:
		there, theirs := at(to)
		switch {
		case ours && theirs:
			return nil
		case !parent(to), !ours && have == gitdir.Absent, kind == sentry.Exchange && !theirs && there == gitdir.Absent, gitdir.Below(to, from), gitdir.Below(from, to):
			return syscall.ENOENT
		case kind == sentry.Link && (have == gitdir.Dir || there != gitdir.Absent):
			return syscall.EPERM
		case kind == sentry.Rename && there != gitdir.Absent && ((have == gitdir.Dir) != (there == gitdir.Dir) || there == gitdir.Dir && !empty(to)):
			return syscall.ENOTEMPTY
		}
		return nil
	case sentry.Rmdir:
		if !ours && (have != gitdir.Dir || !empty(from)) {
			return syscall.ENOTEMPTY
		}
	default:
		if !ours && (have == gitdir.Absent || have == gitdir.Dir) {
			return syscall.ENOENT
		}
	}
	return nil
}

func content(text string) sentry.Content {
	return sentry.Content{ReaderAt: strings.NewReader(text), Size: int64(len(text))}
}

func (m *sim) publish(from, to string) error {
	text, scratch := m.domain[from]
	if !scratch {
		text = m.host.Get(from).Data
	}
	var old *sentry.Content
	if f := m.host.Get(to); f.Kind == gitdir.File {
		c := content(f.Data)
		old = &c
	}
	out, err := m.s.Publish(from, to, content(text), old)
	delete(m.domain, from)
	if err != nil {
		return err
	}
	if !scratch {
		m.host.Remove(from)
	}
	delete(m.made, from)
	if out == sentry.Replace {
		m.host.Put(to, gitdir.File, text)
		m.made[to] = true
	}
	return nil
}

// wantErrno fails unless err is a refusal with that errno.
func wantErrno(t tb, what string, err error, errno syscall.Errno) {
	t.Helper()
	var r *sentry.Refusal
	switch {
	case errno == 0 && err != nil:
		t.Errorf("%s: %v", what, err)
	case errno != 0 && (!errors.As(err, &r) || !errors.Is(err, errno)):
		t.Errorf("%s: %v, want %v", what, err, errno)
	}
}
