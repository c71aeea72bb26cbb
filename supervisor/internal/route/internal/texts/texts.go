// Package texts is what is known of one ignore file: today's text, and the
// earlier ones that still count. It is pure. It runs in the Runtime
// Supervisor.
package texts

import (
	"bytes"
	"slices"
	"strings"

	"lazaret.dev/lazaret/supervisor/internal/gitignore"
)

// Max is the size from which on an ignore file is taken to ignore
// everything; so is what cannot be read.
const Max = 1 << 20

// maxEarlier is how many earlier texts of one file are kept apart.
const maxEarlier = 16

// Text is the text of an ignore file; Absent says that there is none, which
// ignores nothing.
type Text struct {
	Bytes  []byte
	Absent bool `json:",omitempty"`
	// Guess marks the stand-in for a text that is in the index alone (sparse
	// checkout). It is not kept when the file appears.
	Guess bool `json:",omitempty"`
}

// Absent is the text of no file.
func Absent() Text { return Text{Absent: true} }

// Everything is the text that ignores every path.
func Everything() Text { return Text{Bytes: []byte("*")} }

// Equal tells whether two texts are the same.
func (t Text) Equal(o Text) bool { return t.Absent == o.Absent && bytes.Equal(t.Bytes, o.Bytes) }

// lines are the patterns of a text, as written.
func (t Text) lines() []string {
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
func (t Text) covers(o Text) bool {
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
func positive(all []Text) Text {
	var lines []string
	seen := map[string]bool{}
	size := 0
	for _, t := range all {
		for _, line := range t.lines() {
			if line[0] != '!' && !seen[line] {
				seen[line] = true
				lines = append(lines, line)
				size += len(line) + 1
			}
		}
	}
	if size > Max {
		return Everything()
	}
	return Text{Bytes: []byte(strings.Join(lines, "\n"))}
}

// File is what is known of one ignore file. It is what the record keeps.
type File struct {
	Current Text   // as it was on disk when it was last read
	Earlier []Text // what others than the developer replaced
	// Aliased: the sandbox made another name for it, and may write through
	// that one. It counts as open for ever.
	Aliased bool `json:",omitempty"`
	// Open: inside operations that may be changing it right now. After a crash
	// it tells who changed it.
	Open int `json:",omitempty"`

	compiled []*gitignore.Patterns
	pending  *Text
}

// Nothing tells whether the file is as good as one that never was.
func (f *File) Nothing() bool {
	return f.Current.Absent && len(f.Earlier) == 0 && f.Open == 0 && !f.Aliased
}

// Carry is what is known of the file, for another name.
func (f *File) Carry() *File {
	return &File{Current: f.Current, Earlier: slices.Clone(f.Earlier), Aliased: f.Aliased}
}

// Replace makes t today's text. Unless it is a hand edit, the replaced one
// still counts. pending: whether it is one is not decided yet.
func (f *File) Replace(t Text, byHand, pending bool) {
	old := f.Current
	f.Current, f.compiled, f.pending = t, nil, nil
	if !byHand && f.Keep(old) && pending {
		f.pending = &old
	}
}

// Pending tells whether a decision is due.
func (f *File) Pending() bool { return f.pending != nil }

// Decide ends a pending decision. After a hand edit, the replaced text no
// longer counts.
func (f *File) Decide(byHand bool) {
	if f.pending != nil && byHand {
		f.Earlier = slices.DeleteFunc(f.Earlier, f.pending.Equal)
		f.compiled = nil
	}
	f.pending = nil
}

// Keep adds a text to the earlier ones, unless one of them or today's covers
// it. It tells whether it did.
func (f *File) Keep(old Text) bool {
	covered := func(t Text) bool { return t.covers(old) }
	if old.Guess || f.Current.covers(old) || slices.ContainsFunc(f.Earlier, covered) {
		return false
	}
	f.compiled = nil
	f.Earlier = append(slices.DeleteFunc(f.Earlier, old.covers), old)
	if len(f.Earlier) > maxEarlier {
		f.Earlier = []Text{positive(f.Earlier)}
	}
	return true
}

// Patterns are the compiled texts that count.
func (f *File) Patterns(o gitignore.Options) []*gitignore.Patterns {
	if f.compiled == nil {
		f.compiled = append(f.compiled, gitignore.Parse(f.Current.Bytes, o))
		for _, t := range f.Earlier {
			f.compiled = append(f.compiled, gitignore.Parse(t.Bytes, o))
		}
	}
	return f.compiled
}

// Relaxed are the patterns of earlier texts that today's does not have, and
// the negations that are new in it.
func (f *File) Relaxed() []string {
	var lines []string
	add := func(from, in []string, negative bool) {
		for _, line := range from {
			if (line[0] == '!') == negative && !slices.Contains(in, line) && !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	now := f.Current.lines()
	for _, t := range f.Earlier {
		add(t.lines(), now, false)
		add(now, t.lines(), true)
	}
	return lines
}
