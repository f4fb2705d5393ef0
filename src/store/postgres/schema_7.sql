-- A history that is not taken in yet, and finding a conversation by its last exchange; as in schema_17.sql of the SQLite store.
ALTER TABLE session ADD COLUMN earlier bigint NOT NULL DEFAULT 0 CHECK (earlier >= 0);

DROP INDEX place_by_before;
CREATE INDEX place_by_question ON place (home, question, before);
