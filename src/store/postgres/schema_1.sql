-- The first schema. Migrations go forward only; a change is a new file, never an edit of this one.
--
-- The tables are those of the SQLite store (see its schema files for what each is for), with three differences:
-- * Every key begins with the tenant, in `tenant` or, where that is not otherwise part of the row, in `home`. Both are filled in
--   from the transaction's setting, and row-level security compares them with it.
-- * Keys come from `next_key()`: time and a little chance, no sequence. They grow, they fit into 53 bits, and no node needs to
--   ask another for one.
-- * Free text is kept as bytes, because text here has no room for a zero byte. `convert_from(question, 'UTF8')` shows it.

-- Microseconds since 2026, times eight, with chance in the last three bits; on one connection always more than the last one.
CREATE FUNCTION next_key() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    made bigint := greatest(
        ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint - 1767225600000000) * 8 + floor(random() * 8)::bigint,
        coalesce(nullif(current_setting('recalld.last_key', true), ''), '0')::bigint + 1);
BEGIN
    PERFORM set_config('recalld.last_key', made::text, false);
    RETURN made;
END $$;

-- The tags of a topic, as SQLite has them.
CREATE FUNCTION json_each(tags text) RETURNS TABLE (value text) LANGUAGE sql IMMUTABLE AS $$
    SELECT json_array_elements_text(tags::json)
$$;

-- Processes that are at work; whoever was not seen for a minute is gone.
CREATE TABLE instance (
    id      text        PRIMARY KEY,
    seen_at timestamptz NOT NULL DEFAULT now()
);

-- Every tenant that was ever written for: what is done for all of them is done for one after the other.
CREATE TABLE known_tenant (
    name text COLLATE "C" PRIMARY KEY CHECK (name <> '')
);

CREATE TABLE tenant (
    name       text     COLLATE "C" PRIMARY KEY CHECK (name <> ''),
    settings   text     NOT NULL,
    ttl        bigint   CHECK (ttl = -1 OR ttl > 0),
    created_at bigint   NOT NULL,
    updated_at bigint   NOT NULL
);

CREATE TABLE api_key (
    id             text     COLLATE "C" PRIMARY KEY CHECK (length(id) = 12),
    name           text     NOT NULL,
    tenant         text     COLLATE "C" CHECK (tenant <> ''),
    "user"         text     COLLATE "C" CHECK ("user" <> ''),
    rights         text     NOT NULL CHECK (rights <> ''),
    trust_identity smallint NOT NULL CHECK (trust_identity IN (0, 1)),
    sealed         bytea    NOT NULL CHECK (length(sealed) = 32),
    created_at     bigint   NOT NULL,
    expires_at     bigint,
    revoked_at     bigint,
    replaced_by    text,
    CONSTRAINT a_user_has_a_tenant CHECK ("user" IS NULL OR tenant IS NOT NULL)
);

CREATE TABLE access (
    one     smallint PRIMARY KEY CHECK (one = 1),
    version bigint   NOT NULL,
    -- What keys are sealed with; every instance must have the same.
    secret  bytea
);
INSERT INTO access VALUES (1, 1);

CREATE TABLE recall_made_with (
    what text PRIMARY KEY,
    made text NOT NULL
);

CREATE TABLE recall_embedder (
    key bigint PRIMARY KEY DEFAULT next_key(),
    id  text   NOT NULL UNIQUE
);

