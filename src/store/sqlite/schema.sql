-- The first schema. Migrations go forward only; a change is a new file, never an edit of this one.

-- A conversation. `key` stands for (tenant, user, id) everywhere else.
CREATE TABLE session (
    -- Never used again: a cursor or a late note must not meet a newer session.
    key           INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant        TEXT    NOT NULL CHECK (tenant <> ''),
    user          TEXT    NOT NULL CHECK (user <> ''),
    id            BLOB    NOT NULL CHECK (length(id) = 16),
    kind          TEXT    NOT NULL CHECK (kind IN ('durable', 'ephemeral')),
    metadata      TEXT    NOT NULL CHECK (json_valid(metadata) AND json_type(metadata) = 'object'),
    -- Microseconds; NULL follows the server's setting, -1 means never.
    ttl           INTEGER CHECK (ttl = -1 OR ttl > 0),
    -- The number the next turn gets. Only ever grows, so no number is used twice.
    next_number   INTEGER NOT NULL CHECK (next_number > 0),
    turns         INTEGER NOT NULL CHECK (turns >= 0),
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    last_accessed INTEGER NOT NULL,
    -- Who keeps the history: we, the client, or a client that leaves out what is old.
    history       TEXT    NOT NULL DEFAULT 'server' CHECK (history IN ('server', 'client', 'windowed')),
    UNIQUE (tenant, user, id)
) STRICT;

-- A user's sessions in the order they began.
CREATE INDEX session_by_user ON session (tenant, user, key);
-- Empty sessions are found by when they were last used.
CREATE INDEX session_empty ON session (last_accessed) WHERE turns = 0;

-- A question and its answer. Times are microseconds since 1970.
CREATE TABLE turn (
    key        INTEGER PRIMARY KEY,
    session    INTEGER NOT NULL REFERENCES session (key),
    number     INTEGER NOT NULL CHECK (number > 0),
    id         BLOB    NOT NULL CHECK (length(id) = 16),
    status     TEXT    NOT NULL CHECK (status IN ('pending', 'complete', 'partial', 'failed')),
    -- Who opened the turn; nearly always the user.
    role       TEXT    NOT NULL CHECK (role IN ('user', 'assistant', 'system', 'tool')),
    question   TEXT    NOT NULL,
    answer     TEXT,
    -- What question and answer are beside their text, and what was said between them; NULL when both are plain.
    extra      TEXT    CHECK (extra IS NULL OR (json_valid(extra) AND json_type(extra) = 'object')),
    metadata   TEXT    NOT NULL CHECK (json_valid(metadata) AND json_type(metadata) = 'object'),
    created_at INTEGER NOT NULL,
    answered_at INTEGER,
    -- xxh3 of all of the above but the keys; see row.rs.
    checksum   INTEGER NOT NULL,
    -- When the session's own TTL ends it; NULL follows the server's setting.
    expires_at INTEGER,
    -- An edit replaced it: kept, but not shown.
    superseded INTEGER NOT NULL DEFAULT 0 CHECK (superseded IN (0, 1)),
    -- Blank is what Unicode calls white space, as in the code.
    CONSTRAINT a_question_says_something CHECK (
        trim(question, char(9, 10, 11, 12, 13, 32, 133, 160, 5760, 8192, 8193, 8194, 8195, 8196, 8197,
            8198, 8199, 8200, 8201, 8202, 8232, 8233, 8239, 8287, 12288)) <> ''
        OR extra ->> '$.question.raw' IS NOT NULL
    ),
    CONSTRAINT a_complete_turn_has_an_answer CHECK (
        status <> 'complete'
        OR (answer IS NOT NULL AND trim(answer, char(9, 10, 11, 12, 13, 32, 133, 160, 5760, 8192, 8193, 8194, 8195, 8196, 8197,
            8198, 8199, 8200, 8201, 8202, 8232, 8233, 8239, 8287, 12288)) <> '')
        OR (answer IS NOT NULL AND extra ->> '$.answer.raw' IS NOT NULL)
    )
) STRICT;

-- "The last N of a session" reads this index from its front.
CREATE UNIQUE INDEX turn_by_number ON turn (session, number DESC);
CREATE UNIQUE INDEX turn_by_id ON turn (id, session);
-- Expiry walks these two from their fronts.
CREATE INDEX turn_by_age ON turn (created_at) WHERE expires_at IS NULL;
CREATE INDEX turn_by_expiry ON turn (expires_at) WHERE expires_at IS NOT NULL;
-- What a former process left unfinished.
CREATE INDEX turn_pending ON turn (key) WHERE status = 'pending';

-- Where a turn stands in its conversation, and how it is recognised when a client sends it again. Narrow, so
-- that finding the place of a request reads no text. Fingerprints are 16 bytes.
CREATE TABLE place (
    turn       INTEGER PRIMARY KEY REFERENCES turn (key) ON DELETE CASCADE,
    -- The number of the turn before it on its branch, 0 at the beginning.
    parent     INTEGER NOT NULL CHECK (parent >= 0),
    -- Which try at an answer the turn shows; others are revisions.
    attempt    INTEGER NOT NULL DEFAULT 0,
    revised    INTEGER NOT NULL DEFAULT 0 CHECK (revised IN (0, 1)),
    question   BLOB    NOT NULL CHECK (length(question) = 16),
    answer     BLOB    CHECK (length(answer) = 16),
    -- The chain of all that was said before it, and with it, as its client told it.
    before     BLOB    CHECK (length(before) = 16),
    chain      BLOB    CHECK (length(chain) = 16),
    -- What the client calls question, answer and request; NULL when it calls them nothing.
    ids        TEXT    CHECK (ids IS NULL OR json_valid(ids)),
    -- Tool calls that wait for their results.
    open_calls TEXT    CHECK (open_calls IS NULL OR json_valid(open_calls))
) STRICT;

-- A conversation is found by what was said in it.
CREATE INDEX place_by_chain ON place (chain) WHERE chain IS NOT NULL;
CREATE INDEX place_by_before ON place (before, question) WHERE before IS NOT NULL;

-- Other answers to the same question.
CREATE TABLE revision (
    turn       INTEGER NOT NULL REFERENCES turn (key) ON DELETE CASCADE,
    attempt    INTEGER NOT NULL,
    status     TEXT    NOT NULL CHECK (status IN ('complete', 'partial', 'failed')),
    -- What followed the question, as JSON messages.
    messages   TEXT    NOT NULL CHECK (json_valid(messages)),
    answer     BLOB    CHECK (length(answer) = 16),
    ids        TEXT    CHECK (ids IS NULL OR json_valid(ids)),
    created_at INTEGER NOT NULL,
    checksum   INTEGER NOT NULL,
    PRIMARY KEY (turn, attempt)
) STRICT, WITHOUT ROWID;
