//! Jobs in SQL.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;
use uuid::Uuid;

use super::connect::meaning;
use super::look::Summarised;
use super::session::{self, cursor, execute, rows_max, send};
use super::sql::{self, Connection, OptionalExtension, Row, params};
use super::topics::tell::{self, Written};
use super::writer::Notes;
use super::{Backend, consolidate, episode, facts, ledger};
use crate::clock::from_micros;
use crate::episode::EpisodeSettings;
use crate::id::{JobId, SessionId};
use crate::job::{Job, JobKind, JobState};
use crate::scope::Scope;
use crate::store::whose::Whose;
use crate::store::{Claim, Effect, Finished, JobCounts, Jobs, Page, PageRequest, StoreError, StoreFuture};

/// From how many turns that are not summarised a session is due; 0 is never.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due {
    pub(super) durable: u64,
    pub(super) ephemeral: u64,
    /// From how many messages that its summary does not tell a topic is.
    pub(super) topic: u64,
}

impl Due {
    /// An ephemeral session counts messages, and a turn is two of them.
    pub(super) fn of(settings: &EpisodeSettings) -> Self {
        Self {
            durable: settings.durable.at as u64,
            ephemeral: settings.ephemeral.at.div_ceil(2) as u64,
            topic: settings.topic.at as u64,
        }
    }
}

/// What is to follow a turn.
#[derive(Clone, Copy)]
pub(super) struct Follow<'a> {
    pub(super) due: Due,
    pub(super) notes: &'a Notes,
}

/// Looks whether a turn that was just written makes its session due.
pub(super) fn after_turn(db: &Connection, session_key: i64, number: u64, follow: Follow<'_>) -> Result<(), StoreError> {
    let sql = "SELECT consolidated, kind = 'ephemeral' FROM session WHERE key = ?1";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let read = |row: &Row<'_>| Ok((row.get::<_, u64>(0)?, row.get::<_, bool>(1)?));
    let (until, is_ephemeral) = statement.query_row([session_key], read).map_err(|error| meaning(&error))?;
    let is_asked_for = waits(db, session_key, &JobKind::CONSOLIDATE)?;
    follow_turn(db, session_key, number, &Summarised { until, is_ephemeral, is_asked_for }, follow)
}

/// The same where the session was looked at before.
pub(super) fn follow_turn(
    db: &Connection,
    session_key: i64,
    number: u64,
    session: &Summarised,
    follow: Follow<'_>,
) -> Result<(), StoreError> {
    let Follow { due, notes } = follow;
    if number <= session.until {
        notes.jobs(episode::turn_changed(db, session_key, number)?);
        return Ok(());
    }
    let due = if session.is_ephemeral { due.ephemeral } else { due.durable };
    if due == 0 || number - session.until < due || session.is_asked_for {
        return Ok(());
    }
    if shown(db, session_key, session.until, due)? < due {
        return Ok(());
    }
    notes.jobs(true);
    ask_for(db, session_key, &JobKind::CONSOLIDATE)
}

/// Whether asking for a job would change nothing: it waits, will run again, or is dead.
fn waits(db: &Connection, session_key: i64, kind: &JobKind) -> Result<bool, StoreError> {
    let sql = "SELECT state <> 'running' OR again = 1 FROM job WHERE session = ?1 AND kind = ?2";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let found = statement.query_row(params![session_key, kind.as_str()], |row| row.get(0)).optional();
    Ok(found.map_err(|error| meaning(&error))?.unwrap_or(false))
}

/// How many turns after this one are shown, as far as `most`.
fn shown(db: &Connection, session_key: i64, after: u64, most: u64) -> Result<u64, StoreError> {
    let sql = "SELECT count(*) FROM (SELECT 1 FROM turn WHERE session = ?1 AND number > ?2
               AND status IN ('complete', 'partial') AND superseded = 0 ORDER BY number DESC LIMIT ?3)";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    statement.query_row(params![session_key, after, most], |row| row.get(0)).map_err(|error| meaning(&error))
}

