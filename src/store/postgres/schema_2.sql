-- What tenants know, the end of a session, and the webhooks that tell of it; as in schema_11.sql and schema_12.sql of the SQLite store.

ALTER TABLE session ADD COLUMN ended_at bigint;

CREATE TABLE knowledge (
    tenant  text   COLLATE "C" PRIMARY KEY CHECK (tenant <> ''),
    version bigint NOT NULL CHECK (version > 0)
);

CREATE TABLE document (
    tenant     text    COLLATE "C" NOT NULL DEFAULT current_setting('recalld.tenant') CHECK (tenant <> ''),
    key        bigint  NOT NULL DEFAULT next_key(),
    id         bytea   NOT NULL CHECK (length(id) = 16),
    name       bytea   NOT NULL CHECK (octet_length(name) > 0),
    title      bytea   NOT NULL,
    kind       text    NOT NULL,
    version    bigint  NOT NULL CHECK (version > 0),
    mark       bigint  NOT NULL,
    bytes      integer NOT NULL CHECK (bytes >= 0),
    checksum   bigint  NOT NULL,
    created_at bigint  NOT NULL,
    updated_at bigint  NOT NULL,
    PRIMARY KEY (tenant, key),
    UNIQUE (tenant, id),
    CONSTRAINT one_of_each_name UNIQUE (tenant, name)
);

CREATE TABLE original (
    home     text   COLLATE "C" NOT NULL DEFAULT current_setting('recalld.tenant') CHECK (home <> ''),
    document bigint NOT NULL,
    bytes    bytea  NOT NULL,
    PRIMARY KEY (home, document),
    FOREIGN KEY (home, document) REFERENCES document (tenant, key) ON DELETE CASCADE
);

CREATE TABLE passage (
    home     text   COLLATE "C" NOT NULL DEFAULT current_setting('recalld.tenant') CHECK (home <> ''),
    document bigint NOT NULL,
    number   bigint NOT NULL CHECK (number > 0),
    heading  bytea  NOT NULL,
    place    bytea  NOT NULL,
    text     bytea  NOT NULL CHECK (octet_length(text) > 0),
    tokens   bigint NOT NULL,
    embedder text   COLLATE "C",
    vector   bytea,
    PRIMARY KEY (home, document, number),
    FOREIGN KEY (home, document) REFERENCES document (tenant, key) ON DELETE CASCADE,
    CONSTRAINT a_vector_has_a_maker CHECK ((embedder IS NULL) = (vector IS NULL))
);
CREATE INDEX passage_embedder ON passage (home, embedder);

CREATE TABLE outbox (
    tenant     text   COLLATE "C" NOT NULL CHECK (tenant <> ''),
    key        bigint NOT NULL DEFAULT next_key(),
    id         text   COLLATE "C" NOT NULL,
    "user"     text   COLLATE "C",
    session    text   NOT NULL,
    reason     text   NOT NULL,
    body       bytea  NOT NULL,
    state      text   NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'running', 'dead')),
    attempts   bigint NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    run_at     bigint NOT NULL DEFAULT 0,
    fence      bigint NOT NULL DEFAULT 0,
    last_error bytea,
    created_at bigint NOT NULL,
    -- Which process sends it, while it runs.
    owner      text,
    PRIMARY KEY (tenant, key),
    UNIQUE (tenant, id)
);
CREATE INDEX outbox_due ON outbox (run_at, key) WHERE state <> 'dead';
CREATE INDEX outbox_of_tenant ON outbox (tenant, state, key);
CREATE TRIGGER outbox_owned BEFORE UPDATE OF fence ON outbox FOR EACH ROW
    WHEN (new.state = 'running') EXECUTE FUNCTION owned();
