-- What people had erased of facts, so that understanding a message again does not bring it back.

-- A message, and a hash of what it is no longer understood to say something about; never the words.
CREATE TABLE fact_erased (
    tenant  TEXT    NOT NULL CHECK (tenant <> ''),
    user    TEXT    NOT NULL CHECK (user <> ''),
    message BLOB    NOT NULL CHECK (length(message) = 16),
    about   INTEGER NOT NULL,
    PRIMARY KEY (tenant, user, message, about)
) STRICT, WITHOUT ROWID;
