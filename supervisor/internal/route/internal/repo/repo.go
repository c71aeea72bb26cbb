// Package repo reads of one repository what routing needs: the index, the rules
// that lie outside of the working tree, and signs of Git at work.
//
// It runs no Git and writes nothing. The sandbox writes the index and the
// objects; what cannot be read is an error, or for the index what was
// readable last. It runs in the Runtime Supervisor.
package repo

import (
	"bytes"
	"errors"
	"io"
	"io/fs"

	"lazaret.dev/lazaret/supervisor/internal/gitindex"
	"lazaret.dev/lazaret/supervisor/internal/gitodb"
	"lazaret.dev/lazaret/supervisor/internal/route/internal/paths"
)

// Repo is the open directories of one repository.
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

// Reader reads a repository. It is not safe for concurrent use.
type Reader struct {
	repo  *Repo
	limit int64
	index *gitindex.Index // as it was last readable
	stale bool
}

// NewReader reads a repository, of each text file no more than limit bytes.
func NewReader(p *Repo, limit int64) *Reader { return &Reader{repo: p, limit: limit, stale: true} }

// Close gives the directories back.
func (r *Reader) Close() {
	if r != nil && r.repo.Close != nil {
		_ = r.repo.Close() // they were only read
	}
}

// Stale says that the index may have changed.
func (r *Reader) Stale() { r.stale = true }

// Exclude is the text of info/exclude; [fs.ErrNotExist] when there is none.
func (r *Reader) Exclude() ([]byte, error) { return r.readAll("info/exclude") }

// Attributes is the text of info/attributes, nil when there is none.
func (r *Reader) Attributes() ([]byte, error) {
	b, err := r.readAll("info/attributes")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

func (r *Reader) readAll(name string) ([]byte, error) {
	f, err := r.repo.Common.Open(name)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.NewSectionReader(f, 0, r.limit+1))
	if err == nil && int64(len(b)) > r.limit {
		err = errors.New("it is too large")
	}
	return b, errors.Join(err, f.Close())
}

// Index is what is tracked, nil when that cannot be read and never could. An
// index that is not there is empty.
func (r *Reader) Index() *gitindex.Index {
	if r.stale {
		// It stays stale, and what it was before stays.
		_ = r.refresh()
	}
	return r.index
}

func (r *Reader) refresh() error {
	f, err := r.repo.GitDir.Open("index")
	if errors.Is(err, fs.ErrNotExist) {
		r.index, r.stale = &gitindex.Index{}, false
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	var shared gitodb.File
	x, err := gitindex.Parse(f, f.Size(), gitindex.Options{
		HashSize: r.repo.HashSize,
		Shared: func(id string) (io.ReaderAt, int64, error) {
			if shared, err = r.repo.GitDir.Open("sharedindex." + id); err != nil {
				return nil, 0, err
			}
			return shared, shared.Size(), nil
		},
	})
	if shared != nil {
		_ = shared.Close()
	}
	if err == nil {
		r.index, r.stale = x, false
	}
	return err
}

// OnlyInIndex tells whether a file that is not on disk is left out by a sparse
// checkout, so that Git takes its text from the index.
func (r *Reader) OnlyInIndex(name string) bool {
	x := r.Index()
	if x == nil {
		return false
	}
	if e, ok := x.Lookup(name); ok {
		return e.SkipWorktree
	}
	for dir := range paths.Above(name) {
		if _, ok := x.Lookup(dir + "/"); ok && dir != "" {
			return true
		}
	}
	return false
}

// Clean tells whether Git takes a file of this size and time for unmodified, or
// is in the middle of a merge about it.
func (r *Reader) Clean(name string, size, sec, nsec int64) (bool, error) {
	if err := r.refresh(); err != nil {
		return false, err
	}
	e, ok := r.index.Lookup(name)
	return ok && (e.Stage != 0 || e.Size == uint32(size) && e.MtimeSec == uint32(sec) && e.MtimeNsec == uint32(nsec)), nil
}

// Locked tells whether a Git is at work, and will leave another index.
func (r *Reader) Locked() (bool, error) {
	f, err := r.repo.GitDir.Open("index.lock")
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, f.Close()
}

// Stored tells whether a text may be a blob, with line ends of either kind.
func (r *Reader) Stored(b []byte) bool {
	s := &gitodb.Store{Objects: r.repo.Objects, HashSize: r.repo.HashSize, Alternate: r.repo.Alternate}
	for _, b := range [][]byte{b, bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))} {
		if found, err := s.HasBlob(b); found || err != nil {
			return true
		}
	}
	return false
}
