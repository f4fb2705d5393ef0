//! What changed, for whoever holds a scope's turns in memory.
//!
//! Every turn that is, was, or is no longer to be recalled is noted: what is added or rewritten by
//! `recall::added` and `recall::rewritten`, what is hidden, shown or removed by triggers of the writing
//! connection. Episodes are noted by triggers alone: they are written seldom. The notes are published after COMMIT
//! and before anybody is answered, so whoever was answered finds them. Only watched scopes are remembered, each with
//! a bounded number of changes.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::{Connection, params};
use uuid::Uuid;

use super::connect::meaning;
use crate::id::{EpisodeId, TurnId};
use crate::scope::Scope;
use crate::store::{ChangeMark, StoreError};

/// Most changes remembered of one scope; whoever missed more reads it all again.
pub(super) const CHANGES_MAX: usize = 1_024;
/// Most scopes that are watched; those beyond are read again each time.
const WATCHED_MAX: usize = 65_536;
/// Most changes of one transaction that are told one by one.
const NOTED_MAX: usize = 65_536;

/// They live in the connection, not in the file: they call into this process.
const TRIGGERS: &str = "
    CREATE TEMP TRIGGER note_hidden AFTER UPDATE OF superseded ON main.turn
    WHEN (new.status IN ('complete', 'partial') OR new.answered_at IS NOT NULL) AND old.superseded <> new.superseded
    BEGIN
        SELECT note_turn(tenant, user, new.id) FROM session WHERE key = new.session;
    END;
    CREATE TEMP TRIGGER note_removed BEFORE DELETE ON main.turn
    WHEN (old.status IN ('complete', 'partial') OR old.answered_at IS NOT NULL) AND old.superseded = 0
    BEGIN
        SELECT note_turn(tenant, user, old.id) FROM session WHERE key = old.session;
    END;
    CREATE TEMP TRIGGER note_told AFTER INSERT ON main.episode
    BEGIN
        SELECT note_episode(new.tenant, new.user, new.id, new.key);
    END;
    CREATE TEMP TRIGGER note_retold AFTER UPDATE ON main.episode
    BEGIN
        SELECT note_episode(new.tenant, new.user, new.id, new.key);
        SELECT note_episode(old.tenant, old.user, old.id, old.key) WHERE old.id <> new.id;
    END;
    CREATE TEMP TRIGGER note_untold AFTER DELETE ON main.episode
    BEGIN
        SELECT note_episode(old.tenant, old.user, old.id, old.key);
    END;";

/// Notes a turn of a session that is written without a trigger.
pub(super) fn note(db: &Connection, session_key: i64, turn: TurnId) -> Result<(), StoreError> {
    let sql = "SELECT note_turn(tenant, user, ?2) FROM session WHERE key = ?1";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let values = params![session_key, turn.as_uuid().as_bytes()];
    statement.query_row(values, |_| Ok(())).map_err(|error| meaning(&error))
}

/// Notes a turn of a scope.
pub(super) fn note_of(db: &Connection, scope: &Scope, turn: TurnId) -> Result<(), StoreError> {
    let mut statement = db.prepare_cached("SELECT note_turn(?1, ?2, ?3)").map_err(|error| meaning(&error))?;
    let values = params![scope.tenant().as_str(), scope.user().as_str(), turn.as_uuid().as_bytes()];
    statement.query_row(values, |_| Ok(())).map_err(|error| meaning(&error))
}

/// Notes that every scope is to be read again: nobody's name stands for all of them.
pub(super) fn note_everything(db: &Connection) -> Result<(), StoreError> {
    db.query_row("SELECT note_turn(NULL, NULL, NULL)", [], |_| Ok(())).map_err(|error| meaning(&error))
}

/// The changes of watched scopes.
#[derive(Debug, Default)]
pub(super) struct ChangeLog {
    /// Of the transaction under way.
    noted: Mutex<Noted>,
    watched: Mutex<Watched>,
}

#[derive(Debug, Default)]
struct Noted {
    touched: Vec<(Scope, Touched)>,
    everything: bool,
}

/// Something that a transaction touched.
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

#[derive(Debug, Default)]
struct Watched {
    /// How often something was published.
    now: u64,
    scopes: HashMap<Scope, History>,
}

/// What happened in one scope.
#[derive(Debug)]
struct History {
    /// Whoever last looked before this has missed something.
    known_since: u64,
    changes: VecDeque<(u64, Touched)>,
}

