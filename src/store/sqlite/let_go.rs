//! Letting old turns go: a batch of them is one transaction.

use super::Sqlite;
use super::connect::meaning;
use super::expire::{Old, by_session, end_session, take_out_of_blocks};
use super::requests;
use super::session::{execute, rows_max, send};
use super::sql::{Connection, params};
use crate::period::Period;
use crate::store::whose::Whose;
use crate::store::{Expired, Expiry, StoreError, StoreFuture};

impl Sqlite {
    /// Lets turns and sessions go that are too old; in a file that is one transaction.
    pub(super) fn let_go(&self, expiry: Expiry) -> StoreFuture<'_, Expired> {
        let notes = self.notes();
        self.kept_logs.remove_old(expiry.now);
        self.write_for(Whose::Ours, move |db| {
            let expired = expire(db, expiry)?;
            // Once for all batches: emptying the log costs more than a batch.
            notes.erased(!expired.more);
            Ok(expired)
        })
    }
}

pub(super) const IDLE_SESSIONS: &str = "
    DELETE FROM session WHERE key IN (
        SELECT key FROM session
        WHERE turns = 0 AND coalesce(ttl, ?2) > 0 AND last_accessed <= ?1 - coalesce(ttl, ?2)
        LIMIT ?3)";

/// Removes one batch of turns that are too old, then the sessions without turns that nobody used for
/// as long.
fn expire(db: &Connection, expiry: Expiry) -> Result<Expired, StoreError> {
    let now = expiry.now.as_microsecond();
    let server_ttl = expiry.server_ttl.0.map(Period::micros);
    let mut old = old_turns(db, "expires_at", now, expiry.turns_max)?;
    if let Some(ttl) = server_ttl {
        let left = expiry.turns_max - old.len();
        old.extend(old_turns(db, "created_at", now.saturating_sub(ttl), left)?);
    }
    take_out_of_blocks(db, &old)?;
    for Old { key, .. } in &old {
        send(db, "DELETE FROM turn WHERE key = ?1", [key])?;
    }
    let mut sessions = 0;
    for (session, turns) in by_session(&old) {
        send(db, "UPDATE session SET turns = turns - ?2 WHERE key = ?1", params![session, turns])?;
        sessions += end_session(db, session, expiry.now)?;
    }
    let more_turns = old.len() == expiry.turns_max;
    let idle = idle_sessions(db, now, server_ttl, expiry.turns_max)?;
    if requests::any_expired(db, expiry.now)? {
        requests::expire(db, expiry.now)?;
    }
    let more = more_turns || idle == expiry.turns_max;
    Ok(Expired { sessions: (sessions + idle) as u64, turns: old.len() as u64, more })
}

/// Turns at the front of an age index. A pending turn is being answered.
fn old_turns(db: &Connection, by: &str, until: i64, turns_max: usize) -> Result<Vec<Old>, StoreError> {
    let mut statement = db.prepare_cached(&old_turns_sql(by)).map_err(|error| meaning(&error))?;
    let rows = statement.query_map(params![until, rows_max(turns_max)], Old::read).map_err(|error| meaning(&error))?;
    rows.collect::<Result<_, _>>().map_err(|error| meaning(&error))
}

pub(super) fn old_turns_sql(by: &str) -> String {
    let own = if by == "expires_at" { "NOT NULL" } else { "NULL" };
    format!(
        "SELECT key, session, block, number FROM turn WHERE {by} <= ?1 AND expires_at IS {own} AND status <> 'pending'
         ORDER BY {by} LIMIT ?2"
    )
}

/// Removes sessions that hold no turn and were not used for their TTL.
fn idle_sessions(db: &Connection, now: i64, server_ttl: Option<i64>, max: usize) -> Result<usize, StoreError> {
    execute(db, IDLE_SESSIONS, params![now, server_ttl.unwrap_or(-1), rows_max(max)])
}
