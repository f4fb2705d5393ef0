//! What is kept of topics.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

use super::super::connect::meaning;
use super::super::recall::{LOOKED_UP_AT_ONCE, SHOWN, ids_looked_up, looked_up};
use super::super::row::{COLUMNS, NEXT, TurnRow};
use super::super::session::{self, rows_max};
use super::super::sql::{self, Connection, OptionalExtension, Row, params};
use super::super::topic::look_up;
use crate::clock::from_micros;
use crate::id::{SessionId, TopicId, TurnId};
use crate::scope::Scope;
use crate::session::Turn;
use crate::store::{
    KeptTopic, Moment, Page, PageRequest, SketchedTopic, Stamp, StoreError, TOPICS_PLACED_MAX, TopicOutline,
    UntakenTurn, WhichTopics,
};
use crate::topic::{Sketch, Topic, title_of};

/// Turns that are told beside a sketch that does not know them.
const UNTAKEN_MAX: usize = 64;
/// The last turns of a topic that are named.
const LAST_TURNS: usize = 32;
/// How far back in a conversation its topic is looked for: turns that wait for theirs are few.
const CURRENT_WITHIN: usize = 16;

/// The topics that a message may join: the last used.
pub(in super::super) const LIVE: &str = "SELECT id, version FROM topic INDEXED BY topic_live
     WHERE tenant = ?1 AND user = ?2 AND forgotten_at IS NULL AND merged_into IS NULL
     ORDER BY last_used DESC, id DESC LIMIT ?3";

/// The topic of the last turn of a conversation that has one.
pub(in super::super) const CURRENT: &str = "SELECT topic.id FROM (
         SELECT key, number FROM turn WHERE session = ?1 AND number < ?2 AND superseded = 0
         ORDER BY number DESC LIMIT ?3) AS turn
     CROSS JOIN topic_turn ON topic_turn.turn = turn.key CROSS JOIN topic ON topic.key = topic_turn.topic
     ORDER BY turn.number DESC LIMIT 1";

pub(super) fn outline(db: &Connection, scope: &Scope, at: Option<Moment>) -> Result<TopicOutline, StoreError> {
    let who = params![scope.tenant().as_str(), scope.user().as_str(), rows_max(TOPICS_PLACED_MAX)];
    let topics = all(db, LIVE, who, |row| Ok((topic_id(row, 0)?, row.get(1)?)))?;
    let current = match at {
        Some(at) if !topics.is_empty() => current(db, scope, at)?,
        _ => None,
    };
    Ok(TopicOutline { topics, current })
}

fn current(db: &Connection, scope: &Scope, at: Moment) -> Result<Option<TopicId>, StoreError> {
    let Some((session, _)) = session::find(db, scope, at.session)? else { return Ok(None) };
    let before = at.before.and_then(|before| i64::try_from(before).ok()).unwrap_or(i64::MAX);
    let values = params![session, before, rows_max(CURRENT_WITHIN)];
    Ok(all(db, CURRENT, values, |row| topic_id(row, 0))?.pop())
}

pub(super) fn sketches(
    db: &Connection,
    scope: &Scope,
    ids: &[TopicId],
    known: &HashSet<(TurnId, Stamp)>,
) -> Result<Vec<SketchedTopic>, StoreError> {
    let sql = "SELECT key, version, title, stale, sketch FROM topic LEFT JOIN topic_sketch ON topic = key
               WHERE tenant = ?1 AND user = ?2 AND id = ?3 AND forgotten_at IS NULL AND merged_into IS NULL";
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        let who = params![scope.tenant().as_str(), scope.user().as_str(), id.as_uuid().as_bytes()];
        for (key, topic) in all(db, sql, who, |row| Ok((row.get(0)?, sketched(row, *id)?)))? {
            found.push(SketchedTopic { untaken: untaken(db, key, known)?, last: last_ids(db, key)?, ..topic });
        }
    }
    Ok(found)
}

