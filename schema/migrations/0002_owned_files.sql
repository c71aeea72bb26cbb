-- Level 2: what a generation owns in the runtime directory.
--
-- A role can own several files and directories; level 1 had room for one, in
-- participant's path, dev and ino, which stay and are no longer written.

-- The files and directories that a role owns, by where they are looked for; the
-- path proves nothing. The number of an inode is used again soon, so that what
-- must be found there also has a type (the bits of st_mode) and a birth, in
-- nanoseconds. 0 is what level 1 did not record, or a filesystem does not know.
CREATE TABLE participant_file (
    generation TEXT    NOT NULL,
    role       TEXT    NOT NULL,
    path       TEXT    NOT NULL,
    dev        INTEGER NOT NULL,
    ino        INTEGER NOT NULL,
    type       INTEGER NOT NULL DEFAULT 0,
    born       INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (generation, role, path),
    FOREIGN KEY (generation, role) REFERENCES participant (generation, role) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

INSERT INTO participant_file (generation, role, path, dev, ino)
    SELECT generation, role, path, dev, ino FROM participant WHERE path IS NOT NULL AND dev IS NOT NULL;
UPDATE participant SET path = NULL, dev = NULL, ino = NULL;

-- Where the generation's files are made under names of its own before they are
-- on record; empty for a generation of level 1.
ALTER TABLE generation ADD COLUMN runtime_dir TEXT NOT NULL DEFAULT '';

-- A publication of level 1 had no participant, only a row of its own, which
-- knows one of the two sockets. One that is not withdrawn becomes one.
INSERT INTO participant (generation, role, state, seq, intended, owned)
    SELECT p.generation, 'publication', 'owned',
           (SELECT coalesce(max(seq), 0) + 1 FROM participant WHERE generation = p.generation), p.published, p.published
    FROM publication AS p WHERE p.withdrawn IS NULL;
INSERT INTO participant_file (generation, role, path, dev, ino)
    SELECT generation, 'publication', socket, dev, ino FROM publication WHERE withdrawn IS NULL;
