-- The topics that a message may join are looked through before each question: in their order, and from the index alone. SQLite
-- asks for the columns of the condition as well, although nothing but NULL is in them.

DROP INDEX topic_live;
CREATE INDEX topic_live ON topic (tenant, user, last_used, id, version, forgotten_at, merged_into)
    WHERE forgotten_at IS NULL AND merged_into IS NULL;
