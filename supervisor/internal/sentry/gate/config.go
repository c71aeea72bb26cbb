package gate

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"lazaret.dev/lazaret/supervisor/internal/sentry/gitconfig"
)

// section is a header that may come and go, with the keys below it that may.
type section struct {
	header *regexp.Regexp
	keys   map[string]func(value string, f *configFile) bool
}

// In the patterns of subsections and values nothing occurs that Git's syntax
// reads in a special way: no quote, backslash, comment sign, control character.
var (
	ordinary = []section{
		{regexp.MustCompile(`^\[branch "[^"\\\x00-\x1f\x7f]+"\]$`), map[string]func(string, *configFile) bool{
			"remote": remote, "pushremote": remote, "merge": ref, "rebase": rebase,
		}},
		{regexp.MustCompile(`^\[submodule "[^"\\\x00-\x1f\x7f]+"\]$`), map[string]func(string, *configFile) bool{
			"active": boolean, "url": plainURL,
		}},
		{regexp.MustCompile(`^\[extensions\]$`), map[string]func(string, *configFile) bool{"worktreeconfig": yes}},
	}
	perWorktree = []section{
		{regexp.MustCompile(`^\[core\]$`), map[string]func(string, *configFile) bool{
			"sparsecheckout": boolean, "sparsecheckoutcone": boolean,
		}},
		{regexp.MustCompile(`^\[index\]$`), map[string]func(string, *configFile) bool{"sparse": boolean}},
	}
	anyHeader = regexp.MustCompile(`^\[[A-Za-z0-9.-]+(?: "(?:[^"\\]|\\.)*")?\]$`)
	keyLine   = regexp.MustCompile(`^[ \t]+([A-Za-z][A-Za-z0-9-]*) = ([^"\\#;\x00-\x1f\x7f]*[^"\\#;\x00-\x20\x7f])$`)
	urlText   = regexp.MustCompile(`^[A-Za-z0-9/._~:@%+=,-]+$`)
)

// Config tells why the change from before to after of a gitdir's configuration
// file is not one of those that may pass: in lines of its own, where a branch
// goes and comes from, that a submodule is in use, that sparse checkout is on.
// All other lines must be the same, in the same order, in the same sections.
func Config(name string, before, after []byte) error {
	allowed := ordinary
	if name == "config.worktree" {
		allowed = perWorktree
	} else if name != "config" {
		return fmt.Errorf("%q is not a file that may change", name)
	}
	old, err := readConfig(before, allowed, nil)
	if err != nil {
		return err
	}
	changed, err := readConfig(after, allowed, old)
	if err != nil {
		return err
	}
	if old.perWorktree && !changed.perWorktree {
		return errors.New("the change would stop config.worktree from being read")
	}
	if !slices.Equal(old.kept, changed.kept) {
		return errors.New("the change touches more than branches' upstreams, submodules in use, and sparse checkout")
	}
	return nil
}

// configFile is a file without the lines that may change.
type configFile struct {
	kept        []string
	remotes     map[string]bool
	perWorktree bool // extensions.worktreeConfig is on
}

// readConfig reads a file of plain lines. Without a file before it, nothing is
// refused that the host itself wrote: it is kept.
func readConfig(b []byte, allowed []section, before *configFile) (*configFile, error) {
	f := &configFile{remotes: map[string]bool{}}
	if len(b) == 0 {
		return f, nil
	}
	if b[len(b)-1] != '\n' || bytes.ContainsAny(b, "\r\x00") || bytes.Contains(b, []byte("\\\n")) {
		return nil, errors.New("the configuration has lines that are not plain")
	}
	entries, err := gitconfig.Parse(b)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		switch {
		case e.Section == "remote":
			f.remotes[e.Sub] = true
		case e.Section == "extensions" && e.Key == "worktreeconfig":
			f.perWorktree = e.Bare || e.Value != "false"
		}
	}
	known := before
	if known == nil {
		known = f
	}
	header, at := "", -1
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSuffix(line, "\n")
		switch trimmed := strings.TrimLeft(line, " \t"); {
		case trimmed == "" || trimmed[0] == '#' || trimmed[0] == ';':
			f.kept = append(f.kept, line)
		case trimmed[0] == '[':
			if !anyHeader.MatchString(line) {
				return nil, errors.New("the configuration has a section header that is not plain")
			}
			header = line
			at = slices.IndexFunc(allowed, func(s section) bool { return s.header.MatchString(line) })
			if at < 0 {
				f.kept = append(f.kept, line)
			}
		case at >= 0 && mayChange(line, allowed[at], known):
		default:
			f.kept = append(f.kept, header+"\n"+line)
		}
	}
	return f, nil
}

func mayChange(line string, s section, known *configFile) bool {
	m := keyLine.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	check := s.keys[strings.ToLower(m[1])]
	return check != nil && check(m[2], known)
}

func remote(value string, f *configFile) bool { return value == "." || f.remotes[value] }

func ref(value string, _ *configFile) bool {
	return strings.HasPrefix(value, "refs/") && RefName(value)
}

func rebase(value string, _ *configFile) bool {
	return value == "true" || value == "false" || value == "merges" || value == "interactive"
}

func boolean(value string, _ *configFile) bool { return value == "true" || value == "false" }

func yes(value string, _ *configFile) bool { return value == "true" }

func plainURL(value string, _ *configFile) bool {
	return urlText.MatchString(value) && value[0] != '-' && !strings.Contains(value, "::")
}
