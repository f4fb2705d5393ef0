//! What was recalled for a turn and why, in SQL.

use super::connect::meaning;
use super::session::send;
use super::sql::{Connection, OptionalExtension, params};
use crate::id::TurnId;
use crate::scope::Scope;
use crate::store::{StoreError, TRACE_BYTES_MAX};

/// How many of a session's newest turns keep theirs.
pub(super) const TRACES_MAX: u64 = 200;

/// Keeps a turn's trace, and lets go of those of older turns.
pub(super) fn keep(
    db: &Connection,
    session_key: i64,
    key: i64,
    number: u64,
    trace: Option<&str>,
) -> Result<(), StoreError> {
    let Some(trace) = trace.filter(|trace| trace.len() <= TRACE_BYTES_MAX) else { return Ok(()) };
    let sql = "INSERT INTO recall_trace (turn, session, number, trace) VALUES (?1, ?2, ?3, ?4)
               ON CONFLICT (turn) DO UPDATE SET session = excluded.session, number = excluded.number, trace = excluded.trace";
    send(db, sql, params![key, session_key, number, trace])?;
    // An old turn that was answered again keeps its own until the next one comes.
    let old = "DELETE FROM recall_trace WHERE session = ?1 AND turn <> ?2
                 AND number < (SELECT next_number FROM session WHERE key = ?1) - ?3";
    send(db, old, params![session_key, key, TRACES_MAX])
}

/// Another try at an answer begins: what explained the last one goes.
pub(super) fn forget(db: &Connection, key: i64) -> Result<(), StoreError> {
    send(db, "DELETE FROM recall_trace WHERE turn = ?1", [key])
}

/// A turn's trace.
pub(super) fn find(db: &Connection, scope: &Scope, turn: TurnId) -> Result<Option<String>, StoreError> {
    let sql = "SELECT trace FROM turn CROSS JOIN session ON session.key = turn.session
               CROSS JOIN recall_trace ON recall_trace.turn = turn.key
               WHERE turn.id = ?1 AND tenant = ?2 AND user = ?3 LIMIT 1";
    let values = params![turn.as_uuid().as_bytes(), scope.tenant().as_str(), scope.user().as_str()];
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    statement.query_row(values, |row| row.get(0)).optional().map_err(|error| meaning(&error))
}
