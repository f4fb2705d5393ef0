//! Telling topics: which are due, what they do not tell yet, and what they tell now.

use super::super::connect::meaning;
use super::super::job;
use super::super::row::{COLUMNS, NEXT, TurnRow};
use super::super::session::{rows_max, send};
use super::super::sql::{Connection, OptionalExtension, Row, params};
use super::read::{all, state, topic_id, with_session};
use crate::clock::from_micros;
use crate::id::SessionId;
use crate::job::JobKind;
use crate::scope::Scope;
use crate::store::{Stamp, StoreError, TopicTold, Untold, UntoldTurn};

/// Messages after the last turn that the summary tells.
const UNTOLD: &str = "SELECT coalesce(sum(messages), 0) FROM topic_turn
                      WHERE topic = ?1 AND turn > (SELECT told FROM topic WHERE key = ?1)";

/// Looks whether enough was said in a topic that its summary does not tell; then a job is asked for, at the session of its
/// last turn. Answers whether it is.
pub(in super::super) fn look(db: &Connection, topic: i64, due: u64) -> Result<bool, StoreError> {
    if due == 0 || untold(db, topic)? < due {
        return Ok(false);
    }
    send(db, "UPDATE topic SET due = 1 WHERE key = ?1", [topic])?;
    let sql = "SELECT turn.session FROM topic_turn CROSS JOIN turn ON turn.key = topic_turn.turn
               WHERE topic_turn.topic = ?1 ORDER BY topic_turn.turn DESC LIMIT 1";
    let session: Option<i64> =
        db.query_row(sql, [topic], |row| row.get(0)).optional().map_err(|error| meaning(&error))?;
    match session {
        Some(session) => job::ask_for(db, session, &JobKind::SUMMARISE).map(|()| true),
        None => Ok(false),
    }
}

fn untold(db: &Connection, topic: i64) -> Result<u64, StoreError> {
    let mut statement = db.prepare_cached(UNTOLD).map_err(|error| meaning(&error))?;
    statement.query_row([topic], |row| row.get(0)).map_err(|error| meaning(&error))
}

pub(in super::super) const FIRST_DUE: &str =
    "SELECT key, id, summary, told, last_used FROM topic INDEXED BY topic_to_tell
     WHERE tenant = ?1 AND user = ?2 AND due = 1 AND forgotten_at IS NULL AND merged_into IS NULL ORDER BY key LIMIT 1";

/// The first topic of a user that is due.
pub(super) fn first(db: &Connection, scope: &Scope, turns_max: usize) -> Result<Option<Untold>, StoreError> {
    let read = |row: &Row<'_>| {
        let (id, summary, told) = (topic_id(row, 1)?, row.get(2)?, row.get(3)?);
        let last_used = from_micros(row.get(4)?);
        Ok((row.get(0)?, Untold { id, summary, told, last_used, messages: 0, turns: Vec::new() }))
    };
    let who = params![scope.tenant().as_str(), scope.user().as_str()];
    let Some((key, found)) = all(db, FIRST_DUE, who, read)?.pop() else { return Ok(None) };
    let turns = turns(db, key, found.told, turns_max)?;
    Ok(Some(Untold { messages: untold(db, key)?, turns, ..found }))
}

fn turns(db: &Connection, topic: i64, told: u64, turns_max: usize) -> Result<Vec<UntoldTurn>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS}, session.id, topic_turn.messages FROM topic_turn CROSS JOIN turn ON turn.key = topic_turn.turn
         CROSS JOIN session ON session.key = turn.session
         WHERE topic_turn.topic = ?1 AND topic_turn.turn > ?2 ORDER BY topic_turn.turn LIMIT ?3"
    );
    let read = |row: &Row<'_>| Ok((with_session(row)?, row.get(NEXT + 1)?));
    let rows: Vec<((SessionId, TurnRow), usize)> = all(db, &sql, params![topic, told, rows_max(turns_max)], read)?;
    let untold = |((session, row), messages): ((SessionId, TurnRow), usize)| {
        let (cursor, stamp) = (row.key.unsigned_abs(), Stamp(row.checksum));
        // A damaged turn cannot be told; a disk that fails, or a turn that a newer recalld can read, is another matter.
        match row.turn(db, session) {
            Err(StoreError::Damaged { .. }) => Ok(UntoldTurn { cursor, messages, stamp, turn: None }),
            turn => Ok(UntoldTurn { cursor, messages, stamp, turn: Some(turn?) }),
        }
    };
    rows.into_iter().map(untold).collect()
}

