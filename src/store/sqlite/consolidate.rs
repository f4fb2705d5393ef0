//! Writing episodes in SQL: all that a consolidation came to, if what it was made from is still so.

use super::connect::meaning;
use super::episode::{key_of, stamp};
use super::job;
use super::session::{execute, send};
use super::sql::{Connection, params};
use crate::episode::Episode;
use crate::id::SessionId;
use crate::job::JobKind;
use crate::scope::Scope;
use crate::store::{Consolidation, StoreError};

/// Applies a consolidation. Answers `false`, with nothing applied, when the session or its turns changed since they
/// were read.
pub(super) fn apply(
    db: &Connection,
    session_key: i64,
    scope: &Scope,
    session: SessionId,
    done: &Consolidation,
) -> Result<bool, StoreError> {
    for range in &done.read {
        if stamp(db, session_key, range.first, range.last)? != range.stamp {
            return Ok(false);
        }
    }
    let sql = "UPDATE session SET consolidated = ?3 WHERE key = ?1 AND consolidated = ?2";
    if execute(db, sql, params![session_key, done.from, done.to])? == 0 {
        return Ok(false);
    }
    for id in &done.drop {
        if let Some(key) = key_of(db, session_key, *id)? {
            send(db, "DELETE FROM episode WHERE key = ?1", [key])?;
        }
    }
    for id in &done.settled {
        if let Some(key) = key_of(db, session_key, *id)? {
            send(db, "UPDATE episode SET stale = 0 WHERE key = ?1", [key])?;
        }
    }
    done.keep.iter().try_for_each(|episode| keep(db, session_key, scope, session, episode))?;
    Ok(true)
}

const KEEP: &str = "INSERT INTO episode (id, tenant, user, session, session_key, level, first, last, weight, begun_at,
                                         ended_at, summary, embedder, vector, made_by, version)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
     ON CONFLICT (session_key, level, first) DO UPDATE SET
       id = excluded.id, last = excluded.last, weight = excluded.weight, begun_at = excluded.begun_at,
       ended_at = excluded.ended_at, summary = excluded.summary, embedder = excluded.embedder, vector = excluded.vector,
       made_by = excluded.made_by, version = excluded.version, stale = 0
     WHERE episode.version < excluded.version";

/// Writes an episode, unless it is there in this version already.
pub(super) fn keep(
    db: &Connection,
    session_key: i64,
    scope: &Scope,
    session: SessionId,
    episode: &Episode,
) -> Result<(), StoreError> {
    let meaning = episode.vector.as_ref();
    let values = params![
        episode.id.as_uuid().as_bytes(),
        scope.tenant().as_str(),
        scope.user().as_str(),
        session.as_uuid().as_bytes(),
        session_key,
        episode.level.as_str(),
        episode.first,
        episode.last,
        episode.weight,
        episode.from.as_microsecond(),
        episode.to.as_microsecond(),
        episode.summary,
        meaning.map(|meaning| &meaning.embedder),
        meaning.map(|meaning| bytes(&meaning.values)),
        episode.made_by,
        episode.version,
    ];
    send(db, KEEP, values)
}

pub(super) fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Removes the episodes that can be made again from the turns that are there, and asks for that.
pub(super) fn make_again(db: &Connection, scope: Option<&Scope>) -> Result<u64, StoreError> {
    let (tenant, user) = scope.map(|scope| (scope.tenant().as_str(), scope.user().as_str())).unzip();
    let sql = "SELECT key, (SELECT min(number) FROM turn WHERE turn.session = session.key) FROM session
               WHERE consolidated > 0 AND turns > 0 AND (?1 IS NULL OR (tenant = ?1 AND user = ?2))";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let rows = statement.query_map(params![tenant, user], |row| Ok((row.get(0)?, row.get::<_, Option<u64>>(1)?)));
    let sessions: Vec<(i64, Option<u64>)> = rows.and_then(Iterator::collect).map_err(|error| meaning(&error))?;
    let mut gone = 0;
    for (key, oldest) in sessions {
        gone += begin_again(db, key, oldest.unwrap_or(u64::MAX >> 1))?;
    }
    Ok(gone)
}

/// What tells of turns from before `oldest` cannot be made again and stays; the rest is told from there on.
fn begin_again(db: &Connection, key: i64, oldest: u64) -> Result<u64, StoreError> {
    let gone = execute(db, "DELETE FROM episode WHERE session_key = ?1 AND first >= ?2", params![key, oldest])?;
    let sql = "UPDATE session SET consolidated = coalesce(
                   (SELECT max(last) FROM episode WHERE session_key = ?1 AND level = 'stretch'), 0) WHERE key = ?1";
    send(db, sql, [key])?;
    job::ask_for(db, key, &JobKind::CONSOLIDATE)?;
    Ok(gone as u64)
}
