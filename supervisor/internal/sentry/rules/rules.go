// Package rules is the Git Sentry's table of names: what each name in a gitdir
// is to Git, and so what may happen to it from inside.
//
// It is a pure function of names. It runs in the Runtime Supervisor.
package rules

import (
	"strings"

	"lazaret.dev/lazaret/supervisor/internal/sentry/gitdir"
)

// Class says what a path is to the host's Git, and so where its bytes are.
type Class uint8

// The classes. Those of the Domain never reach the host.
const (
	Free     Class = iota // no gitdir is concerned: the routing decides
	Shared                // live in both directions
	ReadOnly              // the host's, readable
	Gated                 // the host's; new content passes through Publish
	Private               // the Domain's own (R3)
	Born                  // the Domain's: a repository, worktree or submodule made inside (R1)
	Scratch               // the Domain's: the lock of a read-only name
)

var classNames = [...]string{"free", "shared", "read-only", "gated", "private", "born", "scratch"}

func (c Class) String() string { return classNames[c] }

// Domain tells whether the bytes are the Domain's.
func (c Class) Domain() bool { return c == Private || c == Born || c == Scratch }

// Rule names the rule that decided.
type Rule string

// The rules.
const (
	R1 Rule = "R1" // births
	R2 Rule = "R2" // read-only names
	R3 Rule = "R3" // private names
	R4 Rule = "R4" // gates
	R5 Rule = "R5" // file types
	R6 Rule = "R6" // structure
	R7 Rule = "R7" // locks of others
	R8 Rule = "R8" // what the host's configuration reads or runs
)

// Part is what a name in a gitdir is.
type Part struct {
	Class     Class
	Rule      Rule
	Below     bool // Private: the host's file is readable until there is an own one
	Fixed     bool // may be made where it is absent, and neither moved, removed nor given other modes
	Dir       bool // only ever a directory
	Leaf      bool // only ever a file
	Operation bool // read-only if the host has it, else private
}

var (
	free      = Part{Class: Free}
	live      = Part{Class: Shared, Rule: R5}
	liveFile  = Part{Class: Shared, Rule: R5, Leaf: true}
	liveDir   = Part{Class: Shared, Rule: R5, Dir: true}
	structure = Part{Class: Shared, Rule: R6, Fixed: true, Dir: true}
	readOnly  = Part{Class: ReadOnly, Rule: R2}
	gated     = Part{Class: Gated, Rule: R4, Leaf: true}
	scratch   = Part{Class: Scratch, Rule: R2, Leaf: true}
	ownDir    = Part{Class: Private, Rule: R3}
	ownFile   = Part{Class: Private, Rule: R3, Below: true}
	operation = Part{Class: Private, Rule: R3, Operation: true}
	hostsOwn  = Part{Class: ReadOnly, Rule: R3}
)

// special are the names in a gitdir's root that mean something to Git; another
// spelling of one is no name of Git's, and the same file on hosts that fold.
var special = [...]string{
	"branches", "commondir", "config", "config.worktree", "gitdir", "head", "hooks", "index", "info", "lfs", "logs",
	"merge_rr", "modules", "objects", "packed-refs", "rebase-apply", "rebase-merge", "refs", "reftable", "remotes",
	"rr-cache", "sequencer", "shallow", "worktrees",
}

// Of is the table of section 2 for a path below a gitdir. look says that
// the gitdir only looks like one: what Git would not use in it is free there.
func Of(inner string, look bool) Part {
	first, rest, nested := strings.Cut(inner, "/")
	switch first {
	case "":
		return structure
	case "config", "config.worktree", "commondir", "gitdir", "remotes", "branches", "modules", "worktrees":
		return readOnly
	case "config.lock", "config.worktree.lock", "commondir.lock", "gitdir.lock":
		if !nested {
			return scratch
		}
	case "info":
		return info(rest, nested)
	case "objects":
		return objects(rest, nested)
	case "refs", "logs":
		if !nested {
			return structure
		}
		return live
	case "reftable", "sequencer", "lfs", "NOTES_MERGE_WORKTREE":
		if !nested {
			return liveDir
		}
		return live
	case "HEAD":
		return Part{Class: Gated, Rule: R4, Leaf: true, Fixed: true}
	case "index":
		return gated
	case "hooks":
		if look {
			return hostsOwn
		}
		return ownDir
	case "rebase-merge", "rebase-apply":
		return operation
	case "rr-cache":
		if look {
			return operation
		}
		return ownDir
	}
	return other(first, nested, look)
}

