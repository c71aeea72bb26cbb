// Package recovery clears away what a Domain generation has left whose
// coordinator is dead.
//
// What is to be done, and in which order, is decided by protocol.Next. This
// package compares what is on record with the machine and cleans: it touches a
// leftover only when it is exactly the one on record, and names every other
// (FR-7). A path, a pid, an inode of a namespace are where to look, and prove
// nothing; wall-clock times decide nothing. It runs in the process that holds
// the Domain lock: so no other can be the dead generation's coordinator. That
// process may die at any step: the next one goes on from what is on record.
package recovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"lazaret.dev/lazaret/host/internal/claim"
	"lazaret.dev/lazaret/host/internal/generation"
	"lazaret.dev/lazaret/host/internal/image"
	"lazaret.dev/lazaret/host/internal/store"
	"lazaret.dev/lazaret/protocol"
	"lazaret.dev/lazaret/protocol/faults"
	"lazaret.dev/lazaret/protocol/trace"
)

// Domain is what recovery needs to know of a Domain: nothing of its workspace
// or configuration, which may be gone or changed.
type Domain struct {
	ID          string
	DataRoot    string
	Root        string   // the Domain Root
	RuntimeDirs []string // the Domain's own, in which nothing foreign may be in the way
}

// recovery is one recovery under way.
type recovery struct {
	domain Domain
	store  *store.Store
	trace  *trace.Writer
	log    *slog.Logger
	say    func(string)
	dead   *dead
	state  protocol.State

	settled  bool           // the processes had their time to end
	mismatch *MismatchError // what made the protocol refuse
}

// Recover clears away what the Domain's last generation has left, if it died,
// and closes its document. The protocol state that it returns is the one in
// which the next generation begins. Its steps go to tr, which they begin; what it
// finds goes to log, and in words for people to say, which may be nil. It fails with *MismatchError on a leftover
// that is not provably ours, and with *claim.TakenError on a place in the runtime
// directories that something foreign has taken; nothing of either is touched.
func Recover(ctx context.Context, d Domain, st *store.Store, tr *trace.Writer, log *slog.Logger, say func(string)) (protocol.State, error) {
	if say == nil {
		say = func(string) {}
	}
	r := &recovery{domain: d, store: st, trace: tr, log: log, say: say, state: protocol.Initial()}
	// The record is read and written whatever ends this process's patience.
	durable := context.WithoutCancel(ctx)
	old, err := st.Current(durable)
	if err != nil {
		return r.state, err
	}
	if old != nil {
		if err := r.run(ctx, durable, old); err != nil {
			return r.state, err
		}
	}
	if err := CheckMounts(d.Root, d.RuntimeDirs...); err != nil {
		return r.state, err
	}
	for _, dir := range d.RuntimeDirs {
		if err := generation.CheckRuntime(dir); err != nil {
			return r.state, err
		}
	}
	return r.state, nil
}

// CheckMounts refuses a mount on one of a Domain's directories, in which nothing
// may be written then. That the Domain Root itself lies on a filesystem of its
// own is its owner's choice.
func CheckMounts(root string, runtimeDirs ...string) error {
	for _, dir := range append([]string{root}, runtimeDirs...) {
		ms, err := mountsOf(os.Getpid(), dir)
		if err != nil {
			return err
		}
		for _, m := range ms {
			if m.point != root {
				return &mountError{point: m.point}
			}
		}
	}
	return nil
}

// mountError reports a foreign mount on one of the Domain's directories, or over it.
type mountError struct{ point string }

func (e *mountError) Error() string {
	return fmt.Sprintf("cannot use %q: something is mounted there, and Lazaret mounts nothing on the host", e.point)
}

func (e *mountError) Hint() string { return "unmount it: umount " + claim.Quote(e.point) }

// recordOf is the durable document as the protocol sees it: what is intended or
// owned and not yet seen to be gone.
func recordOf(g *store.Generation) protocol.Record {
	rec := protocol.Record{Generation: g.ID, Intents: map[protocol.Role]protocol.Intent{}}
	for _, p := range g.Participants {
		if p.Role == store.RoleCoordinator || p.Role == store.RoleTrust {
			continue // the lock proves the first to be dead; the second is in its memory
		}
		switch p.State {
		case store.Intended:
			rec.Intents[protocol.Role(p.Role)] = protocol.Intended
		case store.Owned:
			rec.Intents[protocol.Role(p.Role)] = protocol.Owned
		case store.Released:
		}
	}
	for _, l := range g.Leases {
		if !l.Released {
			rec.Lease = l.PreparedID
		}
	}
	return rec
}

