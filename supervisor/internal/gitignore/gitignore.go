// Package gitignore is Git's ignore rules: what the text of an ignore file
// says about a path, and how several files decide together.
//
// It is pure: it reads no file, runs no Git and knows no repository. Texts and
// paths come from the sandbox and are hostile: a text is read once, in time
// linear in its length, and no pattern makes a look-up take more than its own
// length times the path's. It runs in the Runtime Supervisor.
package gitignore

import (
	"bytes"
	"strings"
)

// Dialect says which Git is followed where versions differ: in a pattern with
// a slash, two stars directly behind a literal (`lib**/x`).
type Dialect uint8

// The dialects.
const (
	// Strict takes from both what ignores more: such a pattern is the older
	// one, its negation the newer. No installed Git ignores a path that Strict
	// does not.
	Strict Dialect = iota
	// Before252 is Git before 2.52: the stars count as a component of their
	// own and cross slashes.
	Before252
	// Since252 is Git 2.52 and newer: the stars are a single one.
	Since252
)

// Options are what Git takes from a repository's configuration, and from its
// own version.
type Options struct {
	// Fold is core.ignorecase: ASCII letters match in either case, with Git's
	// exceptions (a class and an escaped letter do not fold).
	Fold    bool
	Dialect Dialect
}

// Patterns is the compiled text of one ignore file. It is never changed and
// safe for concurrent use.
type Patterns struct{ list []pattern }

// Verdict is what one file says about one path.
type Verdict uint8

// The verdicts.
const (
	None   Verdict = iota // no pattern matches
	Ignore                // the last one that matches ignores it
	Keep                  // the last one that matches is a negation
)

// Parse compiles the text of an ignore file as it is on disk. Every text is
// valid; a pattern that can match nothing is left out.
func Parse(text []byte, o Options) *Patterns {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	p := &Patterns{}
	for len(text) > 0 {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		text = rest
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		// The carriage return of a line end that is no part of the pattern:
		// one, and also at the end of a text without a last newline.
		line = bytes.TrimSuffix(line, []byte("\r"))
		if nul := bytes.IndexByte(line, 0); nul >= 0 {
			line = line[:nul]
		}
		if c, ok := compile(string(line[:trimmed(line)]), o); ok {
			p.list = append(p.list, c)
		}
	}
	return p
}

// trimmed is the length of the line without trailing spaces. One behind a
// backslash stays, and so does everything behind a last, lone backslash.
func trimmed(line []byte) int {
	end := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			continue
		case '\\':
			i++
			if i == len(line) {
				return len(line)
			}
		}
		end = i + 1
	}
	return end
}

// Empty tells whether the text holds no pattern that can match.
func (p *Patterns) Empty() bool { return len(p.list) == 0 }

// Match says what the file says about path, which is relative to the file's
// directory and not empty. It looks at this path alone: what lies in an
// ignored directory is ignored whatever Match says about it.
func (p *Patterns) Match(path string, isDir bool) Verdict {
	return p.match(path, path[strings.LastIndexByte(path, '/')+1:], isDir)
}

func (p *Patterns) match(path, base string, isDir bool) Verdict {
	for i := len(p.list) - 1; i >= 0; i-- {
		c := &p.list[i]
		if c.dirOnly && !isDir {
			continue
		}
		name := base
		if c.hasSlash {
			name = path
		}
		if !c.matches(name) {
			continue
		}
		if c.negative {
			return Keep
		}
		return Ignore
	}
	return None
}

// Stack is the ignore files that decide about the entries of one directory,
// the one that is asked first on top. A nil Stack ignores nothing. It is
// never changed, so that directories share what lies below.
type Stack struct {
	below *Stack
	base  int
	texts []*Patterns
}

// Push puts a file on the stack: what it says counts before the rest. base is
// the length of the part of a path that leads to the file's directory, its
// slash included.
//
// With more than one text, the file is any one of them: a path is ignored if
// it is with some choice of a text for every file on the stack.
func (s *Stack) Push(base int, texts ...*Patterns) *Stack {
	open := false
	for _, t := range texts {
		open = open || !t.Empty()
	}
	if !open {
		return s
	}
	return &Stack{below: s, base: base, texts: texts}
}

// Ignores tells whether the stack ignores path itself, an entry of the
// stack's directory. Whether a directory above it is ignored is for the caller
// to ask first.
func (s *Stack) Ignores(path string, isDir bool) bool {
	base := path[strings.LastIndexByte(path, '/')+1:]
	for ; s != nil; s = s.below {
		open := false
		for _, t := range s.texts {
			switch t.match(path[s.base:], base, isDir) {
			case Ignore:
				return true
			case None:
				open = true
			case Keep:
			}
		}
		if !open {
			return false
		}
	}
	return false
}
