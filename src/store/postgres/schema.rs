//! The schema: what makes it, what brings it up to date, and who may see which rows.
//!
//! Several processes may start at once: whoever migrates holds a lock, the others find it done. Nothing here is part of a
//! request.

use super::connect::meaning;
use super::shelf;
use super::sql::Connection;
use crate::store::StoreError;

/// Each entry brings a database from version `index` to `index + 1`. Entries are never edited.
const MIGRATIONS: [&str; 8] = [
    include_str!("schema_1.sql"),
    include_str!("schema_2.sql"),
    include_str!("schema_3.sql"),
    include_str!("schema_4.sql"),
    // Blocks of version 3, which binaries of before would take for damaged ones.
    "",
    include_str!("schema_6.sql"),
    include_str!("schema_7.sql"),
    include_str!("schema_8.sql"),
];

/// The schema version that this binary writes.
pub(super) const SCHEMA_VERSION: i64 = MIGRATIONS.len() as i64;

/// Whoever serves is this role, which owns nothing and which row-level security binds.
pub(super) const RUNTIME_ROLE: &str = "recalld_runtime";

/// Tables whose rows belong to a tenant by `home`.
pub(super) const AT_HOME: [&str; 13] = [
    "turn",
    "place",
    "revision",
    "recall_row",
    "recall_vector",
    "recall_trace",
    "topic_sketch",
    "topic_turn",
    "block",
    "fact_event",
    "fact_undone",
    "original",
    "passage",
];

/// Tables whose rows belong to a tenant by `tenant`.
pub(super) const BY_TENANT: [&str; 14] = [
    "session",
    "episode",
    "topic",
    "memory_spent",
    "memory_answer",
    "fact",
    "fact_statement",
    "fact_undo",
    "fact_erased",
    "idempotent_request",
    "scope_state",
    "scope_change",
    "knowledge",
    "document",
];

/// The version of a schema; 0 where there is none.
pub(super) fn version(db: &Connection, schema: &str) -> Result<i64, StoreError> {
    let sql = "SELECT to_regclass(?1 || '.schema_version') IS NOT NULL";
    if !db.query_row(sql, [schema], |row| row.get::<_, bool>(0)).map_err(|error| meaning(&error))? {
        return Ok(0);
    }
    let sql = format!("SELECT version FROM {schema}.schema_version");
    db.query_row(&sql, [], |row| row.get(0)).map_err(|error| meaning(&error))
}

/// Makes the schema, or brings it up to date, if it is not. Answers the version it had, and whether it can be searched now.
/// Looking needs no rights but those to look; only what is missing does.
pub(super) fn bring_up_to_date(db: &Connection, schema: &str) -> Result<(i64, bool), StoreError> {
    let found = version(db, schema)?;
    if is_due(db, schema, found)? {
        migrate(db, schema)?;
    }
    Ok((found, shelf::is_there(db, schema)?))
}

fn migrate(db: &Connection, schema: &str) -> Result<i64, StoreError> {
    db.batch("BEGIN").map_err(|error| meaning(&error))?;
    let done = migrate_locked(db, schema).and_then(|before| {
        db.batch("COMMIT").map_err(|error| meaning(&error))?;
        Ok(before)
    });
    if done.is_err() {
        // The connection may be gone; then so is the transaction.
        let _ = db.batch("ROLLBACK");
    }
    done
}

fn migrate_locked(db: &Connection, schema: &str) -> Result<i64, StoreError> {
    let lock = "SELECT 1 FROM pg_advisory_xact_lock(hashtextextended('recalld migrates ' || ?1, 0))";
    db.query_row(lock, [schema], |_| Ok(())).map_err(|error| meaning(&error))?;
    let before = version(db, schema)?;
    if before > SCHEMA_VERSION {
        let found = format!("its schema `{schema}` has version {before}, this binary knows {SCHEMA_VERSION}");
        return Err(StoreError::Refused(format!("{found}; use a newer recalld")));
    }
    let mut steps = MIGRATIONS[before.max(0) as usize..].join("\n");
    if shelf::can_be_there(db)? && !shelf::is_there(db, schema)? {
        steps.push_str(&shelf::steps());
    }
    if before < SCHEMA_VERSION || !steps.is_empty() {
        db.batch(&steps_of(schema, &steps)).map_err(|error| meaning(&error))?;
    }
    Ok(before)
}

/// Whether there is anything to do.
fn is_due(db: &Connection, schema: &str, found: i64) -> Result<bool, StoreError> {
    Ok(found != SCHEMA_VERSION || (shelf::can_be_there(db)? && !shelf::is_there(db, schema)?))
}

fn steps_of(schema: &str, steps: &str) -> String {
    let mut sql = format!(
        "CREATE SCHEMA IF NOT EXISTS {schema};
         SET LOCAL search_path = {schema}, public;
         SET LOCAL check_function_bodies = off;
         CREATE TABLE IF NOT EXISTS schema_version (version bigint NOT NULL);
         {steps}
         DELETE FROM schema_version;
         INSERT INTO schema_version VALUES ({SCHEMA_VERSION});"
    );
    for (tables, column) in [(&AT_HOME[..], "home"), (&BY_TENANT[..], "tenant"), (&["fact_refused"], "home")] {
        for table in tables {
            sql.push_str(&guarded(table, column));
        }
    }
    sql.push_str(OUTBOX);
    sql.push_str(&granted(schema));
    sql
}

/// Nobody sees a row of another tenant, whatever a statement says; the owner of the table neither.
pub(super) fn guarded(table: &str, column: &str) -> String {
    format!(
        "ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
         ALTER TABLE {table} FORCE ROW LEVEL SECURITY;
         DROP POLICY IF EXISTS by_tenant ON {table};
         CREATE POLICY by_tenant ON {table} USING ({column} = current_setting('recalld.tenant', true));\n"
    )
}

/// Webhooks are sent for all tenants by whoever is free: a transaction for nobody in particular may take any of them, and one for
/// a tenant sees its own.
const OUTBOX: &str = "ALTER TABLE outbox ENABLE ROW LEVEL SECURITY;
    ALTER TABLE outbox FORCE ROW LEVEL SECURITY;
    DROP POLICY IF EXISTS by_tenant ON outbox;
    CREATE POLICY by_tenant ON outbox
        USING (current_setting('recalld.tenant', true) IN (tenant, ''));
";

/// The role is made where that is allowed. Where it is not, the owner serves, and is bound all the same. Whoever may make roles and
/// is no superuser may grant the role it made, but is not yet allowed to become it.
fn granted(schema: &str) -> String {
    format!(
        "DO $$ BEGIN
             IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '{RUNTIME_ROLE}') THEN
                 CREATE ROLE {RUNTIME_ROLE} NOLOGIN NOBYPASSRLS;
             END IF;
         EXCEPTION WHEN insufficient_privilege OR duplicate_object OR unique_violation THEN NULL; END $$;
         DO $$ BEGIN
             IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '{RUNTIME_ROLE}') THEN
                 GRANT USAGE ON SCHEMA {schema} TO {RUNTIME_ROLE};
                 GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {RUNTIME_ROLE};
                 GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {RUNTIME_ROLE};
             END IF;
         END $$;
         DO $$ BEGIN
             IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '{RUNTIME_ROLE}')
                 AND NOT pg_has_role(current_user, '{RUNTIME_ROLE}', 'SET') THEN
                 EXECUTE format('GRANT {RUNTIME_ROLE} TO %I WITH SET TRUE', current_user);
             END IF;
         EXCEPTION WHEN insufficient_privilege THEN NULL; END $$;"
    )
}
