-- Passages of tenants that know too much to be held in memory, as the database searches them. Made where pgvector is installed; everything
-- in here is derived and may be dropped at any time.

-- Vectors lay in the graph as they are; it finds more of the nearest without what all have in common. They are made anew, in another table:
-- an older version that still runs beside this one must not put its own in.
DO $$
BEGIN
    IF to_regclass(current_schema() || '.passage_vector') IS NOT NULL THEN
        DROP TABLE passage_vector;
        DROP TABLE knowledge_shelf;
    END IF;
END $$;

-- Which tenants are searched here, and what their passages are like all together.
CREATE TABLE IF NOT EXISTS knowledge_shelf (
    home     text   COLLATE "C" PRIMARY KEY DEFAULT current_setting('recalld.tenant') CHECK (home <> '')
        REFERENCES knowledge ON DELETE CASCADE,
    -- The version of the tenant's knowledge that is ready as a whole.
    version  bigint NOT NULL,
    passages bigint NOT NULL,
    words    bigint NOT NULL
);

-- The words of a passage. A lexeme is the hash of a word and of its tenant, so that tenants share no list in the index.
CREATE TABLE IF NOT EXISTS passage_words (
    home     text     COLLATE "C" NOT NULL DEFAULT current_setting('recalld.tenant') CHECK (home <> ''),
    document bigint   NOT NULL,
    number   bigint   NOT NULL,
    length   integer  NOT NULL,
    words    tsvector NOT NULL,
    -- How often each is there: four bytes of its hash, one of the count.
    counts   bytea    NOT NULL,
    PRIMARY KEY (home, document, number),
    FOREIGN KEY (home, document, number) REFERENCES passage (home, document, number) ON DELETE CASCADE
);
CREATE INDEX IF NOT EXISTS passage_words_found ON passage_words USING gin (words) WITH (fastupdate = off);

-- What the vectors of a tenant's passages have in common, by who made them. It never changes while there are vectors: it is taken from
-- each before that is kept, which changes no order by inner product, because every product with a question loses the same.
CREATE TABLE IF NOT EXISTS knowledge_centre (
    home     text   COLLATE "C" NOT NULL DEFAULT current_setting('recalld.tenant') CHECK (home <> '')
        REFERENCES knowledge ON DELETE CASCADE,
    embedder text   COLLATE "C" NOT NULL,
    vector   vector NOT NULL,
    PRIMARY KEY (home, embedder)
);

-- What a passage means, without what all have in common. A graph has vectors of one length, so there is one for each length that is in
-- use.
CREATE TABLE IF NOT EXISTS passage_meaning (
    home       text     COLLATE "C" NOT NULL DEFAULT current_setting('recalld.tenant') CHECK (home <> ''),
    document   bigint   NOT NULL,
    number     bigint   NOT NULL,
    embedder   text     COLLATE "C" NOT NULL,
    dimensions integer  NOT NULL,
    -- Some stand for all where only the middle is asked for.
    sampled    boolean  NOT NULL,
    vector     halfvec  NOT NULL,
    PRIMARY KEY (home, document, number),
    FOREIGN KEY (home, document, number) REFERENCES passage_words (home, document, number) ON DELETE CASCADE
);
CREATE INDEX IF NOT EXISTS passage_meaning_sample ON passage_meaning (home) WHERE sampled;

-- What a document calls itself is searched with each of its passages.
CREATE OR REPLACE FUNCTION document_renamed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM passage_words WHERE home = new.tenant AND document = new.key;
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS document_renamed ON document;
CREATE TRIGGER document_renamed AFTER UPDATE OF title ON document FOR EACH ROW
    WHEN (old.title IS DISTINCT FROM new.title) EXECUTE FUNCTION document_renamed();

-- Searching by words. With row-level security in the way the index would be of no use: no condition of a query may be looked at before
-- the policy but those that can tell nobody anything, and this is none. So it is done here, with the rights of the tables' owner, and whoever
-- asks is shown the transaction's tenant's passages, whatever is asked.
CREATE OR REPLACE FUNCTION words_counted(queries text, most bigint) RETURNS SETOF bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT (SELECT count(*) FROM (SELECT 1 FROM passage_words
                WHERE words @@ query::tsquery AND home = current_setting('recalld.tenant') LIMIT most) AS few)
    FROM unnest(string_to_array(queries, ' ')) WITH ORDINALITY AS asked (query, place) ORDER BY place
$$;

-- Those that have any of the words sought, by what the words that they have are worth.
CREATE OR REPLACE FUNCTION words_found(
    sought tsquery, queries tsquery[], worth double precision[], most bigint, best bigint
) RETURNS TABLE (found_document bigint, found_number bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT document, number FROM (SELECT document, number, words FROM passage_words
        WHERE words @@ sought AND home = current_setting('recalld.tenant') LIMIT most) AS found
    ORDER BY (SELECT sum(weight) FROM unnest(queries, worth) AS asked (query, weight) WHERE words @@ query)
        DESC NULLS LAST, document, number LIMIT best
$$;