/// Asks for a job of a session, once.
pub(super) fn ask_for(db: &Connection, session_key: i64, kind: &JobKind) -> Result<(), StoreError> {
    let sql = "INSERT INTO job (session, kind, created_at) SELECT key, ?2, updated_at FROM session WHERE key = ?1
               ON CONFLICT (session, kind) DO UPDATE SET again = 1 WHERE job.state = 'running'";
    send(db, sql, params![session_key, kind.as_str()])
}

/// Which jobs are a user's.
const OF_USER: &str = "session IN (SELECT key FROM session WHERE tenant = ?1 AND user = ?2)";

/// Takes a job from whoever does it, because what they read is no longer so; it waits as if it were new.
pub(super) fn begin_again(db: &Connection, session_key: i64, kind: &JobKind) -> Result<(), StoreError> {
    let sql = "UPDATE job SET state = 'queued', attempts = 0, run_at = 0, again = 0, last_error = NULL
               WHERE session = ?1 AND kind = ?2 AND state = 'running'";
    send(db, sql, params![session_key, kind.as_str()])
}

/// The same for whoever tells a topic of a user: turns of any of the user's sessions may be in it.
pub(super) fn begin_topics_again(db: &Connection, scope: &Scope) -> Result<(), StoreError> {
    let sql = format!(
        "UPDATE job SET state = 'queued', attempts = 0, run_at = 0, again = 0, last_error = NULL
         WHERE kind = ?3 AND state = 'running' AND {OF_USER}"
    );
    send(db, &sql, params![scope.tenant().as_str(), scope.user().as_str(), JobKind::SUMMARISE.as_str()])
}

/// Jobs that wait for nothing but a conversation to rest.
const HURRY: &str = "UPDATE job SET run_at = 0 WHERE state = 'queued' AND run_at > 0 AND last_error IS NULL";

/// Removes the jobs of a session that goes, and what they left to look at.
pub(super) fn forget(db: &Connection, session_key: i64) -> Result<(), StoreError> {
    ledger::forget(db, session_key)?;
    send(db, "DELETE FROM job WHERE session = ?1", [session_key])
}

const COLUMNS: &str =
    "job.key, job.kind, session.id, job.state, job.attempts, job.run_at, job.last_error, job.created_at,
                       tenant, user, job.fence, session.ended_at";

fn read(row: &Row<'_>) -> sql::Result<Claim> {
    let (key, created_at): (i64, i64) = (row.get(0)?, row.get(7)?);
    let run_at: i64 = row.get(5)?;
    let job = Job {
        id: JobId::kept_as(key.unsigned_abs(), from_micros(created_at)),
        kind: JobKind::named(row.get::<_, String>(1)?),
        session: SessionId::from_uuid(Uuid::from_bytes(row.get(2)?)),
        // The database checks the word.
        state: JobState::parse(row.get_ref(3)?.as_str()?).unwrap_or(JobState::Dead),
        attempts: row.get(4)?,
        run_at: (run_at != 0).then(|| from_micros(run_at)),
        last_error: row.get(6)?,
        created_at: from_micros(created_at),
    };
    let scope = Scope::as_stored(row.get_ref(8)?.as_str()?, row.get_ref(9)?.as_str()?);
    let ended_at = row.get::<_, Option<i64>>(11)?.map(from_micros);
    Ok(Claim { job, scope, ended_at, key, fence: row.get(10)? })
}

/// Takes the first job that is due, whosever it is.
fn claim(db: &Connection, now: i64, lease: SignedDuration) -> Result<Option<Claim>, StoreError> {
    loop {
        let Some(FirstDue { key, tenant }) = first_due(db, sql::TAKE_FIRST_DUE, now)? else {
            return Ok(None);
        };
        sql::enter(db, &tenant)?;
        if let Some(claim) = take(db, key, now, lease)? {
            return Ok(Some(claim));
        }
    }
}

/// Takes the first job of a user that is due.
fn claim_of(db: &Connection, scope: &Scope, now: i64, lease: SignedDuration) -> Result<Option<Claim>, StoreError> {
    let sql = format!(
        "SELECT key FROM job WHERE state <> 'dead' AND run_at <= ?3 AND {OF_USER} ORDER BY run_at, key LIMIT 1 {}",
        sql::SKIPPING_TAKEN
    );
    let values = params![scope.tenant().as_str(), scope.user().as_str(), now];
    let found = db.query_row(&sql, values, |row| row.get(0)).optional().map_err(|error| meaning(&error))?;
    found.map_or(Ok(None), |key| take(db, key, now, lease))
}

