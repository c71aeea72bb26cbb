package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"lazaret.dev/lazaret/protocol"
	"lazaret.dev/lazaret/protocol/handoff"
)

// keepEnded is how many ended generations stay in the file.
const keepEnded = 16

// BeginGeneration makes n the live generation. It is on the disk when the call
// returns (see the package comment). It fails with *LiveError while another
// generation has not ended.
func (s *Store) BeginGeneration(ctx context.Context, n New) error {
	if err := checkPhase(n.Phase); err != nil {
		return err
	}
	return s.update(ctx, "begin the generation", onDisk, func(tx *sql.Tx) error {
		var live string
		err := tx.QueryRowContext(ctx, "SELECT id FROM generation WHERE ended IS NULL").Scan(&live)
		if err == nil {
			return &LiveError{Generation: live}
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM generation WHERE ordinal NOT IN
			(SELECT ordinal FROM generation ORDER BY ordinal DESC LIMIT ?)`, keepEnded)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO generation (id, phase, boot_id, config_fingerprint,
			coordinator_id, sandbox_id, network_id, runtime_dir, created) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			n.ID, n.Phase, n.BootID, n.ConfigFingerprint, n.CoordinatorID, n.SandboxID, n.NetworkID, n.RuntimeDir, s.millis())
		return err
	})
}

// SetPhase records the generation's phase.
func (s *Store) SetPhase(ctx context.Context, generation string, phase protocol.DomainPhase) error {
	return s.live(ctx, "record the phase", generation, func(tx *sql.Tx) error {
		return setPhase(ctx, tx, generation, phase)
	})
}

// RecordIntent records, before the effect, that something of that role is about
// to be made. A role that was released can be intended again.
func (s *Store) RecordIntent(ctx context.Context, generation string, role Role) error {
	if err := new(Role).UnmarshalText([]byte(role)); err != nil {
		return err
	}
	return s.live(ctx, "record the intent", generation, func(tx *sql.Tx) error {
		if err := moveRole(ctx, tx, generation, role, Intended, "", Released); err != nil {
			return err
		}
		for _, table := range []string{"participant_mount", "participant_file"} {
			_, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE generation = ? AND role = ?", generation, role)
			if err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO participant (generation, role, state, seq, intended)
			VALUES (?1, ?2, ?3, (SELECT coalesce(max(seq), 0) + 1 FROM participant WHERE generation = ?1), ?4)
			ON CONFLICT (generation, role) DO UPDATE SET state = ?3, intended = ?4, owned = NULL, released = NULL,
			pid = NULL, start_ticks = NULL, boot_id = NULL, mnt_ns = NULL, net_ns = NULL, prepared_id = NULL, network_fingerprint = NULL`, generation, role, Intended, s.millis())
		return err
	})
}

