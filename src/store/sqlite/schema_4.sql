-- Topics: threads of meaning in a user's conversations, and which turn belongs to which.
--
-- What people said about a topic (its title, tags, feedback) is kept here alone. Everything else is derived from the
-- turns and may be missing: it is made anew. Counts are not kept at all, they are added up from `topic_turn`.

-- A topic. `key` stands for (tenant, user, id) everywhere else.
CREATE TABLE topic (
    -- Never used again: a cursor or a late note must not meet a newer topic.
    key          INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant       TEXT    NOT NULL CHECK (tenant <> ''),
    user         TEXT    NOT NULL CHECK (user <> ''),
    id           BLOB    NOT NULL CHECK (length(id) = 16),
    -- Empty until it is made anew, when the turn that gave it is gone.
    title        TEXT    NOT NULL,
    -- The turn that gave it; NULL when a person did.
    title_turn   INTEGER,
    summary      TEXT,
    importance   REAL    NOT NULL DEFAULT 1.0,
    accesses     INTEGER NOT NULL DEFAULT 0 CHECK (accesses >= 0),
    tags         TEXT    NOT NULL DEFAULT '[]' CHECK (json_valid(tags) AND json_type(tags) = 'array'),
    created_at   INTEGER NOT NULL,
    last_used    INTEGER NOT NULL,
    -- Grows with whatever whoever holds the topic in memory should know.
    version      INTEGER NOT NULL DEFAULT 0,
    -- A turn left that had been taken in: sketch and title are to be made anew from those that stay.
    stale        INTEGER NOT NULL DEFAULT 0 CHECK (stale IN (0, 1)),
    -- It faded: nothing joins it any more, its turns stay.
    forgotten_at INTEGER,
    -- It grew together with another one and has no turns of its own any more.
    merged_into  INTEGER REFERENCES topic (key) ON DELETE CASCADE,
    UNIQUE (tenant, user, id)
) STRICT;

-- A user's topics in the order they began, and those a message may join.
CREATE INDEX topic_by_user ON topic (tenant, user, key);
CREATE INDEX topic_live ON topic (tenant, user) WHERE forgotten_at IS NULL AND merged_into IS NULL;
CREATE INDEX topic_stale ON topic (key) WHERE stale = 1;
CREATE INDEX topic_merged ON topic (merged_into) WHERE merged_into IS NOT NULL;

-- What is kept of a topic to know what belongs to it. Apart, so that using a topic does not write it again.
CREATE TABLE topic_sketch (
    topic  INTEGER PRIMARY KEY REFERENCES topic (key) ON DELETE CASCADE,
    sketch BLOB    NOT NULL
) STRICT;

-- Which topic a turn belongs to. A turn that is hidden, removed or has failed belongs to none.
CREATE TABLE topic_turn (
    turn     INTEGER PRIMARY KEY REFERENCES turn (key) ON DELETE CASCADE,
    topic    INTEGER NOT NULL REFERENCES topic (key),
    -- How many messages of the user or the model it has.
    messages INTEGER NOT NULL CHECK (messages >= 0),
    -- Whether the topic's sketch knows it.
    taken_in INTEGER NOT NULL DEFAULT 0 CHECK (taken_in IN (0, 1))
) STRICT;
CREATE INDEX topic_turn_by_topic ON topic_turn (topic, turn, messages);
CREATE INDEX topic_turn_untaken ON topic_turn (topic, turn) WHERE taken_in = 0;

-- Turns that belong to no topic yet.
CREATE TABLE topic_todo (
    turn INTEGER PRIMARY KEY REFERENCES turn (key) ON DELETE CASCADE
) STRICT;

-- A turn leaves its topic, however that comes. What it brought goes at once: its words must not outlive it in a title, a
-- summary or a sketch. The rest is made anew later, and a topic that is left empty goes.
CREATE TRIGGER topic_left AFTER DELETE ON topic_turn
BEGIN
    UPDATE topic
    SET version = version + 1,
        stale = max(stale, old.taken_in, title_turn IS old.turn),
        title = iif(title_turn IS old.turn, '', title),
        summary = iif(old.taken_in, NULL, summary)
    WHERE key = old.topic;
    DELETE FROM topic_sketch WHERE topic = old.topic AND old.taken_in = 1;
    DELETE FROM topic WHERE key = old.topic AND NOT EXISTS (SELECT 1 FROM topic_turn WHERE topic = old.topic);
END;

-- Hidden by an edit, or shown again. New and rewritten turns have no trigger, as recall's have none.
CREATE TRIGGER topic_hidden AFTER UPDATE OF superseded ON turn
WHEN old.superseded <> new.superseded
BEGIN
    DELETE FROM topic_turn WHERE turn = new.key;
    DELETE FROM topic_todo WHERE turn = new.key;
    INSERT INTO topic_todo (turn)
        SELECT new.key WHERE new.status IN ('complete', 'partial') AND new.superseded = 0;
END;

-- All that was said before this schema.
INSERT INTO topic_todo (turn)
    SELECT key FROM turn WHERE status IN ('complete', 'partial') AND superseded = 0 ORDER BY key;