CREATE TABLE session (
    tenant        text     COLLATE "C" NOT NULL DEFAULT current_setting('recalld.tenant') CHECK (tenant <> ''),
    key           bigint   NOT NULL DEFAULT next_key(),
    "user"        text     COLLATE "C" NOT NULL CHECK ("user" <> ''),
    id            bytea    NOT NULL CHECK (length(id) = 16),
    kind          text     NOT NULL CHECK (kind IN ('durable', 'ephemeral')),
    metadata      text     NOT NULL,
    ttl           bigint   CHECK (ttl = -1 OR ttl > 0),
    ttl_of_tenant smallint NOT NULL DEFAULT 0 CHECK (ttl_of_tenant IN (0, 1)),
    next_number   bigint   NOT NULL CHECK (next_number > 0),
    turns         integer  NOT NULL CHECK (turns >= 0),
    created_at    bigint   NOT NULL,
    updated_at    bigint   NOT NULL,
    last_accessed bigint   NOT NULL,
    history       text     NOT NULL DEFAULT 'server' CHECK (history IN ('server', 'client', 'windowed')),
    consolidated  bigint   NOT NULL DEFAULT 0,
    understood    bigint   NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, key),
    UNIQUE (tenant, "user", id)
);
CREATE INDEX session_by_user ON session (tenant, "user", key);
CREATE INDEX session_empty ON session (tenant, last_accessed) WHERE turns = 0;

