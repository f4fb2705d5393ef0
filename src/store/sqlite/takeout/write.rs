//! What is taken in.

use jiff::Timestamp;

use super::super::connect::meaning;
use super::super::job::{self, Follow, after_turn};
use super::super::row::to_json;
use super::super::session::{self, Place, execute, send, ttl_column};
use super::super::sql::{Connection, OptionalExtension, Row, params};
use super::super::{consolidate, place, revision, topic as topics, turn};
use crate::episode::{Episode, Level};
use crate::id::{SessionId, TurnId};
use crate::job::JobKind;
use crate::scope::Scope;
use crate::session::{Fingerprint, Turn, TurnStatus};
use crate::store::{Arrival, StoreError, TakenIn, check};
use crate::takeout::{EpisodeRecord, SessionRecord, TopicLink, TopicRecord, TurnRecord};

/// Stands for a turn that is yet to come: no turn has this key.
const TO_COME: i64 = 0;

/// What taking in would come to.
pub(super) fn look(db: &Connection, scope: &Scope, arrival: &Arrival) -> Result<TakenIn, StoreError> {
    let key = session::find(db, scope, arrival.session.id)?.map(|(key, _)| key);
    let mut taken = TakenIn { new: key.is_none(), ..TakenIn::default() };
    for record in &arrival.turns {
        check(record)?;
        match key.map(|key| known(db, key, record.id)).transpose()?.flatten() {
            Some(known) if known.waits => taken.completed += u64::from(record.messages.len() > 1),
            Some(_) => taken.known += 1,
            None => taken.count(record),
        }
    }
    for record in &arrival.episodes {
        let untold = key.map_or(Ok(true), |key| is_untold(db, key, &record.episode))?;
        taken.episodes += u64::from(untold);
    }
    Ok(taken)
}

/// Writes a conversation, or a part of it.
pub(super) fn take_in(
    db: &Connection,
    scope: &Scope,
    arrival: Arrival,
    now: Timestamp,
    follow: Follow<'_>,
) -> Result<TakenIn, StoreError> {
    check::metadata(&arrival.session.metadata)?;
    let (mut place, new) = place_for(db, scope, &arrival.session)?;
    let mut taken = TakenIn { new, ..TakenIn::default() };
    taken.episodes = episodes(db, scope, &mut place, arrival.session.id, &arrival.episodes, follow)?;
    let free = last_number(db, place.key)? + 1;
    let mut arriving = Arriving { free, db, scope, session: arrival.session.id, place: &mut place, follow, now };
    let mut otherwise = Vec::new();
    let (mut last, mut latest) = (0, None);
    for record in &arrival.turns {
        check(record)?;
        match known(db, arriving.place.key, record.id)? {
            None => {
                last = arriving.insert(record)?;
                latest = latest.max(spoken_until(record));
                taken.count(record);
            }
            Some(known) if known.waits && arriving.complete(record)? => taken.completed += 1,
            Some(known) => {
                taken.known += 1;
                otherwise.extend((known.superseded != record.superseded).then_some((known.number, record.superseded)));
            }
        }
    }
    // Whoever goes on elsewhere may have left a branch that is here. A file that brings nothing new says nothing new.
    if taken.turns > 0 {
        arriving.shift(&otherwise)?;
        grow(db, &place, taken.turns, latest)?;
        follow_up(db, &place, last, follow)?;
    }
    Ok(taken)
}

/// When the last word of a turn was said that comes without a number, and so without its session's times.
fn spoken_until(record: &TurnRecord) -> Option<i64> {
    let times = record.messages.iter().map(|message| message.created_at.as_microsecond());
    times.max().filter(|_| record.number.is_none())
}

fn check(record: &TurnRecord) -> Result<(), StoreError> {
    check::record(record.status, &record.messages, &record.metadata)?;
    record.revisions.iter().try_for_each(|revision| check::readable(&revision.messages))
}