/// A sketch that cannot be read counts as missing, and is made anew.
fn sketched(row: &Row<'_>, id: TopicId) -> sql::Result<SketchedTopic> {
    let bytes: Option<Vec<u8>> = row.get(4)?;
    let sketch = bytes.as_deref().map(Sketch::decode);
    Ok(SketchedTopic {
        id,
        version: row.get(1)?,
        title: row.get(2)?,
        stale: row.get::<_, bool>(3)? || matches!(sketch, Some(None)),
        sketch: sketch.flatten().unwrap_or_default(),
        sketch_state: bytes.as_deref().map_or(0, xxh3_64),
        untaken: Vec::new(),
        last: Vec::new(),
    })
}

fn untaken(db: &Connection, topic: i64, known: &HashSet<(TurnId, Stamp)>) -> Result<Vec<UntakenTurn>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS}, session.id FROM topic_turn CROSS JOIN turn ON turn.key = topic_turn.turn
         CROSS JOIN session ON session.key = turn.session
         WHERE topic_turn.topic = ?1 AND taken_in = 0 AND {SHOWN} ORDER BY topic_turn.turn LIMIT ?2"
    );
    let rows = all(db, &sql, params![topic, rows_max(UNTAKEN_MAX)], with_session)?;
    let untaken = rows.into_iter().map(|(session, row)| {
        let (id, stamp) = (row.id, Stamp(row.checksum));
        let turn = if known.contains(&(id, stamp)) { None } else { row.said(db, session).ok() };
        UntakenTurn { id, stamp, turn }
    });
    Ok(untaken.collect())
}

fn last_ids(db: &Connection, topic: i64) -> Result<Vec<TurnId>, StoreError> {
    let sql = "SELECT turn.id FROM topic_turn CROSS JOIN turn ON turn.key = topic_turn.turn
               WHERE topic_turn.topic = ?1 ORDER BY topic_turn.turn DESC LIMIT ?2";
    let mut last = all(db, sql, params![topic, rows_max(LAST_TURNS)], |row| turn_id(row, 0))?;
    last.reverse();
    Ok(last)
}

/// A topic, in the order of [`kept`].
const KEPT: &str =
    "topic.key, topic.id, title, summary, importance, accesses, tags, created_at, last_used, forgotten_at,
     (SELECT coalesce(sum(messages), 0) FROM topic_turn WHERE topic = topic.key),
     (SELECT coalesce(sum(messages), 0) FROM topic_turn WHERE topic = topic.key AND turn > topic.told)";

fn kept(row: &Row<'_>) -> sql::Result<(u64, KeptTopic)> {
    let tags: String = row.get(6)?;
    let topic = Topic {
        id: topic_id(row, 1)?,
        title: row.get(2)?,
        summary: row.get(3)?,
        importance: row.get(4)?,
        accesses: row.get(5)?,
        messages: row.get(10)?,
        // The database checks that it is JSON.
        tags: serde_json::from_str(&tags).unwrap_or_default(),
        created_at: from_micros(row.get(7)?),
        last_used: from_micros(row.get(8)?),
    };
    let forgotten_at = row.get::<_, Option<i64>>(9)?.map(from_micros);
    Ok((row.get(0)?, KeptTopic { topic, forgotten_at, untold: row.get(11)? }))
}

pub(in super::super) fn list_sql() -> String {
    format!(
        "SELECT {KEPT} FROM topic WHERE tenant = ?1 AND user = ?2 AND key > ?3 AND merged_into IS NULL
           AND (?4 OR forgotten_at IS NULL)
           AND (?5 IS NULL OR EXISTS (SELECT 1 FROM json_each(tags) AS tag WHERE tag.value = ?5))
         ORDER BY key LIMIT ?6"
    )
}

pub(super) fn list(db: &Connection, scope: &Scope, which: &WhichTopics) -> Result<Page<KeptTopic>, StoreError> {
    let after = which.after.map_or(0, |after| i64::try_from(after).unwrap_or(i64::MAX));
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let rows = rows_max(which.limit.saturating_add(1));
    let values = params![tenant, user, after, which.forgotten, which.tag, rows];
    Ok(Page::cut(all(db, &list_sql(), values, kept)?, which.limit))
}

