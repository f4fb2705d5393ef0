-- Episodes that are to be made anew, and those of an hour; as in schema_13.sql of the SQLite store.

CREATE INDEX episode_stale ON episode (tenant, session_key, level, first) WHERE stale = 1;
CREATE INDEX episode_by_time ON episode (tenant, session_key, level, begun_at);
