-- Level 1: the durable generation document.
--
-- Enumerations (phases, roles, states) carry no CHECK here. Their decoders
-- refuse the unknown; a CHECK would make each later value a rebuilt table.
-- CHECKs hold what no later level can want otherwise. Times are milliseconds
-- since the epoch and are for people: order is the ordinal, never the clock.
-- Identities of 64 unsigned bits (inodes, mount ids) are stored as the signed
-- integer with the same bits.

-- "LZRT": tells our file from any other SQLite database.
PRAGMA application_id = 0x4c5a5254;

-- One row per Domain generation; at most one of them has not ended.
CREATE TABLE generation (
    ordinal            INTEGER PRIMARY KEY,
    id                 TEXT    NOT NULL UNIQUE CHECK (id <> ''),
    phase              TEXT    NOT NULL,
    boot_id            TEXT    NOT NULL,
    config_fingerprint TEXT    NOT NULL,
    coordinator_id     TEXT    NOT NULL CHECK (coordinator_id <> ''),
    sandbox_id         TEXT    NOT NULL CHECK (sandbox_id <> ''),
    network_id         TEXT    NOT NULL CHECK (network_id <> ''),
    created            INTEGER NOT NULL,
    ended              INTEGER,
    outcome            TEXT    NOT NULL DEFAULT ''
) STRICT;

CREATE UNIQUE INDEX generation_one_live ON generation ((ended IS NULL)) WHERE ended IS NULL;

-- Durable intent and ownership, one row per role of a generation. Every
-- ownership column is material for recovery: a leftover that does not match
-- all of what is recorded is not ours.
CREATE TABLE participant (
    generation          TEXT    NOT NULL REFERENCES generation (id) ON DELETE CASCADE,
    role                TEXT    NOT NULL,
    state               TEXT    NOT NULL,
    seq                 INTEGER NOT NULL, -- order of first intent within the generation
    intended            INTEGER NOT NULL,
    owned               INTEGER,
    released            INTEGER,
    pid                 INTEGER CHECK (pid > 0),
    start_ticks         INTEGER,
    boot_id             TEXT,
    path                TEXT,             -- a lookup hint, never a proof
    dev                 INTEGER,
    ino                 INTEGER,
    mnt_ns              INTEGER,
    net_ns              INTEGER,
    prepared_id         TEXT,
    network_fingerprint TEXT,
    PRIMARY KEY (generation, role),
    UNIQUE (generation, seq),
    CHECK ((pid IS NULL) = (start_ticks IS NULL) AND (pid IS NULL) = (boot_id IS NULL)),
    CHECK ((dev IS NULL) = (ino IS NULL))
) STRICT;

-- The mounts that a role owns, in the mount namespace that its row names.
CREATE TABLE participant_mount (
    generation TEXT    NOT NULL,
    role       TEXT    NOT NULL,
    path       TEXT    NOT NULL,
    mount_id   INTEGER NOT NULL,
    PRIMARY KEY (generation, role, path),
    FOREIGN KEY (generation, role) REFERENCES participant (generation, role) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- Client Sessions. The process is the session's runsc exec client.
CREATE TABLE session (
    generation  TEXT    NOT NULL REFERENCES generation (id) ON DELETE CASCADE,
    id          TEXT    NOT NULL CHECK (id <> ''),
    seq         INTEGER NOT NULL,
    phase       TEXT    NOT NULL,
    interactive INTEGER NOT NULL CHECK (interactive IN (0, 1)),
    pid         INTEGER CHECK (pid > 0),
    start_ticks INTEGER,
    boot_id     TEXT,
    started     INTEGER NOT NULL,
    ended       INTEGER,
    exit_status INTEGER,
    PRIMARY KEY (generation, id),
    UNIQUE (generation, seq),
    CHECK ((pid IS NULL) = (start_ticks IS NULL) AND (pid IS NULL) = (boot_id IS NULL))
) STRICT;

-- Where the generation can be found, from publication to withdrawal.
CREATE TABLE publication (
    generation        TEXT    NOT NULL PRIMARY KEY REFERENCES generation (id) ON DELETE CASCADE,
    socket            TEXT    NOT NULL,
    dev               INTEGER NOT NULL,
    ino               INTEGER NOT NULL,
    trust_fingerprint TEXT    NOT NULL,
    published         INTEGER NOT NULL,
    withdrawn         INTEGER
) STRICT, WITHOUT ROWID;

-- Prepared-lower leases; each has a file beside the prepared tree as well.
CREATE TABLE lease (
    generation  TEXT    NOT NULL REFERENCES generation (id) ON DELETE CASCADE,
    prepared_id TEXT    NOT NULL CHECK (prepared_id <> ''),
    path        TEXT    NOT NULL,
    acquired    INTEGER NOT NULL,
    released    INTEGER,
    PRIMARY KEY (generation, prepared_id)
) STRICT, WITHOUT ROWID;
