//! What the statements in this folder are run with. Every file that says nothing of SQLite's own takes its words from here,
//! so that it can be compiled for another database as well (see `store/postgres`).

pub(super) use rusqlite::types::ValueRef;
pub(super) use rusqlite::{Connection, Error, OptionalExtension, Params, Result, Row, ToSql, params};

/// Bytes of everything that is kept.
pub(super) const BYTES: &str = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";

/// Everything that belongs to a tenant says so in a column of this name; a table that is added later is found, too.
pub(super) const TABLES_WITH_TENANTS: &str = "SELECT s.name FROM sqlite_schema AS s JOIN pragma_table_info(s.name) AS c
     WHERE s.type = 'table' AND c.name = 'tenant' AND s.name <> 'session' AND s.sql NOT LIKE 'CREATE VIRTUAL%'";

/// The same for users.
pub(super) const TABLES_WITH_USERS: &str = "SELECT s.name FROM sqlite_schema AS s JOIN pragma_table_info(s.name) AS c
     WHERE s.type = 'table' AND c.name = 'user' ORDER BY s.name";

/// Everybody who may have something.
pub(super) const TENANTS: &str =
    "SELECT tenant FROM session UNION SELECT tenant FROM episode UNION SELECT tenant FROM topic
     UNION SELECT tenant FROM fact UNION SELECT tenant FROM fact_statement UNION SELECT tenant FROM fact_undo
     UNION SELECT tenant FROM memory_answer UNION SELECT tenant FROM memory_spent UNION SELECT tenant FROM document
     UNION SELECT tenant FROM knowledge UNION SELECT tenant FROM idempotent_request UNION SELECT tenant FROM outbox UNION SELECT name FROM tenant
     UNION SELECT tenant FROM api_key WHERE tenant IS NOT NULL";

/// The job that is to be done first; a file needs no word of whose it is.
pub(super) const FIRST_DUE: &str =
    "SELECT key, '' FROM job WHERE state <> 'dead' AND run_at <= ?1 ORDER BY run_at, key LIMIT 1";

/// The same for whoever takes it: there is one writer.
pub(super) const TAKE_FIRST_DUE: &str = FIRST_DUE;

/// Frees the jobs that were being done. Whoever opens a file is alone with it.
pub(super) const RELEASE: &str = "UPDATE job SET state = 'queued', run_at = 0 WHERE state = 'running'";

/// The same for webhooks that were being sent.
pub(super) const RELEASE_PARCELS: &str = "UPDATE outbox SET state = 'queued', run_at = 0 WHERE state = 'running'";

/// What is said behind a query for whoever takes what it finds: there is one writer.
pub(super) const SKIPPING_TAKEN: &str = "";

/// Turns that nobody will answer any more, likewise.
pub(super) const ABANDONED: &str = "turn.status = 'pending'";

/// Turns of another process that is gone: nobody else works on a file.
pub(super) const DESERTED: &str = "FALSE";

/// Removes the values that SQLite took down to plan queries by: names of people may be among them.
pub(super) fn forget_samples(db: &Connection) -> std::result::Result<(), crate::store::StoreError> {
    let meaning = |error: Error| super::connect::meaning(&error);
    let known = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_stat4')";
    if db.query_row(known, [], |row| row.get(0)).map_err(meaning)? {
        db.execute("DELETE FROM sqlite_stat4", []).map_err(meaning)?;
    }
    Ok(())
}

/// Removes the name of a tenant that is gone; in a file no other row has it.
pub(super) fn forget_tenant(_: &Connection, _tenant: &str) -> std::result::Result<(), crate::store::StoreError> {
    Ok(())
}

/// Notes in the book that an erasure was carried out; a file's book is followed by number.
pub(super) fn erasure_done(_: &Connection, _line: u64) -> std::result::Result<(), crate::store::StoreError> {
    Ok(())
}

/// Gives back the room that rows left when they became shorter. SQLite joins pages that are nearly empty when a row leaves one, and
/// never when a row shrinks: so each leaves for a moment, under a number that nobody has, and comes back among its neighbours.
/// What refers to it is looked at when all are back.
pub(super) fn close_ranks(
    db: &Connection,
    turns: impl Iterator<Item = i64>,
) -> std::result::Result<(), crate::store::StoreError> {
    let meaning = |error: Error| super::connect::meaning(&error);
    db.execute_batch("PRAGMA defer_foreign_keys = ON").map_err(meaning)?;
    let mut turn_over = db.prepare_cached("UPDATE turn SET key = -key WHERE key = ?1").map_err(meaning)?;
    for key in turns {
        turn_over.execute([key]).map_err(meaning)?;
        turn_over.execute([-key]).map_err(meaning)?;
    }
    db.execute_batch("PRAGMA defer_foreign_keys = OFF").map_err(meaning)
}

/// Runs a statement of whose answer nothing is needed.
pub(super) fn send(db: &Connection, sql: &str, values: impl Params) -> Result<()> {
    db.prepare_cached(sql)?.execute(values).map(drop)
}

/// Begins to look at a tenant's rows; in a file they are all in sight.
pub(super) fn enter(_: &Connection, _tenant: &str) -> std::result::Result<(), crate::store::StoreError> {
    Ok(())
}
