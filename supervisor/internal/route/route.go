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
	"sync"

	"lazaret.dev/lazaret/supervisor/internal/route/internal/places"
	"lazaret.dev/lazaret/supervisor/internal/route/internal/record"
	"lazaret.dev/lazaret/supervisor/internal/route/internal/repo"
)

// What the router is given, and what it answers.
type (
	// Tree is the host's workspace.
	Tree = places.Tree
	// Entry is one name in it.
	Entry = places.Entry
	// Kind is the type of an entry.
	Kind = places.Kind
	// Repositories finds the host's repositories.
	Repositories = places.Repositories
	// Repo is the open directories of one.
	Repo = repo.Repo
	// Record is where the router keeps what must outlive it.
	Record = places.Record
	// Options are the configuration.
	Options = places.Options
	// Above is an ignore file outside of the workspace.
	Above = places.Above
	// Place is who serves a path.
	Place = places.Place
)

// The kinds.
const (
	Other     = places.Other
	Regular   = places.Regular
	Directory = places.Directory
)

// The places; package places says what each means.
const (
	Shared   = places.Shared
	Isolated = places.Isolated
	Union    = places.Union
	Exposed  = places.Exposed
)

// NewRecord is a record in a directory that is no sandbox's, by its
// descriptor, which stays the caller's.
func NewRecord(dir int, name string) Record { return record.NewStore(dir, name) }

// Router decides for one workspace. It is safe for concurrent use.
type Router struct {
	mu sync.RWMutex
	s  *places.State
}

// Open reads the record, or at the first start takes what the workspace is
// like now for trusted.
func Open(tree Tree, repos Repositories, rec Record, o Options) (*Router, error) {
	s, first, err := places.New(tree, repos, rec, o)
	if err != nil {
		return nil, err
	}
	r := &Router{s: s}
	if first {
		return r, s.Snapshot()
	}
	// What happened since the last generation, happened on the host.
	if _, err := r.reread("", true); err != nil {
		return nil, err
	}
	return r, s.Save()
}

// Place says who serves a path. isDir: what is asked about is a directory.
func (r *Router) Place(path string, isDir bool) Place {
	if !r.s.Opt.Isolate || path == "" {
		return Shared
	}
	r.mu.RLock()
	p, ok := r.s.Cached(path, isDir)
	r.mu.RUnlock()
	if ok {
		return p
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.s.Place(path, isDir)
}

// Relaxation is something that would be shared if [Router.Accept] were called.
type Relaxation struct {
	File  string   // an ignore file whose earlier texts still count
	Lines []string // what they ignore that today's does not, as written
	Path  string   // or a path that was renamed inside while it was isolated
	Repo  string   // or a repository that has come or gone ("." for the root)
}
