package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/generation"
	"lazaret.dev/lazaret/host/internal/journal"
	"lazaret.dev/lazaret/host/internal/lower"
	"lazaret.dev/lazaret/host/internal/plan"
	"lazaret.dev/lazaret/host/internal/recovery"
	"lazaret.dev/lazaret/host/internal/session"
	"lazaret.dev/lazaret/host/internal/spawn"
	"lazaret.dev/lazaret/host/internal/store"
	"lazaret.dev/lazaret/host/internal/trust"
	"lazaret.dev/lazaret/protocol"
	pc "lazaret.dev/lazaret/protocol/control"
	"lazaret.dev/lazaret/protocol/faults"
	"lazaret.dev/lazaret/protocol/identity"
	"lazaret.dev/lazaret/protocol/trace"
	"lazaret.dev/lazaret/protocol/wire"
)

// idleGrace is how long a published Domain waits for its first session.
const idleGrace = 5 * time.Second

// closeGrace bounds how long sessions may take to tell their clients of an end
// that came without a teardown.
const closeGrace = 3 * time.Second

// requestTimeout bounds the wait for the start request.
const requestTimeout = 10 * time.Second

// Main is the whole life of a Host Coordinator process: it finds its
// descriptors where spawn.Coordinator left them, serves one generation, and
// returns when nothing of it is left. The error has been reported to the CLI;
// the log has it too.
func Main() error {
	// Everything that is made from here on is the developer's alone (SR-10).
	unix.Umask(0o077)
	lock := os.NewFile(spawn.CoordinatorLockFD, "domain-lock")
	logFile := os.NewFile(spawn.CoordinatorLogFD, "coordinator-log")
	unix.CloseOnExec(spawn.CoordinatorLockFD)
	unix.CloseOnExec(spawn.CoordinatorLogFD)
	defer lock.Close() // last: the lock outlives everything that it protects
	seq, err := wire.InheritSeq(spawn.CoordinatorHandshakeFD, "handshake")
	if err != nil {
		return fmt.Errorf("%s is started by lazaret run, not by hand: %w", spawn.CoordinatorCommand, err)
	}
	log := slog.New(slog.NewJSONHandler(logFile, &slog.HandlerOptions{Level: slog.LevelDebug}))
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer cancel()

	faults.Point("start.hc.entered")
	r := generation.NewReporter(seq)
	logDir := ""
	req, err := receiveRequest(seq)
	if err == nil {
		logDir = req.LogDir
		go r.Watch(cancel) // ends when the handshake does
		err = serveGeneration(ctx, req, lock, log, r)
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			err = errAsked // whatever step it was that noticed
		}
	}
	if err != nil {
		log.Error("coordinator failed", "err", err)
		r.Failed(err.Error(), hintOf(err), logDir)
	}
	return err
}

func receiveRequest(seq *wire.Seq) (*generation.Request, error) {
	timer := time.AfterFunc(requestTimeout, func() { _ = seq.Close() })
	defer timer.Stop()
	var hdr pc.StartHeader
	p, err := seq.Expect(pc.KindStart, &hdr, 1)
	if err != nil {
		return nil, fmt.Errorf("receive start request: %w", err)
	}
	defer p.CloseFiles()
	if hdr.Version != generation.RequestVersion {
		return nil, fmt.Errorf("start request of version %d, want %d: lazaret was replaced just now; try again", hdr.Version, generation.RequestVersion)
	}
	return generation.DecodeRequest(p.Files[0], hdr.Size)
}

// serveGeneration prepares, runs and ends one generation.
func serveGeneration(ctx context.Context, req *generation.Request, lock *os.File, log *slog.Logger, r *generation.Reporter) error {
	// The starter has made it. What is in it after a failure is for recovery.
	defer generation.RemoveRuntime(req.RuntimeDir) //nolint:errcheck // there is nothing to remove, as a rule
	if err := generation.NoteHolder(lock, generation.Holder{PID: os.Getpid(), Since: time.Now(), RuntimeDir: req.RuntimeDir}); err != nil {
		return err
	}
	faults.Point("start.hc.holder-noted")
	if err := spawn.RaiseFileLimit(); err != nil {
		return err
	}
	st, err := store.Open(ctx, req.Domain.DomainDir, lock)
	if err != nil {
		return err
	}
	defer st.Close()
	faults.Point("start.hc.store-open")
	tr := trace.New(log)
	state, err := recovery.Recover(ctx, recovery.Domain{
		ID: req.Domain.ID, DataRoot: req.Domain.DataRoot, Root: req.Domain.DomainDir, RuntimeDirs: []string{req.RuntimeDir},
	}, st, tr, log, nil)
	if err != nil {
		return err
	}
	faults.Point("recover.hc.ended")
	hc, err := begin(ctx, req, state, tr, st, log, r)
	if err != nil {
		return err
	}
	defer hc.superLog.Close()
	hc.loop(ctx)
	if hc.server != nil {
		hc.server.Close(closeGrace)
	}
	hc.tasks.Wait()
	faults.Point("end.hc.leaving")
	hc.leave() //nolint:contextcheck // it cleans up after a cancelled context too
	faults.Point("end.hc.left")
	if hc.failure != nil {
		return &startError{*hc.failure}
	}
	if ctx.Err() != nil {
		return errAsked
	}
	return nil
}