/// Takes a job, unless its session is gone, whoever removed that.
fn take(db: &Connection, key: i64, now: i64, lease: SignedDuration) -> Result<Option<Claim>, StoreError> {
    let until = now.saturating_add(i64::try_from(lease.as_micros()).unwrap_or(i64::MAX));
    let take = "UPDATE job SET state = 'running', attempts = attempts + 1, fence = fence + 1, again = 0, run_at = ?2
                WHERE key = ?1";
    send(db, take, params![key, until])?;
    let sql = format!("SELECT {COLUMNS} FROM job JOIN session ON session.key = job.session WHERE job.key = ?1");
    let found = db.query_row(&sql, [key], read).optional().map_err(|error| meaning(&error))?;
    if found.is_none() {
        execute(db, "DELETE FROM job WHERE key = ?1", [key])?;
    }
    Ok(found)
}

/// A job that may be claimed.
struct FirstDue {
    key: i64,
    /// Whose it is, where that has to be known before its session may be looked at.
    tenant: String,
}

fn first_due(db: &Connection, sql: &str, now: i64) -> Result<Option<FirstDue>, StoreError> {
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let read = |row: &Row<'_>| Ok(FirstDue { key: row.get(0)?, tenant: row.get(1)? });
    let found = statement.query_row([now], read).optional();
    found.map_err(|error| meaning(&error))
}

/// Whether a claim is the newest of its job, and what session that is about.
pub(super) fn held(db: &Connection, claim: &Claim) -> Result<Option<i64>, StoreError> {
    let sql = "SELECT session FROM job WHERE key = ?1 AND fence = ?2 AND state = 'running'";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let found = statement.query_row(params![claim.key, claim.fence], |row| row.get(0)).optional();
    found.map_err(|error| meaning(&error))
}

fn finish(db: &Connection, claim: &Claim, effect: Effect, due: Due, now: Timestamp) -> Result<Finished, StoreError> {
    let Some(session_key) = held(db, claim)? else { return Ok(Finished::Lost) };
    let more = match effect {
        Effect::Nothing => false,
        Effect::Later(until) => return put_off(db, claim, until),
        Effect::TellTopic(told) => match tell::apply(db, &claim.scope, &told, due.topic)? {
            Written::Done { more } => more,
            Written::Changed => {
                wait_again(db, claim.key)?;
                return Ok(Finished::Changed);
            }
        },
        Effect::Learn(noted) => {
            if !facts::note(db, session_key, &noted, now)? {
                wait_again(db, claim.key)?;
                return Ok(Finished::Changed);
            }
            noted.more
        }
        Effect::Consolidate(done) => {
            if !consolidate::apply(db, session_key, &claim.scope, claim.job.session, &done)? {
                wait_again(db, claim.key)?;
                return Ok(Finished::Changed);
            }
            done.more
        }
    };
    let gone = "DELETE FROM job WHERE key = ?1 AND again = 0 AND NOT ?2";
    if execute(db, gone, params![claim.key, more])? > 0 {
        return Ok(Finished::Done);
    }
    wait_again(db, claim.key)?;
    Ok(Finished::Again)
}

/// Lets a job run once more, as if it were new.
fn wait_again(db: &Connection, key: i64) -> Result<(), StoreError> {
    let sql = "UPDATE job SET state = 'queued', attempts = 0, run_at = 0, again = 0, last_error = NULL WHERE key = ?1";
    send(db, sql, [key])
}

fn fail(db: &Connection, claim: &Claim, error: &str, next_try: Option<i64>) -> Result<Finished, StoreError> {
    if held(db, claim)?.is_none() {
        return Ok(Finished::Lost);
    }
    let state = if next_try.is_some() { JobState::Queued } else { JobState::Dead };
    let sql = "UPDATE job SET state = ?2, run_at = ?3, last_error = ?4 WHERE key = ?1";
    send(db, sql, params![claim.key, state.as_str(), next_try.unwrap_or(0), crate::job::told(error)])?;
    Ok(Finished::Done)
}