CREATE TABLE turn (
    home        text     COLLATE "C" NOT NULL DEFAULT current_setting('recalld.tenant') CHECK (home <> ''),
    key         bigint   NOT NULL DEFAULT next_key(),
    session     bigint   NOT NULL,
    number      bigint   NOT NULL CHECK (number > 0),
    id          bytea    NOT NULL CHECK (length(id) = 16),
    status      text     NOT NULL CHECK (status IN ('pending', 'complete', 'partial', 'failed')),
    role        text     NOT NULL CHECK (role IN ('user', 'assistant', 'system', 'tool')),
    question    bytea    NOT NULL,
    answer      bytea,
    extra       text,
    metadata    text     NOT NULL,
    created_at  bigint   NOT NULL,
    answered_at bigint,
    checksum    bigint   NOT NULL,
    expires_at  bigint,
    superseded  smallint NOT NULL DEFAULT 0 CHECK (superseded IN (0, 1)),
    block       bigint,
    -- Which process answers it, while it is pending.
    owner       text     DEFAULT current_setting('recalld.instance', true),
    PRIMARY KEY (home, key),
    FOREIGN KEY (home, session) REFERENCES session (tenant, key),
    CONSTRAINT a_question_says_something CHECK (octet_length(question) > 0 OR extra IS NOT NULL),
    CONSTRAINT a_complete_turn_has_an_answer CHECK (status <> 'complete' OR answer IS NOT NULL)
);
CREATE UNIQUE INDEX turn_by_number ON turn (home, session, number DESC);
CREATE UNIQUE INDEX turn_by_id ON turn (home, id, session);
CREATE INDEX turn_by_age ON turn (home, created_at) WHERE expires_at IS NULL;
CREATE INDEX turn_by_expiry ON turn (home, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX turn_pending ON turn (home, key) WHERE status = 'pending';

CREATE TABLE place (
    home       text     COLLATE "C" NOT NULL DEFAULT current_setting('recalld.tenant') CHECK (home <> ''),
    turn       bigint   NOT NULL,
    parent     bigint   NOT NULL CHECK (parent >= 0),
    attempt    bigint   NOT NULL DEFAULT 0,
    revised    smallint NOT NULL DEFAULT 0 CHECK (revised IN (0, 1)),
    question   bytea    NOT NULL CHECK (length(question) = 16),
    answer     bytea    CHECK (length(answer) = 16),
    before     bytea    CHECK (length(before) = 16),
    chain      bytea    CHECK (length(chain) = 16),
    ids        text,
    open_calls text,
    PRIMARY KEY (home, turn),
    FOREIGN KEY (home, turn) REFERENCES turn (home, key) ON DELETE CASCADE
);
CREATE INDEX place_by_chain ON place (home, chain) WHERE chain IS NOT NULL;
CREATE INDEX place_by_before ON place (home, before, question) WHERE before IS NOT NULL;

CREATE TABLE revision (
    home       text   COLLATE "C" NOT NULL DEFAULT current_setting('recalld.tenant') CHECK (home <> ''),
    turn       bigint NOT NULL,
    attempt    bigint NOT NULL,
    status     text   NOT NULL CHECK (status IN ('complete', 'partial', 'failed')),
    messages   text   NOT NULL,
    answer     bytea  CHECK (length(answer) = 16),
    ids        text,
    created_at bigint NOT NULL,
    checksum   bigint NOT NULL,
    PRIMARY KEY (home, turn, attempt),
    FOREIGN KEY (home, turn) REFERENCES turn (home, key) ON DELETE CASCADE
);

CREATE TABLE recall_row (
    home text   COLLATE "C" NOT NULL DEFAULT current_setting('recalld.tenant') CHECK (home <> ''),
    turn bigint NOT NULL,
    id   bytea  NOT NULL CHECK (length(id) = 16),
    row  bytea  NOT NULL,
    PRIMARY KEY (home, turn),
    FOREIGN KEY (home, turn) REFERENCES turn (home, key) ON DELETE CASCADE
);

CREATE TABLE recall_vector (
    home     text   COLLATE "C" NOT NULL DEFAULT current_setting('recalld.tenant') CHECK (home <> ''),
    turn     bigint NOT NULL,
    embedder bigint NOT NULL REFERENCES recall_embedder (key),
    vectors  bytea  NOT NULL,
    PRIMARY KEY (home, turn),
    FOREIGN KEY (home, turn) REFERENCES turn (home, key) ON DELETE CASCADE
);

CREATE TABLE recall_trace (
    home    text   COLLATE "C" NOT NULL DEFAULT current_setting('recalld.tenant') CHECK (home <> ''),
    turn    bigint NOT NULL,
    session bigint NOT NULL,
    number  bigint NOT NULL,
    trace   bytea  NOT NULL,
    PRIMARY KEY (home, turn),
    FOREIGN KEY (home, turn) REFERENCES turn (home, key) ON DELETE CASCADE
);
CREATE INDEX recall_trace_by_number ON recall_trace (home, session, number);

-- Lists of what is to be done. They say which turn and whose, nothing of what was said, and every worker may see them.
CREATE TABLE recall_row_todo (
    home text   COLLATE "C" NOT NULL DEFAULT current_setting('recalld.tenant') CHECK (home <> ''),
    turn bigint NOT NULL,
    PRIMARY KEY (home, turn),
    FOREIGN KEY (home, turn) REFERENCES turn (home, key) ON DELETE CASCADE
);
CREATE INDEX recall_row_todo_by_turn ON recall_row_todo (turn);

CREATE TABLE recall_vector_todo (LIKE recall_row_todo INCLUDING ALL,
    FOREIGN KEY (home, turn) REFERENCES turn (home, key) ON DELETE CASCADE);
CREATE TABLE topic_todo (LIKE recall_row_todo INCLUDING ALL,
    FOREIGN KEY (home, turn) REFERENCES turn (home, key) ON DELETE CASCADE);
CREATE TABLE fact_todo (LIKE recall_row_todo INCLUDING ALL,
    FOREIGN KEY (home, turn) REFERENCES turn (home, key) ON DELETE CASCADE);

CREATE TABLE job (
    home       text     COLLATE "C" NOT NULL DEFAULT current_setting('recalld.tenant') CHECK (home <> ''),
    key        bigint   PRIMARY KEY DEFAULT next_key(),
    session    bigint   NOT NULL,
    kind       text     NOT NULL CHECK (kind <> ''),
    state      text     NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'running', 'dead')),
    attempts   bigint   NOT NULL DEFAULT 0,
    run_at     bigint   NOT NULL DEFAULT 0,
    fence      bigint   NOT NULL DEFAULT 0,
    again      smallint NOT NULL DEFAULT 0 CHECK (again IN (0, 1)),
    last_error text,
    created_at bigint   NOT NULL,
    -- Which process has it, while it runs.
    owner      text,
    UNIQUE (home, session, kind)
);
CREATE INDEX job_by_session ON job (session);
CREATE INDEX job_by_time ON job (run_at, key) WHERE state <> 'dead';

