// Package route decides which source serves a path of the workspace: the host,
// or the Domain's Ignored Workspace State. It decides as Git does, by the
// ignore rules and the index of the host's repositories, and it owns the
// one-way rule: nothing that the sandbox does, in this generation or an
// earlier one, makes a path shared that was isolated.
//
// For every ignore file it keeps, beside the text that is on disk, the earlier
// texts that something other than a hand edit of the developer's replaced. A
// path is isolated if it is ignored with any choice among them, unless Git has
// tracked it all the while. An inside operation can only add texts. The record
// of all this is durable, and is written before a relaxed text takes effect.
//
// It opens nothing by itself, runs no Git, and trusts no text that it is
// given; what it cannot read or understand isolates. It runs in the Runtime
// Supervisor.
package route

import (
	"lazaret.dev/lazaret/supervisor/internal/gitodb"
)

// Place is who serves a path.
type Place uint8

// The places.
const (
	// Shared is the host's workspace.
	Shared Place = iota
	// Isolated is the Domain's Ignored Workspace State: what the host has there
	// is invisible and untouchable.
	Isolated
	// Union is a directory of the Domain's that also shows those entries of
	// the host's directory whose place is Shared, Union or Exposed.
	Union
	// Exposed is the host's, for reading alone.
	Exposed
)

// Kind is the type of an entry. Nothing follows a link: one to a directory is
// no directory.
type Kind uint8

// The kinds.
const (
	Other Kind = iota
	Regular
	Directory
)

// Entry is one name on the host.
type Entry struct {
	Name            string
	Kind            Kind
	Dev, Ino, Nlink uint64
	Size            int64
	Sec             int64 // of the last modification
	Nsec            int64
}

// Tree is the host's workspace. Paths are relative to it, and no link is
// followed in any component.
type Tree interface {
	// ReadFile reads a regular file; [fs.ErrNotExist] stands for everything
	// that is none. More than limit bytes are an error.
	ReadFile(path string, limit int64) ([]byte, error)
	// ReadDir lists a directory; of each entry the name and kind are needed.
	ReadDir(path string) ([]Entry, error)
	Lstat(path string) (Entry, error)
}

// Repo is what the router reads of one repository.
type Repo struct {
	GitDir    gitodb.Dir // has index
	Common    gitodb.Dir // has info/exclude
	Objects   gitodb.Dir
	HashSize  int
	Alternate func(from gitodb.Dir, path string) (gitodb.Dir, func() error, error)
	// Close is called when the router is done with the directories; it may be
	// nil.
	Close func() error
}

func (p *Repo) close() {
	if p != nil && p.Close != nil {
		// They were only read.
		_ = p.Close()
	}
}

// Repositories finds the host's repositories; those that were made inside are
// none of them.
type Repositories interface {
	// Repository opens the one whose working tree has dir for its root; nil if
	// none has.
	Repository(dir string) (*Repo, error)
}

// Record is where the router keeps what must outlive it.
type Record interface {
	// Load returns what was saved last, nil at the first start.
	Load() ([]byte, error)
	// Save replaces it, durably and at once.
	Save(b []byte) error
}

// Options are the configuration.
type Options struct {
	Isolate    bool     // isolate_gitignored
	Expose     []string // paths that are shown read-only where they are isolated
	IgnoreCase bool     // core.ignorecase
	// Excludes is the text of core.excludesFile. Where that lies in the
	// workspace, ExcludesPath is its path instead.
	Excludes     []byte
	ExcludesPath string
	// Outer is the repository that the workspace lies in, if its root is above
	// the workspace's; Prefix is the workspace's path in it, and Above are the
	// ignore files of the directories in between, outermost first.
	Outer  *Repo
	Prefix string
	Above  []Above
}

// Above is an ignore file outside of the workspace, which no sandbox reaches.
type Above struct {
	Dir  string // in the outer repository, "" for its root
	Text []byte
}

// Relaxation is something that would be shared if [Router.Accept] were called.
type Relaxation struct {
	File  string   // an ignore file whose earlier texts still count
	Lines []string // what they ignore that today's does not, as written
	Path  string   // or a path that was renamed inside while it was isolated
	Repo  string   // or a repository that has come or gone ("." for the root)
}
