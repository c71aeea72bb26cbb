// Package gitconfig reads Git's configuration syntax as Git itself reads it,
// without following includes.
//
// It is a pure function of bytes, which may be hostile: it bounds what it
// takes, and never guesses. It runs in the Runtime Supervisor.
package gitconfig

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// Limits of what Parse accepts.
const (
	MaxSize    = 1 << 20
	maxEntries = 1 << 14
)

// ErrTooLarge reports a file beyond the limits.
var ErrTooLarge = errors.New("the Git configuration is larger than what is read")

// Entry is one variable. Section and Key are in lower case; the subsection is
// as written. A variable without "=" has no value, which means true.
type Entry struct {
	Section, Sub, Key string
	Value             string
	Bare              bool
}

// SyntaxError is where Git, too, would give up.
type SyntaxError struct{ Line int }

func (e *SyntaxError) Error() string { return fmt.Sprintf("bad Git configuration in line %d", e.Line) }

// Parse reads a whole file. What it read before an error is returned with it.
func Parse(data []byte) ([]Entry, error) {
	if len(data) > MaxSize {
		return nil, ErrTooLarge
	}
	p := parser{data: bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), line: 1}
	var entries []Entry
	for {
		e, ok, err := p.next()
		if err != nil || !ok {
			return entries, err
		}
		if len(entries) == maxEntries {
			return entries, ErrTooLarge
		}
		entries = append(entries, e)
	}
}

// eof is what the end of the file reads as; Git treats it as a newline.
const eof = -1

type parser struct {
	data         []byte
	line         int
	section, sub string
}

// get is the next character, with CR LF as one newline.
func (p *parser) get() int {
	if len(p.data) == 0 {
		return eof
	}
	c := p.data[0]
	p.data = p.data[1:]
	if c == '\r' && len(p.data) > 0 && p.data[0] == '\n' {
		c, p.data = '\n', p.data[1:]
	}
	if c == '\n' {
		p.line++
	}
	return int(c)
}

func (p *parser) bad() error { return &SyntaxError{p.line} }

// next is the next variable; ok is false at the end.
func (p *parser) next() (e Entry, ok bool, err error) {
	comment := false
	for {
		c := p.get()
		switch {
		case c == eof:
			return Entry{}, false, nil
		case c == '\n':
			comment = false
		case comment || space(c):
		case c == '#' || c == ';':
			comment = true
		case c == '[':
			if err := p.header(); err != nil {
				return Entry{}, false, err
			}
		case !letter(c):
			return Entry{}, false, p.bad()
		default:
			e, err = p.variable(c)
			return e, err == nil, err
		}
	}
}

// header reads the rest of "[section]", "[section.sub]" or `[section "sub"]`.
func (p *parser) header() error {
	var base strings.Builder
	for {
		c := p.get()
		switch {
		case c == ']':
			p.section, p.sub, _ = strings.Cut(base.String(), ".")
			return nil
		case c != eof && space(c):
			p.section = base.String()
			return p.subsection(c)
		case c == '.' || c != eof && keyChar(c):
			base.WriteByte(lower(c))
		default:
			return p.bad()
		}
	}
}

func (p *parser) subsection(c int) error {
	for c != eof && space(c) {
		if c == '\n' {
			return p.bad()
		}
		c = p.get()
	}
	if c != '"' {
		return p.bad()
	}
	var sub strings.Builder
	for {
		c := p.get()
		if c == '\\' {
			c = p.get()
		} else if c == '"' {
			break
		}
		if c == eof || c == '\n' {
			return p.bad()
		}
		sub.WriteByte(byte(c))
	}
	if p.get() != ']' {
		return p.bad()
	}
	// "[a.b "c"]" is section a, subsection "b.c".
	if section, rest, ok := strings.Cut(p.section, "."); ok {
		p.section, p.sub = section, rest+"."+sub.String()
		return nil
	}
	p.sub = sub.String()
	return nil
}

func (p *parser) variable(c int) (Entry, error) {
	e := Entry{Section: p.section, Sub: p.sub}
	var key strings.Builder
	for c != eof && keyChar(c) {
		key.WriteByte(lower(c))
		c = p.get()
	}
	e.Key = key.String()
	for c == ' ' || c == '\t' {
		c = p.get()
	}
	switch c {
	case '\n', eof:
		e.Bare = true
		return e, nil
	case '=':
	default:
		return e, p.bad()
	}
	value, err := p.value()
	// Git hands values on as C strings.
	e.Value, _, _ = strings.Cut(value, "\x00")
	return e, err
}

// value reads up to the end of the line, or of the last of continued lines.
func (p *parser) value() (string, error) {
	var out []byte
	quote, comment, keep := false, false, 0
	for {
		c := p.get()
		switch {
		case c == eof || c == '\n':
			if quote {
				return "", p.bad()
			}
			return string(out[:keep]), nil
		case comment:
		case space(c) && !quote:
			if len(out) > 0 {
				out = append(out, byte(c))
			}
		case !quote && (c == ';' || c == '#'):
			comment = true
		case c == '"':
			quote = !quote
			keep = len(out)
		case c == '\\':
			escaped, ok := escape(p.get())
			if !ok {
				return "", p.bad()
			}
			out = append(out, escaped...)
			keep = len(out)
		default:
			out = append(out, byte(c))
			keep = len(out)
		}
	}
}

func escape(c int) (string, bool) {
	switch c {
	case '\n', eof:
		return "", true
	case 't':
		return "\t", true
	case 'b':
		return "\b", true
	case 'n':
		return "\n", true
	case '\\', '"':
		return string(rune(c)), true
	}
	return "", false
}

func space(c int) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func letter(c int) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

func keyChar(c int) bool { return letter(c) || '0' <= c && c <= '9' || c == '-' }

func lower(c int) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return byte(c)
}
