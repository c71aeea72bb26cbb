package gitignore

import "strings"

// compileSet reads a class, from its opening bracket on; n is its length, 0
// when it does not end or names a class that there is none of, in which case
// the whole pattern matches nothing.
//
// With fold, a byte of the path is lower-cased before it is compared, the
// class is not: ranges and [:upper:] make up for it, single letters do not.
func compileSet(s string, fold bool) (cs *set, n int) {
	i := 1
	negated := i < len(s) && (s[i] == '!' || s[i] == '^')
	if negated {
		i++
	}
	var in set
	var prev byte // what a range would begin with; 0: nothing
	for first := true; ; first = false {
		if i >= len(s) {
			return nil, 0
		}
		c := s[i]
		if c == ']' && !first {
			i++
			break
		}
		switch {
		case c == '\\':
			i++
			if i == len(s) {
				return nil, 0
			}
			c = s[i]
			in.add(c)
			prev = c
			i++
		case c == '-' && prev != 0 && i+1 < len(s) && s[i+1] != ']':
			i++
			if s[i] == '\\' {
				i++
				if i == len(s) {
					return nil, 0
				}
			}
			for b := int(prev); b <= int(s[i]); b++ {
				in.add(byte(b))
				if fold {
					in.add(lower(byte(b)))
				}
			}
			prev = 0
			i++
		case c == '[' && i+1 < len(s) && s[i+1] == ':':
			end := strings.IndexByte(s[i+2:], ']')
			if end < 0 {
				return nil, 0
			}
			name, closed := strings.CutSuffix(s[i+2:i+2+end], ":")
			if !closed {
				// No class's name: an opening bracket like any other byte.
				in.add(c)
				prev = c
				i++
				continue
			}
			has := named(name, fold)
			if has == nil {
				return nil, 0
			}
			for b := range 128 {
				if has(byte(b)) {
					in.add(byte(b))
				}
			}
			prev = 0
			i += 2 + end + 1
		default:
			in.add(c)
			prev = c
			i++
		}
	}
	var out set
	for b := range 256 {
		c := byte(b)
		if fold {
			c = lower(c)
		}
		if in.has(c) != negated && c != '/' {
			out.add(byte(b))
		}
	}
	return &out, i
}

// named is the class of that name, of ASCII bytes, as Git's own tables have
// it; nil if there is none.
func named(name string, fold bool) func(byte) bool {
	between := func(lo, hi byte) func(byte) bool { return func(c byte) bool { return lo <= c && c <= hi } }
	either := func(a, b func(byte) bool) func(byte) bool { return func(c byte) bool { return a(c) || b(c) } }
	digit, low, up := between('0', '9'), between('a', 'z'), between('A', 'Z')
	alnum := either(digit, either(low, up))
	switch name {
	case "alnum":
		return alnum
	case "alpha":
		return either(low, up)
	case "blank":
		return func(c byte) bool { return c == ' ' || c == '\t' }
	case "cntrl":
		return func(c byte) bool { return c < 0x20 || c == 0x7f }
	case "digit":
		return digit
	case "graph":
		return between('!', '~')
	case "lower":
		return low
	case "print":
		return between(' ', '~')
	case "punct":
		return func(c byte) bool { return '!' <= c && c <= '~' && !alnum(c) }
	case "space":
		// Not the vertical tab and the form feed.
		return func(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
	case "upper":
		if fold {
			return either(low, up)
		}
		return up
	case "xdigit":
		return either(digit, either(between('a', 'f'), between('A', 'F')))
	}
	return nil
}
