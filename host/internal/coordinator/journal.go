package coordinator

import (
	"context"
	"log/slog"

	"lazaret.dev/lazaret/host/internal/store"
	"lazaret.dev/lazaret/protocol"
)

// journal writes the generation's document as the generation goes. Intent is
// on record before each external effect; what cannot be written is logged and
// costs recovery material, never a running session.
type journal struct {
	store      *store.Store
	log        *slog.Logger
	generation string
	published  func() (store.Publication, error)

	roles map[store.Role]bool // intended and not yet released
	lease string              // prepared-artifact id
}

func (j *journal) note(what string, err error) {
	if err != nil {
		j.log.Error("cannot write the Domain store", "record", what, "err", err)
	}
}

func (j *journal) intent(ctx context.Context, role store.Role) {
	j.roles[role] = true
	j.note("intent "+string(role), j.store.RecordIntent(ctx, j.generation, role))
}

func (j *journal) owned(ctx context.Context, role store.Role, o store.Ownership) {
	j.note("ownership "+string(role), j.store.RecordOwned(ctx, j.generation, role, o))
}

func (j *journal) released(ctx context.Context, role store.Role) {
	if !j.roles[role] {
		return
	}
	delete(j.roles, role)
	j.note("release "+string(role), j.store.RecordReleased(ctx, j.generation, role))
}

// transition records what an event has changed.
func (j *journal) transition(ctx context.Context, was, now protocol.State, e protocol.Event) {
	switch e := e.(type) {
	case protocol.Published:
		p, err := j.published()
		j.note("publication", err)
		if err == nil {
			j.note("publication", j.store.Publish(ctx, j.generation, p))
		}
	case protocol.Attached:
		j.note("session", j.store.SetSession(ctx, j.generation, e.Session, now.Sessions[e.Session], nil))
	case protocol.Ended:
		j.note("session", j.store.EndSession(ctx, j.generation, e.Session, nil))
	case protocol.ComponentStopped:
		switch e.Component {
		case protocol.ComponentSandbox:
			j.released(ctx, store.RoleSandbox)
		case protocol.ComponentNetwork:
			j.released(ctx, store.RoleHelper)
			j.released(ctx, store.RoleNetwork)
		case protocol.ComponentAnchor:
			j.released(ctx, store.RoleAnchor)
		}
	}
	if was.Phase != now.Phase && !was.Published && now.Phase != protocol.Ready && now.Phase != protocol.Absent {
		j.note("phase", j.store.SetPhase(ctx, j.generation, now.Phase))
	}
}

func (j *journal) admitted(ctx context.Context, session string, tty bool) {
	j.note("session", j.store.AddSession(ctx, j.generation, session, tty))
}

func (j *journal) withdrawn(ctx context.Context, to protocol.DomainPhase) {
	if to != protocol.Stopping {
		to = protocol.Failed
	}
	j.note("withdrawal", j.store.Withdraw(ctx, j.generation, to))
}

// ended closes the document: the supervisor is gone, and everything that it
// owned with it.
func (j *journal) ended(ctx context.Context, outcome string) {
	for _, role := range []store.Role{
		store.RoleSandbox, store.RoleHelper, store.RoleNetwork, store.RoleAnchor,
		store.RoleSupervisor, store.RoleTrust, store.RoleCoordinator,
	} {
		j.released(ctx, role)
	}
	j.note("lease", j.store.ReleaseLease(ctx, j.generation, j.lease))
	j.note("end", j.store.EndGeneration(ctx, j.generation, outcome))
}