// startError is a generation's failure as an error.
type startError struct{ failure }

func (e *startError) Error() string { return e.text }
func (e *startError) Hint() string  { return e.hint }

// begin makes a generation and puts it on record, before anything of it exists.
func begin(ctx context.Context, req *generation.Request, state protocol.State, tr *trace.Writer, st *store.Store, log *slog.Logger, r *generation.Reporter) (*coordinator, error) {
	hc := &coordinator{
		req: *req, began: time.Now(), log: log, logDir: req.LogDir, reporter: r,
		inbox: make(chan func()), done: make(chan struct{}), over: make(chan struct{}),
		state: state, trace: tr, answers: map[string]chan answer{},
		sessions: map[string]*served{}, interactive: map[string]bool{},
	}
	var err error
	if hc.ids, err = generation.MintIDs(); err != nil {
		return nil, err
	}
	hc.self = identity.Identity{
		Role: identity.RoleCoordinator, Profile: req.Domain.Profile, DomainID: req.Domain.ID,
		Generation: req.Generation, Component: hc.ids.Coordinator,
	}
	if hc.anchor, err = trust.NewAnchor(hc.self, time.Now); err != nil {
		return nil, err
	}
	self, err := recovery.ProcOf(os.Getpid())
	if err != nil {
		return nil, err
	}
	if hc.superLog, err = generation.OpenLog(filepath.Join(req.LogDir, "supervisor.log")); err != nil {
		return nil, err
	}
	if err := st.BeginGeneration(ctx, store.New{
		ID: req.Generation, Phase: protocol.Starting, BootID: self.BootID, ConfigFingerprint: req.Fingerprint(),
		CoordinatorID: hc.ids.Coordinator, SandboxID: hc.ids.Sandbox, NetworkID: hc.ids.Network,
		RuntimeDir: req.RuntimeDir,
	}); err != nil {
		_ = hc.superLog.Close()
		return nil, err
	}
	faults.Point("start.hc.begun")
	hc.journal = journal.New(st, log, req.Generation, hc.publication)
	hc.journal.Intent(store.RoleCoordinator)
	faults.Point("start.hc.self-intended")
	hc.journal.Owned(store.RoleCoordinator, store.Ownership{Proc: &self})
	return hc, nil
}

// furnish makes what the launch plan needs: the policy, the prepared lower and
// its lease, the directories. It runs beside the supervisor's start.
func (hc *coordinator) furnish(ctx context.Context) error {
	net, err := plan.Policy(&hc.req.Domain, hc.reporter.Warn)
	if err != nil {
		return err
	}
	git, err := plan.Git(ctx, &hc.req, hc.reporter.Warn)
	if err != nil {
		return err
	}
	img, err := lower.Prepare(ctx, &hc.req, hc.reporter.Progress, hc.reporter.Warn)
	if err != nil {
		return err
	}
	hc.imgEnv = img.Config.Env
	if err := hc.acquire(ctx, img.ID); err != nil {
		return err
	}
	faults.Point("start.hc.leased")
	if hc.dirs, err = generation.StageDirs(hc.req.RuntimeDir, hc.req.Generation); err != nil {
		return err
	}
	faults.Point("start.hc.staged")
	if hc.plan, err = plan.Build(&hc.req, hc.ids, hc.dirs, img, net, git); err != nil {
		return err
	}
	faults.Point("start.hc.planned")
	hc.sandbox = session.Sandbox{Runsc: hc.req.Tools.Runsc, StateDir: hc.plan.Runsc.StateDir, ID: hc.plan.SandboxID}
	return nil
}

// acquire takes the prepared-lower lease. It is in the store before its file is
// written, and the file is on the disk before anything is mounted (FR-22).
func (hc *coordinator) acquire(ctx context.Context, prepared string) error {
	path, err := lower.LeasePath(&hc.req, prepared)
	if err != nil {
		return err
	}
	if err := hc.journal.Leased(prepared, path); err != nil {
		return err
	}
	faults.Point("start.hc.lease-row")
	lease, err := lower.Acquire(ctx, &hc.req, prepared)
	if err != nil {
		return err
	}
	hc.lease = lease
	return nil
}

// publication describes the control socket for the store.
func (hc *coordinator) publication() store.Publication {
	s := hc.server.Sockets()[0]
	return store.Publication{
		Socket: s.Path, Inode: store.Inode{Dev: s.Dev, Ino: s.Ino}, TrustFingerprint: trust.Digest(hc.anchor.Certificate()),
	}
}
