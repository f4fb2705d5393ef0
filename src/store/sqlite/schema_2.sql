-- What recall derives from turns. The turn stays the truth: all of this may be missing and is made anew.
--
-- A row or vectors are there only while their turn is shown and says what they were made from: whatever
-- changes that removes them in the same transaction and puts the turn on the list.

-- What recall keeps of a turn; the bytes are recall's own.
CREATE TABLE recall_row (
    turn INTEGER PRIMARY KEY REFERENCES turn (key) ON DELETE CASCADE,
    -- The turn's id once more, so that loading a scope reads no turns.
    id   BLOB    NOT NULL CHECK (length(id) = 16),
    row  BLOB    NOT NULL
) STRICT;

-- Who makes vectors.
CREATE TABLE recall_embedder (
    key INTEGER PRIMARY KEY,
    id  TEXT    NOT NULL UNIQUE
) STRICT;

-- The vectors of a turn, by one embedder: another one's take their place.
CREATE TABLE recall_vector (
    turn     INTEGER PRIMARY KEY REFERENCES turn (key) ON DELETE CASCADE,
    embedder INTEGER NOT NULL REFERENCES recall_embedder (key),
    vectors  BLOB    NOT NULL
) STRICT;

-- Turns whose row is to be made. Whoever is listed counts as having none.
CREATE TABLE recall_row_todo (
    turn INTEGER PRIMARY KEY REFERENCES turn (key) ON DELETE CASCADE
) STRICT;

-- Turns whose vectors are to be made.
CREATE TABLE recall_vector_todo (
    turn INTEGER PRIMARY KEY REFERENCES turn (key) ON DELETE CASCADE
) STRICT;

-- What all of it was made with: the format of the rows, the embedder of the vectors.
CREATE TABLE recall_made_with (
    what TEXT PRIMARY KEY,
    made TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- What was recalled for a turn, and why. Session and number once more, so that old ones are found at once.
CREATE TABLE recall_trace (
    turn    INTEGER PRIMARY KEY REFERENCES turn (key) ON DELETE CASCADE,
    session INTEGER NOT NULL,
    number  INTEGER NOT NULL,
    trace   TEXT    NOT NULL
) STRICT;
CREATE INDEX recall_trace_by_number ON recall_trace (session, number);

-- Hidden, or shown again. New and rewritten turns have no trigger: SQLite copies pages for any statement with
-- one, which made adding a turn half as slow again. `turn::insert` and `turn::rewrite` see to them.
CREATE TRIGGER recall_hidden AFTER UPDATE OF superseded ON turn
WHEN old.superseded <> new.superseded
BEGIN
    DELETE FROM recall_row WHERE turn = new.key;
    DELETE FROM recall_vector WHERE turn = new.key;
    DELETE FROM recall_row_todo WHERE turn = new.key;
    DELETE FROM recall_vector_todo WHERE turn = new.key;
    INSERT INTO recall_row_todo (turn)
        SELECT new.key WHERE new.status IN ('complete', 'partial') AND new.superseded = 0;
END;

-- All that was said before this schema.
INSERT INTO recall_row_todo (turn)
    SELECT key FROM turn WHERE status IN ('complete', 'partial') AND superseded = 0 ORDER BY key;
