// Package journal writes a Domain generation's document into the store as the
// generation goes. It decides nothing, and reads nothing back. It runs in the
// Host Coordinator.
package journal

import (
	"context"
	"log/slog"

	"lazaret.dev/lazaret/host/internal/store"
	"lazaret.dev/lazaret/protocol"
	"lazaret.dev/lazaret/protocol/faults"
)

// Journal writes the generation's document as the generation goes. Intent is
// on record before each external effect; what cannot be written is logged and
// costs recovery material, never a running session. It belongs to the loop's
// goroutine, but for Leased.
type Journal struct {
	store      *store.Store
	log        *slog.Logger
	generation string
	published  func() store.Publication

	// ctx is never cancelled: the end of a generation is on record whatever has
	// Ended it.
	ctx context.Context //nolint:containedctx // one for all records, see above

	roles map[store.Role]bool // intended and not yet released
	lease string              // prepared-artifact id; set before the loop can read it
}

// New returns the journal of a generation that is on record.
func New(st *store.Store, log *slog.Logger, generation string, published func() store.Publication) *Journal {
	return &Journal{
		store: st, log: log, generation: generation, published: published,
		ctx: context.Background(), roles: map[store.Role]bool{},
	}
}

// Leased records a lease before its file is written. Unlike the rest it must
// succeed: a file that no record names would never be released.
func (j *Journal) Leased(preparedID, path string) error {
	if err := j.store.AddLease(j.ctx, j.generation, preparedID, path); err != nil {
		return err
	}
	j.lease = preparedID
	return nil
}

func (j *Journal) note(what string, err error) {
	if err != nil {
		j.log.Error("cannot write the Domain store", "record", what, "err", err)
	}
}

// Intent records that something of a role is about to be made.
func (j *Journal) Intent(role store.Role) {
	j.roles[role] = true
	j.note("intent "+string(role), j.store.RecordIntent(j.ctx, j.generation, role))
}

// Owned records that it exists, and how to tell it apart.
func (j *Journal) Owned(role store.Role, o store.Ownership) {
	j.note("ownership "+string(role), j.store.RecordOwned(j.ctx, j.generation, role, o))
}

// Claimed is Owned for what would be taken for another's if no record named it:
// it must succeed, before the thing is put where others look for it.
func (j *Journal) Claimed(role store.Role, o store.Ownership) error {
	return j.store.RecordOwned(j.ctx, j.generation, role, o)
}

// Released records that it is gone, if it was ever intended.
func (j *Journal) Released(role store.Role) {
	if !j.roles[role] {
		return
	}
	delete(j.roles, role)
	j.note("release "+string(role), j.store.RecordReleased(j.ctx, j.generation, role))
}

// Transition records what an event has changed.
func (j *Journal) Transition(was, now protocol.State, e protocol.Event) {
	switch e := e.(type) {
	case protocol.Published:
		j.note("publication", j.store.Publish(j.ctx, j.generation, j.published()))
	case protocol.Attached:
		faults.Point("join.hc.attached")
		j.note("session", j.store.SetSession(j.ctx, j.generation, e.Session, now.Sessions[e.Session].Phase, nil))
	case protocol.Ended:
		j.note("session", j.store.EndSession(j.ctx, j.generation, e.Session, nil))
		faults.Point("session.hc.end-row")
	case protocol.ComponentStopped:
		switch e.Component {
		case protocol.ComponentSandbox:
			j.Released(store.RoleSandbox)
			faults.Point("end.hc.sandbox-released")
		case protocol.ComponentNetwork:
			j.Released(store.RoleHelper)
			faults.Point("end.hc.helper-released")
			j.Released(store.RoleNetwork)
		case protocol.ComponentAnchor:
			j.Released(store.RoleAnchor)
			faults.Point("end.hc.anchor-released")
		}
	}
	if was.Phase != now.Phase && !was.Published && now.Phase != protocol.Ready && now.Phase != protocol.Absent {
		j.note("phase", j.store.SetPhase(j.ctx, j.generation, now.Phase))
	}
}

// Admitted records a session.
func (j *Journal) Admitted(session string, tty bool) {
	j.note("session", j.store.AddSession(j.ctx, j.generation, session, tty))
}

// Withdrawn records the end of the publication.
func (j *Journal) Withdrawn(to protocol.DomainPhase) {
	if to != protocol.Stopping {
		to = protocol.Failed
	}
	j.note("withdrawal", j.store.Withdraw(j.ctx, j.generation, to))
	j.Released(store.RolePublication)
}

// Ended closes the document: the supervisor is gone, and everything that it
// Owned with it.
func (j *Journal) Ended(outcome string) {
	for _, role := range []store.Role{
		store.RolePublication, store.RoleSandbox, store.RoleHelper, store.RoleNetwork, store.RoleAnchor,
		store.RoleSupervisor, store.RoleTrust, store.RoleCoordinator,
	} {
		j.Released(role)
	}
	if j.lease != "" {
		j.note("lease", j.store.ReleaseLease(j.ctx, j.generation, j.lease))
	}
	faults.Point("end.hc.lease-row")
	j.note("end", j.store.EndGeneration(j.ctx, j.generation, outcome))
}
