//! Episodes in SQL: reading them, and noticing that one tells what is no longer so. `consolidate` writes them.

use uuid::Uuid;
use xxhash_rust::xxh3::Xxh3;

use super::changes::{Told, Touched};
use super::connect::meaning;
use super::row::{COLUMNS as TURN_COLUMNS, TurnRow};
use super::session::{self, cursor, execute, rows_max};
use super::sql::{self, Connection, OptionalExtension, Row, params};
use super::{Backend, consolidate, facts, job, made, told, topics};
use crate::clock::from_micros;
use crate::episode::{Episode, Leaving, Level, Meaning};
use crate::id::{EpisodeId, SessionId};
use crate::job::JobKind;
use crate::scope::Scope;
use crate::session::SessionKind;
use crate::store::recall::Stamp;
use crate::store::whose::Whose;
use crate::store::{
    ChangeMark, DueEpisode, EpisodeChanges, Episodes, Limits, Page, PageRequest, Progress, StoreError, StoreFuture,
    Stretch, Wanted,
};

/// What episodes are called where it is noted who makes their vectors.
const MADE: &str = "episode";

/// A turn of a session has changed: what tells of it is to be made anew, and who makes it at this moment begins again: hours and the session
/// are told by summaries, which have no stamp. Answers whether anything is.
pub(super) fn turn_changed(db: &Connection, session_key: i64, number: u64) -> Result<bool, StoreError> {
    let sql = "UPDATE episode SET stale = 1 WHERE session_key = ?1 AND first <= ?2 AND last >= ?2 AND stale = 0";
    let marked = execute(db, sql, params![session_key, number])? > 0;
    if marked {
        job::begin_again(db, session_key, &JobKind::CONSOLIDATE)?;
        job::ask_for(db, session_key, &JobKind::CONSOLIDATE)?;
    }
    Ok(marked)
}

/// A turn was erased: whatever told of it says nothing from now on, and is told anew without it. Answers how much that was. What
/// it is made from is looked at only where it has words left, so an emptied one is made of the turns that are there.
pub(super) fn untell(db: &Connection, session_key: i64, number: u64) -> Result<u64, StoreError> {
    let about = "session_key = ?1 AND first <= ?2 AND last >= ?2";
    let told = format!("DELETE FROM episode WHERE {about} AND level <> 'stretch'");
    let stretch = format!(
        "UPDATE episode SET summary = '', embedder = NULL, vector = NULL, stale = 1, version = version + 1 WHERE {about}"
    );
    let values = params![session_key, number];
    let gone = execute(db, &told, values)? + execute(db, &stretch, values)?;
    if gone > 0 {
        job::ask_for(db, session_key, &JobKind::CONSOLIDATE)?;
    }
    Ok(gone as u64)
}

pub(super) const COLUMNS: &str =
    "key, id, session, level, first, last, weight, begun_at, ended_at, summary, embedder, vector,
                       made_by, version";

pub(super) fn read(row: &Row<'_>) -> sql::Result<(u64, Episode)> {
    let embedder: Option<String> = row.get(10)?;
    let vector: Option<Vec<u8>> = row.get(11)?;
    let episode = Episode {
        id: EpisodeId::from_uuid(Uuid::from_bytes(row.get(1)?)),
        session: SessionId::from_uuid(Uuid::from_bytes(row.get(2)?)),
        // The database checks the word.
        level: Level::parse(row.get_ref(3)?.as_str()?).unwrap_or(Level::Stretch),
        first: row.get(4)?,
        last: row.get(5)?,
        weight: row.get(6)?,
        from: from_micros(row.get(7)?),
        to: from_micros(row.get(8)?),
        summary: row.get(9)?,
        vector: embedder.zip(vector).map(|(embedder, bytes)| Meaning { embedder, values: floats(&bytes) }),
        made_by: row.get(12)?,
        version: row.get(13)?,
    };
    Ok((row.get(0)?, episode))
}

pub(super) fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Runs a query for [`COLUMNS`].
pub(super) fn select(db: &Connection, rest: &str, values: impl sql::Params) -> Result<Vec<(u64, Episode)>, StoreError> {
    let mut statement =
        db.prepare_cached(&format!("SELECT {COLUMNS} FROM episode {rest}")).map_err(|error| meaning(&error))?;
    let rows = statement.query_map(values, read).map_err(|error| meaning(&error))?;
    rows.collect::<Result<_, _>>().map_err(|error| meaning(&error))
}

