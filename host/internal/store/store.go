// Package store keeps a Domain's durable generation document: which generation
// lives, what was intended and is owned on its behalf, its sessions, its
// publication and its prepared-lower leases.
//
// It is the only package that knows SQLite. It decides nothing: phases and
// transitions are protocol.Next's, and what a leftover means is for recovery.
// It runs in the Host Coordinator that holds the Domain lock, and in no other
// process (FR-17): Open demands the held lock as a parameter.
//
// # What a power loss may cost
//
// The file is in WAL mode with synchronous=NORMAL: a commit is written to the
// kernel before the call returns and is not forced to the disk. The death of
// any process at any instant therefore loses no committed transaction. A power
// loss or kernel crash can take the newest ones, in order and never in part.
// That is enough for what a generation records as it runs, because a boot
// outlives none of it: processes, mounts and namespaces are gone, and recovery
// sees from the boot id that they are. What a boot does not clear are the files
// that a generation leaves on the disk, and those carry the generation's id. So
// one transaction, BeginGeneration, is forced to the disk before it returns:
// any file that names a generation then names one that the store knows. A
// prepared-lower lease has a file of its own, which its writer forces to the
// disk.
package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"modernc.org/sqlite"

	"lazaret.dev/lazaret/host/internal/store/dbfile"
	"lazaret.dev/lazaret/schema"
)

// The names within a Domain Root.
const (
	FileName = "store.db" // and store.db-wal while it is open, or after a crash
	LockName = "lock"     // the Domain lock
)

// Store is one Domain's open store. Its methods are safe for concurrent use;
// each is one transaction. The caller closes it before it gives up the lock.
type Store struct {
	db   *sql.DB
	path string
	now  func() time.Time
}

// Open opens the store in the Domain Root dir, making and migrating it as
// needed. lock is the Domain Root's lock file, open, on which this process holds the Domain's
// exclusive flock; it stays the caller's, and anything else is refused with
// ErrNotLocked. Open fails with *Error for a full, read-only, damaged or
// foreign file, and with *schema.NewerError for one that a newer Lazaret wrote;
// the file is then as it was.
func Open(ctx context.Context, dir string, lock *os.File) (*Store, error) {
	if err := dbfile.CheckHeld(dir, LockName, lock); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, FileName)
	if err := dbfile.Inspect(path); err != nil {
		return nil, err
	}
	// Like every distribution's SQLite; modernc.org keeps fsync unless asked.
	if _, err := sqlite.Fdatasync(true); err != nil {
		return nil, fmt.Errorf("use fdatasync: %w", err)
	}
	dsn := url.URL{Scheme: "file", Path: path, RawQuery: "_txlock=immediate"}
	base, err := sqlite.NewConnector(dsn.String())
	if err != nil {
		return nil, fmt.Errorf("open the store %s: %w", path, err)
	}
	s := &Store{db: sql.OpenDB(connector{base}), path: path, now: time.Now}
	// One connection: there is one writer, and a pool would only make it wait
	// for itself.
	s.db.SetMaxOpenConns(1)
	if err := schema.Apply(ctx, s.db); err != nil {
		return nil, errors.Join(s.named("migrate", err), s.db.Close())
	}
	return s, nil
}

// Close writes what is in the log back into the file and closes it.
func (s *Store) Close() error {
	if err := s.db.Close(); err != nil {
		return s.named("close", err)
	}
	return nil
}

// pragmas are set on every connection that is opened, in this order. Waiting
// comes first, since each of the others may have to. Exclusive locking comes
// before the first look at the file: the write-ahead index then stays in this
// process's memory, no -shm file exists, and a second opener is refused even if
// it ignores the Domain lock.
var pragmas = []string{
	"PRAGMA busy_timeout = 2000",
	"PRAGMA locking_mode = EXCLUSIVE",
	"PRAGMA foreign_keys = ON",
	"PRAGMA trusted_schema = OFF",
	"PRAGMA cell_size_check = ON",
	"PRAGMA synchronous = NORMAL",
	"PRAGMA journal_mode = WAL",
}

// connector opens connections with the pragmas set. It hands out the driver's
// own connection, so that nothing of it is hidden from database/sql.
type connector struct{ driver.Connector }

// Connect implements driver.Connector.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	execer, ok := conn.(driver.ExecerContext)
	if !ok {
		return nil, errors.Join(errors.New("the driver's connection executes nothing"), conn.Close())
	}
	for _, p := range pragmas {
		if _, err := execer.ExecContext(ctx, p, nil); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", p, err), conn.Close())
		}
	}
	return conn, nil
}

// durability says how far a transaction has gone when its call returns.
type durability bool

const (
	inKernel durability = false // survives the death of every process
	onDisk   durability = true  // survives a power loss as well
)

// update runs do in one transaction.
func (s *Store) update(ctx context.Context, op string, d durability, do func(*sql.Tx) error) (err error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return s.named(op, err)
	}
	defer func() {
		if e := conn.Close(); e != nil && err == nil {
			err = s.named(op, e)
		}
	}()
	if d == onDisk {
		if _, err := conn.ExecContext(ctx, "PRAGMA synchronous = FULL"); err != nil {
			return s.named(op, err)
		}
		defer func() {
			// Failing to relax it again costs time, not safety. The request's
			// context may be over by now.
			_, _ = conn.ExecContext(context.WithoutCancel(ctx), "PRAGMA synchronous = NORMAL")
		}()
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return s.named(op, err)
	}
	if err := do(tx); err != nil {
		if e := tx.Rollback(); e != nil && !errors.Is(e, sql.ErrTxDone) {
			err = errors.Join(err, e)
		}
		return s.named(op, err)
	}
	if err := tx.Commit(); err != nil {
		return s.named(op, err)
	}
	return nil
}
