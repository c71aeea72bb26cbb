// Package hostfacts finds out whether this host can run a sandbox, with what,
// and what to type where it cannot. The same facts feed `lazaret doctor` and
// the early failure of `lazaret run`.
//
// It looks and never changes anything: it installs nothing, runs no sudo, makes
// no directory, and decides nothing about a Domain. It runs in the client
// process (doctor, run) and in the Host Coordinator.
package hostfacts

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"lazaret.dev/lazaret/host/internal/hostfacts/subid"
	"lazaret.dev/lazaret/protocol/handoff"
)

// Env is everything that the probes look at. Its fields are values, so that a
// test can describe any host.
type Env struct {
	Root       string   // goes before /proc, /etc, /dev and /run; "" is this host
	UID        int      // the caller's
	User       string   // the caller's name; the uid in digits when it has none
	Exe        string   // the running lazaret, absolute, links resolved
	Path       []string // the directories of PATH
	Untrusted  []string // canonical directories in which a sandbox can write: no program is taken from there
	RuntimeDir string   // $XDG_RUNTIME_DIR
	DataRoot   string   // where the state lives; need not exist yet; "" is not checked
	System     System
}

// Current describes this process's host. dataRoot is the configured one.
func Current(dataRoot string) (Env, error) {
	exe, err := os.Executable()
	if err == nil {
		exe, err = filepath.EvalSymlinks(exe)
	}
	if err != nil {
		return Env{}, err
	}
	name := strconv.Itoa(os.Getuid())
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	return Env{
		UID: os.Getuid(), User: name, Exe: exe, Path: filepath.SplitList(searchPath()),
		RuntimeDir: os.Getenv("XDG_RUNTIME_DIR"), DataRoot: dataRoot, System: real{},
	}, nil
}

// searchPath is PATH, or where a system's programs are when it is not set, as
// with some service managers.
func searchPath() string {
	if p := os.Getenv("PATH"); p != "" {
		return p
	}
	return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
}

// Facts is what a start needs to know of the host.
type Facts struct {
	Tools   Tools
	Mapping Mapping
	// Warnings are lines for the user, without prefix; at most one of them is
	// about the mapping.
	Warnings []string
}

// Mapping is how the sandbox's ids map to the host's.
type Mapping struct {
	Mode handoff.Mapping
	UIDs subid.Range // the subordinate ids of 1 and up; only with MappingFull
	GIDs subid.Range
}

// Quick gathers the facts with cheap looks only: no process is started in the
// good case. It fails with *BlockedError on the first thing that makes a start
// impossible. What it cannot see so cheaply, such as a security module that
// filters namespaces, is for Explain after the start has failed.
func Quick(ctx context.Context, e Env) (Facts, error) {
	f := Facts{Tools: Locate(e)}
	h := host{Env: e, tools: f.Tools, ids: lookupIDs(ctx, e)}
	for _, check := range []func() Check{
		h.uid, h.supervisor, h.escalate, func() Check { return h.runscQuick(ctx) }, h.slirpFound,
		h.namespaceLimits, h.fuse, h.tun, h.kernel, h.dataRoot, h.idToolsFound,
	} {
		if c := check(); c.Status == Block {
			return Facts{}, &BlockedError{Check: c}
		}
	}
	f.Mapping = Mapping{Mode: handoff.MappingSingle}
	if why, ok := h.ids.Usable(); !ok {
		f.Warnings = append(f.Warnings, "the sandbox has a single user id, in which some packages cannot be installed: "+
			sentence(why)+"; lazaret doctor says how to get more")
	} else {
		f.Mapping = Mapping{Mode: handoff.MappingFull, UIDs: h.ids.UIDs(), GIDs: h.ids.GIDs()}
	}
	if !e.trusted(e.Exe) {
		f.Warnings = append(f.Warnings, fmt.Sprintf("lazaret itself lies in a directory in which a sandbox can write, %q: "+
			"what the sandbox puts there would run on the host; install it elsewhere", e.Prefix()))
	}
	return f, nil
}

// Explain runs every check after a start has failed, and returns the first
// blocking one as *BlockedError, or nil when the host is not to blame.
func Explain(ctx context.Context, e Env) error {
	for _, c := range Examine(ctx, e).Checks {
		if c.Status == Block {
			return &BlockedError{Check: c}
		}
	}
	return nil
}

// host is an Env with what several checks need.
type host struct {
	Env
	tools Tools
	ids   subid.IDs
}

// lookupIDs finds the user's subordinate ids.
func lookupIDs(ctx context.Context, e Env) subid.IDs {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return subid.Lookup(subid.Source{
		User: e.User, UID: e.UID, SubUID: e.read("/etc/subuid"), SubGID: e.read("/etc/subgid"),
		GetSubIDs: func(flags ...string) string {
			tool := e.lookPath("getsubids")
			if tool == "" {
				return ""
			}
			out, err := e.System.Run(ctx, tool, append(flags, e.User)...)
			if err != nil || out.Status != 0 {
				return ""
			}
			return out.Stdout
		},
	})
}

// read returns a file's text below Root, or "" when it cannot be read.
func (e Env) read(path string) string {
	b, err := os.ReadFile(e.Root + path)
	if err != nil {
		return ""
	}
	return string(b)
}

func (e Env) exists(path string) bool {
	_, err := os.Lstat(e.Root + path)
	return err == nil
}
