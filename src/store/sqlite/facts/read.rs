//! What is kept of facts.

use jiff::Timestamp;
use uuid::Uuid;

use super::super::connect::meaning;
use super::super::recall::{DUE_AT_ONCE, SHOWN};
use super::super::row::{COLUMNS, KEY, NEXT, TurnRow};
use super::super::session::{self, cursor, rows_max};
use super::super::sql::{self, Connection, Row, params};
use super::row::{AFTER_FACT, FACT, KeptFact, STATEMENT, all, find, message, read_fact, read_statement, status};
use crate::clock::from_micros;
use crate::fact::{Evidence, Fact, Status, What};
use crate::id::{FactId, MessageId, SessionId, UndoId};
use crate::scope::Scope;
use crate::store::recall::Stamp;
use crate::store::{
    Cause, DueFacts, FactCounts, FactEvent, FactHistory, Known, Outdated, Page, QUOTES_LAST, StoreError, Unread,
    WhichFacts,
};

/// How many answers before a turn are told with it.
const ANSWERS_BEFORE: usize = 2;
/// Most events of a history; beyond them the oldest are left out.
const EVENTS_MAX: usize = 500;

/// Turns on the list. Those that nothing was answered to yet wait; damaged ones are passed over, and stay on it.
pub(super) fn due(db: &Connection, limit: usize) -> Result<Vec<DueFacts>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS}, session.id, tenant, user, session.key FROM fact_todo AS due
         CROSS JOIN turn ON turn.key = due.turn CROSS JOIN session ON session.key = turn.session
         WHERE due.turn > ?1 AND (turn.status <> 'pending' OR turn.answered_at IS NOT NULL) ORDER BY due.turn LIMIT ?2"
    );
    let mut statement = db.prepare_cached(&sql).map_err(|error| meaning(&error))?;
    let (mut due, mut after, at_once) = (Vec::new(), 0_i64, rows_max(limit.min(DUE_AT_ONCE)));
    // Nearly always one round: only damaged turns take a place without being due.
    while due.len() < limit {
        let mut rows = statement.query(params![after, at_once]).map_err(|error| meaning(&error))?;
        let mut seen = 0;
        while let Some(row) = rows.next().map_err(|error| meaning(&error))? {
            (seen, after) = (seen + 1, row.get(KEY).map_err(|error| meaning(&error))?);
            due.extend(read_due(db, row)?);
        }
        if seen < at_once {
            break;
        }
    }
    due.truncate(limit);
    Ok(due)
}

/// What is due, or why it cannot be read.
type Due = Result<DueFacts, StoreError>;

fn read_due(db: &Connection, row: &Row<'_>) -> Result<Due, StoreError> {
    let read = || {
        let session = SessionId::from_uuid(Uuid::from_bytes(row.get(NEXT)?));
        let scope = Scope::as_stored(row.get_ref(NEXT + 1)?.as_str()?, row.get_ref(NEXT + 2)?.as_str()?);
        Ok((session, scope, row.get(NEXT + 3)?, TurnRow::read(row)?))
    };
    let (session, scope, session_key, turn): (_, _, i64, _) = read().map_err(|error| meaning(&error))?;
    let stamp = Stamp(turn.checksum);
    let turn = match turn.turn(db, session) {
        Ok(turn) => turn,
        Err(error) => return Ok(Err(error)),
    };
    let before = answers_before(db, session, session_key, turn.number)?;
    Ok(Ok(DueFacts { scope, turn, stamp, before }))
}

