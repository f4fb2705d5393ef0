-- What a long session is asked with every digest: which of its episodes are to be made anew, and which began in an hour. Without
-- these, every episode it ever had is looked at each time.

CREATE INDEX episode_stale ON episode (session_key, level, first) WHERE stale = 1;
CREATE INDEX episode_by_time ON episode (session_key, level, begun_at);
