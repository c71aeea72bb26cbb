package gitdir

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// IsDotGit tells whether some file system takes name for ".git": in another
// case, with trailing dots or blanks, with a stream after a colon, with code
// points that folding file systems ignore, or as the short name git~1.
func IsDotGit(name string) bool {
	if len(name) < len(".git") {
		return false
	}
	return Folds(name, ".git") || Folds(name, "git~1")
}

// Folds tells whether name folds to want, which is lower-case ASCII. It
// allocates nothing.
func Folds(name, want string) bool {
	if name == want {
		return true
	}
	at := 0
	for i := 0; i < len(name); {
		r, n := utf8.DecodeRuneInString(name[i:])
		i += n
		if r == utf8.RuneError && n == 1 {
			r = rune(name[i-1]) | utf8.RuneSelf<<8 // a byte that is no text folds to nothing
		}
		r = foldRune(r)
		switch {
		case r < 0:
		case at < len(want) && r == rune(want[at]):
			at++
		case at == len(want) && (r == ':' || r == '\\'):
			return true
		case at == len(want) && (r == '.' || r == ' '):
			return trailing(name[i:])
		default:
			return false
		}
	}
	return at == len(want)
}

// FoldPath is path as file systems that fold compare it. Paths that differ
// otherwise may fold to the same.
func FoldPath(path string) string {
	return strings.Map(func(r rune) rune {
		return unicode.ToLower(foldRune(r))
	}, path)
}

// trailing tells whether what follows a name's trailing dot or blank is
// dropped too.
func trailing(rest string) bool {
	for _, r := range rest {
		switch r = foldRune(r); {
		case r < 0, r == '.', r == ' ':
		case r == ':', r == '\\':
			return true
		default:
			return false
		}
	}
	return true
}

// foldRune is the ASCII letter that folding file systems take r for, r itself,
// or -1 when they ignore it.
func foldRune(r rune) rune {
	switch {
	case 'A' <= r && r <= 'Z':
		return r + 'a' - 'A'
	case r < utf8.RuneSelf:
		return r
	case unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
		return -1
	}
	// The long s and the Kelvin sign fold to ASCII letters.
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		if 'a' <= f && f <= 'z' {
			return f
		}
	}
	return r
}
