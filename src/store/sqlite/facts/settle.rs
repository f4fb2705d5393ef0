//! Facts follow from the statements that are in force.

use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;

use super::super::connect::meaning;
use super::super::session::{rows_max, send};
use super::super::sql::{Connection, params};
use super::row::{FACT, Family, KeptFact, KeptStatement, STATEMENT, all, bytes, read_fact, read_statement};
use crate::fact::{Change, Fact, Statement, Version, What, reconcile, timeline};
use crate::id::{FactId, MessageId};
use crate::scope::Scope;
use crate::store::{Cause, QUOTES_LAST, STATEMENTS_MAX, StoreError};

/// Why facts are settled, and when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Because {
    pub(super) cause: Cause,
    pub(super) now: Timestamp,
    /// What was undone.
    pub(super) undo: Option<i64>,
}

impl Because {
    pub(super) fn of(cause: Cause, now: Timestamp) -> Self {
        Self { cause, now, undo: None }
    }
}

/// Brings the facts of some names up to date. Answers what changed.
pub(super) fn settle(
    db: &Connection,
    scope: &Scope,
    families: &BTreeSet<Family>,
    because: Because,
) -> Result<Vec<Change>, StoreError> {
    let mut changes = Vec::new();
    for family in families {
        changes.extend(settle_one(db, scope, family, because)?);
    }
    Ok(changes)
}

fn settle_one(db: &Connection, scope: &Scope, family: &Family, because: Because) -> Result<Vec<Change>, StoreError> {
    let (in_force, aside): (Vec<KeptStatement>, Vec<KeptStatement>) =
        statements(db, scope, family)?.into_iter().partition(|kept| kept.in_force);
    let links: HashMap<u64, Option<i64>> =
        in_force.iter().chain(&aside).map(|kept| (kept.statement.order, kept.fact)).collect();
    let said: Vec<Statement> = in_force.into_iter().map(|kept| kept.statement).collect();
    let versions = timeline(&said, because.now);
    let held = held(db, scope, family)?;
    let mut keys: HashMap<FactId, i64> = held.iter().map(|kept| (kept.fact.id, kept.key)).collect();
    let held: Vec<Fact> = held.into_iter().map(|kept| kept.fact).collect();
    let changes = reconcile(&held, &versions);
    for change in &changes {
        let version = versions.iter().find(|version| version.fact.id == change.fact.id);
        let ender = version.and_then(|version| version.ended_by).map(|at| said[at].order);
        let key = keep(db, scope, &change.fact, ender)?;
        keys.insert(change.fact.id, key);
        note(db, key, change, because)?;
    }
    link(db, &said, &versions, &keys, links)?;
    bound(db, &said, &versions, &keys)?;
    Ok(changes)
}

fn statements(db: &Connection, scope: &Scope, family: &Family) -> Result<Vec<KeptStatement>, StoreError> {
    let sql = format!(
        "SELECT {STATEMENT} FROM fact_statement AS said WHERE tenant = ?1 AND user = ?2 AND category = ?3 AND name = ?4"
    );
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    all(db, &sql, params![tenant, user, family.category.as_str(), family.name], read_statement)
}

fn held(db: &Connection, scope: &Scope, family: &Family) -> Result<Vec<KeptFact>, StoreError> {
    let sql = format!("SELECT {FACT} FROM fact WHERE tenant = ?1 AND user = ?2 AND category = ?3 AND name = ?4");
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    all(db, &sql, params![tenant, user, family.category.as_str(), family.name], read_fact)
}

const KEEP: &str = "
    INSERT INTO fact (tenant, user, id, category, name, path, value, confidence, importance, status, valid_from, valid_to,
                      until_at, learned_at, message, session, said_at, quote, last_said_at, confirmations, ended_by, ender)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22)
    ON CONFLICT (tenant, user, id) DO UPDATE SET
        value = excluded.value, confidence = excluded.confidence, importance = excluded.importance,
        status = excluded.status, valid_from = excluded.valid_from, valid_to = excluded.valid_to,
        until_at = excluded.until_at, message = excluded.message, session = excluded.session,
        said_at = excluded.said_at, quote = excluded.quote, last_said_at = excluded.last_said_at,
        confirmations = excluded.confirmations, ended_by = excluded.ended_by, ender = excluded.ender
    RETURNING key";

/// Writes a fact and answers its key.
pub(super) fn keep(db: &Connection, scope: &Scope, fact: &Fact, ender: Option<u64>) -> Result<i64, StoreError> {
    let micros = |time: Option<Timestamp>| time.map(Timestamp::as_microsecond);
    let values = params![
        scope.tenant().as_str(),
        scope.user().as_str(),
        fact.id.as_uuid().as_bytes(),
        fact.key.category.as_str(),
        fact.key.name,
        fact.key.path(),
        fact.value,
        fact.confidence,
        fact.importance,
        fact.status.as_str(),
        fact.valid_from.as_microsecond(),
        micros(fact.valid_to),
        micros(fact.until),
        fact.learned_at.as_microsecond(),
        bytes(fact.evidence.message.as_ref().map(MessageId::as_uuid)),
        bytes(fact.evidence.session.as_ref().map(|session| session.as_uuid())),
        fact.evidence.said_at.as_microsecond(),
        fact.evidence.quote,
        fact.last_said_at.as_microsecond(),
        fact.confirmations,
        bytes(fact.ended_by.as_ref().map(MessageId::as_uuid)),
        ender,
    ];
    let mut statement = db.prepare_cached(KEEP).map_err(|error| meaning(&error))?;
    statement.query_row(values, |row| row.get(0)).map_err(|error| meaning(&error))
}