/// The key of a topic; one that became part of another stands for that.
pub(super) fn key(db: &Connection, scope: &Scope, id: TopicId) -> Result<Option<i64>, StoreError> {
    let sql = "SELECT coalesce(merged_into, key) FROM topic WHERE tenant = ?1 AND user = ?2 AND id = ?3";
    look_up(db, sql, scope, id)
}

pub(super) fn find(db: &Connection, scope: &Scope, id: TopicId) -> Result<Option<KeptTopic>, StoreError> {
    let Some(key) = key(db, scope, id)? else { return Ok(None) };
    let sql = format!("SELECT {KEPT} FROM topic WHERE key = ?1");
    Ok(all(db, &sql, [key], kept)?.pop().map(|(_, topic)| topic))
}

/// The turns of a topic; the cursor is the turn's key.
pub(super) fn turns(
    db: &Connection,
    scope: &Scope,
    id: TopicId,
    archived: bool,
    page: PageRequest,
) -> Result<Option<Page<(u64, Turn)>>, StoreError> {
    let Some(topic) = key(db, scope, id)? else { return Ok(None) };
    let values = params![topic, session::cursor(page), rows_max(page.limit.saturating_add(1))];
    let from = if archived { "> ?2" } else { "> ?2 AND turn.block IS NULL" };
    let rows = all(db, &turns_sql(from, "ASC"), values, with_session)?;
    let decode = |(session, row): (SessionId, TurnRow)| {
        let cursor = row.key as u64;
        Ok((cursor, (cursor, row.turn(db, session)?)))
    };
    let found = rows.into_iter().map(decode).collect::<Result<Vec<_>, StoreError>>()?;
    Ok(Some(Page::cut(found, page.limit)))
}

/// How many messages of a topic are in blocks.
pub(super) fn archived_messages(db: &Connection, scope: &Scope, id: TopicId) -> Result<u64, StoreError> {
    let Some(topic) = key(db, scope, id)? else { return Ok(0) };
    let sql =
        "SELECT coalesce(sum(topic_turn.messages), 0) FROM topic_turn CROSS JOIN turn ON turn.key = topic_turn.turn
               WHERE topic_turn.topic = ?1 AND turn.block IS NOT NULL";
    db.query_row(sql, [topic], |row| row.get(0)).map_err(|error| meaning(&error))
}

pub(super) fn last_turns(
    db: &Connection,
    scope: &Scope,
    id: TopicId,
    turns_max: usize,
) -> Result<Option<Vec<Turn>>, StoreError> {
    let Some(topic) = key(db, scope, id)? else { return Ok(None) };
    let values = params![topic, i64::MAX, rows_max(turns_max)];
    let rows = all(db, &turns_sql("< ?2", "DESC"), values, with_session)?;
    let mut turns = rows.into_iter().map(|(session, row)| row.turn(db, session)).collect::<Result<Vec<_>, _>>()?;
    turns.reverse();
    Ok(Some(turns))
}

/// The first turn of a topic that can be read and has words, and the title it gives.
pub(super) fn first_words(db: &Connection, topic: i64) -> Result<Option<(i64, String)>, StoreError> {
    let rows = all(db, &turns_sql("> ?2", "ASC"), params![topic, 0, rows_max(UNTAKEN_MAX)], with_session)?;
    let title = |(session, row): (SessionId, TurnRow)| {
        let key = row.key;
        let title = title_of(&row.turn(db, session).ok()?.question().text);
        (!title.is_empty()).then_some((key, title))
    };
    Ok(rows.into_iter().find_map(title))
}

pub(in super::super) fn turns_sql(from: &str, direction: &str) -> String {
    format!(
        "SELECT {COLUMNS}, session.id FROM topic_turn CROSS JOIN turn ON turn.key = topic_turn.turn
         CROSS JOIN session ON session.key = turn.session
         WHERE topic_turn.topic = ?1 AND topic_turn.turn {from} ORDER BY topic_turn.turn {direction} LIMIT ?3"
    )
}

