// Package report finds out what a person should know when a generation ends:
// what happened to the host's repositories meanwhile, and which files were made
// that tools on the host run by themselves.
//
// It compares what the repositories are like at the start and at the end, by
// reading refs, index, marks of operations and commits. It runs no Git, follows
// no link, writes nothing, and believes no length: what cannot be read is left
// out. It runs in the Runtime Supervisor.
package report

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/findings"
	"lazaret.dev/lazaret/supervisor/internal/fdfs"
	"lazaret.dev/lazaret/supervisor/internal/gitindex"
	"lazaret.dev/lazaret/supervisor/internal/gitodb"
)

// Snapshot is what the repositories of a workspace are like at one moment.
type Snapshot struct {
	repos map[string]*state // by gitdir
}

// state is one repository's.
type state struct {
	refs   map[string]string
	head   string            // the commit that is checked out, if it is readable
	hidden map[string]string // by path, the index flag
	marks  map[string]string // half-way operations and locks: name to content
}

// operations are the marks of an operation that Git goes on with by itself, at
// the next commit, or when asked to continue.
var operations = map[string]string{
	"MERGE_HEAD": "a merge", "MERGE_AUTOSTASH": "a stash that the next merge commit applies", "CHERRY_PICK_HEAD": "a cherry-pick",
	"REVERT_HEAD": "a revert", "BISECT_LOG": "a bisection", "rebase-merge": "a rebase", "rebase-apply": "a rebase or an am",
	"sequencer": "a series of cherry-picks or reverts", "MERGE_RR": "a merge whose conflicts Git resolves from memory",
}

// locks are the locks that stop Git on the host while they are there.
var locks = []string{"index.lock", "HEAD.lock", "config.lock", "packed-refs.lock", "shallow.lock", "gc.pid"}

// maxMark bounds how much of a mark is compared.
const maxMark = 64 << 10

// maxIndex bounds the index that is read.
const maxIndex = 64 << 20

// Take reads the repositories with these gitdirs below root, which stays the
// caller's. What the context leaves no time for is left out.
func Take(ctx context.Context, root int, gitdirs []string) *Snapshot {
	s := &Snapshot{repos: map[string]*state{}}
	for _, dir := range gitdirs {
		if ctx.Err() != nil {
			break
		}
		st := &state{hidden: hiddenPaths(root, dir), marks: map[string]string{}}
		// Refs that cannot be read are not compared.
		if refs, err := readRefs(ctx, root, dir); err == nil {
			st.refs = refs
		}
		st.head = head(root, dir, st.refs)
		for name := range operations {
			st.mark(root, dir, name)
		}
		for _, name := range locks {
			st.mark(root, dir, name)
		}
		s.repos[dir] = st
	}
	return s
}

// head is the commit that HEAD leads to.
func head(root int, dir string, refs map[string]string) string {
	b, err := fdfs.ReadRegular(root, path.Join(dir, "HEAD"), maxRef)
	if err != nil {
		return ""
	}
	text := strings.TrimSpace(string(b))
	if ref, ok := strings.CutPrefix(text, "ref: "); ok {
		return refs[ref]
	}
	return text
}

func (st *state) mark(root int, dir, name string) {
	fd, err := fdfs.Open(root, path.Join(dir, name), unix.O_PATH|unix.O_NOFOLLOW, true)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(fd) }()
	info, err := fdfs.Stat(fd)
	if err != nil {
		return
	}
	text := []byte(fmt.Sprint(info.Ino))
	switch info.Mode & unix.S_IFMT {
	case unix.S_IFCHR:
		return // the mark of a name that was removed inside
	case unix.S_IFREG:
		if text, err = fdfs.ReadRegular(root, path.Join(dir, name), maxMark); err != nil {
			text = []byte("unread")
		} else if len(bytes.TrimSpace(text)) == 0 && name == "MERGE_RR" {
			return // as Git leaves it
		}
	}
	st.marks[name] = string(text)
}

// hiddenPaths are the entries of an index whose changes Git does not look for.
func hiddenPaths(root int, dir string) map[string]string {
	fd, err := fdfs.Open(root, path.Join(dir, "index"), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, true)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), "index")
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxIndex {
		return nil
	}
	index, err := gitindex.Parse(f, info.Size(), gitindex.Options{HashSize: hashSize(root, dir), Shared: func(id string) (io.ReaderAt, int64, error) {
		b, err := fdfs.ReadRegular(root, path.Join(dir, "sharedindex."+id), maxIndex)
		return bytes.NewReader(b), int64(len(b)), err
	}})
	if err != nil {
		return nil
	}
	out := map[string]string{}
	for e := range index.All() {
		switch {
		case e.AssumeValid:
			out[e.Path] = "assume-unchanged"
		case e.SkipWorktree:
			out[e.Path] = "skip-worktree"
		}
	}
	return out
}

// hashSize is the length of a repository's object names.
func hashSize(root int, dir string) int {
	config, err := fdfs.ReadRegular(root, path.Join(common(root, dir), "config"), 1<<20)
	if err != nil {
		return 20
	}
	n, err := gitodb.HashSize(config)
	if err != nil {
		return 20
	}
	return n
}

// common is the common directory of a gitdir, where that lies in the workspace;
// else it is the gitdir itself.
func common(root int, dir string) string {
	b, err := fdfs.ReadRegular(root, path.Join(dir, "commondir"), 4<<10)
	to := strings.TrimSpace(string(b))
	if err != nil || to == "" || path.IsAbs(to) {
		return dir
	}
	to = path.Join(dir, to)
	if to == ".." || strings.HasPrefix(to, "../") {
		return dir
	}
	return to
}

