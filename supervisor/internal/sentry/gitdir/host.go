// Package gitdir recognises Git's directories in a tree: by name, however a
// file system may fold it, by content, by the place within another one, and by
// the host's own pointers.
//
// It reads the host's tree through Host and changes nothing. Its answers are
// about names: file types that Git would not accept count all the same, since
// it accepts more than it documents. It runs in the Runtime Supervisor.
package gitdir

// Kind is what the host has at a name.
type Kind uint8

// The kinds of files.
const (
	Absent Kind = iota
	File
	Dir
	Symlink
	Other // FIFO, socket, device
)

// Entry is a name in a directory.
type Entry struct {
	Name string
	Kind Kind
}

// Host is the host's tree, and never anything of the Domain. Paths are relative
// to the tree's root, slash-separated, "" for the root. Implementations work by
// descriptor and follow no link. They are safe for concurrent use.
type Host interface {
	// Lookup is lstat. What is not there, or lies below something that is no
	// directory, is Absent without an error. The host's own idea of equal names
	// decides.
	Lookup(dir, name string) (Kind, error)
	// ReadDir fails with fs.ErrNotExist for what is gone or is no directory, with
	// fs.ErrPermission for what the host's user may not read.
	ReadDir(dir string) ([]Entry, error)
	// ReadFile reads a regular file, and fails if it is longer than limit.
	ReadFile(path string, limit int64) ([]byte, error)
	ReadLink(path string) (string, error)
}
