package report

import (
	"slices"
	"strings"
	"sync"
)

// maxTouched bounds how many paths are kept.
const maxTouched = 1000

// Touched keeps which files were made or changed from inside that the host's
// tools run or obey by themselves. It is safe for concurrent use.
type Touched struct {
	mu    sync.Mutex
	paths map[string]bool
	lost  int
}

// Note takes a change of a path into account.
func (t *Touched) Note(path string) {
	if tool, metadata := Obeyed(path); tool == "" && !metadata {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(path)
}

func (t *Touched) add(path string) {
	switch {
	case t.paths[path]:
	case len(t.paths) >= maxTouched:
		t.lost++
	default:
		if t.paths == nil {
			t.paths = map[string]bool{}
		}
		t.paths[strings.Clone(path)] = true
	}
}

// Moved takes a rename into account, with all that was noted below.
func (t *Touched) Moved(from, to string) {
	t.Note(to)
	t.mu.Lock()
	defer t.mu.Unlock()
	for path := range t.paths {
		if rest, ok := strings.CutPrefix(path, from+"/"); ok {
			delete(t.paths, path)
			t.add(to + "/" + rest)
		}
	}
}

// Paths are the paths that were noted, sorted, and how many were not kept.
func (t *Touched) Paths() (paths []string, lost int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for path := range t.paths {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths, t.lost
}

// tools are the files that a tool on the host runs, or takes commands from, as
// soon as the developer enters, opens or commits in their directory.
var tools = map[string]string{
	".envrc": "direnv", ".env.fish": "direnv", ".autoenv.zsh": "autoenv", ".autoenv": "autoenv",
	"mise.toml": "mise", ".mise.toml": "mise", ".tool-versions": "asdf and mise",
	".pre-commit-config.yaml": "pre-commit", ".pre-commit-config.yml": "pre-commit",
	"lefthook.yml": "lefthook", ".lefthook.yml": "lefthook", "lefthook.yaml": "lefthook", ".lefthook.yaml": "lefthook",
	"lefthook.toml": "lefthook", ".lefthook.toml": "lefthook", "lefthook-local.yml": "lefthook",
	".lintstagedrc": "lint-staged", ".lintstagedrc.json": "lint-staged", ".lintstagedrc.js": "lint-staged", ".lintstagedrc.mjs": "lint-staged",
	".overcommit.yml": "overcommit", ".huskyrc": "husky", ".huskyrc.json": "husky",
	".exrc": "vi", ".vimrc": "vim", ".nvimrc": "nvim", ".nvim.lua": "nvim", ".dir-locals.el": "Emacs",
	".lazygit.yml": "lazygit", ".mcp.json": "coding agents", ".devcontainer.json": "development containers",
}

// places are directories whose files are of that kind.
var places = map[string]string{
	".husky": "husky", ".githooks": "Git hooks", ".devcontainer": "development containers", ".idea": "JetBrains editors",
	".vscode": "Visual Studio Code", ".zed": "Zed", ".mise": "mise", ".claude": "coding agents", ".cursor": "coding agents",
	".hg": "Mercurial", ".jj": "Jujutsu", ".direnv": "direnv",
}

// metadata are the files that Git, or a program for it, obeys.
var metadata = map[string]bool{".gitmodules": true, ".gitattributes": true, ".lfsconfig": true}

// Obeyed tells which tool of the host's runs the file, or takes commands from
// it, by itself; and whether Git obeys it. Letters' case does not count, as
// some filesystems have it.
func Obeyed(path string) (tool string, byGit bool) {
	dir, name := "", strings.ToLower(path)
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		dir, name = name[:i], name[i+1:]
	}
	if tool := tools[name]; tool != "" {
		return tool, false
	}
	if metadata[name] {
		return "", true
	}
	if tool := places[name]; tool != "" {
		return tool, false
	}
	for part := range strings.SplitSeq(dir, "/") {
		if tool := places[part]; tool != "" {
			return tool, false
		}
	}
	return "", false
}
