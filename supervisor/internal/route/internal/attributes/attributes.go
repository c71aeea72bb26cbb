// Package attributes tells whether Git's attributes may make Git write other
// bytes into the working tree than a blob has. It reads no file. The texts
// come from the sandbox; what is in doubt, may. It runs in the Runtime
// Supervisor.
package attributes

import (
	"strings"

	"lazaret.dev/lazaret/supervisor/internal/gitignore"
)

// Source is the text of an attributes file, with the path that is asked
// about relative to its directory.
type Source struct {
	Text string
	Path string
}

// Convert tells whether the files may ask for a filter, another encoding or
// the expansion of a keyword. Line ends are not its business.
func Convert(all []Source) bool {
	macros := map[string]bool{}
	for _, s := range all {
		for line := range strings.Lines(s.Text) {
			if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[0], "[attr]") {
				macros[strings.TrimPrefix(f[0], "[attr]")] = true
			}
		}
	}
	for _, s := range all {
		for line := range strings.Lines(s.Text) {
			if converts(strings.Fields(strings.TrimPrefix(line, "\xef\xbb\xbf")), s.Path, macros) {
				return true
			}
		}
	}
	return false
}

// converts is Convert for one line.
func converts(f []string, name string, macros map[string]bool) bool {
	if len(f) < 2 || f[0][0] == '#' || strings.HasPrefix(f[0], "[attr]") {
		return false
	}
	asks := false
	for _, a := range f[1:] {
		key, _, _ := strings.Cut(a, "=")
		asks = asks || key == "filter" || key == "ident" || key == "working-tree-encoding" || macros[key]
	}
	if !asks {
		return false
	}
	if f[0][0] == '"' || f[0][0] == '!' {
		return true // quoted; what it says is not worth a parser
	}
	o := gitignore.Options{Fold: true}
	return gitignore.Parse([]byte(f[0]), o).Match(name, false) != gitignore.None || gitignore.Parse([]byte(f[0]), gitignore.Options{}).Match(name, false) != gitignore.None
}