pub(super) fn without_keys(found: Vec<(u64, Episode)>) -> Vec<Episode> {
    found.into_iter().map(|(_, episode)| episode).collect()
}

fn list(
    db: &Connection,
    scope: &Scope,
    session: Option<SessionId>,
    page: PageRequest,
) -> Result<Page<Episode>, StoreError> {
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let (after, limit) = (cursor(page), rows_max(page.limit.saturating_add(1)));
    let found = match session {
        Some(session) => select(
            db,
            "WHERE tenant = ?1 AND user = ?2 AND session = ?3 AND key > ?4 AND summary <> '' ORDER BY key LIMIT ?5",
            params![tenant, user, session.as_uuid().as_bytes(), after, limit],
        ),
        None => select(
            db,
            "WHERE tenant = ?1 AND user = ?2 AND key > ?3 AND summary <> '' ORDER BY key LIMIT ?4",
            params![tenant, user, after, limit],
        ),
    };
    Ok(Page::cut(found?, page.limit))
}

fn progress(db: &Connection, scope: &Scope, id: SessionId, limits: Limits) -> Result<Option<Progress>, StoreError> {
    let Some((key, session)) = session::find(db, scope, id)? else { return Ok(None) };
    let sql = "SELECT consolidated FROM session WHERE key = ?1";
    let consolidated = db.query_row(sql, [key], |row| row.get(0)).map_err(|error| meaning(&error))?;
    let of_level = |level: Level, rest: &str, limit: usize| {
        let rest = format!("WHERE session_key = ?1 AND level = ?2 {rest} LIMIT ?3");
        select(db, &rest, params![key, level.as_str(), rows_max(limit)]).map(without_keys)
    };
    let last = of_level(Level::Stretch, "ORDER BY first DESC", 1)?.pop();
    Ok(Some(Progress {
        kind: session.kind,
        consolidated,
        last_said: session.updated_at,
        leaving_bytes: leaving_bytes(db, key, consolidated, limits.turns)?,
        begins: begins(db, key, consolidated)?,
        leaving: leaving(db, key, consolidated, session.kind, limits.turns)?,
        last_is_whole: match &last {
            Some(last) => is_whole(db, key, last.first, last.last)?,
            None => false,
        },
        last,
        stale: stale(db, key, Level::Stretch, limits.stale)?,
        session_is_stale: !stale(db, key, Level::Session, 1)?.is_empty(),
        session: of_level(Level::Session, "", 1)?.pop(),
    }))
}

fn stale(db: &Connection, key: i64, level: Level, limit: usize) -> Result<Vec<Episode>, StoreError> {
    select(db, STALE, params![key, level.as_str(), rows_max(limit)]).map(without_keys)
}

/// The first number after this one that is there.
fn begins(db: &Connection, key: i64, after: u64) -> Result<u64, StoreError> {
    let sql = "SELECT coalesce(min(number), ?2 + 1) FROM turn WHERE session = ?1 AND number > ?2";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    statement.query_row(params![key, after], |row| row.get(0)).map_err(|error| meaning(&error))
}

/// Shown turns after this one, with how much each counts.
fn leaving(db: &Connection, key: i64, after: u64, kind: SessionKind, limit: usize) -> Result<Vec<Leaving>, StoreError> {
    let sql = "SELECT number, CASE WHEN ?3 AND answer IS NOT NULL THEN 2 ELSE 1 END FROM turn WHERE session = ?1 AND number > ?2
               AND status IN ('complete', 'partial') AND superseded = 0 ORDER BY number LIMIT ?4";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let values = params![key, after, kind == SessionKind::Ephemeral, rows_max(limit)];
    let read = |row: &Row<'_>| Ok(Leaving { number: row.get(0)?, weight: row.get(1)? });
    let rows = statement.query_map(values, read).map_err(|error| meaning(&error))?;
    rows.collect::<Result<_, _>>().map_err(|error| meaning(&error))
}

/// How much those say, in bytes.
fn leaving_bytes(db: &Connection, key: i64, after: u64, limit: usize) -> Result<u64, StoreError> {
    let sql = "SELECT coalesce(sum(octet_length(question) + coalesce(octet_length(answer), 0)), 0) FROM (
                   SELECT question, answer FROM turn WHERE session = ?1 AND number > ?2
                   AND status IN ('complete', 'partial') AND superseded = 0 ORDER BY number LIMIT ?3)";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    statement.query_row(params![key, after, rows_max(limit)], |row| row.get(0)).map_err(|error| meaning(&error))
}

