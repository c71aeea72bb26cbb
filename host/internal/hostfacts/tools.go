package hostfacts

import (
	"os"
	"path/filepath"
)

// Tools holds the absolute paths of the programs that a start uses; "" where
// one was not found.
type Tools struct {
	NewUIDMap     string
	NewGIDMap     string
	Slirp4netns   string
	Runsc         string
	Supervisor    string
	Escalate      string
	FuseOverlayFS string // optional
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
		NewUIDMap:     e.lookPath("newuidmap"),
		NewGIDMap:     e.lookPath("newgidmap"),
		Slirp4netns:   e.lookPath("slirp4netns"),
		FuseOverlayFS: e.lookPath("fuse-overlayfs"),
		Supervisor:    own("lazaret-supervisor"),
		Escalate:      own("lazaret-escalate"),
		Runsc:         own("runsc"),
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
// Relative entries are skipped: what is found must not depend on the directory.
func (e Env) lookPath(name string) string {
	for _, dir := range append(e.Path[:len(e.Path):len(e.Path)], e.Root+"/run/wrappers/bin") {
		if !filepath.IsAbs(dir) {
			continue
		}
		if p := filepath.Join(dir, name); executable(p) {
			return p
		}
	}
	return ""
}

func executable(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular() && fi.Mode().Perm()&0o111 != 0
}
