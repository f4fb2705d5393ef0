//! Requests with an `Idempotency-Key` in SQL.

use std::sync::Arc;

use jiff::Timestamp;

use super::connect::meaning;
use super::facts::{say, undo_facts};
use super::job::Follow;
use super::session::{execute, rows_max, send};
use super::sql::{Connection, OptionalExtension, Row, params};
use super::{Backend, knowledge, turn};
use crate::fact::{Change, Statement};
use crate::scope::Scope;
use crate::session::RequestMark;
use crate::store::whose::Whose;
use crate::store::{
    DoneRequest, Made, OnceWrite, OnceWritten, REQUEST_KEPT, REQUESTS_MAX, Requests, StoreError, StoreFuture, Undone,
};

/// Rows that the clean-up removes in one transaction.
const EXPIRED_BATCH: usize = 10_000;

fn done(db: &Connection, scope: &Scope, key: &[u8; 32], now: Timestamp) -> Result<Option<DoneRequest>, StoreError> {
    let sql = "SELECT content, made FROM idempotent_request
               WHERE tenant = ?1 AND user = ?2 AND hash = ?3 AND expires_at > ?4";
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let read = |row: &Row<'_>| Ok((row.get::<_, [u8; 32]>(0)?, row.get::<_, String>(1)?));
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let found = statement.query_row(params![tenant, user, key, now.as_microsecond()], read).optional();
    let Some((content, made)) = found.map_err(|error| meaning(&error))? else { return Ok(None) };
    let made = serde_json::from_str(&made)
        .map_err(|error| StoreError::Refused(format!("what a request made cannot be read: {error}")))?;
    Ok(Some(DoneRequest { content, made, waits: false }))
}

/// Notes what a request made. An error when one with its key was done already: then the transaction comes to nothing.
pub(super) fn note(
    db: &Connection,
    scope: &Scope,
    request: &RequestMark,
    made: &Made,
    now: Timestamp,
) -> Result<(), StoreError> {
    let (tenant, user, now) = (scope.tenant().as_str(), scope.user().as_str(), now.as_microsecond());
    let over = "DELETE FROM idempotent_request WHERE tenant = ?1 AND user = ?2 AND hash = ?3 AND expires_at <= ?4";
    send(db, over, params![tenant, user, request.key, now])?;
    let made = serde_json::to_string(made).map_err(|error| StoreError::Refused(error.to_string()))?;
    let expires_at = now.saturating_add(REQUEST_KEPT.as_micros() as i64);
    let sql = "INSERT OR IGNORE INTO idempotent_request (tenant, user, hash, content, made, expires_at)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    if execute(db, sql, params![tenant, user, request.key, request.content, made, expires_at])? == 0 {
        return Err(StoreError::Repeated);
    }
    let old = "DELETE FROM idempotent_request WHERE tenant = ?1 AND user = ?2 AND key <= coalesce((
                   SELECT key FROM idempotent_request WHERE tenant = ?1 AND user = ?2 ORDER BY key DESC LIMIT 1 OFFSET ?3), 0)";
    send(db, old, params![tenant, user, rows_max(REQUESTS_MAX)])
}

/// Removes requests whose day is over.
pub(super) fn expire(db: &Connection, now: Timestamp) -> Result<(), StoreError> {
    let sql = "DELETE FROM idempotent_request WHERE key IN (
                   SELECT key FROM idempotent_request WHERE expires_at <= ?1 LIMIT ?2)";
    send(db, sql, params![now.as_microsecond(), rows_max(EXPIRED_BATCH)])
}

/// Whether there are any.
pub(super) fn any_expired(db: &Connection, now: Timestamp) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM idempotent_request WHERE expires_at <= ?1)";
    db.query_row(sql, [now.as_microsecond()], |row| row.get(0)).map_err(|error| meaning(&error))
}

/// The fact that holds because of the last statement.
fn said(statements: &[Statement], changes: &[Change]) -> Option<Made> {
    let last = statements.last()?;
    let meant = |change: &&Change| change.fact.key == last.key && change.fact.value == last.value;
    changes.iter().rev().find(meant).map(|change| Made::Fact(change.fact.id))
}

fn undone(undone: &Undone) -> Option<Made> {
    let Undone::Done { id, changes } = undone else { return None };
    Some(Made::Undo(*id, changes.iter().map(|change| change.fact.id).collect()))
}

impl Requests for Backend {
    fn done_request(&self, scope: &Scope, key: [u8; 32]) -> StoreFuture<'_, Option<DoneRequest>> {
        let clock = Arc::clone(&self.clock);
        self.read_here(scope, move |db, scope| done(db, scope, &key, clock.now()))
    }

    fn write_once(&self, scope: &Scope, request: RequestMark, write: OnceWrite) -> StoreFuture<'_, OnceWritten> {
        let (clock, due, notes, scope) = (Arc::clone(&self.clock), self.due, self.notes(), scope.clone());
        let whose = match &write {
            OnceWrite::Documents(..) => Whose::from(scope.tenant()),
            _ => Whose::from(&scope),
        };
        self.write_for(whose, move |db| {
            let (follow, now, tick) = (Follow { due, notes: &notes }, clock.now(), || clock.now());
            if done(db, &scope, &request.key, now)?.is_some() {
                return Err(StoreError::Repeated);
            }
            let (written, made) = match write {
                OnceWrite::Turns(session, drafts) => {
                    let turns = turn::add(db, &scope, session, None, drafts, tick, follow)?;
                    let made = Made::Turns(turns.iter().map(|turn| turn.id).collect());
                    (OnceWritten::Turns(turns), Some(made))
                }
                OnceWrite::Messages(session, messages, ids) => {
                    let turns = turn::add_messages(db, &scope, session, None, (messages, ids), tick, follow)?;
                    let made = Made::Turns(turns.iter().map(|turn| turn.id).collect());
                    (OnceWritten::Turns(turns), Some(made))
                }
                OnceWrite::Facts(statements) => {
                    let changes = say(db, &scope, &statements, now)?;
                    let made = said(&statements, &changes);
                    (OnceWritten::Facts(changes), made)
                }
                OnceWrite::Undo(what, id) => {
                    let came_to = undo_facts(db, &scope, what, id, now)?;
                    let made = undone(&came_to);
                    (OnceWritten::Undone(came_to), made)
                }
                OnceWrite::Documents(documents, most) => {
                    let kept = knowledge::keep(db, scope.tenant().as_str(), &documents, most, now.as_microsecond())?;
                    // A version that was replaced is gone from the log, too.
                    notes.erased(kept.iter().any(|document| document.version > 1));
                    let made = Made::Documents(kept.iter().map(|document| document.id).collect());
                    (OnceWritten::Documents(kept), Some(made))
                }
                OnceWrite::Noted(made) => (OnceWritten::Noted, Some(made)),
            };
            // What changed nothing may be asked again.
            if let Some(made) = made {
                note(db, &scope, &request, &made, now)?;
            }
            Ok(written)
        })
    }
}
