package gitignore

import "strings"

// pattern is one line of an ignore file.
type pattern struct {
	// literal is what the name begins with, or for a suffix pattern ends with.
	literal string
	// glob matches the rest; nil where literal is the whole name.
	glob     []token
	shortest int // the length of the shortest text that glob matches
	negative bool
	dirOnly  bool
	hasSlash bool // matched against the path; otherwise against the last component
	suffix   bool
	fold     bool
}

func special(c byte) bool { return c == '*' || c == '?' || c == '[' || c == '\\' }

// literalLen is the length of what stands before the first special byte.
func literalLen(s string) int {
	for i := range len(s) {
		if special(s[i]) {
			return i
		}
	}
	return len(s)
}

// compile reads one line; ok is false when no path can match it.
func compile(s string, o Options) (p pattern, ok bool) {
	p.fold = o.Fold
	s, p.negative = strings.CutPrefix(s, "!")
	// A slash at the end asks for a directory, even behind a backslash, which
	// is then left alone and matches nothing.
	s, p.dirOnly = strings.CutSuffix(s, "/")
	p.hasSlash = strings.Contains(s, "/")
	if p.hasSlash {
		s = strings.TrimPrefix(s, "/")
	}
	if s == "" {
		return p, false
	}
	n := literalLen(s)
	p.literal = s[:n]
	if n == len(s) {
		return p, true
	}
	if !p.hasSlash && s[0] == '*' && literalLen(s[1:]) == len(s)-1 {
		p.literal, p.suffix = s[1:], true
		return p, true
	}
	// Where Git looks at the path, it compares the literal first and hands the
	// rest to its matcher, to which two stars there seem to begin a component.
	fresh := n == 0 || s[n-1] == '/' || o.Dialect == Before252 || o.Dialect == Strict && !p.negative
	p.glob, p.shortest, ok = compileGlob(s[n:], p.hasSlash, fresh, o.Fold)
	return p, ok
}

func (p *pattern) matches(name string) bool {
	if len(name) < len(p.literal)+p.shortest {
		return false
	}
	switch {
	case p.suffix:
		return equal(name[len(name)-len(p.literal):], p.literal, p.fold)
	case p.glob == nil:
		return len(name) == len(p.literal) && equal(name, p.literal, p.fold)
	}
	return equal(name[:len(p.literal)], p.literal, p.fold) && globs(p.glob, name[len(p.literal):])
}

// equal compares two strings of one length; fold: ASCII letters in either
// case.
func equal(a, b string, fold bool) bool {
	if !fold {
		return a == b
	}
	for i := range len(a) {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

func upper(c byte) byte {
	if 'a' <= c && c <= 'z' {
		return c + 'A' - 'a'
	}
	return c
}