CREATE TABLE episode (
    tenant      text     COLLATE "C" NOT NULL DEFAULT current_setting('recalld.tenant') CHECK (tenant <> ''),
    key         bigint   NOT NULL DEFAULT next_key(),
    id          bytea    NOT NULL CHECK (length(id) = 16),
    "user"      text     COLLATE "C" NOT NULL CHECK ("user" <> ''),
    session     bytea    NOT NULL CHECK (length(session) = 16),
    session_key bigint   NOT NULL,
    level       text     NOT NULL CHECK (level IN ('stretch', 'hour', 'session')),
    first       bigint   NOT NULL CHECK (first > 0),
    last        bigint   NOT NULL CHECK (last >= first),
    weight      bigint   NOT NULL,
    begun_at    bigint   NOT NULL,
    ended_at    bigint   NOT NULL,
    summary     bytea    NOT NULL,
    embedder    text,
    vector      bytea,
    made_by     text     NOT NULL,
    version     bigint   NOT NULL CHECK (version > 0),
    stale       smallint NOT NULL DEFAULT 0 CHECK (stale IN (0, 1)),
    PRIMARY KEY (tenant, key)
);
CREATE UNIQUE INDEX episode_by_range ON episode (tenant, session_key, level, first);
CREATE INDEX episode_by_user ON episode (tenant, "user", key);
CREATE INDEX episode_by_session ON episode (tenant, "user", session, key);

CREATE TABLE topic (
    tenant       text             COLLATE "C" NOT NULL DEFAULT current_setting('recalld.tenant') CHECK (tenant <> ''),
    key          bigint           NOT NULL DEFAULT next_key(),
    "user"       text             COLLATE "C" NOT NULL CHECK ("user" <> ''),
    id           bytea            NOT NULL CHECK (length(id) = 16),
    title        bytea            NOT NULL,
    title_turn   bigint,
    summary      bytea,
    importance   double precision NOT NULL DEFAULT 1.0,
    accesses     bigint           NOT NULL DEFAULT 0 CHECK (accesses >= 0),
    tags         text             NOT NULL DEFAULT '[]',
    created_at   bigint           NOT NULL,
    last_used    bigint           NOT NULL,
    version      bigint           NOT NULL DEFAULT 0,
    stale        smallint         NOT NULL DEFAULT 0 CHECK (stale IN (0, 1)),
    forgotten_at bigint,
    merged_into  bigint,
    told         bigint           NOT NULL DEFAULT 0,
    told_by      text,
    title_knows  bigint,
    due          smallint         NOT NULL DEFAULT 0 CHECK (due IN (0, 1)),
    PRIMARY KEY (tenant, key),
    UNIQUE (tenant, "user", id),
    FOREIGN KEY (tenant, merged_into) REFERENCES topic (tenant, key) ON DELETE CASCADE
);
CREATE INDEX topic_by_user ON topic (tenant, "user", key);
CREATE INDEX topic_live ON topic (tenant, "user") WHERE forgotten_at IS NULL AND merged_into IS NULL;
CREATE INDEX topic_stale ON topic (tenant, key) WHERE stale = 1;
CREATE INDEX topic_merged ON topic (tenant, merged_into) WHERE merged_into IS NOT NULL;
CREATE INDEX topic_to_tell ON topic (tenant, "user", key) WHERE due = 1;

CREATE TABLE topic_sketch (
    home   text   COLLATE "C" NOT NULL DEFAULT current_setting('recalld.tenant') CHECK (home <> ''),
    topic  bigint NOT NULL,
    sketch bytea  NOT NULL,
    PRIMARY KEY (home, topic),
    FOREIGN KEY (home, topic) REFERENCES topic (tenant, key) ON DELETE CASCADE
);

