package places

import (
	"errors"
	"io/fs"
	"strings"

	"lazaret.dev/lazaret/supervisor/internal/route/internal/attributes"
	"lazaret.dev/lazaret/supervisor/internal/route/internal/paths"
	"lazaret.dev/lazaret/supervisor/internal/route/internal/texts"
)

// Verdict is who changed a rule file.
type Verdict uint8

// The verdicts.
const (
	Inside    Verdict = iota // not the developer, as far as can be told
	ByHand                   // the developer, with an editor
	Undecided                // Git on the host is at work: it will show
)

// Judge tells a hand edit from what Git put on the host's disk, which may be
// the sandbox's own commit. The new text is a hand edit if the repository has
// no such blob, Git could not have made it from another blob, and Git takes
// the file for modified. Whatever is in doubt is none, and the removal of a
// file never is.
func (r *State) Judge(path string, d *Dir, t texts.Text, stat Entry) Verdict {
	if t.Absent || t.Guess || len(t.Bytes) >= texts.Max || !d.InRepo {
		return Inside
	}
	// Any repository around may have put it there.
	v := ByHand
	found := false
	for dir := range paths.Above(paths.Join(Scope(path), "x")) {
		root := r.Roots[dir]
		if root == nil || root.Reader == nil {
			continue
		}
		found = true
		switch r.judgeFor(dir, root, path, t, stat) {
		case Inside:
			return Inside
		case Undecided:
			v = Undecided
		case ByHand:
		}
	}
	if !found || !strings.HasSuffix(path, ExcludeMark) && (stat.Nlink != 1 || r.converts(d, path)) {
		return Inside
	}
	return v
}

// judgeFor is Judge for one repository.
func (r *State) judgeFor(dir string, root *Root, path string, t texts.Text, stat Entry) Verdict {
	switch {
	case root.Reader.Stored(t.Bytes):
		return Inside
	case strings.HasSuffix(path, ExcludeMark):
		return ByHand // Git does not write it, and nobody inside can
	}
	switch locked, err := root.Reader.Locked(); {
	case err != nil:
		return Inside
	case locked:
		return Undecided
	}
	clean, err := root.Reader.Clean(r.InRepository(dir, path), stat.Size, stat.Sec, stat.Nsec)
	if err != nil || clean {
		return Inside
	}
	return ByHand
}

// converts tells whether attributes may make Git write other bytes to path than
// the blob has, beside line ends: they can come with a commit.
func (r *State) converts(d *Dir, path string) bool {
	var all []attributes.Source
	for dir := range paths.Above(path) {
		name := paths.Join(dir, AttributesName)
		b, err := r.Tree.ReadFile(name, texts.Max)
		switch {
		case err == nil:
			all = append(all, attributes.Source{Text: string(b), Path: strings.TrimPrefix(path[len(dir):], "/")})
		case !errors.Is(err, fs.ErrNotExist) || r.OnlyInIndex(d.Repo, name):
			return true
		}
		root := r.Roots[dir]
		if root == nil || root.Reader == nil {
			continue
		}
		b, err = root.Reader.Attributes()
		if err != nil {
			return true
		}
		all = append(all, attributes.Source{Text: string(b), Path: r.InRepository(dir, path)})
	}
	return attributes.Convert(all)
}
