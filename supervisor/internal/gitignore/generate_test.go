package gitignore_test

import (
	"math/rand/v2"
	"strings"
)

func pick[T any](r *rand.Rand, s []T) T { return s[r.IntN(len(s))] }

// nameParts are what names are made of: much that a pattern can say, and what
// it has to escape.
var nameParts = []string{
	"a", "b", "ab", "B", "A", "foo", "Foo", "bar", "x", ".", "..x", "-", "_", "!", "#", " ", "  ", "\\", "*", "?", "[", "]", "^", "~", ":", "\t", "\v", "\f", "\r",
	"\x01", "\x7f", "\xc3\xa9", "\xff", "\x80", "1", "9", "z", "Z", "log", ".log", "o", "{", "}", "@", "`", ",", "$", "(", "=",
}

func randomName(r *rand.Rand) string {
	if r.IntN(2) == 0 {
		return pick(r, []string{"a", "b", "ab", "foo", "bar", "build", "x", "A", "a.log", "foo ", "node_modules"})
	}
	var b strings.Builder
	for range 1 + r.IntN(4) {
		b.WriteString(pick(r, nameParts))
	}
	switch n := b.String(); n {
	case ".", "..", ".git", ".gitignore":
		return n + "x"
	default:
		return n
	}
}

// randomRules is the text of an ignore file in dir, mostly about the paths of
// the tree. sparse: it holds for many trees, so that it should not ignore all.
func randomRules(r *rand.Rand, tr *tree, dir string, sparse bool) []byte {
	var b strings.Builder
	if r.IntN(20) == 0 {
		b.WriteString("\xef\xbb\xbf")
	}
	eol := "\n"
	if r.IntN(8) == 0 {
		eol = "\r\n"
	}
	for range 1 + r.IntN(7) {
		line := randomPattern(r, tr, dir)
		if sparse && (strings.Trim(line, "*/!?[]") == "" || line[0] == 't' && len(line) < 5) {
			continue
		}
		b.WriteString(line)
		if r.IntN(40) == 0 {
			b.WriteString(pick(r, []string{"\r", "\x00", "\x00x", "\n", "\r\r"}))
		}
		b.WriteString(eol)
	}
	text := b.String()
	if r.IntN(6) == 0 {
		text = strings.TrimSuffix(text, eol)
	}
	return []byte(text)
}

func randomPattern(r *rand.Rand, tr *tree, dir string) string {
	switch r.IntN(30) {
	case 0:
		return ""
	case 1:
		return pick(r, []string{"#comment", "!", "/", "//", "!/", "*", "**", "**/", "/**", "/*", "!*", "\\", "\\\\", "!\\", " ", "\\ ", "*/", "!*/", "/**/", "**/**", "a/**/", "***", "/***/", "[", "]", "[]", "[!]", "!!a", "\\!", "\\#", "#", "\xef\xbb\xbfa"})
	case 2:
		return randomGlob(r, 1+r.IntN(10))
	case 3:
		if r.IntN(10) == 0 {
			return strings.Repeat(pick(r, []string{"a", "*", "?", "a*", "**/", "[a]", "/", "\\", " "}), 1+r.IntN(6000))
		}
	}
	if len(tr.entries) == 0 {
		return randomName(r)
	}
	e := tr.entries[r.IntN(len(tr.entries))].path
	path, ok := strings.CutPrefix(e, dir)
	if !ok || path == "" {
		path = e
	}
	if r.IntN(2) == 0 {
		path = path[strings.LastIndexByte(path, '/')+1:]
	}
	parts := strings.Split(path, "/")
	for i, p := range parts {
		switch r.IntN(12) {
		case 0:
			parts[i] = "**"
		case 1:
			parts[i] = "*"
		case 2:
			parts[i] = p + "**"
		case 3:
			parts[i] = "**" + p
		case 4:
			parts[i] = "**/" + p
		case 5:
			parts[i] = p + "/**"
		case 6, 7, 8:
			parts[i] = mutate(r, p)
		default:
			parts[i] = escape(r, p)
		}
	}
	p := strings.Join(parts, "/")
	if r.IntN(12) == 0 {
		p = strings.ReplaceAll(p, "/", `\/`)
	}
	if r.IntN(5) == 0 {
		p = "/" + p
	}
	if r.IntN(5) == 0 {
		p = "**/" + p
	}
	if r.IntN(4) == 0 {
		p += "/"
	}
	if r.IntN(12) == 0 {
		p += pick(r, []string{" ", "  ", "   ", "\\ ", "\\  ", "\t", " \t", "\\", "\\\\", "\\\\ ", " \\", "//", "/ ", "/**", "**", "/*"})
	}
	if r.IntN(4) == 0 {
		p = "!" + p
	}
	if r.IntN(10) == 0 {
		p = flipCase(r, p)
	}
	return p
}

