package route

import (
	"bytes"
	"slices"
	"strings"

	"lazaret.dev/lazaret/supervisor/internal/gitignore"
)

// maxText is the size from which on an ignore file is taken to ignore
// everything; so is what cannot be read.
const maxText = 1 << 20

// maxEarlier is how many earlier texts of one file are kept apart.
const maxEarlier = 16

// everything is the text that ignores every path.
const everything = "*"

// text is the text of an ignore file; absent says that there is none, which
// ignores nothing.
type text struct {
	Bytes  []byte
	Absent bool `json:",omitempty"`
	// Guess marks the stand-in for a text that is in the index alone (sparse
	// checkout). It is not kept when the file appears.
	Guess bool `json:",omitempty"`
}

var absent = text{Absent: true}

func (t text) equal(o text) bool { return t.Absent == o.Absent && bytes.Equal(t.Bytes, o.Bytes) }

// lines are the patterns of a text, as written.
func (t text) lines() []string {
	var lines []string
	for line := range strings.SplitSeq(strings.TrimPrefix(string(t.Bytes), "\xef\xbb\xbf"), "\n") {
		if line = strings.TrimSuffix(line, "\r"); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	return lines
}

// covers tells whether t ignores all that o does, under any other rules: it
// has o's patterns in their order, and beside them no negation.
func (t text) covers(o text) bool {
	want := o.lines()
	for _, line := range t.lines() {
		switch {
		case len(want) > 0 && line == want[0]:
			want = want[1:]
		case line[0] == '!':
			return false
		}
	}
	return len(want) == 0
}

// positive is one text that covers all of these: their patterns without the
// negations.
func positive(texts []text) text {
	var all []string
	seen := map[string]bool{}
	size := 0
	for _, t := range texts {
		for _, line := range t.lines() {
			if line[0] != '!' && !seen[line] {
				seen[line] = true
				all = append(all, line)
				size += len(line) + 1
			}
		}
	}
	if size > maxText {
		return text{Bytes: []byte(everything)}
	}
	return text{Bytes: []byte(strings.Join(all, "\n"))}
}

// file is what is known of one ignore file.
type file struct {
	Current text   // as it was on disk when it was last read
	Earlier []text // what others than the developer replaced
	// Aliased: the sandbox made another name for it, and may write through
	// that one. It counts as open for ever.
	Aliased bool `json:",omitempty"`
	// Open: inside operations that may be changing it right now. After a crash
	// it tells who changed it.
	Open int `json:",omitempty"`

	compiled []*gitignore.Patterns
	stat     Entry // when Current was read
	// pending is the text that Git on the host may just be replacing; whether
	// it was a hand edit shows when Git is done.
	pending *text
}

// keep adds a replaced text to the earlier ones, unless one of them or today's
// covers it. It tells whether it did.
func (f *file) keep(old text) bool {
	covered := func(t text) bool { return t.covers(old) }
	if old.Guess || f.Current.covers(old) || slices.ContainsFunc(f.Earlier, covered) {
		return false
	}
	f.Earlier = slices.DeleteFunc(f.Earlier, old.covers)
	f.Earlier = append(f.Earlier, old)
	if len(f.Earlier) > maxEarlier {
		f.Earlier = []text{positive(f.Earlier)}
	}
	return true
}

// replace makes t today's text.
func (f *file) replace(t text, v verdict) {
	old := f.Current
	f.Current, f.compiled = t, nil
	if v != byHand && f.keep(old) && v == undecided {
		f.pending = &old
	}
}

// forget takes back what keep did for a text, if it is still there.
func (f *file) forget(old text) {
	f.Earlier = slices.DeleteFunc(f.Earlier, old.equal)
}

func (f *file) patterns(o gitignore.Options) []*gitignore.Patterns {
	if f.compiled == nil {
		f.compiled = append(f.compiled, gitignore.Parse(f.Current.Bytes, o))
		for _, t := range f.Earlier {
			f.compiled = append(f.compiled, gitignore.Parse(t.Bytes, o))
		}
	}
	return f.compiled
}

// relaxed are the patterns of earlier texts that today's does not have, and
// the negations that are new in it.
func (f *file) relaxed() []string {
	var lines []string
	now := f.Current.lines()
	for _, t := range f.Earlier {
		then := t.lines()
		for _, line := range then {
			if line[0] != '!' && !slices.Contains(now, line) && !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
		for _, line := range now {
			if line[0] == '!' && !slices.Contains(then, line) && !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}
