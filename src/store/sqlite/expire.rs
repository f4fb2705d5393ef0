//! What time removes, in SQL.

use std::collections::BTreeMap;

use jiff::Timestamp;
use uuid::Uuid;

use super::connect::meaning;
use super::session::{execute, rows_max, send};
use super::sql::{Connection, OptionalExtension, Row, params};
use super::{archive, facts, job, ledger};
use crate::id::SessionId;
use crate::period::Period;
use crate::scope::Scope;
use crate::store::{Expired, Expiry, StoreError};

pub(super) const IDLE_SESSIONS: &str = "
    DELETE FROM session WHERE key IN (
        SELECT key FROM session
        WHERE turns = 0 AND coalesce(ttl, ?2) > 0 AND last_accessed <= ?1 - coalesce(ttl, ?2)
        LIMIT ?3)";

/// Removes one batch of turns that are too old, then the sessions without turns that nobody used for
/// as long.
pub(super) fn expire(db: &Connection, expiry: Expiry) -> Result<Expired, StoreError> {
    let now = expiry.now.as_microsecond();
    let server_ttl = expiry.server_ttl.0.map(Period::micros);
    let mut old = old_turns(db, "expires_at", now, expiry.turns_max)?;
    if let Some(ttl) = server_ttl {
        let left = expiry.turns_max - old.len();
        old.extend(old_turns(db, "created_at", now.saturating_sub(ttl), left)?);
    }
    take_out_of_blocks(db, &old)?;
    for Old { key, session, .. } in &old {
        send(db, "DELETE FROM turn WHERE key = ?1", [key])?;
        send(db, "UPDATE session SET turns = turns - 1 WHERE key = ?1", [session])?;
    }
    let mut sessions = 0;
    for session in distinct(old.iter().map(|old| old.session)) {
        forget_visit(db, session, expiry.now)?;
        ledger::forget(db, session)?;
        let gone = execute(db, "DELETE FROM session WHERE key = ?1 AND turns = 0", [session])?;
        if gone > 0 {
            job::forget(db, session)?;
        }
        sessions += gone;
    }
    let more_turns = old.len() == expiry.turns_max;
    let idle = idle_sessions(db, now, server_ttl, expiry.turns_max)?;
    let more = more_turns || idle == expiry.turns_max;
    Ok(Expired { sessions: (sessions + idle) as u64, turns: old.len() as u64, more })
}

/// A visit that is over leaves nothing behind: nobody can ask what was learned in it.
fn forget_visit(db: &Connection, session: i64, now: Timestamp) -> Result<(), StoreError> {
    let sql = "SELECT tenant, user, id FROM session WHERE key = ?1 AND turns = 0 AND kind = 'ephemeral'";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let read = |row: &Row<'_>| {
        let scope = Scope::as_stored(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?);
        Ok((scope, SessionId::from_uuid(Uuid::from_bytes(row.get(2)?))))
    };
    match statement.query_row([session], read).optional().map_err(|error| meaning(&error))? {
        Some((scope, id)) => facts::forget(db, &scope, facts::SaidIn::Session(id), now).map(drop),
        None => Ok(()),
    }
}

/// A turn that is too old.
struct Old {
    key: i64,
    session: i64,
    /// Where its text is, if not in its row, and its number there.
    block: Option<i64>,
    number: u64,
}

/// What goes, goes from the blocks as well.
fn take_out_of_blocks(db: &Connection, old: &[Old]) -> Result<(), StoreError> {
    let mut blocks: BTreeMap<i64, Vec<u64>> = BTreeMap::new();
    for Old { block, number, .. } in old {
        block.iter().for_each(|block| blocks.entry(*block).or_default().push(*number));
    }
    blocks.iter().try_for_each(|(block, numbers)| archive::take_out(db, *block, numbers))
}

/// Turns at the front of an age index. A pending turn is being answered.
fn old_turns(db: &Connection, by: &str, until: i64, turns_max: usize) -> Result<Vec<Old>, StoreError> {
    let mut statement = db.prepare_cached(&old_turns_sql(by)).map_err(|error| meaning(&error))?;
    let read =
        |row: &Row<'_>| Ok(Old { key: row.get(0)?, session: row.get(1)?, block: row.get(2)?, number: row.get(3)? });
    let rows = statement.query_map(params![until, rows_max(turns_max)], read).map_err(|error| meaning(&error))?;
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

fn distinct(keys: impl Iterator<Item = i64>) -> Vec<i64> {
    let mut keys: Vec<i64> = keys.collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}
