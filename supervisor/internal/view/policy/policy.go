// Package policy is what the workspace view asks of those who decide: where a
// path is served from, and what may be done to it.
//
// It holds the questions and the answers, and the policy of a workspace
// without Git. Paths are relative to the workspace, slash-separated, "" for the
// root, their bytes as they are. It runs in the Runtime Supervisor.
package policy

import "io"

// Place says which store serves a path.
type Place uint8

// The places.
const (
	Shared   Place = iota // the Agent Workspace on the host
	Isolated              // Ignored Workspace State; what the host has there is invisible
	Union                 // a directory of both: the Domain's own entries, and those of the host that are not Isolated
	Exposed               // the host's, read-only
)

// Entry is what the host has at a path; the zero Entry is nothing.
type Entry struct {
	Regular, Dir    bool
	Dev, Ino, Nlink uint64
}

// Router decides where paths are served from.
type Router interface {
	// Place is asked for every entry that is found or made. isDir says that the
	// entry is a directory.
	Place(path string, isDir bool) Place

	// Watches tells whether the path, or what the host has there, holds rules.
	Watches(path string, e Entry) bool

	// Begin comes before a change of what Watches names, and the Change's End
	// after it; Linking before another name is given to it. An error refuses the
	// change.
	Begin(path string) (Change, error)
	Linking(path string) error

	// Publishing comes before a file that Git obeys is replaced from inside.
	Publishing(path string) (Change, error)

	// Renaming comes before a directory of the host's is renamed from inside.
	Renaming(old, new string) (Change, error)

	// Changed comes after a change by the host, or one from inside that is noticed
	// as well: a file was closed by somebody who had it open for writing, an entry
	// has come, gone or got another name. e is what is there now; "" stands for
	// changes that nobody has seen. Like End it returns the directories below
	// which other places may hold from now on.
	Changed(path string, e Entry) (affected []string, err error)
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

// Verdict is what a path is to Git.
type Verdict struct {
	Class Class
	Below bool // Private: the host's file is readable until there is an own one
}

// OpKind says what an operation does.
type OpKind uint8

// The operations. Write is any change of content, Chmod any of mode, owner or
// extended attributes.
const (
	Create OpKind = iota
	Mkdir
	MakeLink
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

// Guard is the Git Sentry. Its errors hold an errno.
type Guard interface {
	Classify(path string) Verdict

	// Check is asked before every operation that would change something on the
	// host, while nothing else can. publish demands Publish before the rename.
	Check(op Op) (publish bool, err error)
	Publish(from, to string, lock Content, old *Content) (Outcome, error)

	// Writing tells of a change of content of a file of the host's that is nothing
	// to Git.
	Writing(path string)

	// Protected tells whether a file with several names has one that is
	// protected; Alias is the refusal then.
	Protected(dev, ino uint64) bool
	Alias(op OpKind, path string) error

	// Changed tells of a change on the host, or one that may be its; Forget of a
	// directory that was moved.
	Changed(path string)
	Forget(dir string)
}
