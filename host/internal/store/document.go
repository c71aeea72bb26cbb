package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"lazaret.dev/lazaret/host/internal/claim"
	"lazaret.dev/lazaret/protocol"
	"lazaret.dev/lazaret/protocol/handoff"
)

// Role names a participant of a generation: something outside the store that
// is made on its behalf, and that recovery may have to clear away.
type Role string

// The roles.
const (
	RoleCoordinator Role = "coordinator" // the Host Coordinator process
	RoleSupervisor  Role = "supervisor"  // the Runtime Supervisor and its namespaces
	RoleAnchor      Role = "anchor"      // the root filesystem's mounts and scratch
	RoleNetwork     Role = "network"     // the enforcement namespace
	RoleHelper      Role = "helper"      // the connectivity helper, slirp4netns
	RoleSandbox     Role = "sandbox"     // the attached runsc client
	RoleTrust       Role = "trust"       // the Trust Anchor's material
	RolePublication Role = "publication" // the control sockets
)

// UnmarshalText refuses unknown roles.
func (r *Role) UnmarshalText(b []byte) error {
	return decode(r, b, "role", RoleCoordinator, RoleSupervisor, RoleAnchor, RoleNetwork, RoleHelper, RoleSandbox, RoleTrust,
		RolePublication)
}

// IntentState is how far a participant has come.
type IntentState string

// The intent states.
const (
	Intended IntentState = "intended" // it may exist; nothing is known about it
	Owned    IntentState = "owned"    // it exists, and is ours if all ownership matches
	Released IntentState = "released" // it was seen to be gone
)

// UnmarshalText refuses unknown states.
func (s *IntentState) UnmarshalText(b []byte) error {
	return decode(s, b, "intent state", Intended, Owned, Released)
}

func decode[T ~string](p *T, b []byte, what string, allowed ...T) error {
	if !slices.Contains(allowed, T(b)) {
		return fmt.Errorf("unknown %s %q", what, b)
	}
	*p = T(b)
	return nil
}

// Inode identifies a file beyond its path.
type Inode struct {
	Dev uint64
	Ino uint64
}

// Ownership is what tells ours from another's. Only the fields that the role
// has are set; recovery touches nothing unless every one of them matches.
type Ownership struct {
	Proc               *handoff.Proc             // the process
	Files              map[string]claim.Identity // where to look, which proves nothing → what must be found there
	MntNS              uint64                    // inode of the mount namespace
	NetNS              uint64                    // inode of the network namespace
	MountIDs           map[string]uint64         // mount point → mount id, within MntNS
	PreparedID         string                    // prepared-artifact id
	NetworkFingerprint string                    // network readiness fingerprint (FR-19)
}

// Participant is one role's record.
type Participant struct {
	Role      Role
	State     IntentState
	Ownership Ownership // zero unless Owned, or Released after having been owned
}

// Session is one Client Session's record.
type Session struct {
	ID          string
	Phase       protocol.SessionPhase // the last one recorded
	Interactive bool
	Client      *handoff.Proc // the runsc exec client, once there is one
	Started     time.Time
	Ended       bool
	ExitStatus  *int // nil until ended, and when it is not known
}

// Publication is where a generation can be found.
type Publication struct {
	Socket           string // path of the control socket
	Inode            Inode
	TrustFingerprint string // of the Trust Anchor that serves there
	Withdrawn        bool
}

// Lease is a generation's claim on a prepared lower.
type Lease struct {
	PreparedID string
	Path       string // the lease's file
	Released   bool
}

// New is what a generation is begun with.
type New struct {
	ID                string
	Phase             protocol.DomainPhase // Starting
	BootID            string
	ConfigFingerprint string
	CoordinatorID     string
	SandboxID         string
	NetworkID         string
	RuntimeDir        string // the Domain's runtime directory; empty in a document of level 1
}

// Generation is the whole document of the live generation.
type Generation struct {
	New
	Created      time.Time
	Participants []Participant // in the order of their first intent
	Sessions     []Session     // in the order of registration, the ended ones too
	Publication  *Publication  // nil before it is published
	Leases       []Lease       // by prepared-artifact id
}