/// The conversation's row; it is made if need be, with its own dates. Answers whether it was.
fn place_for(db: &Connection, scope: &Scope, record: &SessionRecord) -> Result<(Place, bool), StoreError> {
    let sql = "INSERT INTO session (tenant, user, id, kind, metadata, ttl, ttl_of_tenant, next_number, turns, created_at,
                                    updated_at, last_accessed, history)
               VALUES (?1, ?2, ?3, ?4, ?5, coalesce(?6, (SELECT ttl FROM tenant WHERE name = ?1)), CASE WHEN ?6 IS NULL THEN 1 ELSE 0 END, ?7, 0, ?8, ?9,
                       ?10, ?11) ON CONFLICT (tenant, user, id) DO NOTHING";
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let values = params![
        tenant,
        user,
        record.id.as_uuid().as_bytes(),
        record.kind.as_str(),
        to_json(&record.metadata),
        ttl_column(record.ttl),
        i64::try_from(record.next_number).unwrap_or(i64::MAX).max(1),
        record.created_at.as_microsecond(),
        record.updated_at.as_microsecond(),
        record.last_accessed.as_microsecond(),
        place::mode_word(record.history),
    ];
    let new = execute(db, sql, values)? > 0;
    let sql = "SELECT key, next_number, ttl FROM session WHERE tenant = ?1 AND user = ?2 AND id = ?3";
    let read = |row: &Row<'_>| Ok(Place { key: row.get(0)?, number: row.get(1)?, ttl: row.get(2)? });
    let key = params![tenant, user, record.id.as_uuid().as_bytes()];
    let place = db.query_row(sql, key, read).map_err(|error| meaning(&error))?;
    Ok((place, new))
}

fn last_number(db: &Connection, session_key: i64) -> Result<u64, StoreError> {
    let sql = "SELECT coalesce(max(number), 0) FROM turn WHERE session = ?1";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    statement.query_row([session_key], |row| row.get(0)).map_err(|error| meaning(&error))
}

/// What is here of a turn.
struct Known {
    number: u64,
    superseded: bool,
    /// Whether it has a question and nothing else.
    waits: bool,
}

fn known(db: &Connection, session_key: i64, id: TurnId) -> Result<Option<Known>, StoreError> {
    let sql =
        "SELECT number, superseded, status = 'partial' AND answer IS NULL FROM turn WHERE id = ?1 AND session = ?2";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let read = |row: &Row<'_>| Ok(Known { number: row.get(0)?, superseded: row.get(1)?, waits: row.get(2)? });
    let found = statement.query_row(params![id.as_uuid().as_bytes(), session_key], read).optional();
    found.map_err(|error| meaning(&error))
}

/// A conversation that turns arrive in.
struct Arriving<'a> {
    db: &'a Connection,
    scope: &'a Scope,
    session: SessionId,
    place: &'a mut Place,
    follow: Follow<'a>,
    now: Timestamp,
    /// The first number that no turn here has, nor any before it.
    free: u64,
}

