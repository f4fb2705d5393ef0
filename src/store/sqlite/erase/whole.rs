//! A user or a tenant goes as a whole: conversations first, a batch at a time, then every row that names them.

use jiff::Timestamp;
use uuid::Uuid;

use super::super::connect::meaning;
use super::super::session::{execute, rows_max};
use super::super::sql::{self, Connection, Row, params};
use super::super::tenants;
use super::{Step, session};
use crate::id::SessionId;
use crate::scope::Scope;
use crate::store::StoreError;
use crate::store::erasure::Counts;

/// Who a key is said to be of when its user was erased: the row stays, so that a server that was closed is not open again.
pub(super) const NOBODY: &str = "~erased";

/// Whether any row names a user.
pub(super) fn user_is_there(db: &Connection, scope: &Scope) -> Result<bool, StoreError> {
    let who = params![scope.tenant().as_str(), scope.user().as_str()];
    some_row(db, tables(db, sql::TABLES_WITH_USERS)?, "tenant = ?1 AND user = ?2", who)
}

/// Whether any row names a tenant.
pub(super) fn tenant_is_there(db: &Connection, tenant: &str) -> Result<bool, StoreError> {
    let named = some_row(db, vec!["tenant".to_owned()], "name = ?1", params![tenant])?;
    Ok(named
        || some_row(db, tables(db, sql::TABLES_WITH_TENANTS)?, "tenant = ?1", params![tenant])?
        || some_row(db, vec!["session".to_owned()], "tenant = ?1", params![tenant])?)
}

fn some_row(db: &Connection, tables: Vec<String>, which: &str, values: &[&dyn sql::ToSql]) -> Result<bool, StoreError> {
    for table in tables {
        let sql = format!("SELECT EXISTS (SELECT 1 FROM {table} WHERE {which})");
        if db.query_row(&sql, values, |row| row.get(0)).map_err(|error| meaning(&error))? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn tables(db: &Connection, which: &str) -> Result<Vec<String>, StoreError> {
    let mut statement = db.prepare_cached(which).map_err(|error| meaning(&error))?;
    let rows = statement.query_map([], |row| row.get(0)).map_err(|error| meaning(&error))?;
    rows.collect::<Result<_, _>>().map_err(|error| meaning(&error))
}

/// Removes up to so many of a user's sessions; with the last of them everything else that names the user.
pub(super) fn user(db: &Connection, scope: &Scope, most: usize, now: Timestamp) -> Result<Step, StoreError> {
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let sql = "SELECT user, id FROM session WHERE tenant = ?1 AND user = ?2 LIMIT ?3";
    let sessions = sessions(db, sql, params![tenant, user, rows_max(most)])?;
    let mut step = some(db, tenant, &sessions, most, now)?;
    if step.more {
        return Ok(step);
    }
    let keys = "UPDATE api_key SET user = ?3, name = '', revoked_at = coalesce(revoked_at, ?4)
                WHERE tenant = ?1 AND user = ?2";
    step.counts.keys = execute(db, keys, params![tenant, user, NOBODY, now.as_microsecond()])? as u64;
    for table in tables(db, sql::TABLES_WITH_USERS)?.iter().filter(|table| !["session", "api_key"].contains(&&***table))
    {
        let gone = execute(db, &format!("DELETE FROM {table} WHERE tenant = ?1 AND user = ?2"), params![tenant, user])?;
        note(&mut step.counts, table, gone as u64);
    }
    execute(db, "UPDATE memory_spent SET last_failure = NULL WHERE tenant = ?1", [tenant])?;
    tenants::changed(db)?;
    Ok(step)
}

/// Removes up to so many of a tenant's sessions; with the last of them everything else of the tenant.
pub(super) fn tenant(db: &Connection, tenant: &str, most: usize, now: Timestamp) -> Result<Step, StoreError> {
    let sql = "SELECT user, id FROM session WHERE tenant = ?1 LIMIT ?2";
    let sessions = sessions(db, sql, params![tenant, rows_max(most)])?;
    let mut step = some(db, tenant, &sessions, most, now)?;
    if step.more {
        return Ok(step);
    }
    let passages = "DELETE FROM passage WHERE document IN (SELECT key FROM document WHERE tenant = ?1)";
    step.counts.passages += execute(db, passages, [tenant])? as u64;
    for table in tables(db, sql::TABLES_WITH_TENANTS)? {
        let gone = execute(db, &format!("DELETE FROM {table} WHERE tenant = ?1"), [tenant])?;
        note(&mut step.counts, &table, gone as u64);
    }
    execute(db, "DELETE FROM tenant WHERE name = ?1", [tenant])?;
    sql::forget_tenant(db, tenant)?;
    tenants::changed(db)?;
    Ok(step)
}

fn some(
    db: &Connection,
    tenant: &str,
    sessions: &[(String, SessionId)],
    most: usize,
    now: Timestamp,
) -> Result<Step, StoreError> {
    let mut counts = Counts::default();
    for (user, id) in sessions {
        counts += session::remove(db, &Scope::as_stored(tenant, user), *id, now)?;
    }
    Ok(Step { counts, more: sessions.len() == most })
}

fn sessions(db: &Connection, sql: &str, values: &[&dyn sql::ToSql]) -> Result<Vec<(String, SessionId)>, StoreError> {
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let read = |row: &Row<'_>| Ok((row.get(0)?, SessionId::from_uuid(Uuid::from_bytes(row.get(1)?))));
    let rows = statement.query_map(values, read).map_err(|error| meaning(&error))?;
    rows.collect::<Result<_, _>>().map_err(|error| meaning(&error))
}

/// Counts what went from a table, if it is something that people know by name.
fn note(counts: &mut Counts, table: &str, gone: u64) {
    match table {
        "episode" => counts.episodes += gone,
        "topic" => counts.topics += gone,
        "fact" => counts.facts += gone,
        "fact_statement" => counts.statements += gone,
        "memory_answer" => counts.model_answers += gone,
        "outbox" => counts.webhooks += gone,
        "document" => counts.documents += gone,
        "api_key" => counts.keys += gone,
        _ => {}
    }
}