/// Lets a job wait for its time. What was asked for meanwhile is part of it.
fn put_off(db: &Connection, claim: &Claim, until: Timestamp) -> Result<Finished, StoreError> {
    let sql = "UPDATE job SET state = 'queued', run_at = ?2, attempts = attempts - 1, again = 0 WHERE key = ?1";
    send(db, sql, params![claim.key, until.as_microsecond().max(1)])?;
    Ok(Finished::Later)
}

fn give_back(db: &Connection, claim: &Claim) -> Result<Finished, StoreError> {
    if held(db, claim)?.is_none() {
        return Ok(Finished::Lost);
    }
    let sql = "UPDATE job SET state = 'queued', run_at = 0, attempts = attempts - 1 WHERE key = ?1";
    send(db, sql, [claim.key])?;
    Ok(Finished::Done)
}

fn list(db: &Connection, scope: &Scope, page: PageRequest) -> Result<Page<Job>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM job CROSS JOIN session ON session.key = job.session
         WHERE job.key > ?3 AND tenant = ?1 AND user = ?2 ORDER BY job.key LIMIT ?4"
    );
    let mut statement = db.prepare_cached(&sql).map_err(|error| meaning(&error))?;
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let values = params![tenant, user, cursor(page), rows_max(page.limit.saturating_add(1))];
    let rows = statement.query_map(values, read).map_err(|error| meaning(&error))?;
    let found = rows.map(|row| row.map(|claim| (claim.key.unsigned_abs(), claim.job)).map_err(|error| meaning(&error)));
    Ok(Page::cut(found.collect::<Result<_, _>>()?, page.limit))
}

/// Counts the jobs of a user, or of everybody.
pub(super) fn counts(db: &Connection, scope: Option<&Scope>) -> Result<JobCounts, StoreError> {
    let of = match scope {
        Some(_) => "FROM job CROSS JOIN session ON session.key = job.session WHERE tenant = ?1 AND user = ?2",
        None => "FROM job WHERE true",
    };
    let sql = format!(
        "SELECT count(*) FILTER (WHERE state = 'queued'), count(*) FILTER (WHERE state = 'running'),
                count(*) FILTER (WHERE state = 'dead'),
                count(*) FILTER (WHERE state = 'queued' AND last_error IS NOT NULL),
                (SELECT last_error {of} AND last_error IS NOT NULL ORDER BY job.key DESC LIMIT 1) {of}"
    );
    let read = |row: &Row<'_>| {
        let (queued, running, dead, failing) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        Ok(JobCounts { queued, failing, running, dead, last_error: row.get(4)? })
    };
    let counted = match scope {
        Some(scope) => db.query_row(&sql, [scope.tenant().as_str(), scope.user().as_str()], read),
        None => db.query_row(&sql, [], read),
    };
    counted.map_err(|error| meaning(&error))
}

/// Lets jobs run that are dead or wait for their next try, of a user or of everybody.
pub(super) fn retry(db: &Connection, scope: Option<&Scope>, wanted: Option<JobId>) -> Result<u64, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM job CROSS JOIN session ON session.key = job.session
         WHERE (?1 IS NULL OR (tenant = ?1 AND user = ?2)) AND (state = 'dead' OR (state = 'queued' AND run_at > 0))"
    );
    let mut statement = db.prepare_cached(&sql).map_err(|error| meaning(&error))?;
    let (tenant, user) = scope.map(|scope| (scope.tenant().as_str(), scope.user().as_str())).unzip();
    let rows = statement.query_map(params![tenant, user], read).map_err(|error| meaning(&error))?;
    let failed: Vec<Claim> = rows.collect::<Result<_, _>>().map_err(|error| meaning(&error))?;
    let wanted = |claim: &&Claim| wanted.is_none_or(|id| id == claim.job.id);
    let mut tried = 0;
    for claim in failed.iter().filter(wanted) {
        let sql = "UPDATE job SET state = 'queued', attempts = 0, run_at = 0 WHERE key = ?1";
        tried += execute(db, sql, [claim.key])? as u64;
    }
    Ok(tried)
}

