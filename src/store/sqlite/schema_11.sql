-- What tenants know: documents, the passages they were cut into, and the files as they came.

-- Grows with every change of a tenant's knowledge, so that whoever holds it in memory knows when to read again.
CREATE TABLE knowledge (
    tenant  TEXT    PRIMARY KEY CHECK (tenant <> ''),
    version INTEGER NOT NULL CHECK (version > 0)
) STRICT, WITHOUT ROWID;

CREATE TABLE document (
    key        INTEGER PRIMARY KEY,
    tenant     TEXT    NOT NULL CHECK (tenant <> ''),
    id         BLOB    NOT NULL UNIQUE CHECK (length(id) = 16),
    name       TEXT    NOT NULL CHECK (name <> ''),
    title      TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    version    INTEGER NOT NULL CHECK (version > 0),
    -- The tenant's version when it last changed, vectors included.
    mark       INTEGER NOT NULL,
    bytes      INTEGER NOT NULL CHECK (bytes >= 0),
    -- xxh3 of the original: the same file again is no new version.
    checksum   INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    CONSTRAINT one_of_each_name UNIQUE (tenant, name)
) STRICT;

-- In a table of its own, so that lists do not read past files.
CREATE TABLE original (
    document INTEGER PRIMARY KEY REFERENCES document (key) ON DELETE CASCADE,
    bytes    BLOB    NOT NULL
) STRICT;

CREATE TABLE passage (
    document INTEGER NOT NULL REFERENCES document (key) ON DELETE CASCADE,
    number   INTEGER NOT NULL CHECK (number > 0),
    heading  TEXT    NOT NULL,
    place    TEXT    NOT NULL,
    text     TEXT    NOT NULL CHECK (text <> ''),
    tokens   INTEGER NOT NULL,
    -- Who made the vector; both are NULL until there is one.
    embedder TEXT,
    vector   BLOB,
    PRIMARY KEY (document, number),
    CONSTRAINT a_vector_has_a_maker CHECK ((embedder IS NULL) = (vector IS NULL))
) STRICT, WITHOUT ROWID;

-- To find those without a vector of today's embedder without reading all the others.
CREATE INDEX passage_embedder ON passage (embedder);
