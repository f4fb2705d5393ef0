-- Tenants that somebody wrote something down about, and the keys that open the doors.

CREATE TABLE tenant (
    name       TEXT    PRIMARY KEY CHECK (name <> ''),
    -- What it has of its own, by name.
    settings   TEXT    NOT NULL CHECK (json_valid(settings) AND json_type(settings) = 'object'),
    -- The TTL among them, as in `session`: its sessions take it over when they begin, and when it changes.
    ttl        INTEGER CHECK (ttl = -1 OR ttl > 0),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE api_key (
    id             TEXT    PRIMARY KEY CHECK (length(id) = 12),
    name           TEXT    NOT NULL,
    -- NULL is any.
    tenant         TEXT    CHECK (tenant <> ''),
    user           TEXT    CHECK (user <> ''),
    -- Words with commas between them.
    rights         TEXT    NOT NULL CHECK (rights <> ''),
    trust_identity INTEGER NOT NULL CHECK (trust_identity IN (0, 1)),
    -- The HMAC of the whole key; the secret itself is not kept.
    sealed         BLOB    NOT NULL CHECK (length(sealed) = 32),
    created_at     INTEGER NOT NULL,
    expires_at     INTEGER,
    revoked_at     INTEGER,
    replaced_by    TEXT,
    CONSTRAINT a_user_has_a_tenant CHECK (user IS NULL OR tenant IS NOT NULL)
) STRICT, WITHOUT ROWID;

-- Grows with every change of the two tables above, so that whoever holds them in memory knows when to read again.
CREATE TABLE access (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    version INTEGER NOT NULL
) STRICT;
INSERT INTO access VALUES (1, 1);

-- Whether a session's TTL is its tenant's, not its own. One that has none follows its tenant, too.
ALTER TABLE session ADD COLUMN ttl_of_tenant INTEGER NOT NULL DEFAULT 0 CHECK (ttl_of_tenant IN (0, 1));
