// Package targets finds the paths in a tree that a Git configuration makes the
// host's Git read or run: rule R8 of the Git Sentry.
//
// It is a pure function of configuration text and of where things lie; it
// opens nothing. It runs in the Runtime Supervisor.
package targets

import (
	"path"
	"slices"
	"strings"

	"lazaret.dev/lazaret/supervisor/internal/sentry/gitconfig"
)

// Target is a path in the tree, relative to its root. With Dir, all below it
// counts, and it need not exist; Path "" is the whole tree then, which leaves
// nothing to work in.
type Target struct {
	Path string
	Dir  bool
	Key  string // the variable that leads there
}

// Place says where things lie. Root, Home and File are absolute host paths,
// clean; an empty Home resolves no "~/".
type Place struct {
	Root string
	Home string
	File string   // the configuration file
	Tops []string // the roots of working trees, relative to Root: relative values start there
}

// maxWords bounds how much of a command is read in search of a path.
const maxWords = 64

// dirs are variables that name a directory whose content runs.
var dirs = []string{"core.hookspath", "init.templatedir"}

// files are variables whose value is a path that Git reads and obeys.
var files = []string{"core.attributesfile", "gpg.allowedsignersfile", "gpg.revocationfile"}

// Commands by the last part of the name, whatever the section: Git and its
// neighbours add variables, but keep to these words.
var commands = map[string]bool{
	"alternaterefscommand": true, "askpass": true, "cccmd": true, "clean": true, "cmd": true, "command": true,
	"defaultkeycommand": true, "difffilter": true, "driver": true, "editor": true, "external": true,
	"fsmonitor": true, "gitproxy": true, "headercmd": true, "helper": true, "httpd": true,
	"packobjectshook": true, "pager": true, "postimagecommand": true, "process": true, "program": true,
	"receivepack": true, "recentobjectshook": true, "sendmailcmd": true, "smtpserver": true, "smudge": true,
	"sshcommand": true, "textconv": true, "tocmd": true, "tunnel": true, "uploadpack": true,
}

// sections are those all of whose values may be commands.
var sections = map[string]bool{"alias": true, "pager": true}

// tools are the sections whose "path" is a program.
var tools = map[string]bool{"browser": true, "difftool": true, "guitool": true, "lfs": true, "man": true, "mergetool": true}

// Find lists the targets that one configuration file leads to, and the files
// that it includes, as absolute host paths to be read in turn (a target that is
// included is in both). On an error, which is a syntax error where Git gives up
// too or gitconfig.ErrTooLarge, it returns what it found before.
func Find(config []byte, p Place) (found []Target, includes []string, err error) {
	entries, err := gitconfig.Parse(config)
	f := finder{place: p}
	for _, e := range entries {
		if !e.Bare && e.Value != "" {
			f.entry(e)
		}
	}
	return f.found, f.includes, err
}

type finder struct {
	place    Place
	found    []Target
	includes []string
}

func (f *finder) entry(e gitconfig.Entry) {
	name := e.Section + "." + e.Key
	switch {
	case e.Key == "path" && (e.Section == "include" || e.Section == "includeif"):
		if abs := f.absolute(e.Value, path.Dir(f.place.File)); abs != "" {
			f.includes = append(f.includes, abs)
			f.add(abs, false, name)
		}
	case slices.Contains(dirs, name):
		f.each(e.Value, true, name)
	case slices.Contains(files, name):
		f.each(e.Value, false, name)
	case commands[e.Key], sections[e.Section], e.Value[0] == '!', e.Key == "path" && tools[e.Section]:
		f.command(e.Value, name)
	}
	// The remote helper "ext" runs what follows.
	for _, url := range []string{e.Sub, e.Value} {
		if command, ok := strings.CutPrefix(url, "ext::"); ok {
			f.command(command, name)
		}
	}
}

func (f *finder) command(text, key string) {
	words, _ := pathWords(text, maxWords)
	for _, word := range words {
		f.each(word, false, key)
	}
}

// each adds value as seen from every working tree.
func (f *finder) each(value string, dir bool, key string) {
	for _, top := range f.place.Tops {
		f.add(f.absolute(value, path.Join(f.place.Root, top)), dir, key)
	}
}

// absolute is value as an absolute path, or "" when it cannot be told.
func (f *finder) absolute(value, base string) string {
	value = strings.TrimPrefix(value, ":(optional)")
	if rest, ok := strings.CutPrefix(value, "~/"); ok {
		if f.place.Home == "" {
			return ""
		}
		return path.Join(f.place.Home, rest)
	}
	if path.IsAbs(value) {
		return path.Clean(value)
	}
	return path.Join(base, value)
}

func (f *finder) add(abs string, dir bool, key string) {
	rel, ok := Inside(f.place.Root, abs)
	if !ok && (!dir || abs != f.place.Root) {
		return
	}
	if !ok {
		rel = ""
	}
	t := Target{Path: rel, Dir: dir, Key: key}
	if !slices.Contains(f.found, t) {
		f.found = append(f.found, t)
	}
}

// Inside is abs relative to root, both absolute and clean; ok is false for
// root itself and for what lies elsewhere.
func Inside(root, abs string) (rel string, ok bool) {
	if abs == "" {
		return "", false
	}
	rel, ok = strings.CutPrefix(abs, strings.TrimSuffix(root, "/")+"/")
	return rel, ok && rel != ""
}

// pathWords is the first word of a command that may be a path, without the
// shell's quotes, after the paths in variables that are set for it. It looks at
// no more than limit words, and says how many are left.
func pathWords(command string, limit int) (words []string, left int) {
	command = strings.TrimPrefix(command, "!")
	for ; limit > 0; limit-- {
		var word string
		word, command = shellWord(command)
		if word == "" && command == "" {
			break
		}
		if strings.ContainsAny(word, " \t\n") {
			// A program with blanks in its name, or an argument of sh -c.
			var inner []string
			inner, limit = pathWords(word, limit-1)
			if len(inner) > 0 {
				words = append(append(words, word), inner...)
				break
			}
			continue
		}
		if !strings.ContainsRune(word, '/') || word[0] == '-' || strings.Contains(word, "://") {
			continue
		}
		if name, value, ok := strings.Cut(word, "="); ok && !strings.ContainsRune(name, '/') {
			words = append(words, value)
			continue
		}
		words = append(words, word)
		break
	}
	return words, limit
}

// shellWord cuts the first word off command, as a shell would for the
// common cases; signs that end a command separate words too.
func shellWord(command string) (word, rest string) {
	command = strings.TrimLeft(command, " \t\n;|&()<>`")
	command = strings.TrimPrefix(command, "$(")
	var out strings.Builder
	var quote byte
	for i := 0; i < len(command); i++ {
		c := command[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == '\'':
			out.WriteByte(c)
		case c == '\\' && i+1 < len(command):
			i++
			out.WriteByte(command[i])
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote == 0 && strings.IndexByte(" \t\n;|&()<>`", c) >= 0:
			return out.String(), command[i:]
		default:
			out.WriteByte(c)
		}
	}
	return out.String(), ""
}

// HomeInside tells whether the user's own Git configuration lies in the tree,
// where no rule can protect it: the start is refused then. All paths are
// absolute and clean; xdg is XDG_CONFIG_HOME, or "".
func HomeInside(root, home, xdg string) bool {
	if xdg == "" && home != "" {
		xdg = path.Join(home, ".config")
	}
	for _, file := range []string{path.Join(home, ".gitconfig"), path.Join(xdg, "git")} {
		if _, ok := Inside(root, file); ok {
			return true
		}
	}
	return false
}