// Compare says what has become of the repositories between the snapshots.
// Whether a ref moved forward is asked of the commits below root. obeyed says
// who on the host obeys or runs the file at a path of the workspace, "" for
// nobody; tops are the roots of the working trees, by gitdir.
func Compare(ctx context.Context, root int, before, after *Snapshot, tops map[string]string, obeyed func(path string) string) []findings.Finding {
	var out []findings.Finding
	for dir, now := range after.repos {
		was := before.repos[dir]
		if was == nil {
			continue // the host has made it meanwhile: nobody inside can
		}
		start := len(out)
		out = append(out, marks(was, now)...)
		out = append(out, flags(was, now)...)
		if was.refs != nil && now.refs != nil {
			out = append(out, moves(ctx, root, dir, was, now, func(name string) string { return obeyed(path.Join(tops[dir], name)) })...)
		}
		for i := range out[start:] {
			if dir != ".git" {
				out[start+i].Repo = []byte(dir)
			}
		}
	}
	return out
}

func marks(was, now *state) []findings.Finding {
	var out []findings.Finding
	for name, text := range now.marks {
		if before, ok := was.marks[name]; ok && before == text {
			continue
		}
		f := findings.Finding{Kind: findings.Lock, Path: []byte(name)}
		if what := operations[name]; what != "" {
			f.Kind, f.Note = findings.Halfway, []byte(what)
		}
		out = append(out, f)
	}
	return out
}

// flags is one finding for each flag, however many files have it.
func flags(was, now *state) []findings.Finding {
	found := map[string]*findings.Finding{}
	for _, name := range slices.Sorted(maps.Keys(now.hidden)) {
		flag := now.hidden[name]
		switch {
		case was.hidden[name] == flag:
		case found[flag] == nil:
			found[flag] = &findings.Finding{Kind: findings.Hidden, Path: []byte(name), Note: []byte(flag), Count: 1}
		default:
			found[flag].Count++
		}
	}
	var out []findings.Finding
	for _, f := range found {
		out = append(out, *f)
	}
	return out
}

const replacePrefix = "refs/replace/"

func moves(ctx context.Context, root int, dir string, was, now *state, obeyed func(string) string) []findings.Finding {
	var out []findings.Finding
	fd, err := fdfs.Open(root, path.Join(common(root, dir), "objects"), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, true)
	var odb *gitodb.Store
	if err == nil {
		defer func() { _ = unix.Close(fd) }()
		odb = &gitodb.Store{Objects: gitodb.At(fd), HashSize: hashSize(root, dir)}
	}
	look := &commits{odb: odb, obeyed: obeyed, left: maxEntries}
	told := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(now.refs)) {
		to := now.refs[name]
		from, old := was.refs[name]
		if (!old || from != to) && odb != nil && !strings.HasPrefix(name, replacePrefix) {
			base := from
			if !old {
				base = was.head
			}
			look.found = map[string]string{}
			var err error
			if id := objectID(to); id != nil {
				err = look.brought(ctx, objectID(base), id)
			}
			for _, f := range look.findings(name, err) {
				if !told[string(f.Path)] {
					told[string(f.Path)] = true
					out = append(out, f)
				}
			}
		}
		f := findings.Finding{Path: []byte(name)}
		switch {
		case old && from == to:
			continue
		case strings.HasPrefix(name, replacePrefix):
			f.Kind = findings.Replaced
		case !old:
			f.Kind = findings.RefNew
		case forward(ctx, odb, from, to, &f):
			continue
		}
		out = append(out, f)
	}
	for name, from := range was.refs {
		if _, ok := now.refs[name]; !ok {
			out = append(out, findings.Finding{Kind: findings.RefGone, Path: []byte(name), Note: []byte(short(from))})
		}
	}
	return out
}

// forward tells whether a ref moved forward, and fills in the finding if not.
func forward(ctx context.Context, odb *gitodb.Store, from, to string, f *findings.Finding) bool {
	f.Kind, f.Note = findings.RefMoved, []byte("from "+short(from)+" to "+short(to))
	a, b := objectID(from), objectID(to)
	if a == nil || b == nil || odb == nil {
		return false
	}
	yes, err := odb.Descends(ctx, b, a)
	if err != nil {
		f.Note = append(f.Note, ", which may be no step forward: "...)
		f.Note = append(f.Note, err.Error()...)
	}
	return yes
}

// short is an object's name as people write it, or what else a ref holds.
func short(text string) string {
	if objectID(text) != nil {
		return text[:12]
	}
	return text
}

// Sort puts findings in their order.
func Sort(all []findings.Finding) {
	slices.SortStableFunc(all, func(a, b findings.Finding) int {
		return cmp.Or(cmp.Compare(a.Kind.Rank(), b.Kind.Rank()), bytes.Compare(a.Repo, b.Repo), bytes.Compare(a.Path, b.Path))
	})
}

// Private finds operations that were left half-way inside, in the Domain's
// private Git state: the directory root, which stays the caller's.
func Private(root int, gitdirs []string) []findings.Finding {
	var out []findings.Finding
	for _, dir := range gitdirs {
		st := &state{marks: map[string]string{}}
		for _, name := range slices.Sorted(maps.Keys(operations)) {
			st.mark(root, dir, name)
		}
		for name := range st.marks {
			f := findings.Finding{Kind: findings.Halfway, Path: []byte(name), Note: []byte(operations[name] + ", inside")}
			if dir != ".git" {
				f.Repo = []byte(dir)
			}
			out = append(out, f)
		}
	}
	return out
}