impl Arriving<'_> {
    /// Writes a turn in its place. Answers its number.
    fn insert(&mut self, record: &TurnRecord) -> Result<u64, StoreError> {
        let (db, number) = (self.db, self.number(record));
        let turn = as_kept(record, self.session, number);
        let parent = record.parent.map(|id| known(db, self.place.key, id)).transpose()?.flatten();
        let parent = parent.map_or(0, |parent| parent.number);
        let before = self.chain_after(parent)?;
        let key = turn::insert(db, self.place, &turn)?;
        place::insert(db, key, &turn, parent, before, &record.client)?;
        let sql = "UPDATE place SET attempt = ?2, revised = ?3 WHERE turn = ?1";
        if record.attempt > 0 || !record.revisions.is_empty() {
            send(db, sql, params![key, record.attempt, !record.revisions.is_empty()])?;
        }
        record.revisions.iter().try_for_each(|other| revision::take_in(db, key, turn.id, other))?;
        if record.superseded {
            send(db, "UPDATE turn SET superseded = 1 WHERE key = ?1", [key])?;
        } else if let Some(link) = record.topic.filter(|_| turn.enters_context()) {
            join(db, self.scope, key, &turn, link)?;
        }
        self.free = number + 1;
        self.place.number = self.place.number.max(self.free);
        Ok(number)
    }

    /// The number it had, if it is free and stands behind the others; else the session's next. A number that was given out
    /// before belongs to this turn or to one that is gone.
    fn number(&self, record: &TurnRecord) -> u64 {
        let had = record.number.filter(|number| *number >= self.free && *number < i64::MAX as u64);
        had.unwrap_or_else(|| self.place.number.max(self.free))
    }

    /// The chain of what was said before a turn that follows this one.
    fn chain_after(&self, parent: u64) -> Result<Option<Fingerprint>, StoreError> {
        if parent == 0 {
            let (tenant, user) = (self.scope.tenant().as_str(), self.scope.user().as_str());
            return Ok(Some(Fingerprint::beginning(tenant, user)));
        }
        let sql = "SELECT chain FROM turn JOIN place ON place.turn = turn.key WHERE session = ?1 AND number = ?2";
        let mut statement = self.db.prepare_cached(sql).map_err(|error| meaning(&error))?;
        let read = |row: &Row<'_>| row.get::<_, Option<[u8; 16]>>(0);
        let found = statement.query_row(params![self.place.key, parent], read).optional();
        Ok(found.map_err(|error| meaning(&error))?.flatten().map(Fingerprint::from_bytes))
    }

    /// Gives a turn that waited for its answer what followed its question. Answers whether it was that turn.
    fn complete(&mut self, record: &TurnRecord) -> Result<bool, StoreError> {
        let Some((_, row)) = turn::find(self.db, self.scope, self.session, record.id)? else { return Ok(false) };
        let key = row.key;
        let mut turn = row.turn(self.db, self.session)?;
        let goes_on = record.messages.len() > turn.messages.len() && record.messages.starts_with(&turn.messages);
        if !goes_on {
            return Ok(false);
        }
        turn.messages.clone_from(&record.messages);
        turn.status = record.status;
        turn::rewrite(self.db, key, &turn)?;
        let used = "UPDATE session SET updated_at = max(updated_at, ?2) WHERE key = ?1";
        send(self.db, used, params![self.place.key, self.now.as_microsecond()])?;
        after_turn(self.db, self.place.key, turn.number, self.follow)?;
        Ok(true)
    }

    /// Shows and hides turns that were here.
    fn shift(&self, otherwise: &[(u64, bool)]) -> Result<(), StoreError> {
        let numbers = |hidden: bool| {
            otherwise.iter().filter(|(_, superseded)| *superseded == hidden).map(|(number, _)| *number).collect()
        };
        let shift = crate::session::Shift { hide: numbers(true), show: numbers(false), ..Default::default() };
        place::shift(self.db, self.place.key, &shift)
    }
}

/// A turn as it is kept. One that was being answered when it was exported will not be any more.
fn as_kept(record: &TurnRecord, session: SessionId, number: u64) -> Turn {
    let status = match record.status {
        TurnStatus::Pending if record.messages.len() > 1 => TurnStatus::Partial,
        TurnStatus::Pending => TurnStatus::Failed,
        status => status,
    };
    let mut turn = Turn {
        id: record.id,
        session,
        number,
        status,
        messages: record.messages.clone(),
        metadata: record.metadata.clone(),
        created_at: record.created_at,
        superseded: false,
    };
    if record.status == TurnStatus::Pending {
        turn.metadata.insert("reason".into(), "it was exported before the answer came".into());
    }
    // The row has one time for both.
    turn.messages[0].created_at = turn.created_at;
    turn
}

/// A turn belongs to the topic that it belonged to. One whose topic is not here is placed later.
fn join(db: &Connection, scope: &Scope, key: i64, turn: &Turn, link: TopicLink) -> Result<(), StoreError> {
    let sql = "SELECT coalesce(merged_into, key) FROM topic WHERE tenant = ?1 AND user = ?2 AND id = ?3";
    let Some(topic) = topics::look_up(db, sql, scope, link.id)? else { return Ok(()) };
    send(db, "DELETE FROM topic_todo WHERE turn = ?1", [key])?;
    let enter = "INSERT OR IGNORE INTO topic_turn (turn, topic, messages) VALUES (?1, ?2, ?3)";
    send(db, enter, params![key, topic, turn.spoken()])?;
    let told = "UPDATE topic SET version = version + 1, title_turn = iif(?3 AND title_turn = ?4, ?2, title_turn),
                    title_knows = iif(?5 AND title_turn IS NOT NULL, ?2, title_knows) WHERE key = ?1";
    send(db, told, params![topic, key, link.gives_title, TO_COME, link.in_title])
}

