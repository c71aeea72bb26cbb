PRAGMA application_id = 1280987732;
PRAGMA user_version = 1;
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
CREATE TABLE participant_mount (
    generation TEXT    NOT NULL,
    role       TEXT    NOT NULL,
    path       TEXT    NOT NULL,
    mount_id   INTEGER NOT NULL,
    PRIMARY KEY (generation, role, path),
    FOREIGN KEY (generation, role) REFERENCES participant (generation, role) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
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
CREATE TABLE publication (
    generation        TEXT    NOT NULL PRIMARY KEY REFERENCES generation (id) ON DELETE CASCADE,
    socket            TEXT    NOT NULL,
    dev               INTEGER NOT NULL,
    ino               INTEGER NOT NULL,
    trust_fingerprint TEXT    NOT NULL,
    published         INTEGER NOT NULL,
    withdrawn         INTEGER
) STRICT, WITHOUT ROWID;
CREATE TABLE lease (
    generation  TEXT    NOT NULL REFERENCES generation (id) ON DELETE CASCADE,
    prepared_id TEXT    NOT NULL CHECK (prepared_id <> ''),
    path        TEXT    NOT NULL,
    acquired    INTEGER NOT NULL,
    released    INTEGER,
    PRIMARY KEY (generation, prepared_id)
) STRICT, WITHOUT ROWID;
INSERT INTO generation (ordinal, id, phase, boot_id, config_fingerprint, coordinator_id, sandbox_id, network_id, created, ended, outcome) VALUES (1, 'g018f00000000a1b2c3d4e5', 'Stopping', '11111111-2222-4333-8444-555555555555', 'sha256:aa', 'c1', 'lz0000000001', 'n1', 1700000000000, 1700000100000, 'ended');
INSERT INTO generation (ordinal, id, phase, boot_id, config_fingerprint, coordinator_id, sandbox_id, network_id, created, ended, outcome) VALUES (2, 'g018f00000001a1b2c3d4e5', 'Failed', '11111111-2222-4333-8444-555555555555', 'sha256:aa', 'c2', 'lz0000000002', 'n2', 1700000200000, 1700000300000, 'the Runtime Supervisor has gone');
INSERT INTO generation (ordinal, id, phase, boot_id, config_fingerprint, coordinator_id, sandbox_id, network_id, created, ended, outcome) VALUES (3, 'g018f00000002a1b2c3d4e5', 'Ready', '66666666-7777-4888-8999-aaaaaaaaaaaa', 'sha256:bb', 'c3', 'lz0000000003', 'n3', 1700000400000, NULL, '');
INSERT INTO participant (generation, role, state, seq, intended, owned, released, pid, start_ticks, boot_id, path, dev, ino, mnt_ns, net_ns, prepared_id, network_fingerprint) VALUES ('g018f00000000a1b2c3d4e5', 'supervisor', 'released', 1, 1700000000001, 1700000000002, 1700000099999, 101, 1001, '11111111-2222-4333-8444-555555555555', NULL, NULL, NULL, 4026532001, NULL, NULL, NULL);
INSERT INTO participant (generation, role, state, seq, intended, owned, released, pid, start_ticks, boot_id, path, dev, ino, mnt_ns, net_ns, prepared_id, network_fingerprint) VALUES ('g018f00000001a1b2c3d4e5', 'supervisor', 'released', 1, 1700000200001, NULL, 1700000299999, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO participant (generation, role, state, seq, intended, owned, released, pid, start_ticks, boot_id, path, dev, ino, mnt_ns, net_ns, prepared_id, network_fingerprint) VALUES ('g018f00000002a1b2c3d4e5', 'anchor', 'owned', 3, 1700000400003, 1700000400005, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'sha-prepared', NULL);
INSERT INTO participant (generation, role, state, seq, intended, owned, released, pid, start_ticks, boot_id, path, dev, ino, mnt_ns, net_ns, prepared_id, network_fingerprint) VALUES ('g018f00000002a1b2c3d4e5', 'coordinator', 'owned', 1, 1700000400001, 1700000400002, NULL, 301, 3001, '66666666-7777-4888-8999-aaaaaaaaaaaa', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO participant (generation, role, state, seq, intended, owned, released, pid, start_ticks, boot_id, path, dev, ino, mnt_ns, net_ns, prepared_id, network_fingerprint) VALUES ('g018f00000002a1b2c3d4e5', 'helper', 'owned', 5, 1700000400003, 1700000400006, NULL, 303, 3003, '66666666-7777-4888-8999-aaaaaaaaaaaa', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO participant (generation, role, state, seq, intended, owned, released, pid, start_ticks, boot_id, path, dev, ino, mnt_ns, net_ns, prepared_id, network_fingerprint) VALUES ('g018f00000002a1b2c3d4e5', 'network', 'owned', 4, 1700000400003, 1700000400006, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, -9223372036854775808, NULL, 'readiness');
INSERT INTO participant (generation, role, state, seq, intended, owned, released, pid, start_ticks, boot_id, path, dev, ino, mnt_ns, net_ns, prepared_id, network_fingerprint) VALUES ('g018f00000002a1b2c3d4e5', 'sandbox', 'intended', 6, 1700000400007, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO participant (generation, role, state, seq, intended, owned, released, pid, start_ticks, boot_id, path, dev, ino, mnt_ns, net_ns, prepared_id, network_fingerprint) VALUES ('g018f00000002a1b2c3d4e5', 'supervisor', 'owned', 2, 1700000400003, 1700000400004, NULL, 302, 3002, '66666666-7777-4888-8999-aaaaaaaaaaaa', '/run/user/1000/lazaret/0123456789ab/m', 26, -1, 4026532003, NULL, NULL, NULL);
INSERT INTO participant_mount (generation, role, path, mount_id) VALUES ('g018f00000002a1b2c3d4e5', 'anchor', '/', 501);
INSERT INTO participant_mount (generation, role, path, mount_id) VALUES ('g018f00000002a1b2c3d4e5', 'anchor', '/usr', -2);
INSERT INTO session (generation, id, seq, phase, interactive, pid, start_ticks, boot_id, started, ended, exit_status) VALUES ('g018f00000000a1b2c3d4e5', 's1', 1, 'Closing', 1, 111, 1111, '11111111-2222-4333-8444-555555555555', 1700000001000, 1700000002000, 7);
INSERT INTO session (generation, id, seq, phase, interactive, pid, start_ticks, boot_id, started, ended, exit_status) VALUES ('g018f00000002a1b2c3d4e5', 's2', 1, 'Attached', 0, NULL, NULL, NULL, 1700000401000, NULL, NULL);
INSERT INTO session (generation, id, seq, phase, interactive, pid, start_ticks, boot_id, started, ended, exit_status) VALUES ('g018f00000002a1b2c3d4e5', 's3', 2, 'Registered', 1, NULL, NULL, NULL, 1700000402000, 1700000403000, NULL);
INSERT INTO publication (generation, socket, dev, ino, trust_fingerprint, published, withdrawn) VALUES ('g018f00000000a1b2c3d4e5', '/run/user/1000/lazaret/0123456789ab/control.sock', 26, 4711, 'sha256:t1', 1700000000500, 1700000099000);
INSERT INTO publication (generation, socket, dev, ino, trust_fingerprint, published, withdrawn) VALUES ('g018f00000002a1b2c3d4e5', '/run/user/1000/lazaret/0123456789ab/control.sock', 26, 4712, 'sha256:t3', 1700000400500, NULL);
INSERT INTO lease (generation, prepared_id, path, acquired, released) VALUES ('g018f00000000a1b2c3d4e5', 'sha-prepared', '/data/prepared/sha-prepared/leases/0123456789ab.g018f00000000a1b2c3d4e5', 1700000000300, 1700000099500);
INSERT INTO lease (generation, prepared_id, path, acquired, released) VALUES ('g018f00000002a1b2c3d4e5', 'sha-prepared', '/data/prepared/sha-prepared/leases/0123456789ab.g018f00000002a1b2c3d4e5', 1700000400300, NULL);
