-- How far a memory model has read a session for facts: the number of the last turn.
ALTER TABLE session ADD COLUMN understood INTEGER NOT NULL DEFAULT 0;