CREATE TABLE topic_turn (
    home     text     COLLATE "C" NOT NULL DEFAULT current_setting('recalld.tenant') CHECK (home <> ''),
    turn     bigint   NOT NULL,
    topic    bigint   NOT NULL,
    messages integer  NOT NULL CHECK (messages >= 0),
    taken_in smallint NOT NULL DEFAULT 0 CHECK (taken_in IN (0, 1)),
    PRIMARY KEY (home, turn),
    FOREIGN KEY (home, turn) REFERENCES turn (home, key) ON DELETE CASCADE,
    FOREIGN KEY (home, topic) REFERENCES topic (tenant, key)
);
CREATE INDEX topic_turn_by_topic ON topic_turn (home, topic, turn, messages);
CREATE INDEX topic_turn_untaken ON topic_turn (home, topic, turn) WHERE taken_in = 0;

CREATE TABLE block (
    home     text     COLLATE "C" NOT NULL DEFAULT current_setting('recalld.tenant') CHECK (home <> ''),
    key      bigint   NOT NULL DEFAULT next_key(),
    session  bigint   NOT NULL,
    turns    integer  NOT NULL CHECK (turns > 0),
    thorough smallint NOT NULL DEFAULT 0 CHECK (thorough IN (0, 1)),
    bytes    bytea    NOT NULL,
    PRIMARY KEY (home, key),
    FOREIGN KEY (home, session) REFERENCES session (tenant, key) ON DELETE CASCADE
);
CREATE INDEX block_by_session ON block (home, session, key);
CREATE INDEX block_quick ON block (home, key) WHERE thorough = 0;

CREATE TABLE memory_spent (
    tenant       text   COLLATE "C" NOT NULL DEFAULT current_setting('recalld.tenant') CHECK (tenant <> ''),
    day          bigint NOT NULL,
    calls        bigint NOT NULL DEFAULT 0 CHECK (calls >= 0),
    tokens       bigint NOT NULL DEFAULT 0 CHECK (tokens >= 0),
    failures     bigint NOT NULL DEFAULT 0 CHECK (failures >= 0),
    fallbacks    bigint NOT NULL DEFAULT 0 CHECK (fallbacks >= 0),
    capped       bigint NOT NULL DEFAULT 0 CHECK (capped >= 0),
    last_failure bytea,
    PRIMARY KEY (tenant, day)
);

CREATE TABLE memory_answer (
    tenant     text   COLLATE "C" NOT NULL DEFAULT current_setting('recalld.tenant') CHECK (tenant <> ''),
    key        bigint NOT NULL DEFAULT next_key(),
    "user"     text   COLLATE "C" NOT NULL CHECK ("user" <> ''),
    session    bigint NOT NULL,
    topic      bigint,
    kind       text   NOT NULL,
    reason     bytea  NOT NULL,
    answer     bytea  NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (tenant, key),
    FOREIGN KEY (tenant, topic) REFERENCES topic (tenant, key) ON DELETE CASCADE
);
CREATE INDEX memory_answer_by_user ON memory_answer (tenant, "user", key);
CREATE INDEX memory_answer_by_session ON memory_answer (tenant, session);
CREATE INDEX memory_answer_by_topic ON memory_answer (tenant, topic) WHERE topic IS NOT NULL;

