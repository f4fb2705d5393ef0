//! Which topic a turn belongs to, in SQL: what happens to that while turns are written.
//!
//! **Invariant:** a turn that is shown belongs to one topic or is on the list of those that belong to none. Whoever writes
//! a turn calls [`added`] or [`rewritten`]; triggers see to those that are hidden or removed.

use super::connect::meaning;
use super::recall::Before;
use super::session::{execute, send};
use super::sql::{Connection, OptionalExtension, Row, params};
use super::topics::tell;
use crate::id::TopicId;
use crate::scope::Scope;
use crate::session::{InTopic, Turn, TurnStatus};
use crate::store::StoreError;

/// A new turn belongs to no topic yet.
pub(super) fn added(db: &Connection, key: i64, turn: &Turn) -> Result<(), StoreError> {
    match turn.status.enters_context() {
        true => put_on_list(db, key),
        false => Ok(()),
    }
}

fn put_on_list(db: &Connection, key: i64) -> Result<(), StoreError> {
    send(db, "INSERT OR IGNORE INTO topic_todo (turn) VALUES (?1)", [key])
}

/// What a turn says has changed. It stays in its topic while it is answered again, and leaves it without an answer.
pub(super) fn rewritten(db: &Connection, key: i64, before: &Before, turn: &Turn) -> Result<(), StoreError> {
    match topic_of(db, key)? {
        Some(_) if turn.status == TurnStatus::Failed => send(db, "DELETE FROM topic_turn WHERE turn = ?1", [key]),
        // It has just joined, and says what it is known to say.
        Some(member) if !before.shown && member.messages == turn.spoken() => Ok(()),
        Some(member) => said_otherwise(db, key, &member, turn),
        None if before.superseded => Ok(()),
        None => listed(db, key, turn),
    }
}

/// What is kept of a turn that belongs to a topic.
struct Member {
    topic: i64,
    messages: usize,
    taken_in: bool,
}

fn topic_of(db: &Connection, key: i64) -> Result<Option<Member>, StoreError> {
    let sql = "SELECT topic, messages, taken_in FROM topic_turn WHERE turn = ?1";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let read = |row: &Row<'_>| Ok(Member { topic: row.get(0)?, messages: row.get(1)?, taken_in: row.get(2)? });
    statement.query_row([key], read).optional().map_err(|error| meaning(&error))
}

fn listed(db: &Connection, key: i64, turn: &Turn) -> Result<(), StoreError> {
    match turn.status.enters_context() {
        true => put_on_list(db, key),
        false => send(db, "DELETE FROM topic_todo WHERE turn = ?1", [key]),
    }
}

/// What a sketch knows of a turn cannot be taken out of it: it is made anew.
fn said_otherwise(db: &Connection, key: i64, member: &Member, turn: &Turn) -> Result<(), StoreError> {
    send(db, "UPDATE topic_turn SET messages = ?2 WHERE turn = ?1", params![key, turn.spoken()])?;
    let sql = "UPDATE topic SET version = version + 1, stale = max(stale, ?2) WHERE key = ?1";
    send(db, sql, params![member.topic, member.taken_in])?;
    tell::said_otherwise(db, member.topic, key)
}

/// A turn joins its topic, or begins it. One whose topic is gone meanwhile is placed later.
pub(super) fn join(db: &Connection, scope: &Scope, key: i64, turn: &Turn, to: &InTopic) -> Result<(), StoreError> {
    let at = turn.created_at.as_microsecond();
    match (live(db, scope, to.id)?, &to.begins) {
        (Some(topic), _) => {
            if enter(db, key, topic, turn)? {
                // One that comes late stands among those that were told already.
                tell::said_otherwise(db, topic, key)?;
                let sql = "UPDATE topic SET accesses = accesses + 1, last_used = max(last_used, ?2),
                               created_at = min(created_at, ?2), version = version + 1 WHERE key = ?1";
                send(db, sql, params![topic, at])?;
            }
            Ok(())
        }
        // Answered again, a turn is in a topic already.
        (None, Some(_)) if topic_of(db, key)?.is_some() => Ok(()),
        (None, Some(title)) if !is_known(db, scope, to.id)? => {
            let topic = begin(db, scope, to.id, title, key, at)?;
            enter(db, key, topic, turn).map(drop)
        }
        _ => put_on_list(db, key),
    }
}

/// Answers whether the turn belonged to none before.
fn enter(db: &Connection, key: i64, topic: i64, turn: &Turn) -> Result<bool, StoreError> {
    let sql = "INSERT OR IGNORE INTO topic_turn (turn, topic, messages) VALUES (?1, ?2, ?3)";
    let entered = execute(db, sql, params![key, topic, turn.spoken()])?;
    Ok(entered > 0)
}

fn begin(db: &Connection, scope: &Scope, id: TopicId, title: &str, first: i64, at: i64) -> Result<i64, StoreError> {
    let sql = "INSERT INTO topic (tenant, user, id, title, title_turn, created_at, last_used)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)";
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    send(db, sql, params![tenant, user, id.as_uuid().as_bytes(), title, first, at])?;
    Ok(db.last_insert_rowid())
}

/// The key of a topic that turns may join; one that became part of another stands for that.
pub(super) fn live(db: &Connection, scope: &Scope, id: TopicId) -> Result<Option<i64>, StoreError> {
    let sql = "SELECT live.key FROM topic AS named
               CROSS JOIN topic AS live ON live.key = coalesce(named.merged_into, named.key)
               WHERE named.tenant = ?1 AND named.user = ?2 AND named.id = ?3 AND live.forgotten_at IS NULL";
    look_up(db, sql, scope, id)
}

pub(super) fn is_known(db: &Connection, scope: &Scope, id: TopicId) -> Result<bool, StoreError> {
    let sql = "SELECT key FROM topic WHERE tenant = ?1 AND user = ?2 AND id = ?3";
    Ok(look_up(db, sql, scope, id)?.is_some())
}

/// A key found by (tenant, user, id).
pub(super) fn look_up(db: &Connection, sql: &str, scope: &Scope, id: TopicId) -> Result<Option<i64>, StoreError> {
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let who = params![scope.tenant().as_str(), scope.user().as_str(), id.as_uuid().as_bytes()];
    statement.query_row(who, |row| row.get(0)).optional().map_err(|error| meaning(&error))
}
