package gitignore

import "strings"

// op is what a token matches.
type op uint8

const (
	opByte op = iota // the byte c
	opFold           // the letter c, given in lower case, in either case
	opAny            // any byte but a slash
	opSet            // a byte of the set
	opStar           // any number of bytes, none a slash
	opWide           // any number of bytes
	opDirs           // nothing, or any number of bytes and then a slash
)

type token struct {
	op  op
	c   byte
	set *set
}

// set is a set of bytes.
type set [4]uint64

func (s *set) has(c byte) bool { return s[c>>6]&(1<<(c&63)) != 0 }
func (s *set) add(c byte)      { s[c>>6] |= 1 << (c & 63) }

// compileGlob reads a pattern from its first special byte on. path: two stars
// can cross slashes; fresh: the pattern's beginning counts as the beginning of
// a component. ok is false when nothing matches. shortest is the length of the
// shortest text that does.
func compileGlob(s string, path, fresh, fold bool) (prog []token, shortest int, ok bool) {
	for i := 0; i < len(s); {
		t := token{c: s[i]}
		switch s[i] {
		case '*':
			n := 1
			for i+n < len(s) && s[i+n] == '*' {
				n++
			}
			own := fresh
			if i > 0 {
				own = s[i-1] == '/'
			}
			after := s[i+n:]
			i += n
			switch {
			case !path || n == 1 || !own:
				t.op = opStar
			case strings.HasPrefix(after, "/"):
				t.op = opDirs
				i++
			case after == "" || strings.HasPrefix(after, `\/`):
				t.op = opWide
			default:
				t.op = opStar
			}
			// Several of one kind in a row are one: this bounds the program by
			// what it has to match.
			if len(prog) == 0 || prog[len(prog)-1].op != t.op {
				prog = append(prog, t)
			}
			continue
		case '?':
			t.op = opAny
			i++
		case '[':
			cs, n := compileSet(s[i:], fold)
			if n == 0 {
				return nil, 0, false
			}
			t.op, t.set = opSet, cs
			i += n
		case '\\':
			// Git folds the path but not an escaped letter, so that one in
			// upper case matches nothing.
			if i+1 == len(s) || fold && lower(s[i+1]) != s[i+1] {
				return nil, 0, false
			}
			t = literal(s[i+1], fold)
			i += 2
		default:
			t = literal(s[i], fold)
			i++
		}
		prog = append(prog, t)
		shortest++
	}
	return prog, shortest, true
}

func literal(c byte, fold bool) token {
	if fold && upper(lower(c)) != lower(c) {
		return token{op: opFold, c: lower(c)}
	}
	return token{op: opByte, c: c}
}

// globs tells whether the program matches the whole text.
//
// It goes forward greedily and remembers only the last star to come back to,
// and below it the last that may cross slashes: what an earlier one could
// still reach, the last one reaches too. Thus it takes at most the product of
// the two lengths, where a recursive matcher takes exponential time.
func globs(prog []token, text string) bool {
	narrow, wide := -1, -1 // the program behind the last star of each kind
	var narrowAt, wideAt int
	p, t := 0, 0
	for {
		switch {
		case p == len(prog):
			if t == len(text) {
				return true
			}
		case prog[p].op == opStar:
			p++
			narrow, narrowAt = p, t
			continue
		case prog[p].op >= opWide:
			p++
			narrow, wide, wideAt = -1, p, t
			continue
		case t < len(text) && prog[p].accepts(text[t]):
			p++
			t++
			continue
		}
		if narrow >= 0 && narrowAt < len(text) && text[narrowAt] != '/' {
			narrowAt++
			p, t = narrow, narrowAt
			continue
		}
		narrow = -1
		if wide < 0 || wideAt == len(text) {
			return false
		}
		step := 1
		if prog[wide-1].op == opDirs {
			step = strings.IndexByte(text[wideAt:], '/') + 1
			if step == 0 {
				return false
			}
		}
		wideAt += step
		p, t = wide, wideAt
	}
}

func (t *token) accepts(c byte) bool {
	switch t.op {
	case opByte:
		return c == t.c
	case opFold:
		return lower(c) == t.c
	case opAny:
		return c != '/'
	default:
		return t.set.has(c)
	}
}