/// Writes down what happened. That something was said again is told by its statements.
fn note(db: &Connection, fact: i64, change: &Change, because: Because) -> Result<(), StoreError> {
    let message = match change.what {
        What::Confirm => return Ok(()),
        What::Supersede | What::Retract => change.fact.ended_by,
        What::Add | What::Restore | What::Doubt => change.fact.evidence.message,
        What::Expire | What::Withdraw => None,
    };
    let sql =
        "INSERT INTO fact_event (fact, at, what, status, cause, message, undo) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let values = params![
        fact,
        because.now.as_microsecond(),
        change.what.as_str(),
        change.fact.status.as_str(),
        because.cause.as_str(),
        bytes(message.as_ref().map(MessageId::as_uuid)),
        because.undo,
    ];
    send(db, sql, values)
}

/// Notes which fact each statement speaks for.
fn link(
    db: &Connection,
    said: &[Statement],
    versions: &[Version],
    keys: &HashMap<FactId, i64>,
    before: HashMap<u64, Option<i64>>,
) -> Result<(), StoreError> {
    let mut after: HashMap<u64, i64> = HashMap::new();
    for version in versions {
        let key = keys.get(&version.fact.id).copied();
        after.extend(version.said_by.iter().filter_map(|at| Some((said[*at].order, key?))));
    }
    for (statement, fact) in before {
        let now = after.get(&statement).copied();
        if now != fact {
            send(db, "UPDATE fact_statement SET fact = ?2 WHERE key = ?1", params![statement, now])?;
        }
    }
    Ok(())
}

/// Keeps what is remembered of one key within bounds: words of the first and the last statements only, repetitions
/// counted instead of kept, and beyond that the oldest values go.
fn bound(
    db: &Connection,
    said: &[Statement],
    versions: &[Version],
    keys: &HashMap<FactId, i64>,
) -> Result<(), StoreError> {
    for version in versions {
        for at in repetitions(version).iter().filter(|at| !said[**at].evidence.quote.is_empty()) {
            send(db, "UPDATE fact_statement SET quote = '' WHERE key = ?1", [said[*at].order])?;
        }
    }
    let mut kept: HashMap<String, usize> = HashMap::new();
    versions.iter().for_each(|version| *kept.entry(version.fact.key.path()).or_default() += version.said_by.len());
    for (path, count) in kept.into_iter().filter(|(_, count)| *count > STATEMENTS_MAX) {
        let of_path: Vec<&Version> = versions.iter().filter(|version| version.fact.key.path() == path).collect();
        let over = count_instead(db, said, &of_path, count - STATEMENTS_MAX)?;
        drop_oldest(db, said, &of_path, keys, over)?;
    }
    Ok(())
}

/// The statements between a version's first and its last ones.
fn repetitions(version: &Version) -> &[usize] {
    let end = version.said_by.len().saturating_sub(QUOTES_LAST).max(1);
    version.said_by.get(1..end).unwrap_or_default()
}

/// Answers how many are still too many.
fn count_instead(
    db: &Connection,
    said: &[Statement],
    versions: &[&Version],
    mut over: usize,
) -> Result<usize, StoreError> {
    for version in versions {
        for at in repetitions(version).iter().take(over) {
            let (first, other) = (said[version.said_by[0]].order, &said[*at]);
            let sql = "UPDATE fact_statement SET also = also + ?2 WHERE key = ?1";
            send(db, sql, params![first, 1 + other.also])?;
            send(db, "DELETE FROM fact_statement WHERE key = ?1", [other.order])?;
        }
        over -= repetitions(version).len().min(over);
    }
    Ok(over)
}

fn drop_oldest(
    db: &Connection,
    said: &[Statement],
    versions: &[&Version],
    keys: &HashMap<FactId, i64>,
    mut over: usize,
) -> Result<(), StoreError> {
    for version in versions.iter().take_while(|version| version.ended_by.is_some()) {
        if over == 0 {
            break;
        }
        for at in &version.said_by {
            send(db, "DELETE FROM fact_statement WHERE key = ?1", [said[*at].order])?;
        }
        send(db, "DELETE FROM fact WHERE key = ?1", [keys.get(&version.fact.id)])?;
        over = over.saturating_sub(version.said_by.len());
    }
    Ok(())
}

/// Facts whose time is over. Answers how many there were.
pub(super) fn time_passes(db: &Connection, now: Timestamp, limit: usize) -> Result<u64, StoreError> {
    let sql = "SELECT tenant, user, category, name FROM fact INDEXED BY fact_until
               WHERE until_at <= ?1 AND status IN ('active', 'provisional') LIMIT ?2";
    let due = all(db, sql, params![now.as_microsecond(), rows_max(limit)], |row| {
        let scope = Scope::as_stored(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?);
        Ok((scope, Family::read(row, 2)?))
    })?;
    let count = due.len() as u64;
    for (scope, family) in due {
        settle_one(db, &scope, &family, Because::of(Cause::Time, now))?;
    }
    Ok(count)
}
