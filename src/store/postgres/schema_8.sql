-- What requests with an `Idempotency-Key` made; as in schema_18.sql of the SQLite store.

CREATE TABLE idempotent_request (
    tenant     text   COLLATE "C" NOT NULL DEFAULT current_setting('recalld.tenant') CHECK (tenant <> ''),
    key        bigint NOT NULL DEFAULT next_key(),
    "user"     text   COLLATE "C" NOT NULL CHECK ("user" <> ''),
    hash       bytea  NOT NULL CHECK (length(hash) = 32),
    content    bytea  NOT NULL CHECK (length(content) = 32),
    made       text   NOT NULL,
    expires_at bigint NOT NULL,
    PRIMARY KEY (tenant, key),
    UNIQUE (tenant, "user", hash)
);
CREATE INDEX idempotent_request_by_user ON idempotent_request (tenant, "user", key);
CREATE INDEX idempotent_request_over ON idempotent_request (tenant, expires_at);
-- Statistics repeat values of columns.
ALTER TABLE idempotent_request ALTER COLUMN "user" SET STATISTICS 0, ALTER COLUMN hash SET STATISTICS 0,
    ALTER COLUMN content SET STATISTICS 0, ALTER COLUMN made SET STATISTICS 0;