/// The session's row after turns arrived.
fn grow(db: &Connection, place: &Place, turns: u64, latest: Option<i64>) -> Result<(), StoreError> {
    let sql = "UPDATE session SET turns = turns + ?2, next_number = max(next_number, ?3),
                   updated_at = max(updated_at, coalesce(?4, updated_at)),
                   last_accessed = max(last_accessed, coalesce(?4, last_accessed)) WHERE key = ?1";
    send(db, sql, params![place.key, turns, place.number, latest])
}

/// What follows turns that are not summarised yet.
fn follow_up(db: &Connection, place: &Place, last: u64, follow: Follow<'_>) -> Result<(), StoreError> {
    let sql = "SELECT consolidated FROM session WHERE key = ?1";
    let consolidated: u64 = db.query_row(sql, [place.key], |row| row.get(0)).map_err(|error| meaning(&error))?;
    if last > consolidated { after_turn(db, place.key, last, follow) } else { Ok(()) }
}

/// Writes the episodes of a conversation that tell of what nothing here tells of, and how far they come.
fn episodes(
    db: &Connection,
    scope: &Scope,
    place: &mut Place,
    session: SessionId,
    records: &[EpisodeRecord],
    follow: Follow<'_>,
) -> Result<u64, StoreError> {
    let (mut taken, mut stale, key) = (0, false, place.key);
    for record in records {
        let EpisodeRecord { episode, .. } = record;
        if !is_untold(db, key, episode)? {
            continue;
        }
        consolidate::keep(db, key, scope, session, episode)?;
        if record.stale {
            mark_stale(db, key, episode.id.as_uuid().as_bytes())?;
        }
        if episode.level == Level::Stretch {
            // A turn whose number an episode covers would never be summarised, so the next one comes behind it.
            place.number = place.number.max(episode.last + 1);
            let sql = "UPDATE session SET consolidated = ?2, next_number = max(next_number, ?3) WHERE key = ?1";
            send(db, sql, params![key, episode.last, place.number])?;
        }
        (taken, stale) = (taken + 1, stale || record.stale);
    }
    if stale {
        job::ask_for(db, key, &JobKind::CONSOLIDATE)?;
        follow.notes.jobs(true);
    }
    Ok(taken)
}

/// Whether no episode here tells of these turns. A stretch must go on where the last one ends: what lies between would never
/// be told.
fn is_untold(db: &Connection, key: i64, episode: &Episode) -> Result<bool, StoreError> {
    let sql =
        "SELECT NOT EXISTS (SELECT 1 FROM episode WHERE session_key = ?1 AND level = ?2 AND first <= ?4 AND last >= ?3)
                   AND (?2 <> 'stretch' OR NOT EXISTS (SELECT 1 FROM turn WHERE session = ?1 AND number < ?3
                        AND number > (SELECT consolidated FROM session WHERE key = ?1)))";
    let values = params![key, episode.level.as_str(), episode.first, episode.last];
    db.query_row(sql, values, |row| row.get(0)).map_err(|error| meaning(&error))
}

fn mark_stale(db: &Connection, session_key: i64, id: &[u8; 16]) -> Result<(), StoreError> {
    let sql = "UPDATE episode SET stale = 1 WHERE session_key = ?1 AND id = ?2";
    send(db, sql, params![session_key, id])
}

/// Whether nobody here knows this episode.
pub(super) fn is_new_episode(db: &Connection, scope: &Scope, record: &EpisodeRecord) -> Result<bool, StoreError> {
    let sql = "SELECT NOT EXISTS (SELECT 1 FROM episode WHERE tenant = ?1 AND user = ?2 AND session = ?3 AND id = ?4)";
    let EpisodeRecord { episode, .. } = record;
    let (session, id) = (episode.session.as_uuid().as_bytes(), episode.id.as_uuid().as_bytes());
    let values = params![scope.tenant().as_str(), scope.user().as_str(), session, id];
    db.query_row(sql, values, |row| row.get(0)).map_err(|error| meaning(&error))
}

