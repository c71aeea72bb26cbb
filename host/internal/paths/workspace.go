package paths

import (
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"lazaret.dev/lazaret/host/internal/paths/internal/dirfd"
)

// Place is one host path that no sandbox may see.
type Place struct {
	What string // for people: "the data root", "the configuration file"
	Path string // absolute; it need not exist
}

// Guard knows what a host path may not expose.
type Guard struct {
	Home   string  // the developer's home directory
	Places []Place // Lazaret's own
}

// Overlap returns the first place that dir is, contains, or lies in. Places
// are compared by canonical path, and a place's existing ancestors also by
// identity, so that a second mount of a directory does not hide it. dir is
// canonical. A place that cannot be resolved counts as overlapping nothing but
// its own text.
func (g Guard) Overlap(dir string) (Place, bool) {
	fi, statErr := os.Stat(dir)
	for _, p := range g.Places {
		real, err := Resolve(p.Path)
		if err != nil {
			real = filepath.Clean(p.Path)
		}
		for _, q := range []string{real, filepath.Clean(p.Path)} {
			if Within(dir, q) || Within(q, dir) {
				return p, true
			}
		}
		if statErr == nil && sameAsAncestor(fi, real) {
			return p, true
		}
	}
	return Place{}, false
}

// sameAsAncestor reports whether path or a directory above it is dir.
func sameAsAncestor(dir os.FileInfo, path string) bool {
	for p := path; ; p = filepath.Dir(p) {
		if fi, err := os.Stat(p); err == nil && os.SameFile(dir, fi) {
			return true
		}
		if p == "/" {
			return false
		}
	}
}

const workspaceFix = "run lazaret in a project directory, or name one with --workspace DIR"

// Workspace returns the canonical path of the directory that is to be the
// Agent Workspace, with every symbolic link resolved, so that each way to name
// a project leads to one Domain. It refuses, by name: what is not a directory,
// paths that are not UTF-8 or hold NUL, "/", the kernel's own filesystems, the
// home directory and what contains it, and whatever the guard protects.
func (g Guard) Workspace(dir string) (string, error) {
	no := func(why string, args ...any) error {
		return refuse(KindWorkspace, workspaceFix, "cannot use %q as the workspace: "+why, append([]any{dir}, args...)...)
	}
	if strings.ContainsRune(dir, 0) {
		return "", no("its name contains a NUL byte")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", &Error{Kind: KindWorkspace, Fix: workspaceFix, Msg: "cannot find the working directory", Err: err}
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return "", &Error{Kind: KindWorkspace, Fix: workspaceFix, Msg: "cannot use " + dirfd.Quote(dir) + " as the workspace", Err: err}
	}
	if !utf8.ValidString(real) {
		return "", no("its path %q is not valid UTF-8", real)
	}
	fi, err := os.Stat(real)
	if err != nil {
		return "", &Error{Kind: KindWorkspace, Fix: workspaceFix, Msg: "cannot use " + dirfd.Quote(dir) + " as the workspace", Err: err}
	}
	if !fi.IsDir() {
		return "", no("it is not a directory")
	}
	if sameAsAncestor(fi, "/") {
		return "", no("it is the root of the file system, and everything in it would be the agent's")
	}
	if fs, is := KernelPlace(real); is {
		return "", no("it is on a filesystem of type %s, which shows the host itself", fs)
	}
	if g.Home != "" {
		home, err := Resolve(g.Home)
		if err != nil {
			home = filepath.Clean(g.Home)
		}
		if Within(real, home) || sameAsAncestor(fi, home) {
			return "", no("it is or contains your home directory %q, and everything in it would be the agent's", g.Home)
		}
	}
	if p, bad := g.Overlap(real); bad {
		return "", no("the agent could see %s, %q", p.What, p.Path)
	}
	return real, nil
}
