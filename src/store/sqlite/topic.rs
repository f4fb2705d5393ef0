//! Which topic a turn belongs to, in SQL: what happens to that while turns are written.
//!
//! **Invariant:** a turn that is shown belongs to one topic or is on the list of those that belong to none. Whoever writes
//! a turn calls [`added`] or [`rewritten`]; triggers see to those that are hidden or removed.

use super::connect::meaning;
use super::recall::Before;
use super::session::send;
use super::sql::{Connection, OptionalExtension, params};
use super::topics::tell;
use crate::id::TopicId;
use crate::scope::Scope;
use crate::session::{InTopic, Turn, TurnStatus};
use crate::store::StoreError;
use crate::topic::title_of;

/// A new turn belongs to no topic yet.
pub(super) fn added(db: &Connection, key: i64, turn: &Turn) -> Result<(), StoreError> {
    match turn.enters_context() {
        true => put_on_list(db, key),
        false => Ok(()),
    }
}

pub(super) fn put_on_list(db: &Connection, key: i64) -> Result<(), StoreError> {
    send(db, "INSERT OR IGNORE INTO topic_todo (turn) VALUES (?1)", [key])
}

/// What a turn says has changed. It stays in its topic while it is answered again, and leaves it without an answer.
pub(super) fn rewritten(
    db: &Connection,
    key: i64,
    before: &Before,
    member: Option<Member>,
    turn: &Turn,
) -> Result<(), StoreError> {
    match member {
        Some(_) if turn.status == TurnStatus::Failed => send(db, "DELETE FROM topic_turn WHERE turn = ?1", [key]),
        // It has just joined, and says what it is known to say.
        Some(member) if !before.shown && member.messages == turn.spoken() => Ok(()),
        Some(member) => said_otherwise(db, key, &member, turn),
        None if before.superseded => Ok(()),
        None => listed(db, key, turn),
    }
}

/// What is kept of a turn that belongs to a topic.
pub(super) struct Member {
    pub(super) topic: i64,
    pub(super) messages: usize,
    pub(super) taken_in: bool,
}

fn listed(db: &Connection, key: i64, turn: &Turn) -> Result<(), StoreError> {
    match turn.enters_context() {
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

/// A turn that is in no topic joins one, or begins it. One whose topic is gone meanwhile is placed later. Answers where it is now.
pub(super) fn join(
    db: &Connection,
    scope: &Scope,
    key: i64,
    turn: &Turn,
    to: &InTopic,
) -> Result<Option<Member>, StoreError> {
    let at = turn.created_at.as_microsecond();
    match (joinable(db, scope, to.id, key)?, &to.begins) {
        (Some((topic, told)), _) => {
            let member = enter(db, key, topic, turn)?;
            if told {
                // One that comes late stands among those that were told already.
                tell::tell_again(db, topic, key)?;
            }
            // One that began with a picture has no title yet; one that lost its title is named when it is made anew.
            let sql = "UPDATE topic SET accesses = accesses + 1, last_used = max(last_used, ?2),
                           created_at = min(created_at, ?2), version = version + 1,
                           title_turn = iif(title = '' AND stale = 0, ?4, title_turn),
                           title = iif(title = '' AND stale = 0, ?3, title) WHERE key = ?1";
            send(db, sql, params![topic, at, title_of(&turn.question().text), key])?;
            Ok(Some(member))
        }
        (None, Some(title)) if !is_known(db, scope, to.id)? => {
            let topic = begin(db, scope, to.id, title, key, at)?;
            enter(db, key, topic, turn).map(Some)
        }
        _ => put_on_list(db, key).map(|()| None),
    }
}

fn enter(db: &Connection, key: i64, topic: i64, turn: &Turn) -> Result<Member, StoreError> {
    let messages = turn.spoken();
    send(db, "INSERT INTO topic_turn (turn, topic, messages) VALUES (?1, ?2, ?3)", params![key, topic, messages])?;
    Ok(Member { topic, messages, taken_in: false })
}

/// The key of a topic that a turn may join, and whether it tells of what is later than the turn.
fn joinable(db: &Connection, scope: &Scope, id: TopicId, turn: i64) -> Result<Option<(i64, bool)>, StoreError> {
    let sql = "SELECT live.key, live.told >= ?4 OR coalesce(live.title_knows >= ?4, false) FROM topic AS live
               WHERE live.key = (SELECT coalesce(named.merged_into, named.key) FROM topic AS named
                                 WHERE named.tenant = ?1 AND named.user = ?2 AND named.id = ?3)
                 AND live.forgotten_at IS NULL";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let values = params![scope.tenant().as_str(), scope.user().as_str(), id.as_uuid().as_bytes(), turn];
    let found = statement.query_row(values, |row| Ok((row.get(0)?, row.get(1)?))).optional();
    found.map_err(|error| meaning(&error))
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