impl Jobs for Backend {
    fn enqueue(&self, scope: &Scope, session: SessionId, kind: JobKind) -> StoreFuture<'_, bool> {
        let notes = self.notes();
        self.write(scope, move |db, scope| match session::find(db, scope, session)? {
            Some((key, _)) => {
                notes.jobs(true);
                ask_for(db, key, &kind).map(|()| true)
            }
            None => Ok(false),
        })
    }

    fn claim(&self, scope: Option<&Scope>, now: Timestamp, lease: SignedDuration) -> StoreFuture<'_, Option<Claim>> {
        let now = now.as_microsecond();
        if let Some(scope) = scope {
            return self.write(scope, move |db, scope| claim_of(db, scope, now, lease));
        }
        Box::pin(async move {
            // A look costs no transaction; most of the time there is nothing.
            match self.read_here_for(Whose::Ours, move |db| first_due(db, sql::FIRST_DUE, now)).await? {
                Some(_) => self.write_for(Whose::Ours, move |db| claim(db, now, lease)).await,
                None => Ok(None),
            }
        })
    }

    fn finish(&self, claim: &Claim, effect: Effect) -> StoreFuture<'_, Finished> {
        let (claim, due, clock) = (claim.clone(), self.due, Arc::clone(&self.clock));
        self.write_for(Whose::from(&claim.scope), move |db| finish(db, &claim, effect, due, clock.now()))
    }

    fn fail(&self, claim: &Claim, error: &str, next_try: Option<Timestamp>) -> StoreFuture<'_, Finished> {
        let (claim, error) = (claim.clone(), error.to_owned());
        let next_try = next_try.map(|at| at.as_microsecond().max(1));
        self.write_for(Whose::from(&claim.scope), move |db| fail(db, &claim, &error, next_try))
    }

    fn give_back(&self, claim: &Claim) -> StoreFuture<'_, Finished> {
        let claim = claim.clone();
        self.write_for(Whose::from(&claim.scope), move |db| give_back(db, &claim))
    }

    fn release(&self) -> StoreFuture<'_, u64> {
        self.write_for(Whose::Ours, |db| execute(db, sql::RELEASE, []).map(|released| released as u64))
    }

    fn list(&self, scope: &Scope, page: PageRequest) -> StoreFuture<'_, Page<Job>> {
        self.read(scope, move |db, scope| list(db, scope, page))
    }

    fn counts(&self, scope: Option<&Scope>) -> StoreFuture<'_, JobCounts> {
        match scope {
            Some(scope) => self.read(scope, |db, scope| counts(db, Some(scope))),
            None => self.read_for(Whose::Ours, |db| counts(db, None)),
        }
    }

    fn retry(&self, scope: Option<&Scope>, job: Option<JobId>) -> StoreFuture<'_, u64> {
        let notes = self.notes();
        let again = move |db: &Connection, scope: Option<&Scope>| {
            let tried = retry(db, scope, job)?;
            notes.jobs(tried > 0);
            Ok(tried)
        };
        match scope {
            Some(scope) => self.write(scope, move |db, scope| again(db, Some(scope))),
            None => {
                let tried = self.write_each(move |db| again(db, None));
                Box::pin(async move { Ok(tried.await?.into_iter().sum()) })
            }
        }
    }

    fn hurry(&self, scope: Option<&Scope>) -> StoreFuture<'_, u64> {
        let Some(scope) = scope else {
            return self.write_for(Whose::Ours, |db| execute(db, HURRY, []).map(|hurried| hurried as u64));
        };
        self.write(scope, |db, scope| {
            let who = params![scope.tenant().as_str(), scope.user().as_str()];
            execute(db, &format!("{HURRY} AND {OF_USER}"), who).map(|hurried| hurried as u64)
        })
    }

    fn end_session(&self, scope: &Scope, session: SessionId, at: Timestamp) -> StoreFuture<'_, bool> {
        let notes = self.notes();
        self.write(scope, move |db, scope| match session::find(db, scope, session)? {
            Some((key, _)) => {
                send(db, "UPDATE session SET ended_at = ?2 WHERE key = ?1", params![key, at.as_microsecond()])?;
                notes.jobs(execute(db, &format!("{HURRY} AND session = ?1"), [key])? > 0);
                Ok(true)
            }
            None => Ok(false),
        })
    }

    fn news(&self) -> Arc<Notify> {
        self.notes().job_news()
    }
}