CREATE TABLE fact (
    tenant        text             COLLATE "C" NOT NULL DEFAULT current_setting('recalld.tenant') CHECK (tenant <> ''),
    key           bigint           NOT NULL DEFAULT next_key(),
    "user"        text             COLLATE "C" NOT NULL CHECK ("user" <> ''),
    id            bytea            NOT NULL CHECK (length(id) = 16),
    category      text             COLLATE "C" NOT NULL
        CHECK (category IN ('identity', 'preference', 'constraint', 'instruction')),
    name          bytea            NOT NULL CHECK (octet_length(name) > 0),
    path          bytea            NOT NULL,
    value         bytea            NOT NULL,
    confidence    double precision NOT NULL,
    importance    double precision NOT NULL,
    status        text             COLLATE "C" NOT NULL CHECK (status IN ('candidate', 'quarantined', 'provisional', 'active',
                                                          'superseded', 'retracted', 'expired')),
    valid_from    bigint           NOT NULL,
    valid_to      bigint,
    until_at      bigint,
    learned_at    bigint           NOT NULL,
    message       bytea            CHECK (length(message) = 16),
    session       bytea            CHECK (length(session) = 16),
    said_at       bigint           NOT NULL,
    quote         bytea            NOT NULL,
    last_said_at  bigint           NOT NULL,
    confirmations bigint           NOT NULL CHECK (confirmations >= 0),
    ended_by      bytea            CHECK (length(ended_by) = 16),
    ender         bigint,
    PRIMARY KEY (tenant, key),
    UNIQUE (tenant, "user", id)
);
CREATE UNIQUE INDEX fact_active ON fact (tenant, "user", category, path) WHERE status = 'active';
CREATE INDEX fact_by_name ON fact (tenant, "user", category, name);
CREATE INDEX fact_by_user ON fact (tenant, "user", key);
CREATE INDEX fact_over ON fact (tenant, "user") WHERE status IN ('superseded', 'retracted', 'expired');
CREATE INDEX fact_until ON fact (tenant, until_at) WHERE until_at IS NOT NULL AND status IN ('active', 'provisional');

CREATE TABLE fact_statement (
    tenant     text             COLLATE "C" NOT NULL DEFAULT current_setting('recalld.tenant') CHECK (tenant <> ''),
    key        bigint           NOT NULL DEFAULT next_key(),
    "user"     text             COLLATE "C" NOT NULL CHECK ("user" <> ''),
    id         bytea            NOT NULL CHECK (length(id) = 16),
    category   text             COLLATE "C" NOT NULL
        CHECK (category IN ('identity', 'preference', 'constraint', 'instruction')),
    name       bytea            NOT NULL CHECK (octet_length(name) > 0),
    path       bytea            NOT NULL,
    act        text             NOT NULL CHECK (act IN ('state', 'correct', 'end')),
    value      bytea            NOT NULL,
    confidence double precision NOT NULL,
    importance double precision NOT NULL,
    from_at    bigint,
    until_at   bigint,
    message    bytea            CHECK (length(message) = 16),
    session    bytea            CHECK (length(session) = 16),
    said_at    bigint           NOT NULL,
    quote      bytea            NOT NULL,
    maker      text             NOT NULL CHECK (maker IN ('builtin', 'model', 'person')),
    standing   text             NOT NULL CHECK (standing IN ('active', 'provisional', 'quarantined')),
    learned_at bigint           NOT NULL,
    also       bigint           NOT NULL DEFAULT 0,
    shown      smallint         NOT NULL DEFAULT 1 CHECK (shown IN (0, 1)),
    fact       bigint,
    PRIMARY KEY (tenant, key),
    UNIQUE (tenant, "user", id),
    FOREIGN KEY (tenant, fact) REFERENCES fact (tenant, key) ON DELETE SET NULL (fact)
);
CREATE INDEX fact_statement_by_name ON fact_statement (tenant, "user", category, name);
CREATE INDEX fact_statement_by_message ON fact_statement (tenant, "user", message) WHERE message IS NOT NULL;
CREATE INDEX fact_statement_by_session ON fact_statement (tenant, "user", session) WHERE session IS NOT NULL;
CREATE INDEX fact_statement_by_time ON fact_statement (tenant, "user", learned_at);
CREATE INDEX fact_statement_by_fact ON fact_statement (tenant, fact) WHERE fact IS NOT NULL;

CREATE TABLE fact_undo (
    tenant   text     COLLATE "C" NOT NULL DEFAULT current_setting('recalld.tenant') CHECK (tenant <> ''),
    key      bigint   NOT NULL DEFAULT next_key(),
    "user"   text     COLLATE "C" NOT NULL CHECK ("user" <> ''),
    id       bytea    NOT NULL CHECK (length(id) = 16),
    at       bigint   NOT NULL,
    in_force smallint NOT NULL CHECK (in_force IN (0, 1)),
    PRIMARY KEY (tenant, key),
    UNIQUE (tenant, "user", id)
);

