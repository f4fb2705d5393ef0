-- What people said about themselves, and the facts that follow from it.
--
-- Statements are what was understood of messages, and what people wrote down by hand. Facts follow from them: whatever
-- changes which statements are in force brings the facts of their name up to date in the same transaction. Times are
-- microseconds since 1970. A key of these tables stands for (tenant, user, id) elsewhere.

CREATE TABLE fact_statement (
    -- Grows: the order in which statements were learned.
    key        INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant     TEXT    NOT NULL CHECK (tenant <> ''),
    user       TEXT    NOT NULL CHECK (user <> ''),
    -- Follows from the message and what it says, so that understanding it again changes nothing.
    id         BLOB    NOT NULL CHECK (length(id) = 16),
    category   TEXT    NOT NULL CHECK (category IN ('identity', 'preference', 'constraint', 'instruction')),
    name       TEXT    NOT NULL CHECK (name <> ''),
    -- The name with its item.
    path       TEXT    NOT NULL,
    act        TEXT    NOT NULL CHECK (act IN ('state', 'correct', 'end')),
    value      TEXT    NOT NULL,
    confidence REAL    NOT NULL,
    importance REAL    NOT NULL,
    from_at    INTEGER,
    until_at   INTEGER,
    -- Without references: a fact stays when the turn that said it has grown too old.
    message    BLOB    CHECK (length(message) = 16),
    session    BLOB    CHECK (length(session) = 16),
    said_at    INTEGER NOT NULL,
    quote      TEXT    NOT NULL,
    maker      TEXT    NOT NULL CHECK (maker IN ('builtin', 'model', 'person')),
    -- What it can make of a fact by itself.
    standing   TEXT    NOT NULL CHECK (standing IN ('active', 'provisional', 'quarantined')),
    learned_at INTEGER NOT NULL,
    -- How many that said the same were counted instead of kept.
    also       INTEGER NOT NULL DEFAULT 0,
    -- Its message is shown; one that an edit replaced has no say while it is hidden.
    shown      INTEGER NOT NULL DEFAULT 1 CHECK (shown IN (0, 1)),
    -- The fact that it speaks for.
    fact       INTEGER REFERENCES fact (key) ON DELETE SET NULL,
    UNIQUE (tenant, user, id)
) STRICT;
CREATE INDEX fact_statement_by_name ON fact_statement (tenant, user, category, name);
CREATE INDEX fact_statement_by_message ON fact_statement (tenant, user, message) WHERE message IS NOT NULL;
CREATE INDEX fact_statement_by_session ON fact_statement (tenant, user, session) WHERE session IS NOT NULL;
CREATE INDEX fact_statement_by_time ON fact_statement (tenant, user, learned_at);
CREATE INDEX fact_statement_by_fact ON fact_statement (fact) WHERE fact IS NOT NULL;

CREATE TABLE fact (
    key           INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant        TEXT    NOT NULL CHECK (tenant <> ''),
    user          TEXT    NOT NULL CHECK (user <> ''),
    id            BLOB    NOT NULL CHECK (length(id) = 16),
    category      TEXT    NOT NULL CHECK (category IN ('identity', 'preference', 'constraint', 'instruction')),
    name          TEXT    NOT NULL CHECK (name <> ''),
    path          TEXT    NOT NULL,
    value         TEXT    NOT NULL,
    confidence    REAL    NOT NULL,
    importance    REAL    NOT NULL,
    status        TEXT    NOT NULL CHECK (status IN ('candidate', 'quarantined', 'provisional', 'active', 'superseded',
                                                     'retracted', 'expired')),
    -- When it was true, and when its time is over where somebody said so.
    valid_from    INTEGER NOT NULL,
    valid_to      INTEGER,
    until_at      INTEGER,
    learned_at    INTEGER NOT NULL,
    -- Where it was said first.
    message       BLOB    CHECK (length(message) = 16),
    session       BLOB    CHECK (length(session) = 16),
    said_at       INTEGER NOT NULL,
    quote         TEXT    NOT NULL,
    last_said_at  INTEGER NOT NULL,
    -- None when nothing that is in force says it any more.
    confirmations INTEGER NOT NULL CHECK (confirmations >= 0),
    -- The message and the statement that ended it.
    ended_by      BLOB    CHECK (length(ended_by) = 16),
    ender         INTEGER,
    UNIQUE (tenant, user, id)
) STRICT;
-- One active value for each key, whatever the code does.
CREATE UNIQUE INDEX fact_active ON fact (tenant, user, category, path) WHERE status = 'active';
CREATE INDEX fact_by_name ON fact (tenant, user, category, name);
CREATE INDEX fact_by_user ON fact (tenant, user, key);
-- Whether there is anything that a message may say and that is no longer so.
CREATE INDEX fact_over ON fact (tenant, user) WHERE status IN ('superseded', 'retracted', 'expired');
CREATE INDEX fact_until ON fact (until_at) WHERE until_at IS NOT NULL AND status IN ('active', 'provisional');

