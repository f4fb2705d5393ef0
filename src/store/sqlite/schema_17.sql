-- Numbers that are kept free before the first turn of a session, for a history that its client told of and that is taken in
-- when the client comes back with the session's id.
ALTER TABLE session ADD COLUMN earlier INTEGER NOT NULL DEFAULT 0 CHECK (earlier >= 0);

-- A conversation is also found by its last exchange, so the index begins with the question.
DROP INDEX place_by_before;
CREATE INDEX place_by_question ON place (question, before);
