package route

import (
	"bytes"
	"errors"
	"io/fs"
	"strings"

	"lazaret.dev/lazaret/supervisor/internal/gitignore"
	"lazaret.dev/lazaret/supervisor/internal/gitodb"
)

// verdict is who changed a rule file.
type verdict uint8

const (
	inside    verdict = iota // not the developer, as far as can be told
	byHand                   // the developer, with an editor
	undecided                // Git on the host is at work: it will show
)

// judge tells a hand edit from what Git put on the host's disk, which may be
// the sandbox's own commit. The new text is a hand edit if the repository has
// no such blob, Git could not have made it from another blob, and Git takes
// the file for modified. Whatever is in doubt is none, and the removal of a
// file never is.
func (r *Router) judge(path string, d *directory, t text, stat Entry) verdict {
	if t.Absent || t.Guess || len(t.Bytes) >= maxText || !d.inRepo {
		return inside
	}
	// Any repository around may have put it there.
	v := byHand
	found := false
	for dir := range above(join(scope(path), "x")) {
		root := r.roots[dir]
		if root == nil || root.repo == nil {
			continue
		}
		found = true
		switch r.judgeFor(dir, root, path, t, stat) {
		case inside:
			return inside
		case undecided:
			v = undecided
		case byHand:
		}
	}
	if !found || !strings.HasSuffix(path, excludeMark) && (stat.Nlink != 1 || r.converts(d, path)) {
		return inside
	}
	return v
}

// judgeFor is judge for one repository.
func (r *Router) judgeFor(dir string, root *repository, path string, t text, stat Entry) verdict {
	store := &gitodb.Store{Objects: root.repo.Objects, HashSize: root.repo.HashSize, Alternate: root.repo.Alternate}
	if stored(store, t.Bytes) {
		return inside
	}
	if strings.HasSuffix(path, excludeMark) {
		return byHand // Git does not write it, and nobody inside can
	}
	switch f, err := root.repo.GitDir.Open("index.lock"); {
	case err == nil:
		_ = f.Close()
		return undecided
	case !errors.Is(err, fs.ErrNotExist):
		return inside
	}
	root.stale = true
	x := root.tracked()
	if x == nil || root.stale {
		return inside
	}
	e, ok := x.Lookup(r.inRepository(dir, path))
	if ok && (e.Stage != 0 || e.Size == uint32(stat.Size) && e.MtimeSec == uint32(stat.Sec) && e.MtimeNsec == uint32(stat.Nsec)) {
		return inside
	}
	return byHand
}

// stored tells whether the text may be a blob, with line ends of either kind.
func stored(s *gitodb.Store, b []byte) bool {
	for _, b := range [][]byte{b, bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))} {
		if found, err := s.HasBlob(b); found || err != nil {
			return true
		}
	}
	return false
}

// converts tells whether Git may write other bytes to path than the blob has,
// beside line ends: attributes that come with a commit can ask for a filter,
// another encoding, or for a keyword to be expanded.
func (r *Router) converts(d *directory, path string) bool {
	type source struct {
		text string
		name string // path relative to the attributes file
	}
	var all []source
	for dir := range above(path) {
		name := join(dir, attributesName)
		rest := strings.TrimPrefix(path[len(dir):], "/")
		b, err := r.tree.ReadFile(name, maxText)
		switch {
		case err == nil:
			all = append(all, source{string(b), rest})
		case !errors.Is(err, fs.ErrNotExist) || r.onlyInIndex(d.repo, name):
			return true
		}
		root := r.roots[dir]
		if root == nil || root.repo == nil {
			continue
		}
		b, err = readAll(root.repo.Common, "info/attributes", maxText)
		if err == nil {
			all = append(all, source{string(b), r.inRepository(dir, path)})
		} else if !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	macros := map[string]bool{}
	for _, s := range all {
		for line := range strings.Lines(s.text) {
			if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[0], "[attr]") {
				macros[strings.TrimPrefix(f[0], "[attr]")] = true
			}
		}
	}
	for _, s := range all {
		for line := range strings.Lines(s.text) {
			if attributesConvert(strings.Fields(strings.TrimPrefix(line, "\xef\xbb\xbf")), s.name, macros) {
				return true
			}
		}
	}
	return false
}

// attributesConvert is converts for one line.
func attributesConvert(f []string, name string, macros map[string]bool) bool {
	if len(f) < 2 || f[0][0] == '#' || strings.HasPrefix(f[0], "[attr]") {
		return false
	}
	asks := false
	for _, a := range f[1:] {
		key, _, _ := strings.Cut(a, "=")
		asks = asks || key == "filter" || key == "ident" || key == "working-tree-encoding" || macros[key]
	}
	if !asks {
		return false
	}
	if f[0][0] == '"' || f[0][0] == '!' {
		return true // quoted; what it says is not worth a parser
	}
	o := gitignore.Options{Fold: true}
	return gitignore.Parse([]byte(f[0]), o).Match(name, false) != gitignore.None || gitignore.Parse([]byte(f[0]), gitignore.Options{}).Match(name, false) != gitignore.None
}