// RecordOwned records that what was intended exists, and how to know it.
func (s *Store) RecordOwned(ctx context.Context, generation string, role Role, o Ownership) error {
	return s.live(ctx, "record the ownership", generation, func(tx *sql.Tx) error {
		if err := moveRole(ctx, tx, generation, role, Owned, Intended); err != nil {
			return err
		}
		pid, start, boot := procColumns(o.Proc)
		_, err := tx.ExecContext(ctx, `UPDATE participant SET state = ?, owned = ?, pid = ?, start_ticks = ?,
			boot_id = ?, mnt_ns = nullif(?, 0), net_ns = nullif(?, 0),
			prepared_id = nullif(?, ''), network_fingerprint = nullif(?, '') WHERE generation = ? AND role = ?`,
			Owned, s.millis(), pid, start, boot, int64(o.MntNS), int64(o.NetNS), o.PreparedID,
			o.NetworkFingerprint, generation, role)
		if err != nil {
			return err
		}
		for path, id := range o.MountIDs {
			_, err := tx.ExecContext(ctx, "INSERT INTO participant_mount (generation, role, path, mount_id) VALUES (?, ?, ?, ?)",
				generation, role, path, int64(id))
			if err != nil {
				return err
			}
		}
		for path, id := range o.Files {
			_, err := tx.ExecContext(ctx, `INSERT INTO participant_file
				(generation, role, path, dev, ino, type, born) VALUES (?, ?, ?, ?, ?, ?, ?)`,
				generation, role, path, int64(id.Dev), int64(id.Ino), id.Type, id.Born)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// RecordReleased records that what was intended or owned is gone.
func (s *Store) RecordReleased(ctx context.Context, generation string, role Role) error {
	return s.live(ctx, "record the release", generation, func(tx *sql.Tx) error {
		if err := moveRole(ctx, tx, generation, role, Released, Intended, Owned); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE participant SET state = ?, released = ? WHERE generation = ? AND role = ?",
			Released, s.millis(), generation, role)
		return err
	})
}

// Publish records the publication, and with it the phase Ready. A generation is
// published once.
func (s *Store) Publish(ctx context.Context, generation string, p Publication) error {
	return s.live(ctx, "record the publication", generation, func(tx *sql.Tx) error {
		n, err := changed(tx.ExecContext(ctx, `INSERT INTO publication (generation, socket, dev, ino,
			trust_fingerprint, published) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (generation) DO NOTHING`,
			generation, p.Socket, int64(p.Inode.Dev), int64(p.Inode.Ino), p.TrustFingerprint, s.millis()))
		if err != nil {
			return err
		}
		if n == 0 {
			return &TransitionError{What: "publication", From: "published", To: "published"}
		}
		return setPhase(ctx, tx, generation, protocol.Ready)
	})
}

// Withdraw records the end of the publication, and with it the phase that the
// generation goes to.
func (s *Store) Withdraw(ctx context.Context, generation string, to protocol.DomainPhase) error {
	return s.live(ctx, "record the withdrawal", generation, func(tx *sql.Tx) error {
		n, err := changed(tx.ExecContext(ctx, "UPDATE publication SET withdrawn = ? WHERE generation = ? AND withdrawn IS NULL",
			s.millis(), generation))
		if err != nil {
			return err
		}
		if n == 0 {
			return &TransitionError{What: "publication", To: "withdrawn"}
		}
		return setPhase(ctx, tx, generation, to)
	})
}

// AddSession records a session that is admitted, in phase Registered.
func (s *Store) AddSession(ctx context.Context, generation, id string, interactive bool) error {
	return s.live(ctx, "record the session", generation, func(tx *sql.Tx) error {
		n, err := changed(tx.ExecContext(ctx, `INSERT INTO session (generation, id, seq, phase, interactive, started)
			VALUES (?1, ?2, (SELECT coalesce(max(seq), 0) + 1 FROM session WHERE generation = ?1), ?3, ?4, ?5)
			ON CONFLICT (generation, id) DO NOTHING`, generation, id, protocol.SessionRegistered, interactive, s.millis()))
		if err == nil && n == 0 {
			return &TransitionError{What: "session " + id, From: "known", To: string(protocol.SessionRegistered)}
		}
		return err
	})
}

// SetSession records a session's phase and, once there is one, its runsc exec
// client; a nil client leaves what is recorded.
func (s *Store) SetSession(ctx context.Context, generation, id string, phase protocol.SessionPhase, client *handoff.Proc) error {
	if err := new(protocol.SessionPhase).UnmarshalText([]byte(phase)); err != nil {
		return err
	}
	pid, start, boot := procColumns(client)
	return s.live(ctx, "record the session's phase", generation, func(tx *sql.Tx) error {
		n, err := changed(tx.ExecContext(ctx, `UPDATE session SET phase = ?, pid = coalesce(?, pid),
			start_ticks = coalesce(?, start_ticks), boot_id = coalesce(?, boot_id)
			WHERE generation = ? AND id = ? AND ended IS NULL`, phase, pid, start, boot, generation, id))
		if err == nil && n == 0 {
			return &TransitionError{What: "session " + id, To: string(phase)}
		}
		return err
	})
}

// EndSession records that nothing of the session is left. A nil status is one
// that is not known.
func (s *Store) EndSession(ctx context.Context, generation, id string, status *int) error {
	return s.live(ctx, "record the session's end", generation, func(tx *sql.Tx) error {
		n, err := changed(tx.ExecContext(ctx, `UPDATE session SET ended = ?, exit_status = ?
			WHERE generation = ? AND id = ? AND ended IS NULL`, s.millis(), status, generation, id))
		if err == nil && n == 0 {
			return &TransitionError{What: "session " + id, To: "ended"}
		}
		return err
	})
}

// AddLease records a prepared-lower lease. The caller writes and forces the
// lease's file after this, and mounts after that.
func (s *Store) AddLease(ctx context.Context, generation, preparedID, path string) error {
	return s.live(ctx, "record the lease", generation, func(tx *sql.Tx) error {
		n, err := changed(tx.ExecContext(ctx, `INSERT INTO lease (generation, prepared_id, path, acquired)
			VALUES (?, ?, ?, ?) ON CONFLICT (generation, prepared_id) DO NOTHING`, generation, preparedID, path, s.millis()))
		if err == nil && n == 0 {
			return &TransitionError{What: "lease " + preparedID, From: "acquired", To: "acquired"}
		}
		return err
	})
}

// ReleaseLease records that the lease's file is gone.
func (s *Store) ReleaseLease(ctx context.Context, generation, preparedID string) error {
	return s.live(ctx, "record the lease's release", generation, func(tx *sql.Tx) error {
		n, err := changed(tx.ExecContext(ctx, `UPDATE lease SET released = ?
			WHERE generation = ? AND prepared_id = ? AND released IS NULL`, s.millis(), generation, preparedID))
		if err == nil && n == 0 {
			return &TransitionError{What: "lease " + preparedID, To: "released"}
		}
		return err
	})
}

// EndGeneration ends the live generation; outcome says how, for people. It
// fails with *OutstandingError while a participant or a lease is not released
// or the publication not withdrawn. Sessions that have no end yet end with it.
func (s *Store) EndGeneration(ctx context.Context, generation, outcome string) error {
	return s.live(ctx, "end the generation", generation, func(tx *sql.Tx) error {
		var open []string
		err := each(ctx, tx, func(scan func(...any) error) error {
			var what string
			err := scan(&what)
			open = append(open, what)
			return err
		}, `SELECT 'participant ' || role FROM participant WHERE generation = ?1 AND state <> ?2
			UNION ALL SELECT 'lease ' || prepared_id FROM lease WHERE generation = ?1 AND released IS NULL
			UNION ALL SELECT 'publication' FROM publication WHERE generation = ?1 AND withdrawn IS NULL`, generation, Released)
		if err != nil {
			return err
		}
		if len(open) > 0 {
			slices.Sort(open)
			return &OutstandingError{Generation: generation, What: open}
		}
		if _, err := tx.ExecContext(ctx, "UPDATE session SET ended = ? WHERE generation = ? AND ended IS NULL",
			s.millis(), generation); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE generation SET ended = ?, outcome = ? WHERE id = ?", s.millis(), outcome, generation)
		return err
	})
}

// live is update for the live generation: any other one is refused with
// *StaleError, so that nothing acts in the name of an earlier generation.
func (s *Store) live(ctx context.Context, op, generation string, do func(*sql.Tx) error) error {
	return s.update(ctx, op, inKernel, func(tx *sql.Tx) error {
		var n int
		err := tx.QueryRowContext(ctx, "SELECT count(*) FROM generation WHERE id = ? AND ended IS NULL", generation).Scan(&n)
		if err != nil {
			return err
		}
		if n == 0 {
			return &StaleError{Generation: generation}
		}
		return do(tx)
	})
}

func setPhase(ctx context.Context, tx *sql.Tx, generation string, phase protocol.DomainPhase) error {
	if err := checkPhase(phase); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "UPDATE generation SET phase = ? WHERE id = ?", phase, generation)
	return err
}

// moveRole refuses the step to the state unless the role is in one of from; ""
// stands for a role without a record.
func moveRole(ctx context.Context, tx *sql.Tx, generation string, role Role, to IntentState, from ...IntentState) error {
	var state IntentState
	err := tx.QueryRowContext(ctx, "SELECT state FROM participant WHERE generation = ? AND role = ?", generation, role).Scan(&state)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if !slices.Contains(from, state) {
		return &TransitionError{What: fmt.Sprintf("participant %s", role), From: string(state), To: string(to)}
	}
	return nil
}

func procColumns(p *handoff.Proc) (pid, start, boot any) {
	if p == nil {
		return nil, nil, nil
	}
	return p.PID, int64(p.Start), p.BootID
}

// changed returns how many rows a statement changed.
func changed(r sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func (s *Store) millis() int64 { return s.now().UnixMilli() }