/// Writes an episode that outlived its conversation. Answers whether it is new.
pub(super) fn gone(db: &Connection, scope: &Scope, record: &EpisodeRecord) -> Result<bool, StoreError> {
    if !is_new_episode(db, scope, record)? {
        return Ok(false);
    }
    let key = match former_life(db, scope, record)? {
        Some(key) => key,
        None => used_up_key(db, scope, record)?,
    };
    consolidate::keep(db, key, scope, record.episode.session, &record.episode)?;
    if record.stale {
        mark_stale(db, key, record.episode.id.as_uuid().as_bytes())?;
    }
    Ok(true)
}

/// A life of the conversation that is over and has room for this episode.
fn former_life(db: &Connection, scope: &Scope, record: &EpisodeRecord) -> Result<Option<i64>, StoreError> {
    let sql = "SELECT min(session_key) FROM episode AS told WHERE tenant = ?1 AND user = ?2 AND session = ?3
                 AND NOT EXISTS (SELECT 1 FROM session WHERE session.key = told.session_key)
                 AND NOT EXISTS (SELECT 1 FROM episode AS same WHERE same.session_key = told.session_key
                                   AND same.level = ?4 AND same.first = ?5)";
    let EpisodeRecord { episode, .. } = record;
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let values = params![tenant, user, episode.session.as_uuid().as_bytes(), episode.level.as_str(), episode.first];
    db.query_row(sql, values, |row| row.get(0)).map_err(|error| meaning(&error))
}

/// A key that no session has or will have: keys are never used again.
fn used_up_key(db: &Connection, scope: &Scope, record: &EpisodeRecord) -> Result<i64, StoreError> {
    let sql = "INSERT INTO session (tenant, user, id, kind, metadata, next_number, turns, created_at, updated_at, last_accessed)
               VALUES (?1, '~', ?2, 'durable', '{}', 1, 0, 0, 0, 0)";
    send(db, sql, params![scope.tenant().as_str(), record.episode.id.as_uuid().as_bytes()])?;
    let key = db.last_insert_rowid();
    send(db, "DELETE FROM session WHERE key = ?1", [key])?;
    Ok(key)
}

/// Whether nobody here knows this topic.
pub(super) fn is_new_topic(db: &Connection, scope: &Scope, record: &TopicRecord) -> Result<bool, StoreError> {
    topics::is_known(db, scope, record.topic.id).map(|known| !known)
}

/// Writes a topic; its turns come later, and its sketch is made from them. Answers whether it is new.
pub(super) fn topic(db: &Connection, scope: &Scope, record: &TopicRecord) -> Result<bool, StoreError> {
    if !is_new_topic(db, scope, record)? {
        return Ok(false);
    }
    let into = "SELECT key FROM topic WHERE tenant = ?1 AND user = ?2 AND id = ?3 AND merged_into IS NULL";
    let merged_into = record.merged_into.map(|id| topics::look_up(db, into, scope, id)).transpose()?.flatten();
    if record.merged_into.is_some() && merged_into.is_none() {
        return Ok(false);
    }
    let TopicRecord { topic, named, forgotten_at, .. } = record;
    let sql = "INSERT INTO topic (tenant, user, id, title, title_turn, importance, accesses, tags, created_at,
                                  last_used, stale, forgotten_at, merged_into)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
    let values = params![
        scope.tenant().as_str(),
        scope.user().as_str(),
        topic.id.as_uuid().as_bytes(),
        topic.title,
        (!named).then_some(TO_COME),
        if topic.importance.is_finite() { topic.importance } else { crate::topic::IMPORTANCE },
        topic.accesses,
        to_json(&topic.tags),
        topic.created_at.as_microsecond(),
        topic.last_used.as_microsecond(),
        topic.title.is_empty() && merged_into.is_none(),
        forgotten_at.map(|at| at.as_microsecond()),
        merged_into,
    ];
    execute(db, sql, values).map(|_| true)
}