/// Turns that no memory model has read. Damaged ones are passed over; those that a newer recalld can read are left to it.
pub(super) fn unread(
    db: &Connection,
    scope: &Scope,
    id: SessionId,
    limit: usize,
) -> Result<Option<Unread>, StoreError> {
    let Some((key, _)) = session::find(db, scope, id)? else { return Ok(None) };
    let sql = "SELECT understood FROM session WHERE key = ?1";
    let from: u64 = db.query_row(sql, [key], |row| row.get(0)).map_err(|error| meaning(&error))?;
    let sql = format!(
        "SELECT {COLUMNS}, session.id, tenant, user, session.key FROM session CROSS JOIN turn ON turn.session = session.key
         WHERE session.key = ?1 AND turn.number > ?2 AND turn.role = 'user' AND {SHOWN}
           AND turn.number < coalesce((SELECT min(number) FROM turn AS open WHERE open.session = ?1
                                         AND open.number > ?2 AND open.status = 'pending' AND open.answered_at IS NULL), ?3)
         ORDER BY turn.number LIMIT ?4"
    );
    let mut statement = db.prepare_cached(&sql).map_err(|error| meaning(&error))?;
    let values = params![key, from, i64::MAX, rows_max(limit.saturating_add(1))];
    let mut rows = statement.query(values).map_err(|error| meaning(&error))?;
    let (mut turns, mut read) = (Vec::new(), 0);
    while let Some(row) = rows.next().map_err(|error| meaning(&error))? {
        read += 1;
        match read_due(db, row)? {
            _ if read > limit => {}
            Err(error) if error.wants_newer() => return Err(error),
            due => turns.extend(due),
        }
    }
    Ok(Some(Unread { from, turns, more: read > limit }))
}

/// What the model said before a turn, newest last.
fn answers_before(
    db: &Connection,
    session: SessionId,
    session_key: i64,
    number: u64,
) -> Result<Vec<String>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM turn WHERE session = ?1 AND number < ?2 AND answer IS NOT NULL AND superseded = 0
         ORDER BY number DESC LIMIT ?3"
    );
    let rows = all(db, &sql, params![session_key, number, rows_max(ANSWERS_BEFORE)], TurnRow::read)?;
    let answer = |row: TurnRow| Some(row.turn(db, session).ok()?.answer()?.text.clone());
    let mut answers: Vec<String> = rows.into_iter().filter_map(answer).collect();
    answers.reverse();
    Ok(answers)
}

/// What holds, the most important first.
pub(in super::super) const HELD: &str =
    "WHERE tenant = ?1 AND user = ?2 AND status = 'active' AND (until_at IS NULL OR until_at > ?3)
     ORDER BY importance DESC, category, path";

/// Whether anything held once and does not any more, or was erased.
pub(in super::super) const SOME_OUTDATED: &str = "SELECT EXISTS (
     SELECT 1 FROM fact WHERE tenant = ?1 AND user = ?2 AND status IN ('superseded', 'retracted', 'expired'))
     OR EXISTS (SELECT 1 FROM fact WHERE tenant = ?1 AND user = ?2 AND status = 'active' AND until_at <= ?3)
     OR EXISTS (SELECT 1 FROM fact_erased WHERE tenant = ?1 AND user = ?2)";

pub(super) fn known(db: &Connection, scope: &Scope, now: Timestamp) -> Result<Known, StoreError> {
    let who = params![scope.tenant().as_str(), scope.user().as_str(), now.as_microsecond()];
    let sql = format!("SELECT {FACT} FROM fact INDEXED BY fact_active {HELD}");
    let facts = all(db, &sql, who, |row| Ok(read_fact(row)?.fact))?;
    let some_outdated = all(db, SOME_OUTDATED, who, |row| row.get(0))?.contains(&true);
    Ok(Known { facts, some_outdated })
}

pub(super) fn list(db: &Connection, scope: &Scope, which: &WhichFacts) -> Result<Page<Fact>, StoreError> {
    let found = match which.as_of {
        Some(then) => as_of(db, scope, which, then)?,
        None => now(db, scope, which)?,
    };
    let found = found.into_iter().map(|kept| (kept.key as u64, kept.fact)).collect();
    Ok(Page::cut(found, which.page.limit))
}