// Current returns the live generation's document, or nil when there is none. A
// live generation found by a process that has just won the Domain lock is what
// is left of one that died, and is for recovery.
func (s *Store) Current(ctx context.Context) (*Generation, error) {
	var g *Generation
	err := s.update(ctx, "read the generation", inKernel, func(tx *sql.Tx) (err error) {
		g, err = readGeneration(ctx, tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// Over reports whether the generation has ended, or was never begun: what a
// lease file or a directory that names it stands for is then nobody's.
func (s *Store) Over(ctx context.Context, generation string) (bool, error) {
	var live int
	err := s.db.QueryRowContext(ctx, "SELECT count(*) FROM generation WHERE id = ? AND ended IS NULL", generation).Scan(&live)
	if err != nil {
		return false, s.named("look up a generation", err)
	}
	return live == 0, nil
}

func readGeneration(ctx context.Context, tx *sql.Tx) (*Generation, error) {
	var g Generation
	var phase string
	var created int64
	err := tx.QueryRowContext(ctx, `SELECT id, phase, boot_id, config_fingerprint, coordinator_id, sandbox_id,
		network_id, runtime_dir, created FROM generation WHERE ended IS NULL`).Scan(&g.ID, &phase, &g.BootID,
		&g.ConfigFingerprint, &g.CoordinatorID, &g.SandboxID, &g.NetworkID, &g.RuntimeDir, &created)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	g.Created = time.UnixMilli(created)
	if err := g.Phase.UnmarshalText([]byte(phase)); err != nil {
		return nil, err
	}
	if err := readParticipants(ctx, tx, &g); err != nil {
		return nil, err
	}
	if err := readSessions(ctx, tx, &g); err != nil {
		return nil, err
	}
	if err := readPublication(ctx, tx, &g); err != nil {
		return nil, err
	}
	return &g, readLeases(ctx, tx, &g)
}

func readParticipants(ctx context.Context, tx *sql.Tx, g *Generation) error {
	mounts := map[Role]map[string]uint64{}
	err := each(ctx, tx, func(scan func(...any) error) error {
		var role Role
		var path string
		var id int64
		if err := scan(&role, &path, &id); err != nil {
			return err
		}
		if mounts[role] == nil {
			mounts[role] = map[string]uint64{}
		}
		mounts[role][path] = uint64(id)
		return nil
	}, "SELECT role, path, mount_id FROM participant_mount WHERE generation = ?", g.ID)
	if err != nil {
		return err
	}
	files, err := readFiles(ctx, tx, g.ID)
	if err != nil {
		return err
	}
	return each(ctx, tx, func(scan func(...any) error) error {
		var p Participant
		var role, state string
		var proc nullProc
		var prepared, fingerprint sql.Null[string]
		var mntNS, netNS sql.Null[int64]
		err := scan(&role, &state, &proc.pid, &proc.start, &proc.boot, &mntNS, &netNS, &prepared, &fingerprint)
		if err != nil {
			return err
		}
		if err := errors.Join(p.Role.UnmarshalText([]byte(role)), p.State.UnmarshalText([]byte(state))); err != nil {
			return err
		}
		p.Ownership = Ownership{
			Proc: proc.value(), Files: files[p.Role], MntNS: uint64(mntNS.V), NetNS: uint64(netNS.V),
			MountIDs: mounts[p.Role], PreparedID: prepared.V, NetworkFingerprint: fingerprint.V,
		}
		g.Participants = append(g.Participants, p)
		return nil
	}, `SELECT role, state, pid, start_ticks, boot_id, mnt_ns, net_ns, prepared_id,
		network_fingerprint FROM participant WHERE generation = ? ORDER BY seq`, g.ID)
}

func readFiles(ctx context.Context, tx *sql.Tx, generation string) (map[Role]map[string]claim.Identity, error) {
	files := map[Role]map[string]claim.Identity{}
	return files, each(ctx, tx, func(scan func(...any) error) error {
		var role Role
		var path string
		var dev, ino int64
		var id claim.Identity
		if err := scan(&role, &path, &dev, &ino, &id.Type, &id.Born); err != nil {
			return err
		}
		id.Dev, id.Ino = uint64(dev), uint64(ino)
		if files[role] == nil {
			files[role] = map[string]claim.Identity{}
		}
		files[role][path] = id
		return nil
	}, "SELECT role, path, dev, ino, type, born FROM participant_file WHERE generation = ?", generation)
}

func readSessions(ctx context.Context, tx *sql.Tx, g *Generation) error {
	return each(ctx, tx, func(scan func(...any) error) error {
		var v Session
		var phase string
		var proc nullProc
		var started int64
		var status sql.Null[int]
		if err := scan(&v.ID, &phase, &v.Interactive, &proc.pid, &proc.start, &proc.boot, &started, &v.Ended, &status); err != nil {
			return err
		}
		if err := v.Phase.UnmarshalText([]byte(phase)); err != nil {
			return err
		}
		v.Client, v.Started = proc.value(), time.UnixMilli(started)
		if status.Valid {
			v.ExitStatus = &status.V
		}
		g.Sessions = append(g.Sessions, v)
		return nil
	}, `SELECT id, phase, interactive, pid, start_ticks, boot_id, started, ended IS NOT NULL, exit_status
		FROM session WHERE generation = ? ORDER BY seq`, g.ID)
}

func readPublication(ctx context.Context, tx *sql.Tx, g *Generation) error {
	return each(ctx, tx, func(scan func(...any) error) error {
		var p Publication
		var dev, ino int64
		if err := scan(&p.Socket, &dev, &ino, &p.TrustFingerprint, &p.Withdrawn); err != nil {
			return err
		}
		p.Inode = Inode{Dev: uint64(dev), Ino: uint64(ino)}
		g.Publication = &p
		return nil
	}, "SELECT socket, dev, ino, trust_fingerprint, withdrawn IS NOT NULL FROM publication WHERE generation = ?", g.ID)
}

func readLeases(ctx context.Context, tx *sql.Tx, g *Generation) error {
	return each(ctx, tx, func(scan func(...any) error) error {
		var l Lease
		if err := scan(&l.PreparedID, &l.Path, &l.Released); err != nil {
			return err
		}
		g.Leases = append(g.Leases, l)
		return nil
	}, "SELECT prepared_id, path, released IS NOT NULL FROM lease WHERE generation = ? ORDER BY prepared_id", g.ID)
}

// each calls do for every row of the query.
func each(ctx context.Context, tx *sql.Tx, do func(scan func(...any) error) error, query string, args ...any) error {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // rows.Err has what went wrong
	for rows.Next() {
		if err := do(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// nullProc scans the three columns of a process that may be absent.
type nullProc struct {
	pid, start sql.Null[int64]
	boot       sql.Null[string]
}

func (n nullProc) value() *handoff.Proc {
	if !n.pid.Valid {
		return nil
	}
	return &handoff.Proc{PID: int(n.pid.V), Start: uint64(n.start.V), BootID: n.boot.V}
}
