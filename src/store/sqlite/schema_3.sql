-- Jobs, and the episodes they make.

-- The number of the last turn that is summarised; those after it are the window.
ALTER TABLE session ADD COLUMN consolidated INTEGER NOT NULL DEFAULT 0;

-- Work for later: one row for a session and a kind, gone when it is done. Times are microseconds since 1970.
CREATE TABLE job (
    key        INTEGER PRIMARY KEY AUTOINCREMENT,
    -- Without a reference: removing a session must not ask another table. Whoever removes one removes its jobs.
    session    INTEGER NOT NULL,
    kind       TEXT    NOT NULL CHECK (kind <> ''),
    state      TEXT    NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'running', 'dead')),
    attempts   INTEGER NOT NULL DEFAULT 0,
    -- When it may be claimed: 0 at once, else the next try, or the end of the lease of whoever has it.
    run_at     INTEGER NOT NULL DEFAULT 0,
    -- Grows with every claim; only the newest may end the job.
    fence      INTEGER NOT NULL DEFAULT 0,
    -- It was asked for once more while it ran.
    again      INTEGER NOT NULL DEFAULT 0 CHECK (again IN (0, 1)),
    last_error TEXT,
    created_at INTEGER NOT NULL,
    UNIQUE (session, kind)
) STRICT;

-- The next job to claim is at the front.
CREATE INDEX job_by_time ON job (run_at, key) WHERE state <> 'dead';

-- A stretch of a session, summarised. It says whose it is by itself: it stays when its turns, and the session with
-- them, have grown too old.
CREATE TABLE episode (
    key         INTEGER PRIMARY KEY AUTOINCREMENT,
    id          BLOB    NOT NULL CHECK (length(id) = 16),
    tenant      TEXT    NOT NULL CHECK (tenant <> ''),
    user        TEXT    NOT NULL CHECK (user <> ''),
    session     BLOB    NOT NULL CHECK (length(session) = 16),
    -- Which life of the session: an id may be used again after everything in it expired.
    session_key INTEGER NOT NULL,
    level       TEXT    NOT NULL CHECK (level IN ('stretch', 'hour', 'session')),
    first       INTEGER NOT NULL CHECK (first > 0),
    last        INTEGER NOT NULL CHECK (last >= first),
    weight      INTEGER NOT NULL,
    begun_at    INTEGER NOT NULL,
    ended_at    INTEGER NOT NULL,
    summary     TEXT    NOT NULL,
    -- Little-endian 32-bit floats, and who made them.
    embedder    TEXT,
    vector      BLOB,
    made_by     TEXT    NOT NULL,
    version     INTEGER NOT NULL CHECK (version > 0),
    -- A turn of it changed: it is to be made anew.
    stale       INTEGER NOT NULL DEFAULT 0 CHECK (stale IN (0, 1))
) STRICT;

CREATE UNIQUE INDEX episode_by_range ON episode (session_key, level, first);
CREATE INDEX episode_by_user ON episode (tenant, user, key);
CREATE INDEX episode_by_session ON episode (tenant, user, session, key);

-- Conversations from before this schema have left their windows, too. What is not due is found so, and costs a look.
INSERT INTO job (session, kind, created_at)
    SELECT key, 'consolidate', updated_at FROM session WHERE next_number > 20 ORDER BY key;