fn now(db: &Connection, scope: &Scope, which: &WhichFacts) -> Result<Vec<KeptFact>, StoreError> {
    let sql = format!(
        "SELECT {FACT} FROM fact WHERE tenant = ?1 AND user = ?2 AND key > ?3
           AND (?4 IS NULL OR ?4 = iif(status IN ('active', 'provisional') AND until_at <= ?5, 'expired', status))
         ORDER BY key LIMIT ?6"
    );
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let (status, at) = (which.status.map(Status::as_str), which.now.as_microsecond());
    let values = params![tenant, user, cursor(which.page), status, at, rows_max(which.page.limit.saturating_add(1))];
    let mut found = all(db, &sql, values, read_fact)?;
    found.iter_mut().for_each(|kept| kept.fact.status = kept.fact.status_at(which.now));
    Ok(found)
}

/// What we believed then: the last thing that had happened to each fact by that time says so.
fn as_of(db: &Connection, scope: &Scope, which: &WhichFacts, then: Timestamp) -> Result<Vec<KeptFact>, StoreError> {
    let sql = format!(
        "SELECT {FACT}, then_status FROM (
             SELECT fact.*, (SELECT event.status FROM fact_event AS event WHERE event.fact = fact.key AND event.at <= ?5
                             ORDER BY event.key DESC LIMIT 1) AS then_status
             FROM fact WHERE tenant = ?1 AND user = ?2 AND key > ?3) AS fact
         WHERE then_status IS NOT NULL
           AND (?4 IS NULL OR ?4 = iif(then_status IN ('active', 'provisional') AND until_at <= ?5, 'expired', then_status))
         ORDER BY fact.key LIMIT ?6"
    );
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let (wanted, at) = (which.status.map(Status::as_str), then.as_microsecond());
    let values = params![tenant, user, cursor(which.page), wanted, at, rows_max(which.page.limit.saturating_add(1))];
    all(db, &sql, values, |row| {
        let (mut kept, was) = (read_fact(row)?, status(row, AFTER_FACT)?);
        if was == Status::Active {
            (kept.fact.valid_to, kept.fact.ended_by) = (kept.fact.until, None);
        }
        kept.fact.status = was;
        kept.fact.status = kept.fact.status_at(then);
        Ok(kept)
    })
}

pub(super) fn history(db: &Connection, scope: &Scope, id: FactId) -> Result<Option<FactHistory>, StoreError> {
    let Some(KeptFact { key, fact, .. }) = find(db, scope, id)? else { return Ok(None) };
    let (events, evidence) = (events(db, scope, &fact)?, evidence(db, key)?);
    Ok(Some(FactHistory { fact, events, evidence }))
}

fn events(db: &Connection, scope: &Scope, of: &Fact) -> Result<Vec<FactEvent>, StoreError> {
    let sql = "SELECT fact.id, fact.value, event.at, event.what, event.status, event.cause, event.message, undo.id
               FROM fact CROSS JOIN fact_event AS event ON event.fact = fact.key
               LEFT JOIN fact_undo AS undo ON undo.key = event.undo
               WHERE fact.tenant = ?1 AND fact.user = ?2 AND fact.category = ?3 AND fact.name = ?4 AND fact.path = ?5
               ORDER BY event.key DESC LIMIT ?6";
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let (category, path) = (of.key.category.as_str(), of.key.path());
    let values = params![tenant, user, category, of.key.name, path, rows_max(EVENTS_MAX)];
    let mut events = all(db, sql, values, |row| {
        let undo: Option<[u8; 16]> = row.get(7)?;
        Ok(FactEvent {
            fact: FactId::from_uuid(Uuid::from_bytes(row.get(0)?)),
            value: row.get(1)?,
            at: from_micros(row.get(2)?),
            what: What::parse(row.get_ref(3)?.as_str()?).unwrap_or(What::Confirm),
            status: status(row, 4)?,
            cause: Cause::parse(row.get_ref(5)?.as_str()?).unwrap_or(Cause::Conversation),
            message: message(row, 6)?,
            undo: undo.map(|bytes| UndoId::from_uuid(Uuid::from_bytes(bytes))),
        })
    })?;
    events.reverse();
    Ok(events)
}

