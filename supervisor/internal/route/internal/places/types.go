// Package places is the state behind the decision which source serves a path:
// the rule files with their earlier texts, the repositories, what stays shared
// and what is on record. It reads the workspace as it is asked about, applies
// one change at a time, and saves the record.
//
// It does not know who made a change; that is for its caller, but for [State.Judge],
// which tells a hand edit from a checkout. It runs in the Runtime Supervisor.
package places

import "lazaret.dev/lazaret/supervisor/internal/route/internal/repo"

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

// Repositories finds the host's repositories; those that were made inside are
// none of them.
type Repositories interface {
	// Repository opens the one whose working tree has dir for its root; nil if
	// none has.
	Repository(dir string) (*repo.Repo, error)
}

// Record is where the state is kept, which must outlive the process.
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
	Outer  *repo.Repo
	Prefix string
	Above  []Above
}

// Above is an ignore file outside of the workspace, which no sandbox reaches.
type Above struct {
	Dir  string // in the outer repository, "" for its root
	Text []byte
}
