//! What people and the background make of topics.

use std::sync::Arc;

use super::super::connect::meaning;
use super::super::recall::SHOWN;
use super::super::row::{COLUMNS, TurnRow, to_json};
use super::super::session::{execute, send};
use super::super::sql::{Connection, OptionalExtension, Row, params};
use super::super::writer::Notes;
use super::super::{look, topic};
use super::{read, tell};
use crate::id::{SessionId, TopicId, TurnId};
use crate::scope::Scope;
use crate::store::{DerivedTopic, Faded, KeptTopic, PlacedTurn, StoreError, TopicMerge, TopicPatch};
use crate::topic::{Sketch, rated, rated_together};

/// Changes what people say about a topic.
pub(super) fn change(
    db: &Connection,
    scope: &Scope,
    id: TopicId,
    patch: &TopicPatch,
) -> Result<Option<KeptTopic>, StoreError> {
    let Some(key) = read::key(db, scope, id)? else { return Ok(None) };
    if let Some(title) = &patch.title {
        name(db, key, title)?;
    }
    if let Some(tags) = &patch.tags {
        send(db, "UPDATE topic SET tags = ?2 WHERE key = ?1", params![key, to_json(tags)])?;
    }
    let found = read::find(db, scope, id)?;
    let (Some(feedback), Some(kept)) = (patch.feedback, &found) else { return Ok(found) };
    let importance = rated(kept.topic.importance, feedback);
    send(db, "UPDATE topic SET importance = ?2 WHERE key = ?1", params![key, importance])?;
    read::find(db, scope, id)
}

/// Gives a topic the name that a person gave.
fn name(db: &Connection, key: i64, title: &str) -> Result<(), StoreError> {
    let sql = "UPDATE topic SET title = ?2, title_turn = NULL, title_knows = NULL, version = version + 1
               WHERE key = ?1";
    send(db, sql, params![key, title])
}

/// Places turns that are still as they were and belong to no topic.
pub(super) fn place(db: &Connection, turns: &[PlacedTurn]) -> Result<(), StoreError> {
    for placed in turns {
        let Some((session, row)) = unplaced(db, placed)? else { continue };
        let key = row.key;
        let Ok(turn) = row.turn(db, session) else { continue };
        send(db, "DELETE FROM topic_todo WHERE turn = ?1", [key])?;
        if look::around(db, key)?.member.is_none() {
            topic::join(db, &placed.scope, key, &turn, &placed.topic)?;
        }
    }
    Ok(())
}

fn unplaced(db: &Connection, placed: &PlacedTurn) -> Result<Option<(SessionId, TurnRow)>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS}, session.id FROM turn CROSS JOIN session ON session.key = turn.session
         WHERE turn.id = ?1 AND tenant = ?2 AND user = ?3 AND turn.checksum = ?4 AND {SHOWN} LIMIT 1"
    );
    let (tenant, user) = (placed.scope.tenant().as_str(), placed.scope.user().as_str());
    let values = params![placed.turn.as_uuid().as_bytes(), tenant, user, placed.stamp.0];
    let mut statement = db.prepare_cached(&sql).map_err(|error| meaning(&error))?;
    statement.query_row(values, read::with_session).optional().map_err(|error| meaning(&error))
}

/// Writes a sketch that was made from the topic as it is. Whatever joins or leaves a topic comes by here, so this is where it
/// is seen that a topic is due to be told.
pub(super) fn keep(db: &Connection, scope: &Scope, derived: &DerivedTopic, told: Telling) -> Result<bool, StoreError> {
    let state = read::state(db, scope, derived.id)?;
    let Some((key, _)) = state.filter(|(_, version)| *version == derived.version) else { return Ok(false) };
    write_sketch(db, key, &derived.sketch)?;
    derived.taken.iter().try_for_each(|turn| take_in(db, key, *turn))?;
    // Only so many turns are told beside a sketch: whoever holds the topic in memory is to look at those that are told next.
    let sql = "UPDATE topic SET version = version + 1
               WHERE key = ?1 AND EXISTS (SELECT 1 FROM topic_turn WHERE topic = ?1 AND taken_in = 0)";
    send(db, sql, [key])?;
    told.look(db, key)?;
    Ok(true)
}

/// Looks whether topics are due to be told, and says so to whoever does jobs.
#[derive(Clone)]
pub(super) struct Telling {
    pub(super) due: u64,
    pub(super) notes: Arc<Notes>,
}

impl Telling {
    fn look(&self, db: &Connection, topic: i64) -> Result<(), StoreError> {
        let asked = tell::look(db, topic, self.due)?;
        self.notes.jobs(asked);
        Ok(())
    }
}

fn write_sketch(db: &Connection, key: i64, sketch: &Sketch) -> Result<(), StoreError> {
    let sql = "INSERT INTO topic_sketch (topic, sketch) VALUES (?1, ?2)
               ON CONFLICT (topic) DO UPDATE SET sketch = excluded.sketch";
    send(db, sql, params![key, sketch.encode()])
}

fn take_in(db: &Connection, topic: i64, turn: TurnId) -> Result<(), StoreError> {
    let sql = "UPDATE topic_turn SET taken_in = 1
               WHERE topic = ?1 AND turn IN (SELECT key FROM turn WHERE id = ?2)";
    send(db, sql, params![topic, turn.as_uuid().as_bytes()])
}

