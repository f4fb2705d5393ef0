-- Old text lies in blocks, many turns in one. A turn whose text was moved keeps who, when and what it is part of; its
-- checksum is still that of the whole turn, so what comes back out of a block is what went in.

CREATE TABLE block (
    -- Never used again: a turn must not find another block under its number.
    key      INTEGER PRIMARY KEY AUTOINCREMENT,
    session  INTEGER NOT NULL REFERENCES session (key) ON DELETE CASCADE,
    turns    INTEGER NOT NULL CHECK (turns > 0),
    -- Whether it was packed as tightly as can be.
    thorough INTEGER NOT NULL DEFAULT 0 CHECK (thorough IN (0, 1)),
    bytes    BLOB    NOT NULL
) STRICT;

-- A session's last block takes in more turns while it is small.
CREATE INDEX block_by_session ON block (session, key);
-- What is to be packed more tightly.
CREATE INDEX block_quick ON block (key) WHERE thorough = 0;

-- Where a turn's text is; NULL while it is in its row. A moved text leaves one dot behind.
ALTER TABLE turn ADD COLUMN block INTEGER;