/// Who says a fact: the first, and the last.
fn evidence(db: &Connection, fact: i64) -> Result<Vec<Evidence>, StoreError> {
    let read = |order: &str, limit: usize| {
        let sql = format!(
            "SELECT {STATEMENT} FROM fact_statement AS said WHERE fact = ?1 ORDER BY said_at {order}, key {order} LIMIT ?2"
        );
        all(db, &sql, params![fact, rows_max(limit)], |row| Ok(read_statement(row)?.statement))
    };
    let (mut first, mut last) = (read("ASC", 1)?, read("DESC", QUOTES_LAST)?);
    last.retain(|said| first.iter().all(|first| first.order != said.order));
    last.reverse();
    first.append(&mut last);
    Ok(first.into_iter().map(|said| said.evidence).collect())
}

/// What is stated and no longer so, and what holds instead.
pub(in super::super) fn outdated_sql(stated: &str) -> String {
    format!(
        "SELECT {FACT}, said.message, (SELECT now.value FROM fact AS now WHERE now.tenant = fact.tenant AND now.user = fact.user
                           AND now.category = fact.category AND now.path = fact.path AND now.status = 'active'
                           AND (now.until_at IS NULL OR now.until_at > ?3))
         FROM fact_statement AS said CROSS JOIN fact ON fact.key = said.fact
         WHERE said.tenant = ?1 AND said.user = ?2 AND {stated}
           AND (fact.status IN ('superseded', 'retracted', 'expired')
                OR (fact.status = 'active' AND fact.until_at <= ?3))"
    )
}

pub(in super::super) const BY_MESSAGE: &str = "said.message = ?4";
pub(in super::super) const BY_SESSION: &str = "said.session = ?4 AND said.said_at BETWEEN ?5 AND ?6";

fn read_outdated(row: &Row<'_>) -> sql::Result<Option<Outdated>> {
    let Some(message) = message(row, AFTER_FACT)? else { return Ok(None) };
    Ok(Some(Outdated { message, was: read_fact(row)?.fact, is: row.get(AFTER_FACT + 1)? }))
}

pub(super) fn outdated(
    db: &Connection,
    scope: &Scope,
    messages: &[MessageId],
    now: Timestamp,
) -> Result<Vec<Outdated>, StoreError> {
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let (sql, mut outdated) = (outdated_sql(BY_MESSAGE), Vec::new());
    for message in messages {
        let values = params![tenant, user, now.as_microsecond(), message.as_uuid().as_bytes()];
        outdated.extend(all(db, &sql, values, read_outdated)?.into_iter().flatten());
    }
    Ok(outdated)
}

pub(super) fn outdated_between(
    db: &Connection,
    scope: &Scope,
    session: SessionId,
    (from, to): (Timestamp, Timestamp),
    now: Timestamp,
) -> Result<Vec<Outdated>, StoreError> {
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let [now, from, to] = [now, from, to].map(Timestamp::as_microsecond);
    let values = params![tenant, user, now, session.as_uuid().as_bytes(), from, to];
    Ok(all(db, &outdated_sql(BY_SESSION), values, read_outdated)?.into_iter().flatten().collect())
}

pub(super) fn counts(db: &Connection, scope: &Scope) -> Result<FactCounts, StoreError> {
    let who = params![scope.tenant().as_str(), scope.user().as_str()];
    let sql = "SELECT status, count(*) FROM fact WHERE tenant = ?1 AND user = ?2 GROUP BY status ORDER BY status";
    let by_status = all(db, sql, who, |row| Ok((status(row, 0)?, row.get(1)?)))?;
    let sql =
        "SELECT reason, sum(count) FROM fact_refused WHERE tenant = ?1 AND user = ?2 GROUP BY reason ORDER BY reason";
    let refused = all(db, sql, who, |row| Ok((row.get(0)?, row.get(1)?)))?;
    let waiting = "SELECT count(*) FROM fact_todo";
    let waiting = db.query_row(waiting, [], |row| row.get(0)).map_err(|error| meaning(&error))?;
    Ok(FactCounts { by_status, refused, waiting })
}
