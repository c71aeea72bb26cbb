package report

import (
	"context"
	"strings"

	"lazaret.dev/lazaret/protocol/findings"
	"lazaret.dev/lazaret/supervisor/internal/gitodb"
)

// The limits of one comparison of trees.
const (
	maxEntries = 300_000
	maxLevels  = 64
)

// commits looks for what is in commits, and would be in the working tree once
// the host's Git checked them out.
type commits struct {
	odb *gitodb.Store
	// obeyed says who obeys or runs the file at a path, "" for nobody.
	obeyed func(path string) string
	found  map[string]string // by path
	left   int
}

// brought looks at what the commit to has and the commit from, which may be
// none, has not.
func (c *commits) brought(ctx context.Context, from, to []byte) error {
	now, err := c.odb.TreeOf(to)
	if err != nil {
		return err
	}
	was := ""
	if from != nil {
		// What cannot be read was not there.
		was, _ = c.odb.TreeOf(from)
	}
	return c.diff(ctx, was, now, "", 0)
}

func (c *commits) diff(ctx context.Context, was, now, dir string, level int) error {
	if was == now {
		return nil
	}
	entries, err := c.odb.Tree(now)
	if err != nil {
		return err
	}
	if c.left -= len(entries); c.left < 0 || level > maxLevels || ctx.Err() != nil {
		return gitodb.ErrUnknown
	}
	old := map[string]gitodb.TreeEntry{}
	if was != "" {
		before, err := c.odb.Tree(was)
		if err != nil {
			return err
		}
		for _, e := range before {
			old[e.Name] = e
		}
	}
	alike := map[string]bool{}
	for _, e := range entries {
		// A filesystem may fold the letters' case.
		alike[strings.ToLower(e.Name)] = true
		path := e.Name
		if dir != "" {
			path = dir + "/" + path
		}
		o := old[e.Name]
		switch {
		case o.ID == e.ID && o.Dir == e.Dir || e.Link:
		case e.Dir:
			before := ""
			if o.Dir {
				before = o.ID
			}
			if err := c.diff(ctx, before, e.ID, path, level+1); err != nil {
				return err
			}
		default:
			if who := c.obeyed(path); who != "" {
				c.found[path] = who
			}
		}
	}
	if alike["head"] && alike["objects"] && alike["refs"] {
		c.found[dir] = "Git, which takes it for a repository"
	}
	return nil
}

// findings are what was found in the commits of a ref.
func (c *commits) findings(ref string, err error) []findings.Finding {
	var out []findings.Finding
	for path, who := range c.found {
		if path == "" {
			path = "."
		}
		out = append(out, findings.Finding{Kind: findings.Committed, Path: []byte(path), Note: []byte(who), Hint: []byte(ref)})
	}
	if err != nil {
		out = append(out, findings.Finding{Kind: findings.Committed, Hint: []byte(ref), Note: []byte(err.Error())})
	}
	return out
}