pub(super) fn of_turns(db: &Connection, scope: &Scope, turns: &[TurnId]) -> Result<Vec<(TurnId, TopicId)>, StoreError> {
    let sql = format!(
        "SELECT turn.id, topic.id FROM turn CROSS JOIN topic_turn ON topic_turn.turn = turn.key
         CROSS JOIN topic ON topic.key = topic_turn.topic
         WHERE turn.id IN ({}) AND topic.tenant = ?1 AND topic.user = ?2",
        ids_looked_up()
    );
    let read = |row: &Row<'_>| Ok((TurnId::from_uuid(Uuid::from_bytes(row.get(0)?)), topic_id(row, 1)?));
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let mut found: HashMap<TurnId, TopicId> = HashMap::with_capacity(turns.len());
    for some in turns.chunks(LOOKED_UP_AT_ONCE) {
        found.extend(all(db, &sql, looked_up(&tenant, &user, some).as_slice(), read)?);
    }
    Ok(turns.iter().filter_map(|turn| Some((*turn, *found.get(turn)?))).collect())
}

/// Topics that are to be made anew, then those with turns that their sketch does not know.
pub(super) fn due(db: &Connection, limit: usize) -> Result<Vec<(Scope, TopicId)>, StoreError> {
    let live = "forgotten_at IS NULL AND merged_into IS NULL";
    let stale = format!("SELECT tenant, user, id FROM topic WHERE stale = 1 AND {live} LIMIT ?1");
    let untaken = format!(
        "SELECT DISTINCT tenant, user, topic.id FROM topic_turn INDEXED BY topic_turn_untaken
         CROSS JOIN topic ON topic.key = topic_turn.topic CROSS JOIN turn ON turn.key = topic_turn.turn
         WHERE taken_in = 0 AND stale = 0 AND {live} AND {SHOWN} LIMIT ?1"
    );
    let read = |row: &Row<'_>| {
        let scope = Scope::as_stored(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?);
        Ok((scope, topic_id(row, 2)?))
    };
    let mut due = all(db, &stale, [rows_max(limit)], read)?;
    due.extend(all(db, &untaken, [rows_max(limit - due.len())], read)?);
    Ok(due)
}

/// Users with more than so many topics that turns may join.
pub(super) fn crowded(db: &Connection, topics_max: usize, limit: usize) -> Result<Vec<Scope>, StoreError> {
    let sql = "SELECT tenant, user FROM topic WHERE forgotten_at IS NULL AND merged_into IS NULL
               GROUP BY tenant, user HAVING count(*) > ?1 LIMIT ?2";
    let read = |row: &Row<'_>| Ok(Scope::as_stored(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?));
    all(db, sql, params![rows_max(topics_max), rows_max(limit)], read)
}

/// All rows of a statement from the cache.
pub(super) fn all<T>(
    db: &Connection,
    sql: &str,
    values: impl sql::Params,
    read: impl FnMut(&Row<'_>) -> sql::Result<T>,
) -> Result<Vec<T>, StoreError> {
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let rows = statement.query_map(values, read).map_err(|error| meaning(&error))?;
    rows.collect::<Result<_, _>>().map_err(|error| meaning(&error))
}

/// The state a topic is in, if turns may still join it, with its key.
pub(super) fn state(db: &Connection, scope: &Scope, id: TopicId) -> Result<Option<(i64, u64)>, StoreError> {
    let sql = "SELECT key, version FROM topic WHERE tenant = ?1 AND user = ?2 AND id = ?3
                 AND forgotten_at IS NULL AND merged_into IS NULL";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let who = params![scope.tenant().as_str(), scope.user().as_str(), id.as_uuid().as_bytes()];
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    statement.query_row(who, read).optional().map_err(|error| meaning(&error))
}

pub(super) fn with_session(row: &Row<'_>) -> sql::Result<(SessionId, TurnRow)> {
    Ok((SessionId::from_uuid(Uuid::from_bytes(row.get(NEXT)?)), TurnRow::read(row)?))
}

pub(super) fn topic_id(row: &Row<'_>, column: usize) -> sql::Result<TopicId> {
    Ok(TopicId::from_uuid(Uuid::from_bytes(row.get(column)?)))
}

fn turn_id(row: &Row<'_>, column: usize) -> sql::Result<TurnId> {
    Ok(TurnId::from_uuid(Uuid::from_bytes(row.get(column)?)))
}
