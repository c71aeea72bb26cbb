// Package gitfacts reads what a start needs to know of the developer's own Git
// configuration: who they are, what they ignore everywhere, and which files Git
// on this host obeys. It refuses a workspace in which one of those files lies.
//
// The workspace may hold a hostile repository. Git is asked for named files of
// the developer's and the system's alone, with `git config`, which runs nothing
// that a repository configures and writes nothing; no value of a repository is
// ever taken. The package decides nothing about paths in the workspace. It runs
// in the Host Coordinator.
package gitfacts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/paths"
	"lazaret.dev/lazaret/protocol/launch"
)

const (
	// maxFile bounds one file of Git's, in bytes. Git's own files of this kind
	// have a few hundred.
	maxFile = 256 << 10

	// maxSources bounds all of them together.
	maxSources = 1 << 20

	// maxPlaces bounds how many there are.
	maxPlaces = 256
)

// Options say for whom and where.
type Options struct {
	Git        string     // absolute path of git; empty where the host has none
	Host       paths.Host // where the developer's files are
	SearchPath string     // PATH of the git that is run
	Workspace  string     // canonical

	// Untrusted are further directories in which a sandbox can write, canonical.
	Untrusted []string

	// ConfigGate says that configuration of branches can be written inside.
	ConfigGate bool
}

// Facts is what a start needs to know.
type Facts struct {
	// Config is the text of Git's configuration inside.
	Config string

	// Excludes is the text of the developer's core.excludesFile, or nil.
	Excludes []byte

	// Host is what Git on this host reads beyond the repository.
	Host launch.HostGit

	// Warnings are lines for the user.
	Warnings []string
}

// Gather reads the facts. A host without Git or without configuration, and
// configuration that Git itself cannot read, give fewer. It fails with a
// [*RefusedError] when a file that Git on this host obeys lies where the
// sandbox can write.
func Gather(ctx context.Context, o Options) (*Facts, error) {
	p, err := findPlaces(o.Host)
	if err != nil {
		return nil, err
	}
	g := newGuard(p, append([]string{o.Workspace}, o.Untrusted...))
	if err := g.checkPlaces(); err != nil {
		return nil, err
	}
	f := &Facts{Host: launch.HostGit{Home: p.home}}
	var entries []entry
	if o.Git != "" {
		r := reader{o: o, places: p}
		entries = r.readAll(ctx)
		f.Warnings = r.warnings
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	if err := g.checkEntries(entries); err != nil {
		return nil, err
	}
	if f.Excludes, err = excludes(p, entries); err != nil {
		return nil, err
	}
	f.Config = render(settings(o.ConfigGate, len(f.Excludes) > 0, entries))
	f.Host.Sources, err = sources(p, entries)
	return f, err
}

// places is where Git's configuration beyond repositories is.
type places struct {
	home   string
	system string   // what is read with --system, for programs that are not Git
	xdg    string   // the directory $XDG_CONFIG_HOME/git
	global []string // in the order in which Git reads them
	env    []string // what leads Git to the same files
}

// findPlaces looks where Git looks. Relative paths in the environment depend
// on the directory and are passed over.
func findPlaces(h paths.Host) (places, error) {
	home, err := h.Home()
	if err != nil {
		return places{}, err
	}
	p := places{home: home, system: "/etc/gitconfig", env: []string{"HOME=" + home}}
	dir := filepath.Join(home, ".config")
	if d := h.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(d) {
		dir = filepath.Clean(d)
		p.env = append(p.env, "XDG_CONFIG_HOME="+d)
	}
	p.xdg = filepath.Join(dir, "git")
	p.global = []string{filepath.Join(p.xdg, "config"), filepath.Join(home, ".gitconfig")}
	if f := h.Getenv("GIT_CONFIG_GLOBAL"); filepath.IsAbs(f) {
		p.global = []string{filepath.Clean(f)}
	}
	if f := h.Getenv("GIT_CONFIG_SYSTEM"); filepath.IsAbs(f) {
		p.system = filepath.Clean(f)
		p.env = append(p.env, "GIT_CONFIG_SYSTEM="+f)
	}
	return p, nil
}

// excludes reads the developer's core.excludesFile, which Git looks for at
// $XDG_CONFIG_HOME/git/ignore where none is configured.
func excludes(p places, entries []entry) ([]byte, error) {
	file := filepath.Join(p.xdg, "ignore")
	if v, ok := last(entries, "core.excludesfile"); ok {
		if file = p.expand(v); file == "" {
			return nil, nil // configured to be none
		}
	}
	s, err := readFile(file)
	if err != nil {
		// What Git ignores on the host would show inside.
		return nil, fmt.Errorf("cannot read the file of ignored names, core.excludesFile: %w", err)
	}
	return s.Text, nil
}

// sources reads the files that Git reads.
func sources(p places, entries []entry) ([]launch.GitSource, error) {
	type place struct {
		scope launch.GitScope
		path  string
	}
	all := []place{{launch.GitSystem, p.system}}
	for _, e := range entries {
		if e.scope == launch.GitSystem {
			all = append(all, place{e.scope, e.origin}, place{e.scope, p.included(e)})
		}
	}
	for _, f := range p.global {
		all = append(all, place{launch.GitGlobal, f})
	}
	for _, e := range entries {
		if e.scope == launch.GitGlobal {
			all = append(all, place{e.scope, e.origin}, place{e.scope, p.included(e)})
		}
	}
	var out []launch.GitSource
	seen := map[place]bool{}
	size := 0
	for _, s := range all {
		if s.path == "" || seen[s] {
			continue
		}
		if seen[s] = true; len(seen) > maxPlaces {
			return nil, fmt.Errorf("cannot check your Git configuration: it includes more than %d files", maxPlaces)
		}
		src, err := readFile(s.path)
		if err != nil {
			return nil, fmt.Errorf("cannot check your Git configuration: %w", err)
		}
		if src.Text == nil {
			continue
		}
		if size += len(src.Text); size > maxSources {
			return nil, fmt.Errorf("cannot check your Git configuration: it has more than %d bytes", maxSources)
		}
		src.Scope = s.scope
		out = append(out, src)
	}
	return out, nil
}

// readFile reads a regular file. One that is absent, that the developer may
// not read or that is something else has no text, and is to Git what an empty
// one is.
func readFile(path string) (launch.GitSource, error) {
	src := launch.GitSource{Path: path}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		if slices.ContainsFunc([]error{unix.ENOENT, unix.ENOTDIR, unix.EACCES, unix.ELOOP, unix.ENAMETOOLONG, unix.ENXIO},
			func(e error) bool { return errors.Is(err, e) }) {
			return src, nil
		}
		return src, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return src, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return src, nil
	}
	src.Dev, src.Ino = st.Dev, st.Ino
	src.Text, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(src.Text) > maxFile {
		err = fmt.Errorf("%q is larger than %d bytes", path, maxFile)
	}
	return src, err
}