// other are the names in a gitdir's root that follow a pattern, and the rest.
func other(name string, nested, look bool) Part {
	base := strings.TrimSuffix(name, ".lock")
	if strings.HasPrefix(name, "MERGE_RR") || base == "EDIT_DESCRIPTION" {
		return ownFile
	}
	for _, s := range special {
		if base != s && name != "HEAD.lock" && gitdir.Folds(base, s) {
			if look {
				return readOnly
			}
			return ownDir
		}
	}
	switch {
	case nested:
	case strings.HasPrefix(name, "sharedindex."), strings.HasPrefix(name, "index.stash."):
		if base != name {
			return liveFile
		}
		return gated
	case base == "index", base == "HEAD", base == "packed-refs", name == "packed-refs.new", base == "shallow",
		strings.HasPrefix(name, "shallow_"), strings.HasPrefix(name, "sharedindex_"),
		base != name && strings.HasPrefix(name, "next-index-"), pseudoRef(base, look):
		return liveFile
	}
	switch {
	case look:
		return free
	case nested:
		return ownDir
	}
	return ownFile
}

// pseudoRef tells whether name looks like FETCH_HEAD or MERGE_MSG. Where a
// gitdir is a directory to work in as well, only Git's own names do.
func pseudoRef(name string, look bool) bool {
	for i := range len(name) {
		if c := name[i]; (c < 'A' || c > 'Z') && (c != '_' || i == 0) {
			return false
		}
	}
	if !look {
		return name != ""
	}
	for _, end := range [...]string{"_HEAD", "_MSG", "_EDITMSG", "_MERGE", "_AUTOSTASH", "_MODE"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return strings.HasPrefix(name, "BISECT_") || strings.HasPrefix(name, "NOTES_MERGE_")
}

func info(rest string, nested bool) Part {
	name, _, deep := strings.Cut(rest, "/")
	switch {
	case !nested:
		return structure
	case name == "fast-import":
		if deep {
			return live
		}
		return liveDir
	case deep:
	case name == "refs", name == "sparse-checkout", name == "sparse-checkout.lock", strings.HasPrefix(name, "refs_"):
		return liveFile
	case strings.HasSuffix(name, ".lock"):
		return scratch
	}
	return readOnly
}

func objects(rest string, nested bool) Part {
	if !nested {
		return structure
	}
	dir, name, deep := strings.Cut(rest, "/")
	switch {
	case !deep:
		return live
	case name == "alternates.lock" || name == "http-alternates.lock":
		if dir == "info" {
			return scratch
		}
	case gitdir.Folds(dir, "info") && (foldsBelow(name, "alternates") || foldsBelow(name, "http-alternates")):
		return readOnly
	case gitdir.Folds(dir, "pack") && multiPackIndex(name):
		return gated
	}
	return live
}

// foldsBelow tells whether path's first component folds to want.
func foldsBelow(path, want string) bool {
	first, _, _ := strings.Cut(path, "/")
	return gitdir.Folds(first, want)
}

// multiPackIndex tells whether a path below objects/pack is one: the single
// file, or a layer of an incremental one.
func multiPackIndex(path string) bool {
	_, name := gitdir.Split(path)
	i := strings.LastIndexByte(name, '.')
	return gitdir.Folds(path, "multi-pack-index") || i >= 0 && gitdir.Folds(name[i:], ".midx")
}

// LockName tells whether a name in a shared part is one that Git holds while it
// works: not made through the mount, it is the host's (R7). Below logs, Git
// moves a log aside by that name and back.
func LockName(inner string) bool {
	_, name := gitdir.Split(inner)
	switch {
	case inner == "logs/refs/.tmp-renamed-log":
		return false
	case strings.HasSuffix(name, ".lock"), strings.HasPrefix(name, ".tmp-"), inner == "packed-refs.new",
		strings.HasPrefix(inner, "shallow_"), strings.HasPrefix(inner, "sharedindex_"), strings.HasPrefix(inner, "index.stash."):
		return true
	}
	return strings.HasPrefix(inner, "objects/") && strings.HasPrefix(name, "tmp_")
}
