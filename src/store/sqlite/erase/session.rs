//! A conversation goes, with all that followed from it.

use jiff::Timestamp;

use super::super::connect::meaning;
use super::super::row::{COLUMNS, TurnRow};
use super::super::session::{execute, find};
use super::super::sql::{Connection, params};
use super::super::{facts, job, ledger};
use super::{count, document, strays};
use crate::id::SessionId;
use crate::scope::Scope;
use crate::store::StoreError;
use crate::store::erasure::Counts;

const TOPICS: &str = "SELECT count(*) FROM topic WHERE tenant = ?1 AND user = ?2";

/// Whether anything is kept of a session. What was told and learned of it may have outlived it.
pub(super) fn is_there(db: &Connection, scope: &Scope, id: SessionId) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM session WHERE tenant = ?1 AND user = ?2 AND id = ?3)
                   OR EXISTS (SELECT 1 FROM episode WHERE tenant = ?1 AND user = ?2 AND session = ?3)
                   OR EXISTS (SELECT 1 FROM fact_statement WHERE tenant = ?1 AND user = ?2 AND session = ?3)
                   OR EXISTS (SELECT 1 FROM fact WHERE tenant = ?1 AND user = ?2 AND session = ?3)
                   OR EXISTS (SELECT 1 FROM outbox WHERE tenant = ?1 AND user = ?2 AND session = ?4)";
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let values = params![tenant, user, id.as_uuid().as_bytes(), id.to_string()];
    db.query_row(sql, values, |row| row.get(0)).map_err(|error| meaning(&error))
}

/// Removes a session, and what was shown of it elsewhere.
pub(in super::super) fn erase(
    db: &Connection,
    scope: &Scope,
    id: SessionId,
    now: Timestamp,
) -> Result<Counts, StoreError> {
    let mut counts = remove(db, scope, id, now)?;
    counts += strays::of_user(db, scope)?;
    Ok(counts)
}

/// Removes a session.
pub(super) fn remove(db: &Connection, scope: &Scope, id: SessionId, now: Timestamp) -> Result<Counts, StoreError> {
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let bytes = id.as_uuid().as_bytes();
    let unsaid = facts::forget(db, scope, facts::SaidIn::Session(id), now)?;
    let told = "DELETE FROM episode WHERE tenant = ?1 AND user = ?2 AND session = ?3";
    let posted = "DELETE FROM outbox WHERE tenant = ?1 AND user = ?2 AND session = ?3";
    let mut counts = Counts {
        statements: unsaid.statements,
        facts: unsaid.facts,
        episodes: execute(db, told, params![tenant, user, bytes])? as u64,
        webhooks: execute(db, posted, params![tenant, user, id.to_string()])? as u64,
        ..Counts::default()
    };
    let Some((key, _)) = find(db, scope, id)? else { return Ok(counts) };
    job::begin_topics_again(db, scope)?;
    let topics = count(db, TOPICS, scope)?;
    counts += learned(db, scope, id, key, now)?;
    counts += rows(db, key)?;
    counts.topics = topics - count(db, TOPICS, scope)?;
    Ok(counts)
}

/// What its tenant learned from it.
fn learned(db: &Connection, scope: &Scope, id: SessionId, key: i64, now: Timestamp) -> Result<Counts, StoreError> {
    let mut counts = Counts::default();
    if !document::has_notes(db, scope.tenant().as_str())? {
        return Ok(counts);
    }
    let mut statement = db
        .prepare_cached(&format!("SELECT {COLUMNS} FROM turn WHERE session = ?1 ORDER BY number"))
        .map_err(|error| meaning(&error))?;
    let mut rows = statement.query([key]).map_err(|error| meaning(&error))?;
    while let Some(row) = rows.next().map_err(|error| meaning(&error))? {
        // What is damaged cannot be read, and was learned as something that it no longer says.
        if let Ok(turn) = TurnRow::read(row).map_err(|error| meaning(&error))?.turn(db, id) {
            counts += document::unlearn(db, scope.tenant().as_str(), &turn.question().text, now)?;
        }
    }
    Ok(counts)
}

/// The rows of a session by its key, each kind by itself, so that they are counted.
fn rows(db: &Connection, key: i64) -> Result<Counts, StoreError> {
    let of_turns = |table: &str| format!("DELETE FROM {table} WHERE turn IN (SELECT key FROM turn WHERE session = ?1)");
    let gone = |sql: &str| execute(db, sql, [key]).map(|gone| gone as u64);
    let counts = Counts {
        revisions: gone(&of_turns("revision"))?,
        traces: gone(&of_turns("recall_trace"))?,
        recall_rows: gone(&of_turns("recall_row"))? + gone(&of_turns("recall_vector"))?,
        model_answers: ledger::forget(db, key)?,
        jobs: gone("DELETE FROM job WHERE session = ?1")?,
        turns: gone("DELETE FROM turn WHERE session = ?1")?,
        blocks: gone("DELETE FROM block WHERE session = ?1")?,
        sessions: gone("DELETE FROM session WHERE key = ?1")?,
        ..Counts::default()
    };
    Ok(counts)
}
