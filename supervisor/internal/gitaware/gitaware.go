// Package gitaware makes the workspace view heed Git: it gives the view's
// router and guard, which are packages route and sentry, what they need to know
// of the host's workspace and of the developer's Git configuration, and keeps
// them informed.
//
// It reads the host's files, runs no Git and writes nothing but the router's
// record. It runs in the Runtime Supervisor.
package gitaware

import (
	"errors"
	"fmt"
	"log/slog"
	"path"
	"sync"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/launch"
	"lazaret.dev/lazaret/supervisor/internal/report"
	"lazaret.dev/lazaret/supervisor/internal/route"
	"lazaret.dev/lazaret/supervisor/internal/sentry"
	"lazaret.dev/lazaret/supervisor/internal/sentry/targets"
	"lazaret.dev/lazaret/supervisor/internal/view/policy"
)

// Options describe a workspace.
type Options struct {
	Host   int    // its root, O_PATH; stays the caller's, and open
	Path   string // its absolute path on the host, canonical
	Record int    // the directory of the router's record, which nobody inside reaches
	State  int    // the Domain's private Git state; stays the caller's, and open
	Own    int    // the Ignored Workspace State, likewise

	Git      *launch.HostGit // what Git on the host obeys beyond repositories
	Excludes []byte          // the text of core.excludesFile

	Isolate    bool
	Expose     []string
	ConfigGate bool

	Log *slog.Logger
}

// recordName is the router's record.
const recordName = "routes.json"

// Aware is a workspace's router and guard.
type Aware struct {
	o      Options
	host   host
	router *route.Router
	sentry *sentry.Sentry

	mu      sync.RWMutex
	repos   []sentry.Repository
	reads   []targets.Target   // what the host's configuration makes its Git read or run
	inodes  map[inode]struct{} // protected, whatever they are called
	scanMu  sync.Mutex         // held while the workspace is scanned
	pending bool               // guarded by mu: a scan is wanted
	scans   sync.WaitGroup
	touched report.Touched
	start   chan snapshot          // has the state at the start, once
	onScan  func(gitdirs []string) // guarded by mu
}

type inode struct{ dev, ino uint64 }

// Open reads the workspace.
func Open(o Options) (*Aware, error) {
	a := &Aware{o: o, host: host{o.Host}, start: make(chan snapshot, 1)}
	if err := a.route(); err != nil {
		return nil, err
	}
	a.sentry = sentry.New(guarded{a.host}, sentry.Options{
		Root: o.Path, ConfigGate: o.ConfigGate, VerifyIndex: a.verifyIndex,
		Isolated: func(dir string) bool { return a.router.Place(dir, true) == route.Isolated },
	})
	if err := a.scan(); err != nil {
		a.router.Close()
		return nil, err
	}
	a.scans.Go(a.remember)
	return a, nil
}

// route opens the router.
func (a *Aware) route() error {
	opt := route.Options{Isolate: a.o.Isolate, Expose: a.o.Expose}
	err := errors.Join(a.globals(&opt), a.outer(&opt))
	if err != nil {
		return err
	}
	a.router, err = route.Open(routes{a.host}, repositories{a.host, a.o.Path}, route.NewRecord(a.o.Record, recordName), opt)
	if err != nil {
		return fmt.Errorf("read the ignore rules: %w", err)
	}
	return nil
}

// Close ends it. The view must have ended before.
func (a *Aware) Close() {
	a.scans.Wait()
	a.router.Close()
}

// Router is the view's router.
func (a *Aware) Router() policy.Router { return router{a} }

// Guard is the view's guard.
func (a *Aware) Guard() policy.Guard { return guard{a} }

// OnScan calls f now and after each scan, with the directories of the host's
// repositories whose changes count although nobody inside may ever look at
// them.
func (a *Aware) OnScan(f func(dirs []string)) {
	a.mu.Lock()
	a.onScan = f
	a.mu.Unlock()
	a.tell()
}

func (a *Aware) tell() {
	a.mu.RLock()
	f := a.onScan
	var dirs []string
	for _, r := range a.repos {
		dirs = append(dirs, r.Gitdir, path.Join(r.Gitdir, "info"))
	}
	a.mu.RUnlock()
	if f != nil {
		f(dirs)
	}
}

// scan looks for repositories and for what the host's configuration leads to.
func (a *Aware) scan() error {
	a.scanMu.Lock()
	defer a.scanMu.Unlock()
	found, err := a.sentry.Scan()
	if err != nil {
		return err
	}
	list, err := a.targets(found.Repositories)
	if err != nil {
		return err
	}
	for _, t := range list {
		if t.Path == "" {
			return &TargetError{t.Key}
		}
	}
	a.sentry.SetTargets(list)
	inodes := map[inode]struct{}{}
	err = a.sentry.Protected(func(name string) bool {
		if st, err := a.host.lstat(name); err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Nlink > 1 {
			inodes[inode{st.Dev, st.Ino}] = struct{}{}
		}
		return true
	})
	for _, source := range a.o.Git.Sources {
		inodes[inode{source.Dev, source.Ino}] = struct{}{}
	}
	a.mu.Lock()
	a.repos, a.reads, a.inodes = found.Repositories, list, inodes
	a.mu.Unlock()
	a.tell()
	return err
}

// TargetError reports that the whole workspace is something that the host's Git
// runs.
type TargetError struct{ Key string }

func (e *TargetError) Error() string {
	return fmt.Sprintf("your Git configuration runs whatever lies in this workspace (%s)", e.Key)
}

// Hint says what to do.
func (e *TargetError) Hint() string { return "let " + e.Key + " name another directory" }
