-- What was erased, and what must not come back; as in schema_14.sql of the SQLite store, and its book.

-- The book of what was erased, without content and without names.
CREATE TABLE erased (
    id   bigint   PRIMARY KEY,
    at   bigint   NOT NULL,
    kind text     NOT NULL,
    mark bytea    NOT NULL CHECK (length(mark) = 16),
    -- Whether it was carried out; a process may end half-way.
    done smallint NOT NULL DEFAULT 0 CHECK (done IN (0, 1))
);

-- The key of the marks.
ALTER TABLE access ADD COLUMN erased_key bytea;

CREATE TABLE fact_erased (
    tenant  text   COLLATE "C" NOT NULL DEFAULT current_setting('recalld.tenant') CHECK (tenant <> ''),
    "user"  text   COLLATE "C" NOT NULL CHECK ("user" <> ''),
    message bytea  NOT NULL CHECK (length(message) = 16),
    about   bigint NOT NULL,
    PRIMARY KEY (tenant, "user", message, about)
);

-- A user who was erased and comes back is never taken for the one they were: versions begin with the time.
CREATE OR REPLACE FUNCTION note(of_tenant text, of_user text, of_id bytea, of_episode bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    now_at bigint;
BEGIN
    INSERT INTO scope_state (tenant, "user", version)
        -- A little behind a multiple of 64, so that the first changes are not dropped at once.
        VALUES (of_tenant, of_user, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint / 64 * 64 + 1)
        ON CONFLICT (tenant, "user") DO UPDATE SET version = scope_state.version + 1
        RETURNING version INTO now_at;
    INSERT INTO scope_change (tenant, "user", version, id, episode)
        VALUES (of_tenant, of_user, now_at, of_id, of_episode);
    IF now_at % 64 = 0 THEN
        UPDATE scope_state SET known_since = greatest(known_since, now_at - 1024)
            WHERE tenant = of_tenant AND "user" = of_user;
        DELETE FROM scope_change
            WHERE tenant = of_tenant AND "user" = of_user AND version <= now_at - 1024;
    END IF;
END $$;

-- Statistics repeat values of columns: what people said, and their names, must not be kept there when the rows are gone.
DO $$
DECLARE
    free record;
BEGIN
    FOR free IN
        SELECT c.table_name, c.column_name FROM information_schema.columns AS c
        JOIN information_schema.tables AS t USING (table_schema, table_name)
        WHERE c.table_schema = current_schema() AND t.table_type = 'BASE TABLE'
          AND (c.column_name = 'user' OR (c.data_type = 'bytea' AND c.column_name <> 'id')
               OR (c.data_type = 'text' AND c.column_name IN
                   ('extra', 'metadata', 'messages', 'ids', 'open_calls', 'last_error', 'session', 'tags', 'settings', 'name')))
    LOOP
        EXECUTE format('ALTER TABLE %I ALTER COLUMN %I SET STATISTICS 0', free.table_name, free.column_name);
    END LOOP;
EXCEPTION WHEN insufficient_privilege THEN NULL;
END $$;
