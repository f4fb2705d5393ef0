-- The end of a session: when it was ended, and the webhooks that tell of it.

-- When somebody said that the session is over. It may be used again all the same.
ALTER TABLE session ADD COLUMN ended_at INTEGER;

-- Webhooks that are yet to be delivered: the one place where something of an ephemeral session is written down. Times are
-- microseconds since 1970.
CREATE TABLE outbox (
    key        INTEGER PRIMARY KEY,
    -- The `webhook-id`.
    id         TEXT    NOT NULL UNIQUE,
    tenant     TEXT    NOT NULL,
    -- Whose session, and its name. An ephemeral session is nobody's.
    user       TEXT,
    session    TEXT    NOT NULL,
    reason     TEXT    NOT NULL,
    body       BLOB    NOT NULL,
    state      TEXT    NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'running', 'dead')),
    attempts   INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    -- The next try, or the end of the lease; 0 is at once.
    run_at     INTEGER NOT NULL DEFAULT 0,
    -- Grows with every claim; only the newest may end it.
    fence      INTEGER NOT NULL DEFAULT 0,
    last_error TEXT,
    created_at INTEGER NOT NULL
);

-- The next one to claim is at the front.
CREATE INDEX outbox_due ON outbox (run_at, key) WHERE state <> 'dead';
CREATE INDEX outbox_of_tenant ON outbox (tenant, state, key);