// escape puts a backslash where it must be, and sometimes where it need not.
func escape(r *rand.Rand, s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		must := strings.IndexByte(`*?[\`, c) >= 0 || i == 0 && (c == '#' || c == '!') || i == len(s)-1 && c == ' '
		if must && r.IntN(8) != 0 || r.IntN(24) == 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// mutate replaces parts of a name by what may match them.
func mutate(r *rand.Rand, s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch r.IntN(7) {
		case 0:
			b.WriteByte('?')
		case 1:
			b.WriteString(strings.Repeat("*", 1+r.IntN(3)))
			i += r.IntN(3)
		case 2:
			b.WriteString(randomClass(r, c))
		default:
			b.WriteString(escape(r, string(c)))
		}
	}
	return b.String()
}

var classNames = []string{
	"alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "xdigit", "word", "", "Alpha", "a",
}

// randomClass is a bracket expression, as a rule one that c is in.
func randomClass(r *rand.Rand, c byte) string {
	var b strings.Builder
	b.WriteByte('[')
	switch r.IntN(6) {
	case 0:
		b.WriteByte('!')
	case 1:
		b.WriteByte('^')
	}
	for range 1 + r.IntN(3) {
		switch r.IntN(12) {
		case 0:
			b.WriteByte(']')
		case 1:
			b.WriteByte('-')
		case 2:
			b.WriteString("[:" + pick(r, classNames) + ":]")
		case 3:
			b.WriteString(pick(r, []string{"[:", ":]", "[:alpha]", "[", "[:]", "[::]", "\\]", "\\\\", "\\-", "\\[", "/", "!", "^"}))
		case 4:
			lo := byte(r.IntN(256))
			b.WriteString(string(rune(lo%127+1)) + "-" + string(c))
		case 5:
			b.WriteByte(c - byte(r.IntN(4)))
			b.WriteByte('-')
			b.WriteByte(c + byte(r.IntN(4)))
		case 6:
			b.WriteString(pick(r, []string{"a-z", "A-Z", "0-9", "z-a", "a-", "-a", "!-~", "\\a-\\z", "a-c-e", "]-a", "Z-a"}))
		default:
			b.WriteByte(c)
		}
	}
	if r.IntN(20) != 0 {
		b.WriteByte(']')
	}
	return strings.ReplaceAll(b.String(), "\n", "n")
}

// randomGlob is a pattern of nothing but what is special.
func randomGlob(r *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		b.WriteString(pick(r, []string{"*", "**", "/", "?", "a", "b", "A", "[a", "[", "]", "[!a]", "[^b]", "[[:alpha:]]", "[[:upper:]]", "\\", "\\a", "\\A", "\\/", "!", "#", " ", ".", "-", "x", "foo", "**/", "/**/", "/**"}))
	}
	return strings.ReplaceAll(b.String(), "\n", "")
}

func flipCase(r *rand.Rand, s string) string {
	b := []byte(s)
	for i, c := range b {
		if r.IntN(2) == 0 && ('a' <= c|0x20 && c|0x20 <= 'z') {
			b[i] ^= 0x20
		}
	}
	return string(b)
}