-- What happened to a fact. Never changed: what we believed at a time is read from it.
CREATE TABLE fact_event (
    key     INTEGER PRIMARY KEY AUTOINCREMENT,
    fact    INTEGER NOT NULL REFERENCES fact (key) ON DELETE CASCADE,
    at      INTEGER NOT NULL,
    what    TEXT    NOT NULL CHECK (what <> ''),
    -- What it was afterwards.
    status  TEXT    NOT NULL CHECK (status <> ''),
    -- Why: a message, a person, an undo, an edit of the conversation, time.
    cause   TEXT    NOT NULL CHECK (cause <> ''),
    message BLOB    CHECK (length(message) = 16),
    undo    INTEGER REFERENCES fact_undo (key) ON DELETE SET NULL
) STRICT;
CREATE INDEX fact_event_by_fact ON fact_event (fact, at);

-- What a person undid. It can be undone itself, and then again.
CREATE TABLE fact_undo (
    key      INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant   TEXT    NOT NULL CHECK (tenant <> ''),
    user     TEXT    NOT NULL CHECK (user <> ''),
    id       BLOB    NOT NULL CHECK (length(id) = 16),
    at       INTEGER NOT NULL,
    in_force INTEGER NOT NULL CHECK (in_force IN (0, 1)),
    UNIQUE (tenant, user, id)
) STRICT;

-- The ids of statements, or of messages whose statements all are meant: the two look different.
CREATE TABLE fact_undone (
    undo INTEGER NOT NULL REFERENCES fact_undo (key) ON DELETE CASCADE,
    what BLOB    NOT NULL CHECK (length(what) = 16),
    PRIMARY KEY (undo, what)
) STRICT, WITHOUT ROWID;
CREATE INDEX fact_undone_by_what ON fact_undone (what);

-- Turns whose words are to be understood, or to be left out.
CREATE TABLE fact_todo (
    turn INTEGER PRIMARY KEY REFERENCES turn (key) ON DELETE CASCADE
) STRICT;

-- What was not admitted, by reason; never the words.
CREATE TABLE fact_refused (
    turn   INTEGER NOT NULL REFERENCES turn (key) ON DELETE CASCADE,
    maker  TEXT    NOT NULL,
    reason TEXT    NOT NULL CHECK (reason <> ''),
    tenant TEXT    NOT NULL,
    user   TEXT    NOT NULL,
    count  INTEGER NOT NULL CHECK (count > 0),
    PRIMARY KEY (turn, maker, reason)
) STRICT, WITHOUT ROWID;
CREATE INDEX fact_refused_by_user ON fact_refused (tenant, user, reason, count);

-- Hidden by an edit, or shown again. New and rewritten turns have no trigger, as recall's have none.
CREATE TRIGGER fact_hidden AFTER UPDATE OF superseded ON turn
WHEN old.superseded <> new.superseded AND new.role = 'user'
BEGIN
    INSERT OR IGNORE INTO fact_todo (turn) VALUES (new.key);
END;

-- All that was said before this schema.
INSERT INTO fact_todo (turn)
    SELECT key FROM turn WHERE status IN ('complete', 'partial') AND superseded = 0 AND role = 'user' ORDER BY key;
