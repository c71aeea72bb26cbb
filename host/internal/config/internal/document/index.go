package document

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// sep joins the steps of a key path. It may occur in a quoted key, which is
// then unknown anyway.
const sep = "\x00"

// index says on which line each key of a document stands. Steps through arrays
// are numbers.
type index struct {
	lines map[string]int
	order [][]string
}

// buildIndex walks a document that is known to be valid TOML.
func buildIndex(b []byte) (*index, error) {
	x := &indexer{index: index{lines: map[string]int{}}, doc: b, line: 1, tables: map[string]int{}}
	x.p.Reset(b)
	var prefix []string
	for x.p.NextExpression() {
		e := x.p.Expression()
		switch e.Kind {
		case unstable.Table:
			keys, line := x.keys(e)
			prefix = x.resolve(keys)
			x.note(prefix, line)
		case unstable.ArrayTable:
			keys, line := x.keys(e)
			path := append(x.resolve(keys[:len(keys)-1]), keys[len(keys)-1])
			n := x.tables[strings.Join(path, sep)]
			x.tables[strings.Join(path, sep)] = n + 1
			x.note(path, line)
			prefix = append(path, strconv.Itoa(n))
			x.note(prefix, line)
		case unstable.KeyValue:
			x.keyValue(prefix, e)
		default: // a comment
		}
	}
	if err := x.p.Error(); err != nil {
		return nil, fmt.Errorf("parse TOML: %w", err)
	}
	return &x.index, nil
}

type indexer struct {
	index
	p      unstable.Parser
	doc    []byte
	offset int // up to which newlines are counted in line
	line   int
	tables map[string]int // arrays of tables: how many elements so far
}

// keys returns the decoded parts of an expression's key and its line.
func (x *indexer) keys(n *unstable.Node) (keys []string, line int) {
	for it := n.Key(); it.Next(); {
		if k := it.Node(); line == 0 {
			line = x.lineAt(int(k.Raw.Offset))
		}
		keys = append(keys, string(it.Node().Data))
	}
	return keys, line
}

func (x *indexer) lineAt(offset int) int {
	if offset < x.offset {
		x.offset, x.line = 0, 1
	}
	x.line += bytes.Count(x.doc[x.offset:offset], []byte("\n"))
	x.offset = offset
	return x.line
}

// resolve inserts the number of the current element after each array of tables.
func (x *indexer) resolve(keys []string) []string {
	var path []string
	for _, k := range keys {
		path = append(path, k)
		if n := x.tables[strings.Join(path, sep)]; n > 0 {
			path = append(path, strconv.Itoa(n-1))
		}
	}
	return path
}

// note records the line of a path, and of its parents where they have none.
func (x *indexer) note(path []string, line int) {
	for i := 1; i <= len(path); i++ {
		k := strings.Join(path[:i], sep)
		if _, ok := x.lines[k]; !ok {
			x.lines[k] = line
			x.order = append(x.order, append([]string(nil), path[:i]...))
		}
	}
}

func (x *indexer) keyValue(prefix []string, n *unstable.Node) {
	keys, line := x.keys(n)
	path := append(append([]string(nil), prefix...), keys...)
	x.note(path, line)
	x.value(path, n.Value())
}

func (x *indexer) value(path []string, n *unstable.Node) {
	switch n.Kind {
	case unstable.InlineTable:
		for it := n.Children(); it.Next(); {
			x.keyValue(path, it.Node())
		}
	case unstable.Array:
		i := 0
		for it := n.Children(); it.Next(); i++ {
			if v := it.Node(); v.Kind == unstable.InlineTable || v.Kind == unstable.Array {
				x.value(append(append([]string(nil), path...), strconv.Itoa(i)), v)
			}
		}
	default: // a value that holds no keys
	}
}

// at returns the line of the longest part of path that the document has, or 0.
func (x *index) at(path []string) int {
	for i := len(path); i > 0; i-- {
		if l, ok := x.lines[strings.Join(path[:i], sep)]; ok {
			return l
		}
	}
	return 0
}