/// What there is to tell since a mark.
#[derive(Debug, PartialEq)]
pub(super) enum Told<T> {
    Nothing(ChangeMark),
    Touched(ChangeMark, Vec<T>),
    Everything(ChangeMark),
}

/// Lets a writing connection note what it changes.
pub(super) fn listen(db: &Connection, log: &Arc<ChangeLog>) -> Result<(), StoreError> {
    listen_for(db, log, "note_turn", 3, |context| Some(Touched::Turn(TurnId::from_uuid(uuid(context)?))))?;
    listen_for(db, log, "note_episode", 4, |context| {
        Some(Touched::Episode(EpisodeId::from_uuid(uuid(context)?), context.get_raw(3).as_i64().ok()?))
    })?;
    db.execute_batch(TRIGGERS).map_err(|error| meaning(&error))
}

fn uuid(context: &Context<'_>) -> Option<Uuid> {
    context.get_raw(2).as_blob().ok().and_then(|bytes| Uuid::from_slice(bytes).ok())
}

fn listen_for(
    db: &Connection,
    log: &Arc<ChangeLog>,
    name: &str,
    arguments: i32,
    read: fn(&Context<'_>) -> Option<Touched>,
) -> Result<(), StoreError> {
    let log = Arc::clone(log);
    let note = move |context: &Context<'_>| -> rusqlite::Result<Option<bool>> {
        match (context.get_raw(0).as_str(), context.get_raw(1).as_str(), read(context)) {
            (Ok(tenant), Ok(user), Some(touched)) => log.note(Scope::as_stored(tenant, user), touched),
            // A damaged name must not keep its turn from being removed.
            _ => log.note_everything(),
        }
        Ok(None)
    };
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_INNOCUOUS;
    db.create_scalar_function(name, arguments, flags, note).map_err(|error| meaning(&error))
}

impl ChangeLog {
    /// Notes what the transaction under way touches. One note too many costs a look, one too few an index.
    pub(super) fn note(&self, scope: Scope, touched: Touched) {
        let mut noted = self.noted();
        if noted.touched.len() < NOTED_MAX {
            noted.touched.push((scope, touched));
        } else {
            noted.everything = true;
        }
    }

    /// Notes that every scope is to be read again.
    pub(super) fn note_everything(&self) {
        self.noted().everything = true;
    }

    /// Shows what was noted. Called when the transaction is over, whatever became of it: what is told is a reason
    /// to look, not what there is to see.
    pub(super) fn publish(&self) {
        let noted = std::mem::take(&mut *self.noted());
        if noted.touched.is_empty() && !noted.everything {
            return;
        }
        let mut watched = self.watched();
        watched.now += 1;
        let now = watched.now;
        if noted.everything {
            watched.scopes.values_mut().for_each(|history| history.forget(now));
            return;
        }
        for (scope, touched) in noted.touched {
            if let Some(history) = watched.scopes.get_mut(&scope) {
                history.add(now, touched);
            }
        }
    }

    /// What happened in a scope since a mark, as far as it is asked for. From now on it is watched.
    pub(super) fn since<T: Copy + Eq + Hash>(
        &self,
        scope: &Scope,
        mark: Option<ChangeMark>,
        of: impl Fn(Touched) -> Option<T>,
    ) -> Told<T> {
        let mut watched = self.watched();
        let now = watched.now;
        let Some(history) = watched.scopes.get(scope) else {
            if watched.scopes.len() < WATCHED_MAX {
                watched.scopes.insert(scope.clone(), History { known_since: now, changes: VecDeque::new() });
            }
            return Told::Everything(ChangeMark(now));
        };
        match mark {
            // A mark from the future is from another store.
            Some(ChangeMark(since)) if (history.known_since..=now).contains(&since) => history.told(since, now, of),
            _ => Told::Everything(ChangeMark(now)),
        }
    }

