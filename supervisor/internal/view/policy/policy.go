// Package policy is what the workspace view asks of those who decide: where a
// path is served from, and what may be done to it.
//
// It holds the questions and the answers, and the policy of a workspace
// without Git. Paths are relative to the workspace, slash-separated, "" for the
// root, their bytes as they are. It runs in the Runtime Supervisor.
package policy

import "io"

// Kind is what an entry of a directory is.
type Kind uint8

// The kinds.
const (
	Absent Kind = iota
	File
	Dir
	Symlink
	Other
)

// Place says which store serves a path.
type Place uint8

// The places.
const (
	Shared   Place = iota // the Agent Workspace on the host
	Isolated              // Ignored Workspace State; what the host has there is invisible
	Union                 // a directory of both: the Domain's own entries, and those of the host that are not Isolated
	Exposed               // the host's, read-only
)

// Router decides where paths are served from.
type Router interface {
	// Place is asked for every entry that is found or made. isDir says that the
	// entry is a directory.
	Place(path string, isDir bool) Place

	// Watches tells whether the path, or the inode found there, holds rules.
	Watches(path string, dev, ino, nlink uint64) bool

	// Begin comes before a change of what Watches names, and the returned
	// Change's End after it. An error refuses the change.
	Begin(path string) (Change, error)

	// Renaming comes before a directory of the host's is renamed from inside.
	Renaming(old, new string) (Change, error)

	// Changed comes after a change by the host. Like End it returns the
	// directories below which other places may hold from now on.
	Changed(path string) (affected []string, err error)
}

// Change is a change under way.
type Change interface {
	End(done bool) (affected []string, err error)
}

// Class is what a path is to Git.
type Class uint8

// The classes.
const (
	Free     Class = iota // nothing: the router decides
	Live                  // a live part of a repository: the host's
	ReadOnly              // the host's, and never changed from inside
	Gated                 // the host's, changed only by the rename of a lock made inside
	Private               // Domain storage, perhaps with the host's file below it
	Born                  // Domain storage: a repository that was made inside
	Scratch               // Domain storage: the lock of something read-only
)

// Domain tells whether the class's bytes are the Domain's own.
func (c Class) Domain() bool { return c == Private || c == Born || c == Scratch }

// Verdict is what a path is to Git, and in which repository.
type Verdict struct {
	Class  Class
	Gitdir bool // the path lies in a repository
	Below  bool // Private: the host's file is readable until there is an own one
}

// OpKind says what an operation does.
type OpKind uint8

// The operations.
const (
	Create OpKind = iota
	Mkdir
	Symlinks
	Mknod
	Link
	Unlink
	Rmdir
	Rename
	Exchange
	Write
	Chmod
	Utimes
)

// Op is an operation that would change something.
type Op struct {
	Kind         OpKind
	Path, To     string // To: of Link, Rename and Exchange
	Type, ToType Kind   // Link, Rename, Exchange: the source's and the target's
	Links        uint64 // Rename: the source's link count
	Made, ToMade bool   // the name came into being through the view
}

// Content is a file's content.
type Content struct {
	io.ReaderAt
	Size int64
}

// Outcome says how a lock is published.
type Outcome uint8

// The outcomes.
const (
	Keep    Outcome = iota // the bytes are equal: the lock is dropped
	Replace                // the lock becomes the file
)

// Guard is the Git Sentry.
type Guard interface {
	Classify(path string) Verdict

	// Check is asked before every operation that would change something on the
	// host, while nothing else can. publish demands Publish before the rename.
	Check(op Op) (publish bool, err error)
	Publish(from, to string, lock Content, old *Content) (Outcome, error)

	// Protected tells whether a file with several names has one that is
	// protected; Alias is the refusal then.
	Protected(dev, ino uint64) bool
	Alias(op OpKind, path string) error

	// Changed and Forget tell of changes on the host.
	Changed(path string)
	Forget(dir string)
}

// AllShared is the router of a workspace without Git.
type AllShared struct{}

// Place is Shared.
func (AllShared) Place(string, bool) Place { return Shared }

// Watches is false.
func (AllShared) Watches(string, uint64, uint64, uint64) bool { return false }

// Begin allows everything.
func (AllShared) Begin(string) (Change, error) { return noChange{}, nil }

// Renaming allows everything.
func (AllShared) Renaming(string, string) (Change, error) { return noChange{}, nil }

// Changed affects nothing.
func (AllShared) Changed(string) ([]string, error) { return nil, nil }

type noChange struct{}

func (noChange) End(bool) ([]string, error) { return nil, nil }

// Unguarded is the guard of a workspace without Git.
type Unguarded struct{}

// Classify finds nothing to guard.
func (Unguarded) Classify(string) Verdict { return Verdict{} }

// Check allows everything.
func (Unguarded) Check(Op) (bool, error) { return false, nil }

// Publish replaces.
func (Unguarded) Publish(string, string, Content, *Content) (Outcome, error) { return Replace, nil }

// Protected is false.
func (Unguarded) Protected(uint64, uint64) bool { return false }

// Alias refuses nothing.
func (Unguarded) Alias(OpKind, string) error { return nil }

// Changed notes nothing.
func (Unguarded) Changed(string) {}

// Forget notes nothing.
func (Unguarded) Forget(string) {}
