package gitfacts

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"lazaret.dev/lazaret/protocol/launch"
)

// setting is one line of the configuration inside.
type setting struct{ section, name, value string }

// maxValue bounds a value that is taken over, in bytes.
const maxValue = 1 << 10

// A taken says which values of a key are taken over: one of a closed set, which
// every Git that may be inside knows, or any text.
type taken struct {
	section, name string   // as they are written
	values        []string // nil: any text
}

var (
	boolean  = []string{"true", "false", "yes", "no", "on", "off", "1", "0"}
	anything []string
)

// takenOver are the developer's settings that hold inside too. What Git leaves
// in a repository that both sides share has to be the same whichever side runs
// it: names in commits, line ends, conflict markers, the shape of history, what
// a push touches. What only changes the look of output is the program's inside
// to choose, and nothing is taken over that holds a credential, a program, a
// path or an address: credentials, helpers, signing, hooks, aliases, filters,
// url.*, http.*, core.attributesFile. Of the repository's own configuration Git
// inside reads what there is.
var takenOver = []taken{
	{"user", "name", anything},
	{"user", "email", anything},
	{"author", "name", anything},
	{"author", "email", anything},
	{"committer", "name", anything},
	{"committer", "email", anything},
	{"init", "defaultBranch", anything},
	{"core", "autocrlf", append([]string{"input"}, boolean...)},
	{"core", "eol", []string{"lf", "crlf", "native"}},
	{"core", "safecrlf", append([]string{"warn"}, boolean...)},
	{"pull", "rebase", append([]string{"merges", "interactive"}, boolean...)},
	{"pull", "ff", append([]string{"only"}, boolean...)},
	{"merge", "ff", append([]string{"only"}, boolean...)},
	// Git before 2.35 refuses to merge with zdiff3.
	{"merge", "conflictStyle", []string{"merge", "diff3"}},
	{"diff", "algorithm", []string{"default", "myers", "minimal", "patience", "histogram"}},
	{"rebase", "autoSquash", boolean},
	{"rebase", "autoStash", boolean},
	{"rebase", "updateRefs", boolean},
	{"push", "default", []string{"nothing", "current", "upstream", "tracking", "simple", "matching"}},
	{"fetch", "prune", boolean},
}

// settings is the configuration inside. The user's own there and the
// repository's go before it.
func settings(configGate, excludes bool, entries []entry) []setting {
	out := []setting{
		// Inode, owner and change time differ between the two sides: without these
		// each would read every file again after the other's turn.
		{"core", "checkStat", "minimal"},
		{"core", "trustctime", "false"},
		// Bound to the path of the project, which is another one on the host.
		{"core", "untrackedCache", "false"},
	}
	if excludes {
		out = append(out, setting{"core", "excludesFile", launch.GuestGitExclude})
	}
	out = append(
		out,
		// Users inside other than the owner of the project.
		setting{"safe", "directory", "*"},
		// Worktrees beyond the workspace are not visible inside, but exist.
		setting{"gc", "worktreePruneExpire", "never"},
	)
	if !configGate {
		// A branch made from a remote one would write the repository's
		// configuration, and fail.
		out = append(out, setting{"branch", "autoSetupMerge", "false"})
	}
	for _, t := range takenOver {
		if v, ok := t.value(entries); ok {
			out = append(out, setting{t.section, t.name, v})
		}
	}
	return out
}

// value is the developer's value, where it can be taken over.
func (t taken) value(entries []entry) (string, bool) {
	key := strings.ToLower(t.section + "." + t.name)
	for _, e := range slices.Backward(entries) {
		if e.key != key {
			continue
		}
		v := e.value
		if e.flag {
			v = "true"
		}
		if t.values == nil {
			return v, plain(v)
		}
		v = strings.ToLower(v)
		if key == "merge.conflictstyle" && v == "zdiff3" {
			v = "diff3"
		}
		return v, slices.Contains(t.values, v)
	}
	return "", false
}

// plain reports whether a value is one line of printable text.
func plain(v string) bool {
	return v != "" && len(v) <= maxValue && utf8.ValidString(v) && !strings.ContainsFunc(v, unicode.IsControl)
}

var quote = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// render writes the settings as Git reads them.
func render(all []setting) string {
	var b strings.Builder
	b.WriteString("# Made by Lazaret at each start. /etc/gitconfig, which includes it, goes before it.\n")
	section := ""
	for _, s := range all {
		if s.section != section {
			section = s.section
			b.WriteString("[" + section + "]\n")
		}
		b.WriteString("\t" + s.name + " = \"" + quote.Replace(s.value) + "\"\n")
	}
	return b.String()
}