CREATE TABLE fact_event (
    home    text   COLLATE "C" NOT NULL DEFAULT current_setting('recalld.tenant') CHECK (home <> ''),
    key     bigint NOT NULL DEFAULT next_key(),
    fact    bigint NOT NULL,
    at      bigint NOT NULL,
    what    text   NOT NULL CHECK (what <> ''),
    status  text   NOT NULL CHECK (status <> ''),
    cause   text   NOT NULL CHECK (cause <> ''),
    message bytea  CHECK (length(message) = 16),
    undo    bigint,
    PRIMARY KEY (home, key),
    FOREIGN KEY (home, fact) REFERENCES fact (tenant, key) ON DELETE CASCADE,
    FOREIGN KEY (home, undo) REFERENCES fact_undo (tenant, key) ON DELETE SET NULL (undo)
);
CREATE INDEX fact_event_by_fact ON fact_event (home, fact, at);

CREATE TABLE fact_undone (
    home text   COLLATE "C" NOT NULL DEFAULT current_setting('recalld.tenant') CHECK (home <> ''),
    undo bigint NOT NULL,
    what bytea  NOT NULL CHECK (length(what) = 16),
    PRIMARY KEY (home, undo, what),
    FOREIGN KEY (home, undo) REFERENCES fact_undo (tenant, key) ON DELETE CASCADE
);
CREATE INDEX fact_undone_by_what ON fact_undone (home, what);

CREATE TABLE fact_refused (
    home   text    COLLATE "C" NOT NULL DEFAULT current_setting('recalld.tenant') CHECK (home <> ''),
    turn   bigint  NOT NULL,
    maker  text    NOT NULL,
    reason text    COLLATE "C" NOT NULL CHECK (reason <> ''),
    tenant text    COLLATE "C" NOT NULL,
    "user" text    COLLATE "C" NOT NULL,
    count  integer NOT NULL CHECK (count > 0),
    PRIMARY KEY (home, turn, maker, reason),
    FOREIGN KEY (home, turn) REFERENCES turn (home, key) ON DELETE CASCADE
);
CREATE INDEX fact_refused_by_user ON fact_refused (home, tenant, "user", reason, count);

-- What changed for whoever holds a scope in memory, in this process or another: the last changes of each user, numbered.
CREATE TABLE scope_state (
    tenant      text   COLLATE "C" NOT NULL,
    "user"      text   COLLATE "C" NOT NULL,
    version     bigint NOT NULL,
    -- Whoever last looked before this has missed something.
    known_since bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, "user")
);

CREATE TABLE scope_change (
    tenant  text        COLLATE "C" NOT NULL,
    "user"  text        COLLATE "C" NOT NULL,
    version bigint      NOT NULL,
    at      timestamptz NOT NULL DEFAULT now(),
    id      bytea       NOT NULL,
    -- The row of an episode; a turn has none.
    episode bigint,
    PRIMARY KEY (tenant, "user", version)
);

