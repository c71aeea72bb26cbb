package hostfacts

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"lazaret.dev/lazaret/host/internal/paths"
)

// Tools holds the absolute paths of the programs that a start uses; "" where
// one was not found.
type Tools struct {
	NewUIDMap   string
	NewGIDMap   string
	Slirp4netns string
	Runsc       string
	Supervisor  string
	Escalate    string
	Git         string // the host may have none
}

// Locate finds the tools: our own beside the running lazaret
// (<prefix>/bin/lazaret → <prefix>/libexec/lazaret), the system's in PATH. A
// runsc of the installation goes before one in PATH.
func Locate(e Env) Tools {
	libexec := e.Libexec()
	own := func(name string) string {
		if p := filepath.Join(libexec, name); executable(p) {
			return p
		}
		return ""
	}
	t := Tools{
		NewUIDMap:   e.lookPath("newuidmap"),
		NewGIDMap:   e.lookPath("newgidmap"),
		Slirp4netns: e.lookPath("slirp4netns"),
		Git:         e.lookPath("git"),
		Supervisor:  own("lazaret-supervisor"),
		Escalate:    own("lazaret-escalate"),
		Runsc:       own("runsc"),
	}
	if t.Runsc == "" {
		t.Runsc = e.lookPath("runsc")
	}
	return t
}

// Prefix returns the installation's prefix.
func (e Env) Prefix() string { return filepath.Dir(filepath.Dir(e.Exe)) }

// Libexec returns the directory of Lazaret's own helpers.
func (e Env) Libexec() string { return filepath.Join(e.Prefix(), "libexec", "lazaret") }

// lookPath finds a program in PATH, then where NixOS keeps its setuid wrappers.
func (e Env) lookPath(name string) string {
	for _, dir := range append(e.SearchPath(), e.Root+"/run/wrappers/bin") {
		if p := filepath.Join(dir, name); executable(p) && e.trusted(p) {
			return p
		}
	}
	return ""
}

// SearchPath returns the directories of PATH in which programs may be looked
// for. Relative entries are left out: what is found must not depend on the
// directory. So are those in which a sandbox can put a program, as a virtual
// environment in a project: it would run on the host.
func (e Env) SearchPath() []string {
	var out []string
	for _, dir := range e.Path {
		if filepath.IsAbs(dir) && e.trusted(dir) {
			out = append(out, dir)
		}
	}
	return out
}

// OwnPath reports whether PATH leads to directories that are not root's: in
// those, a sandbox may have put something. The system's are beyond its reach.
func (e Env) OwnPath() bool {
	return slices.ContainsFunc(e.Path, func(dir string) bool {
		fi, err := os.Stat(dir)
		if err != nil {
			return false
		}
		st, ok := fi.Sys().(*syscall.Stat_t)
		return !ok || st.Uid != 0
	})
}

// trusted reports whether no sandbox can change what the path leads to.
func (e Env) trusted(path string) bool {
	if len(e.Untrusted) == 0 {
		return true
	}
	real, err := paths.ResolveTrusted(path, e.Untrusted)
	return err == nil && !slices.ContainsFunc(e.Untrusted, func(u string) bool {
		return paths.Within(u, real) || paths.Within(u, filepath.Clean(path))
	})
}

func executable(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular() && fi.Mode().Perm()&0o111 != 0
}