/// Whether every number of a range is there; those that expired are not.
fn is_whole(db: &Connection, key: i64, first: u64, last: u64) -> Result<bool, StoreError> {
    let sql = "SELECT count(*) FROM turn WHERE session = ?1 AND number BETWEEN ?2 AND ?3";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let there: u64 =
        statement.query_row(params![key, first, last], |row| row.get(0)).map_err(|error| meaning(&error))?;
    Ok(there == last - first + 1)
}

/// What a range of turns is like: whatever is added, removed, hidden, shown or said otherwise changes it.
pub(super) fn stamp(db: &Connection, key: i64, first: u64, last: u64) -> Result<Stamp, StoreError> {
    let sql = "SELECT number, checksum, superseded FROM turn WHERE session = ?1 AND number BETWEEN ?2 AND ?3
               ORDER BY number";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let mut rows = statement.query(params![key, first, last]).map_err(|error| meaning(&error))?;
    let mut hash = Xxh3::new();
    while let Some(row) = rows.next().map_err(|error| meaning(&error))? {
        for column in 0..3 {
            let value: i64 = row.get(column).map_err(|error| meaning(&error))?;
            hash.update(&value.to_le_bytes());
        }
    }
    Ok(Stamp(hash.digest() as i64))
}

fn stretch(db: &Connection, scope: &Scope, id: SessionId, first: u64, last: u64) -> Result<Stretch, StoreError> {
    let Some((key, _)) = session::find(db, scope, id)? else { return Err(StoreError::UnknownSession(id)) };
    let sql = format!(
        "SELECT {TURN_COLUMNS} FROM turn WHERE session = ?1 AND number BETWEEN ?2 AND ?3
         AND status IN ('complete', 'partial') AND superseded = 0 ORDER BY number"
    );
    let mut statement = db.prepare_cached(&sql).map_err(|error| meaning(&error))?;
    let rows = statement.query_map(params![key, first, last], TurnRow::read).map_err(|error| meaning(&error))?;
    let rows: Vec<TurnRow> = rows.collect::<Result<_, _>>().map_err(|error| meaning(&error))?;
    // A damaged turn cannot be told; a disk that fails, or a turn that a newer recalld can read, is another matter.
    let turn = |row: TurnRow| match row.turn(db, id) {
        Err(StoreError::Damaged { .. }) => None,
        turn => Some(turn),
    };
    let mut turns = rows.into_iter().filter_map(turn).collect::<Result<Vec<_>, _>>()?;
    // What somebody asked to have forgotten is said, and not told.
    let erased = turns.iter().map(|turn| facts::said_erased(db, scope, turn.id)).collect::<Result<Vec<_>, _>>()?;
    let mut erased = erased.into_iter();
    turns.retain(|_| !erased.next().unwrap_or(false));
    Ok(Stretch { turns, stamp: stamp(db, key, first, last)?, whole: is_whole(db, key, first, last)? })
}

const HOUR_MICROS: i64 = 3_600_000_000;

fn tier(db: &Connection, scope: &Scope, id: SessionId, wanted: Wanted) -> Result<Vec<Episode>, StoreError> {
    let Some((key, _)) = session::find(db, scope, id)? else { return Ok(Vec::new()) };
    let (level, after, limit) = (wanted.level.as_str(), wanted.after, rows_max(wanted.limit));
    let found = match wanted.hour.map(|hour| hour.as_microsecond()) {
        Some(hour) => {
            let end = hour.saturating_add(HOUR_MICROS - 1);
            select(db, OF_AN_HOUR, params![key, level, after, hour, end, limit])
        }
        None => select(
            db,
            "WHERE session_key = ?1 AND level = ?2 AND first > ?3 ORDER BY first LIMIT ?4",
            params![key, level, after, limit],
        ),
    };
    let mut found = without_keys(found?);
    found.sort_by_key(|episode| episode.first);
    Ok(found)
}

/// The signs keep SQLite from going through all episodes of a session in the order of their turns.
pub(super) const OF_AN_HOUR: &str = "WHERE session_key = ?1 AND level = ?2 AND +first > ?3
                                     AND begun_at BETWEEN ?4 AND ?5 ORDER BY +first DESC LIMIT ?6";

/// Those of a level that are to be made anew.
pub(super) const STALE: &str = "WHERE session_key = ?1 AND level = ?2 AND stale = 1 ORDER BY first LIMIT ?3";

