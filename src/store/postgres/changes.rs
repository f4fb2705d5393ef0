//! What changed, for whoever holds a user's turns in memory, in this process or in another.
//!
//! The last changes of each user are rows (`scope_change`), numbered one by one; who writes for a user is alone in that, so the
//! order of numbers is the order of commits. Notes are made by triggers, and here where SQLite has no trigger either.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use super::connect::meaning;
use super::session::{execute, send};
use super::sql::{Connection, Row, params};
use crate::id::{EpisodeId, TurnId};
use crate::scope::Scope;
use crate::store::{ChangeMark, StoreError};

/// Most changes that are told one by one; whoever missed more reads everything again.
const CHANGES_MAX: i64 = 1_024;
/// Most scopes that are watched; those beyond are read again each time.
const WATCHED_MAX: usize = 65_536;

/// Something that was touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Touched {
    Turn(TurnId),
    /// An episode and its row.
    Episode(EpisodeId, i64),
}

impl Touched {
    pub(super) fn turn(self) -> Option<TurnId> {
        if let Self::Turn(id) = self { Some(id) } else { None }
    }

    pub(super) fn episode(self) -> Option<(EpisodeId, i64)> {
        if let Self::Episode(id, key) = self { Some((id, key)) } else { None }
    }
}

/// What there is to tell since a mark.
#[derive(Debug, PartialEq)]
pub(super) enum Told<T> {
    Nothing(ChangeMark),
    Touched(ChangeMark, Vec<T>),
    Everything(ChangeMark),
}

/// Notes a turn of a session that is written without a trigger.
pub(super) fn note(db: &Connection, session_key: i64, turn: TurnId) -> Result<(), StoreError> {
    let sql = "SELECT note(tenant, user, ?2, NULL) FROM session WHERE key = ?1";
    let values = params![session_key, turn.as_uuid().as_bytes()];
    send(db, sql, values)
}

/// Notes a turn of a scope.
pub(super) fn note_of(db: &Connection, scope: &Scope, turn: TurnId) -> Result<(), StoreError> {
    let sql = "SELECT 1 FROM note(?1, ?2, ?3, NULL)";
    let values = params![scope.tenant().as_str(), scope.user().as_str(), turn.as_uuid().as_bytes()];
    send(db, sql, values)
}

/// Notes that all of a tenant's scopes are to be read again.
pub(super) fn note_everything(db: &Connection) -> Result<(), StoreError> {
    execute(db, "UPDATE scope_state SET version = version + 1, known_since = version + 1", []).map(drop)
}

/// The scopes that somebody in this process holds.
#[derive(Debug, Default)]
pub(super) struct Watched(Mutex<HashSet<Scope>>);

impl Watched {
    /// Whether a scope is watched; from now on it is.
    pub(super) fn watch(&self, scope: &Scope) -> bool {
        let mut watched = self.scopes();
        watched.contains(scope) || (watched.len() < WATCHED_MAX && !watched.insert(scope.clone()))
    }

    /// Ends watching a scope.
    pub(super) fn unwatch(&self, scope: &Scope) {
        self.scopes().remove(scope);
    }

    fn scopes(&self) -> MutexGuard<'_, HashSet<Scope>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What happened in a scope since a mark, as far as it is asked for.
pub(super) fn since<T: Copy + Eq + Hash>(
    db: &Connection,
    scope: &Scope,
    mark: Option<ChangeMark>,
    of: impl Fn(Touched) -> Option<T>,
) -> Result<Told<T>, StoreError> {
    let (now, known_since) = state(db, scope)?;
    let told = mark.and_then(|ChangeMark(since)| i64::try_from(since).ok());
    let mark = ChangeMark(now.unsigned_abs());
    // Nobody had written when a mark of 0 was taken, so it is good for as long as no change was dropped. A mark from the future is
    // from another store.
    let from = known_since.max(now - CHANGES_MAX);
    let is_known = |since: &i64| (*since == 0 && known_since == 0) || (from..=now).contains(since);
    let Some(since) = told.filter(is_known) else {
        return Ok(Told::Everything(mark));
    };
    if since == now {
        return Ok(Told::Nothing(mark));
    }
    let mut seen = HashSet::new();
    let touched = changes(db, scope, since)?.into_iter().filter_map(of).filter(|one| seen.insert(*one));
    let touched: Vec<T> = touched.collect();
    Ok(if touched.is_empty() { Told::Nothing(mark) } else { Told::Touched(mark, touched) })
}

/// How often a scope was touched, and since when all of that is known.
fn state(db: &Connection, scope: &Scope) -> Result<(i64, i64), StoreError> {
    let sql = "SELECT version, known_since FROM scope_state WHERE tenant = ?1 AND user = ?2";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let values = params![scope.tenant().as_str(), scope.user().as_str()];
    let rows = statement.query_map(values, |row| Ok((row.get(0)?, row.get(1)?))).map_err(|error| meaning(&error))?;
    let found: Vec<(i64, i64)> = rows.collect::<Result<_, _>>().map_err(|error| meaning(&error))?;
    Ok(found.first().copied().unwrap_or((0, 0)))
}

fn changes(db: &Connection, scope: &Scope, since: i64) -> Result<Vec<Touched>, StoreError> {
    let sql = "SELECT id, episode FROM scope_change WHERE tenant = ?1 AND user = ?2 AND version > ?3
               ORDER BY version DESC";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let read = |row: &Row<'_>| {
        let (id, episode) = (Uuid::from_bytes(row.get(0)?), row.get::<_, Option<i64>>(1)?);
        Ok(match episode {
            Some(key) => Touched::Episode(EpisodeId::from_uuid(id), key),
            None => Touched::Turn(TurnId::from_uuid(id)),
        })
    };
    let values = params![scope.tenant().as_str(), scope.user().as_str(), since];
    let rows = statement.query_map(values, read).map_err(|error| meaning(&error))?;
    rows.collect::<Result<_, _>>().map_err(|error| meaning(&error))
}