    /// Ends watching a scope.
    pub(super) fn unwatch(&self, scope: &Scope) {
        self.watched().scopes.remove(scope);
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl History {
    fn add(&mut self, now: u64, touched: Touched) {
        self.changes.push_back((now, touched));
        if self.changes.len() > CHANGES_MAX {
            self.known_since = self.changes.pop_front().map_or(now, |(at, _)| at);
        }
    }

    fn forget(&mut self, now: u64) {
        self.known_since = now;
        self.changes.clear();
    }

    fn told<T: Copy + Eq + Hash>(&self, since: u64, now: u64, of: impl Fn(Touched) -> Option<T>) -> Told<T> {
        let news = self.changes.iter().rev().take_while(|(at, _)| *at > since);
        let mut seen = HashSet::new();
        let touched: Vec<T> = news.filter_map(|(_, touched)| of(*touched)).filter(|one| seen.insert(*one)).collect();
        match touched.is_empty() {
            true => Told::Nothing(ChangeMark(now)),
            false => Told::Touched(ChangeMark(now), touched),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{CountedIds, Ids};
    use jiff::Timestamp;

    fn ann() -> Scope {
        Scope::as_stored("acme", "ann")
    }

    fn since(log: &ChangeLog, mark: Option<ChangeMark>) -> Told<TurnId> {
        log.since(&ann(), mark, Touched::turn)
    }

    fn publish(log: &ChangeLog, turns: impl IntoIterator<Item = TurnId>) {
        turns.into_iter().for_each(|turn| log.note(ann(), Touched::Turn(turn)));
        log.publish();
    }

    #[test]
    fn a_watched_scope_is_told_what_was_touched_once() {
        let (log, ids) = (ChangeLog::default(), CountedIds::default());
        let [one, two] = [(); 2].map(|()| ids.turn(Timestamp::UNIX_EPOCH));
        publish(&log, [one]);
        assert_eq!(since(&log, None), Told::Everything(ChangeMark(1)), "nobody watched");
        assert_eq!(since(&log, Some(ChangeMark(1))), Told::Nothing(ChangeMark(1)));
        publish(&log, [one, two, one]);
        assert_eq!(since(&log, Some(ChangeMark(1))), Told::Touched(ChangeMark(2), vec![one, two]));
        publish(&log, []);
        assert_eq!(since(&log, Some(ChangeMark(2))), Told::Nothing(ChangeMark(2)));
        log.note(Scope::as_stored("acme", "bob"), Touched::Turn(two));
        log.publish();
        assert_eq!(since(&log, Some(ChangeMark(2))), Told::Nothing(ChangeMark(3)), "somebody else's");
    }

    #[test]
    fn turns_and_episodes_are_told_apart() {
        let (log, ids) = (ChangeLog::default(), CountedIds::default());
        let turn = ids.turn(Timestamp::UNIX_EPOCH);
        let episode = EpisodeId::beginning(ids.session(), "stretch", 1, Timestamp::UNIX_EPOCH);
        since(&log, None);
        log.note(ann(), Touched::Episode(episode, 7));
        log.publish();
        assert_eq!(since(&log, Some(ChangeMark(0))), Told::Nothing(ChangeMark(1)));
        publish(&log, [turn]);
        let episodes = log.since(&ann(), Some(ChangeMark(0)), Touched::episode);
        assert_eq!(episodes, Told::Touched(ChangeMark(2), vec![(episode, 7)]));
        assert_eq!(since(&log, Some(ChangeMark(1))), Told::Touched(ChangeMark(2), vec![turn]));
    }

    #[test]
    fn whoever_missed_too_much_reads_everything() {
        let (log, ids) = (ChangeLog::default(), CountedIds::default());
        let turns = |count: usize| (0..count).map(|_| ids.turn(Timestamp::UNIX_EPOCH)).collect::<Vec<_>>();
        since(&log, None);
        publish(&log, turns(1));
        publish(&log, turns(CHANGES_MAX - 1));
        assert!(matches!(since(&log, Some(ChangeMark(0))), Told::Touched(_, all) if all.len() == CHANGES_MAX));
        publish(&log, turns(1));
        assert_eq!(since(&log, Some(ChangeMark(0))), Told::Everything(ChangeMark(3)));
        assert!(matches!(since(&log, Some(ChangeMark(1))), Told::Touched(_, all) if all.len() == CHANGES_MAX));
        publish(&log, turns(NOTED_MAX + 1));
        assert_eq!(since(&log, Some(ChangeMark(3))), Told::Everything(ChangeMark(4)));
        assert_eq!(since(&log, Some(ChangeMark(4))), Told::Nothing(ChangeMark(4)));
    }

    #[test]
    fn marks_are_worth_nothing_once_nobody_watched() {
        let log = ChangeLog::default();
        assert_eq!(since(&log, None), Told::Everything(ChangeMark(0)));
        log.unwatch(&ann());
        log.note_everything();
        log.publish();
        assert_eq!(since(&log, Some(ChangeMark(0))), Told::Everything(ChangeMark(1)));
        assert_eq!(since(&log, Some(ChangeMark(7))), Told::Everything(ChangeMark(1)), "of another store");
    }
}