// run takes the protocol from the dead generation's record to its end.
func (r *recovery) run(ctx, durable context.Context, old *store.Generation) error {
	boot, err := bootID()
	if err != nil {
		return err
	}
	r.dead = &dead{Generation: old, sameBoot: boot == old.BootID, log: func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		r.log.Warn(text)
		r.say(text)
	}}
	if err := r.dead.visible(); err != nil {
		return err
	}
	record := recordOf(old)
	r.log.Info("a generation did not end", "generation", old.ID, "phase", old.Phase, "same_boot", r.dead.sameBoot)
	faults.Point("recover.hc.found")
	r.trace.Recovering(record)
	r.state = protocol.Left(record)
	pending := []protocol.Event{protocol.Recover{}}
	var stopped error
	for len(pending) > 0 {
		e := pending[0]
		pending = pending[1:]
		next, effects, err := protocol.Next(r.state, e)
		if err != nil {
			r.trace.Illegal(r.state, e, err)
			return fmt.Errorf("internal error: recover generation %s: %w", old.ID, err)
		}
		r.trace.Step(r.state, e, next)
		r.state = next
		if err := r.note(durable, e); err != nil {
			return err
		}
		faults.Point("recover.hc.noted")
		for _, eff := range effects {
			e, err := r.perform(ctx, durable, eff)
			if err != nil {
				stopped = errors.Join(stopped, err)
				e = protocol.StopRequested{Reason: err.Error()}
			}
			if e != nil {
				pending = append(pending, e)
			}
		}
	}
	switch {
	case r.mismatch != nil:
		return r.mismatch
	case stopped != nil:
		return fmt.Errorf("recover generation %s: %w", old.ID, stopped)
	}
	return nil
}

// note puts on record what an event has settled, before anything follows from
// it.
func (r *recovery) note(ctx context.Context, e protocol.Event) error {
	id := r.dead.ID
	switch e := e.(type) {
	case protocol.Recover:
		return r.store.SetPhase(ctx, id, protocol.Recovering)
	case protocol.Compared:
		if e.Finding == protocol.FoundGone {
			return r.released(ctx, e.Role)
		}
	case protocol.Cleaned:
		r.say(fmt.Sprintf("cleaned: the %s of generation %s", e.Role, id))
		return r.released(ctx, e.Role)
	}
	return nil
}

func (r *recovery) released(ctx context.Context, role protocol.Role) error {
	p := r.dead.Publication
	if role == protocol.RolePublication && p != nil && !p.Withdrawn {
		if err := r.store.Withdraw(ctx, r.dead.ID, protocol.Recovering); err != nil {
			return err
		}
		p.Withdrawn = true
	}
	return r.store.RecordReleased(ctx, r.dead.ID, store.Role(role))
}

// perform carries one effect out and returns the event that reports it, if any.
func (r *recovery) perform(ctx, durable context.Context, eff protocol.Effect) (protocol.Event, error) {
	switch eff := eff.(type) {
	case protocol.Compare:
		if !r.settled {
			if err := r.dead.settle(ctx); err != nil {
				return nil, err
			}
			r.settled = true
		}
		finding, mismatch, err := r.dead.compare(eff.Role)
		if err != nil {
			return nil, err
		}
		r.mismatch = mismatch
		return protocol.Compared{Role: eff.Role, Finding: finding}, nil
	case protocol.Clean:
		faults.Point("recover.hc.compared")
		if err := r.dead.clean(ctx, eff.Role); err != nil {
			return nil, err
		}
		faults.Point("recover.hc.cleaned")
		return protocol.Cleaned(eff), nil
	case protocol.NameLeftover:
		r.log.Error("refusing to touch what is not provably ours", "role", eff.Role, "found", r.mismatch.Found, "expected", r.mismatch.Expected)
	case protocol.ReleaseLease:
		return protocol.LeaseReleased{}, r.releaseLeases(durable)
	case protocol.Recovered:
		return nil, r.close(durable)
	}
	return nil, nil // Release: the caller holds the lock, and gives it up
}

// releaseLeases gives up the generation's claim on its prepared lower: the file
// first, whose record shows the way to it.
func (r *recovery) releaseLeases(ctx context.Context) error {
	for _, l := range r.dead.Leases {
		if l.Released {
			continue
		}
		if err := image.ReleaseLease(ctx, r.domain.DataRoot, l.PreparedID, r.domain.ID, r.dead.ID); err != nil {
			return err
		}
		faults.Point("recover.hc.lease-file")
		if err := r.store.ReleaseLease(ctx, r.dead.ID, l.PreparedID); err != nil {
			return err
		}
		faults.Point("recover.hc.lease-row")
		r.say("released: the lease of prepared image " + l.PreparedID)
	}
	return nil
}

// close ends the generation's document, after the last of what it names.
func (r *recovery) close(ctx context.Context) error {
	if dir := r.dead.RuntimeDir; dir != "" {
		if err := generation.RemoveStaged(dir, r.dead.ID); err != nil {
			return err
		}
		if !slices.Contains(r.domain.RuntimeDirs, dir) { // those are the caller's
			if err := generation.RemoveRuntime(dir); err != nil {
				return err
			}
		}
	}
	for _, p := range r.dead.Participants {
		if (p.Role == store.RoleCoordinator || p.Role == store.RoleTrust) && p.State != store.Released {
			if err := r.store.RecordReleased(ctx, r.dead.ID, p.Role); err != nil {
				return err
			}
		}
	}
	faults.Point("recover.hc.ending")
	if err := r.store.EndGeneration(ctx, r.dead.ID, "recovered"); err != nil {
		return err
	}
	r.say("recovered: generation " + r.dead.ID)
	return nil
}
