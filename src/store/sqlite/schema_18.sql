-- What requests with an `Idempotency-Key` made, for a day: hashes and ids, never a word of what was said.

CREATE TABLE idempotent_request (
    key        INTEGER PRIMARY KEY,
    tenant     TEXT    NOT NULL CHECK (tenant <> ''),
    user       TEXT    NOT NULL CHECK (user <> ''),
    -- SHA-256 of the client's key and whose it is, and of that key, the route and what was asked.
    hash       BLOB    NOT NULL CHECK (length(hash) = 32),
    content    BLOB    NOT NULL CHECK (length(content) = 32),
    -- The ids of what was made, as JSON.
    made       TEXT    NOT NULL CHECK (json_valid(made)),
    expires_at INTEGER NOT NULL,
    UNIQUE (tenant, user, hash)
) STRICT;
-- To keep no more than so many of a user, and to remove what is over.
CREATE INDEX idempotent_request_by_user ON idempotent_request (tenant, user, key);
CREATE INDEX idempotent_request_over ON idempotent_request (expires_at);