/// What became of a topic that was told.
pub(in super::super) enum Written {
    /// It is, or it went meanwhile; whether another of the user's is due.
    Done { more: bool },
    /// What was read is no longer so.
    Changed,
}

/// Writes what a topic tells now, if it was made from the topic as it is.
pub(in super::super) fn apply(
    db: &Connection,
    scope: &Scope,
    told: &TopicTold,
    due: u64,
) -> Result<Written, StoreError> {
    if let Some((key, _)) = state(db, scope, told.id)? {
        if !is_as_read(db, key, told)? {
            return Ok(Written::Changed);
        }
        send(db, "UPDATE topic SET due = 0 WHERE key = ?1", [key])?;
        if let Some((last, _)) = told.read.last() {
            write(db, key, *last, told)?;
            look(db, key, due)?;
        }
    }
    let who = params![scope.tenant().as_str(), scope.user().as_str()];
    Ok(Written::Done { more: !all(db, FIRST_DUE, who, |row| row.get::<_, i64>(0))?.is_empty() })
}

fn write(db: &Connection, key: i64, last: u64, told: &TopicTold) -> Result<(), StoreError> {
    let sql = "UPDATE topic SET summary = ?2, told = ?3, told_by = ?4 WHERE key = ?1";
    send(db, sql, params![key, told.summary, last, told.told_by])?;
    if let Some(title) = &told.title {
        let sql = "UPDATE topic SET title = ?2, title_knows = ?3, version = version + 1
                   WHERE key = ?1 AND title_turn IS NOT NULL AND title <> ?2";
        send(db, sql, params![key, title, last])?;
    }
    Ok(())
}

/// Whether a topic's summary tells as far as it did, and its next turns are those that were read.
fn is_as_read(db: &Connection, key: i64, told: &TopicTold) -> Result<bool, StoreError> {
    let from: u64 = db
        .query_row("SELECT told FROM topic WHERE key = ?1", [key], |row| row.get(0))
        .map_err(|error| meaning(&error))?;
    let last = told.read.last().map_or(from, |(last, _)| *last);
    let sql = "SELECT topic_turn.turn, turn.checksum FROM topic_turn CROSS JOIN turn ON turn.key = topic_turn.turn
               WHERE topic_turn.topic = ?1 AND topic_turn.turn > ?2 AND topic_turn.turn <= ?3 ORDER BY topic_turn.turn";
    let now = all(db, sql, params![key, from, last], |row| Ok((row.get::<_, u64>(0)?, Stamp(row.get(1)?))))?;
    Ok(from == told.from && now == told.read)
}

/// A turn of a topic is said otherwise, or joins it late: what was told up to it is told anew.
pub(in super::super) fn said_otherwise(db: &Connection, topic: i64, turn: i64) -> Result<(), StoreError> {
    // On most turns this look is all: what was just said has not been told.
    let sql = "SELECT told >= ?2 OR coalesce(title_knows >= ?2, false) FROM topic WHERE key = ?1";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    match statement.query_row([topic, turn], |row| row.get(0)).map_err(|error| meaning(&error))? {
        true => tell_again(db, topic, turn),
        false => Ok(()),
    }
}

/// What was told up to a turn, and with it, is told anew.
pub(in super::super) fn tell_again(db: &Connection, topic: i64, turn: i64) -> Result<(), StoreError> {
    let sql = "UPDATE topic SET summary = NULL, told_by = NULL, told = 0 WHERE key = ?1 AND told >= ?2";
    send(db, sql, [topic, turn])?;
    let sql = "UPDATE topic SET title = '', title_knows = NULL, stale = 1, version = version + 1
               WHERE key = ?1 AND title_knows >= ?2";
    send(db, sql, [topic, turn])?;
    send(db, "DELETE FROM memory_answer WHERE topic = ?1", [topic])
}

/// Forgets what topics tell, of one user or of everybody, so that it is told again.
pub(super) fn make_again(db: &Connection, scope: Option<&Scope>, due: u64) -> Result<(), StoreError> {
    let (tenant, user) = scope.map(|scope| (scope.tenant().as_str(), scope.user().as_str())).unzip();
    let sql = "SELECT key FROM topic WHERE told > 0 AND forgotten_at IS NULL AND merged_into IS NULL
               AND (?1 IS NULL OR (tenant = ?1 AND user = ?2))";
    for key in all(db, sql, params![tenant, user], |row| row.get::<_, i64>(0))? {
        send(db, "UPDATE topic SET summary = NULL, told_by = NULL, told = 0 WHERE key = ?1", [key])?;
        look(db, key, due)?;
    }
    Ok(())
}