impl Episodes for Backend {
    fn list(&self, scope: &Scope, session: Option<SessionId>, page: PageRequest) -> StoreFuture<'_, Page<Episode>> {
        self.read(scope, move |db, scope| list(db, scope, session, page))
    }

    fn progress(&self, scope: &Scope, session: SessionId, limits: Limits) -> StoreFuture<'_, Option<Progress>> {
        self.read(scope, move |db, scope| progress(db, scope, session, limits))
    }

    fn stretch(&self, scope: &Scope, session: SessionId, first: u64, last: u64) -> StoreFuture<'_, Stretch> {
        self.read(scope, move |db, scope| stretch(db, scope, session, first, last))
    }

    fn tier(&self, scope: &Scope, session: SessionId, wanted: Wanted) -> StoreFuture<'_, Vec<Episode>> {
        self.read(scope, move |db, scope| tier(db, scope, session, wanted))
    }

    fn make_again(&self, scope: Option<&Scope>) -> StoreFuture<'_, u64> {
        let (notes, due) = (self.notes(), self.due.topic);
        let again = move |db: &Connection, scope: Option<&Scope>| {
            let gone = consolidate::make_again(db, scope)?;
            topics::make_again(db, scope, due)?;
            // Who was given up on what went would leave it gone.
            job::retry(db, scope, None)?;
            notes.jobs(true);
            notes.erased(gone > 0);
            Ok(gone)
        };
        match scope {
            Some(scope) => self.write(scope, move |db, scope| again(db, Some(scope))),
            None => {
                let gone = self.write_each(move |db| again(db, None));
                Box::pin(async move { Ok(gone.await?.into_iter().sum()) })
            }
        }
    }

    fn recallable(&self, scope: &Scope, page: PageRequest) -> StoreFuture<'_, Page<Episode>> {
        self.read(scope, move |db, scope| told::page(db, scope, page))
    }

    fn changed_since(&self, scope: &Scope, since: Option<ChangeMark>) -> StoreFuture<'_, EpisodeChanges> {
        let (news, scope) = (self.told_since(scope, since, Touched::episode), scope.clone());
        Box::pin(async move {
            let (mark, touched) = match news.await? {
                Told::Nothing(mark) => return Ok(EpisodeChanges::None(mark)),
                Told::Everything(mark) => return Ok(EpisodeChanges::Reload { mark }),
                Told::Touched(mark, touched) => (mark, touched),
            };
            let looked_up = self.look_up(&scope, touched.len(), move |db, scope| {
                let (told, gone) = told::touched(db, scope, &touched)?;
                Ok(EpisodeChanges::Some { mark, told, gone })
            });
            looked_up.await
        })
    }

    fn to_embed(&self, embedder: &str, page: PageRequest) -> StoreFuture<'_, Page<DueEpisode>> {
        let embedder = embedder.to_owned();
        let each = page.limit.saturating_add(1);
        let found = self.read_each("episode", each, move |db, _| told::to_embed(db, &embedder, page));
        Box::pin(async move {
            let mut found = found.await?;
            found.sort_by_key(|(key, _)| *key);
            Ok(Page::cut(found, page.limit))
        })
    }

    fn keep_vectors(&self, vectors: Vec<(DueEpisode, Meaning)>) -> StoreFuture<'_, ()> {
        let kept = self.write_groups(
            vectors,
            |(due, _)| Whose::from(&due.scope),
            |db, vectors| vectors.iter().try_for_each(|(due, vector)| told::keep_vector(db, due, vector)),
        );
        Box::pin(async move { kept.await.map(drop) })
    }

    fn embedded_with(&self) -> StoreFuture<'_, Option<String>> {
        self.read_for(Whose::Ours, |db| made::with(db, MADE))
    }

    fn note_embedded_with(&self, embedder: &str) -> StoreFuture<'_, ()> {
        let embedder = embedder.to_owned();
        self.write_for(Whose::Ours, move |db| made::note(db, MADE, &embedder))
    }
}

/// Looks an episode's key up.
pub(super) fn key_of(db: &Connection, session_key: i64, id: EpisodeId) -> Result<Option<i64>, StoreError> {
    let sql = "SELECT key FROM episode WHERE session_key = ?1 AND id = ?2";
    let values = params![session_key, id.as_uuid().as_bytes()];
    db.query_row(sql, values, |row| row.get(0)).optional().map_err(|error| meaning(&error))
}
