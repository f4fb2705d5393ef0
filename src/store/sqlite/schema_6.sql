-- What the memory model is asked for: topics that are told, what asking costs, and answers that could not be used.

-- How far a topic's summary tells: the key of the last turn in it. It tells every turn of the topic up to there.
ALTER TABLE topic ADD COLUMN told INTEGER NOT NULL DEFAULT 0;
-- Who told it.
ALTER TABLE topic ADD COLUMN told_by TEXT;
-- A title that a model found knows the turns up to here; NULL for those that people or first messages gave.
ALTER TABLE topic ADD COLUMN title_knows INTEGER;
-- Enough was said that its summary does not tell.
ALTER TABLE topic ADD COLUMN due INTEGER NOT NULL DEFAULT 0 CHECK (due IN (0, 1));
CREATE INDEX topic_to_tell ON topic (tenant, user, key) WHERE due = 1;

-- What the memory model cost a tenant on a day, counted in days since 1970, and how often it was of no use.
CREATE TABLE memory_spent (
    tenant       TEXT    NOT NULL CHECK (tenant <> ''),
    day          INTEGER NOT NULL,
    calls        INTEGER NOT NULL DEFAULT 0 CHECK (calls >= 0),
    tokens       INTEGER NOT NULL DEFAULT 0 CHECK (tokens >= 0),
    failures     INTEGER NOT NULL DEFAULT 0 CHECK (failures >= 0),
    -- What the built-in did in its place.
    fallbacks    INTEGER NOT NULL DEFAULT 0 CHECK (fallbacks >= 0),
    -- Of those, because the day's bound was reached.
    capped       INTEGER NOT NULL DEFAULT 0 CHECK (capped >= 0),
    last_failure TEXT,
    PRIMARY KEY (tenant, day)
) STRICT, WITHOUT ROWID;

-- Answers that could not be used, for a person to look at. They are made of what was said, and go with it.
CREATE TABLE memory_answer (
    key        INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant     TEXT    NOT NULL CHECK (tenant <> ''),
    user       TEXT    NOT NULL CHECK (user <> ''),
    -- Without a reference, as jobs have none: whoever removes a session removes them.
    session    INTEGER NOT NULL,
    topic      INTEGER REFERENCES topic (key) ON DELETE CASCADE,
    kind       TEXT    NOT NULL,
    reason     TEXT    NOT NULL,
    answer     TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX memory_answer_by_user ON memory_answer (tenant, user, key);
CREATE INDEX memory_answer_by_session ON memory_answer (session);
CREATE INDEX memory_answer_by_topic ON memory_answer (topic) WHERE topic IS NOT NULL;

-- A turn leaves its topic, however that comes. As before, and what was told of it goes as well, exactly when it tells of the turn.
DROP TRIGGER topic_left;
CREATE TRIGGER topic_left AFTER DELETE ON topic_turn
BEGIN
    UPDATE topic
    SET version = version + 1,
        stale = max(stale, old.taken_in, title_turn IS old.turn, coalesce(old.turn <= title_knows, 0)),
        title = iif(title_turn IS old.turn OR coalesce(old.turn <= title_knows, 0), '', title),
        title_knows = iif(coalesce(old.turn <= title_knows, 0), NULL, title_knows),
        summary = iif(old.turn <= told, NULL, summary),
        told_by = iif(old.turn <= told, NULL, told_by),
        told = iif(old.turn <= told, 0, told)
    WHERE key = old.topic;
    DELETE FROM memory_answer WHERE topic = old.topic;
    DELETE FROM topic_sketch WHERE topic = old.topic AND old.taken_in = 1;
    DELETE FROM topic WHERE key = old.topic AND NOT EXISTS (SELECT 1 FROM topic_turn WHERE topic = old.topic);
END;

-- Topics from before this schema have never been told: they are due when they are learned anew.
UPDATE topic SET stale = 1, version = version + 1
WHERE forgotten_at IS NULL AND merged_into IS NULL
  AND (SELECT sum(messages) FROM topic_turn WHERE topic = topic.key) > 12;