/// Forgets what a topic's sketch knows, and names the topic after its first turn if nobody did.
pub(super) fn remake(db: &Connection, scope: &Scope, id: TopicId) -> Result<bool, StoreError> {
    let Some((key, _)) = read::state(db, scope, id)? else { return Ok(false) };
    send(db, "DELETE FROM topic_sketch WHERE topic = ?1", [key])?;
    send(db, "UPDATE topic_turn SET taken_in = 0 WHERE topic = ?1 AND taken_in = 1", [key])?;
    if let Some((first, title)) = read::first_words(db, key)? {
        let sql = "UPDATE topic SET title = ?2, title_turn = ?3 WHERE key = ?1 AND title = ''";
        send(db, sql, params![key, title, first])?;
    }
    send(db, "UPDATE topic SET stale = 0, version = version + 1 WHERE key = ?1", [key])?;
    Ok(true)
}

/// Makes one topic of two: turns, accesses and what people said go over, and the older title stays unless only the other was given
/// by a person.
pub(super) fn merge(db: &Connection, scope: &Scope, merge: &TopicMerge, told: Telling) -> Result<bool, StoreError> {
    let state = |(id, version)| Ok::<_, StoreError>(read::state(db, scope, id)?.filter(|(_, now)| *now == version));
    let (Some((into, _)), Some((from, _))) = (state(merge.into)?, state(merge.from)?) else { return Ok(false) };
    if into == from || untaken_in(db, into)? || untaken_in(db, from)? {
        return Ok(false);
    }
    write_sketch(db, into, &merge.sketch)?;
    send(db, "UPDATE topic_turn SET topic = ?1 WHERE topic = ?2", [into, from])?;
    let (mut said, other) = (said_of(db, into)?, said_of(db, from)?);
    if let (None, Some(title)) = (&said.name, &other.name) {
        name(db, into, title)?;
    }
    said.tags.extend(other.tags.into_iter().filter(|tag| !said.tags.contains(tag)).collect::<Vec<_>>());
    let importance = rated_together(said.importance, other.importance);
    let gathered = "UPDATE topic SET version = topic.version + 1, accesses = topic.accesses + other.accesses,
            importance = ?4, last_used = max(topic.last_used, other.last_used),
            created_at = min(topic.created_at, other.created_at), summary = NULL, told_by = NULL, told = 0, tags = ?3
        FROM topic AS other WHERE topic.key = ?1 AND other.key = ?2";
    send(db, gathered, params![into, from, to_json(&said.tags), importance])?;
    send(db, "UPDATE topic SET merged_into = ?1 WHERE key = ?2 OR merged_into = ?2", [into, from])?;
    execute(
        db,
        "UPDATE topic SET title = '', title_knows = NULL, summary = NULL, told_by = NULL, told = 0, due = 0,
                     tags = '[]' WHERE key = ?1",
        [from],
    )?;
    send(db, "DELETE FROM topic_sketch WHERE topic = ?1", [from])?;
    send(db, "UPDATE memory_answer SET topic = ?1 WHERE topic = ?2", [into, from])?;
    told.look(db, into)?;
    Ok(true)
}

/// What people said of a topic.
struct Said {
    name: Option<String>,
    tags: Vec<String>,
    importance: f64,
}

fn said_of(db: &Connection, topic: i64) -> Result<Said, StoreError> {
    let read = |row: &Row<'_>| {
        let tags: String = row.get(1)?;
        // The database checks that it is JSON.
        let tags = serde_json::from_str(&tags).unwrap_or_default();
        Ok(Said { name: row.get(0)?, tags, importance: row.get(2)? })
    };
    let sql = "SELECT CASE WHEN title_turn IS NULL THEN title END, tags, importance FROM topic WHERE key = ?1";
    db.query_row(sql, [topic], read).map_err(|error| meaning(&error))
}

/// What a sketch does not know cannot be merged; it is taken in first.
fn untaken_in(db: &Connection, topic: i64) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM topic_turn WHERE topic = ?1 AND taken_in = 0)
                   OR (SELECT stale = 1 FROM topic WHERE key = ?1)";
    db.query_row(sql, [topic], |row| row.get(0)).map_err(|error| meaning(&error))
}

/// Forgets topics that nobody used since they were found to have faded. What was kept to place messages goes; what they are
/// called and their turns stay.
pub(super) fn forget(db: &Connection, scope: &Scope, faded: &[Faded], at: i64) -> Result<Vec<TopicId>, StoreError> {
    let sql = "UPDATE topic SET forgotten_at = ?2, due = 0, version = version + 1 WHERE key = ?1 AND last_used = ?3";
    let mut forgotten = Vec::with_capacity(faded.len());
    for topic in faded {
        let Some((key, _)) = read::state(db, scope, topic.id)? else { continue };
        if execute(db, sql, params![key, at, topic.last_used.as_microsecond()])? > 0 {
            send(db, "DELETE FROM topic_sketch WHERE topic = ?1", [key])?;
            forgotten.push(topic.id);
        }
    }
    Ok(forgotten)
}

/// Sketches are to be made anew, of one user's topics or of everybody's. Answers how many.
pub(super) fn again(db: &Connection, scope: Option<&Scope>) -> Result<u64, StoreError> {
    let (tenant, user) = scope.map(|scope| (scope.tenant().as_str(), scope.user().as_str())).unzip();
    let sql = "UPDATE topic SET stale = 1, version = version + 1 WHERE forgotten_at IS NULL AND merged_into IS NULL
               AND (?1 IS NULL OR (tenant = ?1 AND user = ?2))";
    execute(db, sql, params![tenant, user]).map(|topics| topics as u64)
}