-- Of a thousand changes the oldest go; whoever missed them reads everything again.
CREATE FUNCTION note(of_tenant text, of_user text, of_id bytea, of_episode bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    now_at bigint;
BEGIN
    INSERT INTO scope_state (tenant, "user", version) VALUES (of_tenant, of_user, 1)
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

CREATE FUNCTION note_turn(of_tenant text, of_session bigint, of_id bytea) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM note(tenant, "user", of_id, NULL) FROM session WHERE tenant = of_tenant AND key = of_session;
END $$;

-- Hidden, or shown again: what was derived from the turn goes, and it is on the lists if it is shown.
CREATE FUNCTION turn_shifted() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    is_shown boolean := new.status IN ('complete', 'partial') AND new.superseded = 0;
BEGIN
    DELETE FROM recall_row WHERE home = new.home AND turn = new.key;
    DELETE FROM recall_vector WHERE home = new.home AND turn = new.key;
    DELETE FROM recall_row_todo WHERE home = new.home AND turn = new.key;
    DELETE FROM recall_vector_todo WHERE home = new.home AND turn = new.key;
    DELETE FROM topic_turn WHERE home = new.home AND turn = new.key;
    DELETE FROM topic_todo WHERE home = new.home AND turn = new.key;
    IF is_shown THEN
        INSERT INTO recall_row_todo (home, turn) VALUES (new.home, new.key);
        INSERT INTO topic_todo (home, turn) VALUES (new.home, new.key);
    END IF;
    IF new.role = 'user' THEN
        INSERT INTO fact_todo (home, turn) VALUES (new.home, new.key) ON CONFLICT DO NOTHING;
    END IF;
    IF new.status IN ('complete', 'partial') THEN
        PERFORM note_turn(new.home, new.session, new.id);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER turn_shifted AFTER UPDATE OF superseded ON turn FOR EACH ROW
    WHEN (old.superseded <> new.superseded) EXECUTE FUNCTION turn_shifted();

CREATE FUNCTION turn_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM note_turn(old.home, old.session, old.id);
    RETURN old;
END $$;
CREATE TRIGGER turn_removed BEFORE DELETE ON turn FOR EACH ROW
    WHEN (old.status IN ('complete', 'partial') AND old.superseded = 0) EXECUTE FUNCTION turn_removed();

-- Whoever begins to answer a turn, or to do a job, is the one who does.
CREATE FUNCTION owned() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    new.owner := current_setting('recalld.instance', true);
    RETURN new;
END $$;
CREATE TRIGGER turn_owned BEFORE UPDATE OF status ON turn FOR EACH ROW
    WHEN (new.status = 'pending') EXECUTE FUNCTION owned();
CREATE TRIGGER job_owned BEFORE UPDATE OF fence ON job FOR EACH ROW
    WHEN (new.state = 'running') EXECUTE FUNCTION owned();

CREATE FUNCTION episode_told() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF tg_op <> 'DELETE' THEN
        PERFORM note(new.tenant, new."user", new.id, new.key);
    END IF;
    IF tg_op = 'DELETE' OR (tg_op = 'UPDATE' AND old.id <> new.id) THEN
        PERFORM note(old.tenant, old."user", old.id, old.key);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER episode_told AFTER INSERT OR UPDATE OR DELETE ON episode FOR EACH ROW EXECUTE FUNCTION episode_told();

-- A turn leaves its topic, however that comes: what tells of it goes at once, the rest is made anew, and an empty topic goes.
CREATE FUNCTION topic_left() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE topic
    SET version = version + 1,
        stale = CASE WHEN stale = 1 OR old.taken_in = 1 OR title_turn IS NOT DISTINCT FROM old.turn
                          OR coalesce(old.turn <= title_knows, false) THEN 1 ELSE 0 END,
        title = CASE WHEN title_turn IS NOT DISTINCT FROM old.turn OR coalesce(old.turn <= title_knows, false)
                     THEN '' ELSE title END,
        title_knows = CASE WHEN coalesce(old.turn <= title_knows, false) THEN NULL ELSE title_knows END,
        summary = CASE WHEN old.turn <= told THEN NULL ELSE summary END,
        told_by = CASE WHEN old.turn <= told THEN NULL ELSE told_by END,
        told = CASE WHEN old.turn <= told THEN 0 ELSE told END
    WHERE tenant = old.home AND key = old.topic;
    DELETE FROM memory_answer WHERE tenant = old.home AND topic = old.topic;
    DELETE FROM topic_sketch WHERE home = old.home AND topic = old.topic AND old.taken_in = 1;
    DELETE FROM topic WHERE tenant = old.home AND key = old.topic
        AND NOT EXISTS (SELECT 1 FROM topic_turn WHERE home = old.home AND topic = old.topic);
    RETURN NULL;
END $$;
CREATE TRIGGER topic_left AFTER DELETE ON topic_turn FOR EACH ROW EXECUTE FUNCTION topic_left();
