//! What the memory model costs, and its answers that could not be used, in SQL.

use uuid::Uuid;

use super::connect::meaning;
use super::session::{cursor, execute, rows_max, send};
use super::sql::{self, Connection, OptionalExtension, Row, params};
use super::{Backend, job, topic};
use crate::clock::from_micros;
use crate::id::{SessionId, TopicId};
use crate::scope::Scope;
use crate::store::whose::Whose;
use crate::store::{
    Claim, DaySpent, Ledger, Page, PageRequest, StoreError, StoreFuture, UNUSED_ANSWERS_MAX, UnusedAnswer,
};

/// Days that are kept.
const DAYS: i64 = 31;

fn spent_on(db: &Connection, scope: &Scope, day: i64) -> Result<DaySpent, StoreError> {
    let sql = "SELECT calls, tokens, failures, fallbacks, capped, last_failure FROM memory_spent
               WHERE tenant = ?1 AND day = ?2";
    let read = |row: &Row<'_>| {
        let (calls, tokens, failures) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(DaySpent { calls, tokens, failures, fallbacks: row.get(3)?, capped: row.get(4)?, last_failure: row.get(5)? })
    };
    let found = db.query_row(sql, params![scope.tenant().as_str(), day], read).optional();
    Ok(found.map_err(|error| meaning(&error))?.unwrap_or_default())
}

fn spend(db: &Connection, scope: &Scope, day: i64, more: &DaySpent) -> Result<(), StoreError> {
    let tenant = scope.tenant().as_str();
    let sql = "INSERT INTO memory_spent (tenant, day, calls, tokens, failures, fallbacks, capped, last_failure)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
               ON CONFLICT (tenant, day) DO UPDATE SET calls = memory_spent.calls + excluded.calls,
                   tokens = memory_spent.tokens + excluded.tokens,
                   failures = memory_spent.failures + excluded.failures,
                   fallbacks = memory_spent.fallbacks + excluded.fallbacks,
                   capped = memory_spent.capped + excluded.capped,
                   last_failure = coalesce(excluded.last_failure, memory_spent.last_failure)";
    let DaySpent { calls, tokens, failures, fallbacks, capped, last_failure } = more;
    send(db, sql, params![tenant, day, calls, tokens, failures, fallbacks, capped, last_failure])?;
    let old = "DELETE FROM memory_spent WHERE tenant = ?1 AND day < ?2";
    send(db, old, params![tenant, day - DAYS])
}

fn keep_unused(db: &Connection, claim: &Claim, kept: &UnusedAnswer) -> Result<(), StoreError> {
    let (scope, Some(session)) = (&claim.scope, job::held(db, claim)?) else { return Ok(()) };
    let topic = match kept.topic {
        Some(id) => match topic::live(db, scope, id)? {
            Some(key) => Some(key),
            None => return Ok(()),
        },
        None => None,
    };
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let sql = "INSERT INTO memory_answer (tenant, user, session, topic, kind, reason, answer, created_at)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let UnusedAnswer { kind, reason, answer, at, .. } = kept;
    send(db, sql, params![tenant, user, session, topic, kind, reason, answer, at.as_microsecond()])?;
    let old = "DELETE FROM memory_answer WHERE tenant = ?1 AND user = ?2 AND key <= coalesce((
                   SELECT key FROM memory_answer WHERE tenant = ?1 AND user = ?2 ORDER BY key DESC LIMIT 1 OFFSET ?3), 0)";
    send(db, old, params![tenant, user, rows_max(UNUSED_ANSWERS_MAX)])
}

fn unused(db: &Connection, scope: &Scope, page: PageRequest) -> Result<Page<UnusedAnswer>, StoreError> {
    let sql =
        "SELECT memory_answer.key, session.id, topic.id, memory_answer.kind, reason, answer, memory_answer.created_at
               FROM memory_answer CROSS JOIN session ON session.key = memory_answer.session
               LEFT JOIN topic ON topic.key = memory_answer.topic
               WHERE memory_answer.tenant = ?1 AND memory_answer.user = ?2 AND memory_answer.key > ?3
               ORDER BY memory_answer.key LIMIT ?4";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let values = params![tenant, user, cursor(page), rows_max(page.limit.saturating_add(1))];
    let rows = statement.query_map(values, read_unused).map_err(|error| meaning(&error))?;
    let found = rows.collect::<Result<_, _>>().map_err(|error| meaning(&error))?;
    Ok(Page::cut(found, page.limit))
}

fn read_unused(row: &Row<'_>) -> sql::Result<(u64, UnusedAnswer)> {
    let topic: Option<[u8; 16]> = row.get(2)?;
    let answer = UnusedAnswer {
        session: SessionId::from_uuid(Uuid::from_bytes(row.get(1)?)),
        topic: topic.map(|id| TopicId::from_uuid(Uuid::from_bytes(id))),
        kind: row.get(3)?,
        reason: row.get(4)?,
        answer: row.get(5)?,
        at: from_micros(row.get(6)?),
    };
    Ok((row.get(0)?, answer))
}

/// Removes the answers about a session: what they were made of is going. Answers how many.
pub(super) fn forget(db: &Connection, session_key: i64) -> Result<u64, StoreError> {
    execute(db, "DELETE FROM memory_answer WHERE session = ?1", [session_key]).map(|gone| gone as u64)
}

impl Ledger for Backend {
    fn spent_on(&self, scope: &Scope, day: i64) -> StoreFuture<'_, DaySpent> {
        self.read(scope, move |db, scope| spent_on(db, scope, day))
    }

    fn spend(&self, scope: &Scope, day: i64, more: DaySpent) -> StoreFuture<'_, ()> {
        self.write(scope, move |db, scope| spend(db, scope, day, &more))
    }

    fn keep_unused(&self, claim: &Claim, answer: UnusedAnswer) -> StoreFuture<'_, ()> {
        let claim = claim.clone();
        self.write_for(Whose::from(&claim.scope), move |db| keep_unused(db, &claim, &answer))
    }

    fn unused(&self, scope: &Scope, page: PageRequest) -> StoreFuture<'_, Page<UnusedAnswer>> {
        self.read(scope, move |db, scope| unused(db, scope, page))
    }
}
