package gitfacts

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"lazaret.dev/lazaret/host/internal/paths"
)

// RefusedError reports a file that Git on this host obeys and that the sandbox
// could write.
type RefusedError struct {
	What  string // what the file is to Git
	Path  string // as it is written
	Where string // the directory that the sandbox can write
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("cannot start in %q: %s, %q, lies in it, and what a sandbox puts there would take effect whenever you use Git on this host",
		e.Where, e.What, e.Path)
}

// Hint says how to get out of it.
func (e *RefusedError) Hint() string {
	return "keep that file outside, or start in a directory that does not contain it"
}

// guard tells whether a path leads to where a sandbox can write.
type guard struct {
	places places
	dirs   []string // canonical
	infos  []os.FileInfo
}

func newGuard(p places, dirs []string) *guard {
	g := &guard{places: p, dirs: dirs}
	for _, d := range dirs {
		if fi, err := os.Stat(d); err == nil {
			g.infos = append(g.infos, fi)
		}
	}
	return g
}

// lies returns the directory of dirs that path lies in, as it is written, with
// its links resolved, or by way of one of them. A path that does not exist yet
// counts: the sandbox could make it.
func (g *guard) lies(path string) (where string, bad bool) {
	real := ""
	for _, d := range g.dirs {
		var err error
		real, err = paths.ResolveTrusted(path, []string{d})
		_, leads := errors.AsType[*paths.Error](err) // through a link in d
		if leads || paths.Within(d, filepath.Clean(path)) || err == nil && paths.Within(d, real) {
			return d, true
		}
		if err != nil {
			return "", false // Git cannot get there either
		}
	}
	// The same directory mounted a second time.
	for p := real; ; p = filepath.Dir(p) {
		if fi, err := os.Stat(p); err == nil {
			if i := slices.IndexFunc(g.infos, func(d os.FileInfo) bool { return os.SameFile(d, fi) }); i >= 0 {
				return p, true
			}
		}
		if p == "/" {
			return "", false
		}
	}
}

// refuse is lies as an error.
func (g *guard) refuse(what, path string) error {
	if where, bad := g.lies(path); bad {
		return &RefusedError{What: what, Path: path, Where: where}
	}
	return nil
}

// checkPlaces looks at the files that Git reads wherever it runs.
func (g *guard) checkPlaces() error {
	for _, f := range append([]string{g.places.system}, g.places.global...) {
		if err := g.refuse("Git's configuration", f); err != nil {
			return err
		}
	}
	for _, name := range []string{"", "ignore", "attributes"} {
		if err := g.refuse("Git's configuration", filepath.Join(g.places.xdg, name)); err != nil {
			return err
		}
	}
	return nil
}

// checkEntries looks at the files that configuration includes or names.
func (g *guard) checkEntries(entries []entry) error {
	for _, e := range entries {
		if err := g.refuse("Git's configuration", e.origin); err != nil {
			return err
		}
		if err := g.checkEntry(e); err != nil {
			return err
		}
	}
	return nil
}

func (g *guard) checkEntry(e entry) error {
	what := "what your Git configuration names as " + e.key
	switch {
	case e.flag || e.value == "" || data(e.key):
		return nil
	case isInclude(e.key):
		return g.refuse("a file that your Git configuration includes", g.places.included(e))
	case e.key == "core.excludesfile":
		// Git takes a relative one from the directory where it runs.
		path := g.places.expand(e.value)
		if path != "" && !filepath.IsAbs(path) {
			path = filepath.Join(g.dirs[0], path)
		}
		return g.refuse(what, path)
	}
	for _, w := range g.words(e.value) {
		// The shell line of an alias may be about the project without running
		// anything of it.
		if strings.HasPrefix(e.key, "alias.") && isDir(w) {
			continue
		}
		if err := g.refuse(what, w); err != nil {
			return err
		}
	}
	return nil
}

// words are the absolute paths in a value that may be a command line, or a
// path with any character.
func (g *guard) words(value string) []string {
	var out []string
	add := func(w string) {
		if p := g.places.expand(w); filepath.IsAbs(p) && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	add(value)
	for w := range strings.FieldsFuncSeq(value, func(r rune) bool { return strings.ContainsRune(" \t\r\n'\"`;|&()<>=,!", r) }) {
		for _, home := range []string{"$HOME/", "${HOME}/"} {
			if rest, ok := strings.CutPrefix(w, home); ok {
				w = "~/" + rest
			}
		}
		add(w)
	}
	// A directory whose own name would be split.
	for _, d := range g.dirs {
		if i := strings.Index(value, d+"/"); i >= 0 {
			add(value[i:])
		}
	}
	return out
}

// data reports keys whose paths are read as text or compared, whatever they
// lead to, or are places to fetch from.
func data(key string) bool {
	switch key {
	case "safe.directory", "maintenance.repo", "scalar.repo", "gui.recentrepo", "commit.template", "mailmap.file", "blame.ignorerevsfile":
		return true
	}
	section, _, _ := strings.Cut(key, ".")
	return section == "url" || section == "user" ||
		section == "remote" && (strings.HasSuffix(key, ".url") || strings.HasSuffix(key, ".pushurl"))
}

func isInclude(key string) bool {
	return key == "include.path" || strings.HasPrefix(key, "includeif.") && strings.HasSuffix(key, ".path")
}

// included is the file that an entry includes, or "". A relative path is
// relative to the file that it stands in.
func (p places) included(e entry) string {
	if !isInclude(e.key) || e.value == "" {
		return ""
	}
	path := p.expand(e.value)
	if path != "" && !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(e.origin), path)
	}
	return path
}

// expand expands a leading ~ or ~user as Git does.
func (p places) expand(path string) string {
	if !strings.HasPrefix(path, "~") {
		return path
	}
	name, rest, _ := strings.Cut(path[1:], "/")
	if name == "" {
		return filepath.Join(p.home, rest)
	}
	u, err := user.Lookup(name)
	if err != nil {
		return path // Git takes it for no path either
	}
	return filepath.Join(u.HomeDir, rest)
}

func isDir(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.IsDir()
}
