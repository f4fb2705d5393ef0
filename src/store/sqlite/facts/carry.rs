//! What is known of a user as records, and records into what is known.
//!
//! A name is carried as a whole: statements, facts and what happened to them arrive in one transaction, so that facts never follow from
//! half of what was said. What is here already is left alone, and what was erased here does not come back.

use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;
use uuid::Uuid;

use super::super::connect::meaning;
use super::super::session::{execute, rows_max, send};
use super::super::sql::{self, Connection, OptionalExtension, Row, params};
use super::erase::is_kept_out;
use super::learn::{has_room, keep as keep_statement};
use super::row::{
    AFTER_FACT, AFTER_STATEMENT, FACT, Family, STATEMENT, all, bytes, message, read_fact, read_statement, status,
};
use super::settle::{Because, keep as keep_fact, settle};
use crate::clock::from_micros;
use crate::fact::{Fact, Statement, What};
use crate::id::{FactId, MessageId, UndoId};
use crate::scope::Scope;
use crate::store::{Cause, FactsFrom, FactsRecords, StoreError};
use crate::takeout::{EventRecord, FactRecord, KnownRecord, UndoRecord, UnsaidRecord};

/// A part of what is kept, in the order in which it is to be taken in: what was undone and what is not to be understood any more
/// come before what was said.
pub(in super::super) fn records(
    db: &Connection,
    scope: &Scope,
    from: &FactsFrom,
    since: Option<Timestamp>,
    limit: usize,
) -> Result<FactsRecords, StoreError> {
    let (records, next) = match from {
        FactsFrom::Undos(after) => undos(db, scope, *after, limit)?,
        FactsFrom::Unsaid(after) => unsaid(db, scope, after.as_ref(), limit)?,
        FactsFrom::Names(after) => names(db, scope, after.as_ref(), since, limit)?,
    };
    Ok(FactsRecords { records, next })
}

type Part = (Vec<FactRecord>, Option<FactsFrom>);

fn undos(db: &Connection, scope: &Scope, after: i64, limit: usize) -> Result<Part, StoreError> {
    let sql = "SELECT key, id, at, in_force FROM fact_undo WHERE tenant = ?1 AND user = ?2 AND key > ?3 ORDER BY key LIMIT ?4";
    let who = params![scope.tenant().as_str(), scope.user().as_str(), after, rows_max(limit)];
    let found = all(db, sql, who, |row| {
        let id = UndoId::from_uuid(Uuid::from_bytes(row.get(1)?));
        Ok((row.get::<_, i64>(0)?, id, from_micros(row.get(2)?), row.get::<_, bool>(3)?))
    })?;
    let next = match found.last() {
        Some((key, ..)) if found.len() == limit => FactsFrom::Undos(*key),
        _ => FactsFrom::Unsaid(None),
    };
    let what = "SELECT what FROM fact_undone WHERE undo = ?1 ORDER BY what";
    let record = |(key, id, at, in_force): (i64, UndoId, Timestamp, bool)| {
        let what = all(db, what, params![key], |row| Ok(Uuid::from_bytes(row.get(0)?)))?;
        Ok(FactRecord::Undo(UndoRecord { id, at, lifted: !in_force, what }))
    };
    Ok((found.into_iter().map(record).collect::<Result<_, StoreError>>()?, Some(next)))
}

fn unsaid(db: &Connection, scope: &Scope, after: Option<&UnsaidRecord>, limit: usize) -> Result<Part, StoreError> {
    let sql = "SELECT message, about FROM fact_erased WHERE tenant = ?1 AND user = ?2
                 AND (message > ?3 OR (message = ?3 AND about > ?4)) ORDER BY message, about LIMIT ?5";
    let (message, about) = after.map_or((Uuid::nil(), i64::MIN), |last| (*last.message.as_uuid(), last.about));
    let who = params![scope.tenant().as_str(), scope.user().as_str(), message.as_bytes(), about, rows_max(limit)];
    let found = all(db, sql, who, |row| {
        Ok(UnsaidRecord { message: MessageId::from_uuid(Uuid::from_bytes(row.get(0)?)), about: row.get(1)? })
    })?;
    let next = match found.last() {
        Some(last) if found.len() == limit => FactsFrom::Unsaid(Some(last.clone())),
        _ => FactsFrom::Names(None),
    };
    Ok((found.into_iter().map(FactRecord::Unsaid).collect(), Some(next)))
}

/// Names by their letters, so that two exports of the same memory are the same.
fn names(
    db: &Connection,
    scope: &Scope,
    after: Option<&(String, String)>,
    since: Option<Timestamp>,
    limit: usize,
) -> Result<Part, StoreError> {
    let sql = "SELECT category, name FROM fact_statement WHERE tenant = ?1 AND user = ?2
                 AND (category > ?3 OR (category = ?3 AND name > ?4)) GROUP BY category, name
               UNION SELECT category, name FROM fact WHERE tenant = ?1 AND user = ?2
                 AND (category > ?3 OR (category = ?3 AND name > ?4)) GROUP BY category, name
               ORDER BY category, name LIMIT ?5";
    let (category, name) = after.map_or(("", ""), |(category, name)| (category, name));
    let who = params![scope.tenant().as_str(), scope.user().as_str(), category, name, rows_max(limit)];
    let found = all(db, sql, who, |row| Family::read(row, 0))?;
    let next = match found.last() {
        Some(last) if found.len() == limit => {
            Some(FactsFrom::Names(Some((last.category.as_str().into(), last.name.clone()))))
        }
        _ => None,
    };
    let known = found.iter().map(|family| known(db, scope, family)).collect::<Result<Vec<_>, _>>()?;
    let records = known.into_iter().filter(|known| since.is_none_or(|since| is_since(known, since)));
    Ok((records.map(FactRecord::Known).collect(), next))
}

/// Whether something was learned, or happened, since then.
fn is_since(known: &KnownRecord, since: Timestamp) -> bool {
    known.statements.iter().any(|(said, _)| said.learned_at >= since)
        || known.events.iter().any(|event| event.at >= since)
}

fn known(db: &Connection, scope: &Scope, family: &Family) -> Result<KnownRecord, StoreError> {
    let Family { category, name } = family;
    let who = params![scope.tenant().as_str(), scope.user().as_str(), category.as_str(), name];
    let place = "tenant = ?1 AND user = ?2 AND category = ?3 AND name = ?4";
    let sql = format!("SELECT {STATEMENT}, said.shown FROM fact_statement AS said WHERE {place} ORDER BY said.key");
    let statements = all(db, &sql, who, |row| {
        // Whoever takes it in gives it a place of its own.
        Ok((Statement { order: 0, ..read_statement(row)?.statement }, row.get(AFTER_STATEMENT)?))
    })?;
    let sql = format!(
        "SELECT {FACT}, (SELECT id FROM fact_statement WHERE fact_statement.key = fact.ender) FROM fact WHERE {place} ORDER BY fact.key"
    );
    let facts = all(db, &sql, who, |row| {
        let ender: Option<[u8; 16]> = row.get(AFTER_FACT)?;
        Ok((read_fact(row)?.fact, ender.map(|id| FactId::from_uuid(Uuid::from_bytes(id)))))
    })?;
    let sql = format!(
        "SELECT fact.id, event.at, event.what, event.status, event.cause, event.message,
                (SELECT undo.id FROM fact_undo AS undo WHERE undo.key = event.undo)
         FROM fact CROSS JOIN fact_event AS event ON event.fact = fact.key WHERE {place} ORDER BY event.key"
    );
    let events = all(db, &sql, who, read_event)?;
    Ok(KnownRecord { category: *category, name: name.clone(), statements, facts, events })
}

fn read_event(row: &Row<'_>) -> sql::Result<EventRecord> {
    let undo: Option<[u8; 16]> = row.get(6)?;
    Ok(EventRecord {
        fact: FactId::from_uuid(Uuid::from_bytes(row.get(0)?)),
        at: from_micros(row.get(1)?),
        what: What::parse(row.get_ref(2)?.as_str()?).unwrap_or(What::Confirm),
        status: status(row, 3)?,
        cause: row.get(4)?,
        message: message(row, 5)?,
        undo: undo.map(|id| UndoId::from_uuid(Uuid::from_bytes(id))),
    })
}

/// Whether a record would bring anything.
pub(in super::super) fn is_new(db: &Connection, scope: &Scope, record: &FactRecord) -> Result<bool, StoreError> {
    match record {
        FactRecord::Undo(undo) => Ok(key_of_undo(db, scope, undo.id)?.is_none()),
        FactRecord::Unsaid(_) => Ok(false),
        FactRecord::Known(known) => {
            for (said, _) in &known.statements {
                if !is_here(db, scope, said.id)? && !is_kept_out(db, scope, said)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
    }
}

fn is_here(db: &Connection, scope: &Scope, id: FactId) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM fact_statement WHERE tenant = ?1 AND user = ?2 AND id = ?3)";
    let who = params![scope.tenant().as_str(), scope.user().as_str(), id.as_uuid().as_bytes()];
    db.query_row(sql, who, |row| row.get(0)).map_err(|error| meaning(&error))
}

fn key_of_undo(db: &Connection, scope: &Scope, id: UndoId) -> Result<Option<i64>, StoreError> {
    let sql = "SELECT key FROM fact_undo WHERE tenant = ?1 AND user = ?2 AND id = ?3";
    let who = params![scope.tenant().as_str(), scope.user().as_str(), id.as_uuid().as_bytes()];
    db.query_row(sql, who, |row| row.get(0)).optional().map_err(|error| meaning(&error))
}

/// Takes a record in. Answers whether it is a name under which something is new.
pub(in super::super) fn take_in(
    db: &Connection,
    scope: &Scope,
    record: &FactRecord,
    now: Timestamp,
) -> Result<bool, StoreError> {
    match record {
        FactRecord::Undo(record) => take_undo(db, scope, record).map(|()| false),
        FactRecord::Unsaid(record) => {
            let sql = "INSERT OR IGNORE INTO fact_erased (tenant, user, message, about) VALUES (?1, ?2, ?3, ?4)";
            let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
            send(db, sql, params![tenant, user, record.message.as_uuid().as_bytes(), record.about]).map(|()| false)
        }
        FactRecord::Known(record) => take_known(db, scope, record, now),
    }
}

/// What was undone here, or lifted, stays so.
fn take_undo(db: &Connection, scope: &Scope, record: &UndoRecord) -> Result<(), StoreError> {
    let sql = "INSERT INTO fact_undo (tenant, user, id, at, in_force) VALUES (?1, ?2, ?3, ?4, ?5)
               ON CONFLICT (tenant, user, id) DO NOTHING";
    let (tenant, user, id) = (scope.tenant().as_str(), scope.user().as_str(), record.id.as_uuid().as_bytes());
    if execute(db, sql, params![tenant, user, id, record.at.as_microsecond(), !record.lifted])? == 0 {
        return Ok(());
    }
    let Some(key) = key_of_undo(db, scope, record.id)? else { return Ok(()) };
    for what in &record.what {
        send(db, "INSERT OR IGNORE INTO fact_undone (undo, what) VALUES (?1, ?2)", params![key, what.as_bytes()])?;
    }
    Ok(())
}

fn take_known(db: &Connection, scope: &Scope, record: &KnownRecord, now: Timestamp) -> Result<bool, StoreError> {
    let (mut new, mut left_out) = (0, false);
    for (said, shown) in &record.statements {
        // Looked at first: the word without words that stands for what was erased has the name of what it stands for.
        if is_kept_out(db, scope, said)? {
            left_out = true;
            continue;
        }
        if is_here(db, scope, said.id)? {
            continue;
        }
        if !has_room(db, scope, said)? {
            left_out = true;
            continue;
        }
        keep_statement(db, scope, said)?;
        let sql = "UPDATE fact_statement SET also = ?4, shown = ?5 WHERE tenant = ?1 AND user = ?2 AND id = ?3";
        let (tenant, user, id) = (scope.tenant().as_str(), scope.user().as_str(), said.id.as_uuid().as_bytes());
        send(db, sql, params![tenant, user, id, said.also, *shown])?;
        new += 1;
    }
    // Of what is only partly taken in, facts follow anew; their history here begins here.
    if !left_out {
        take_facts(db, scope, record)?;
    }
    let families = BTreeSet::from([Family { category: record.category, name: record.name.clone() }]);
    settle(db, scope, &families, Because::of(Cause::Person, now))?;
    Ok(new > 0)
}

/// Facts that nobody knows here, as they were, with what happened to them. Names that have facts of their own are left to what follows
/// from all that was said.
fn take_facts(db: &Connection, scope: &Scope, record: &KnownRecord) -> Result<(), StoreError> {
    let sql = "SELECT count(*) FROM fact WHERE tenant = ?1 AND user = ?2 AND category = ?3 AND name = ?4";
    let who = params![scope.tenant().as_str(), scope.user().as_str(), record.category.as_str(), record.name];
    let held: i64 = db.query_row(sql, who, |row| row.get(0)).map_err(|error| meaning(&error))?;
    if held > 0 {
        return Ok(());
    }
    let mut keys = HashMap::new();
    for (fact, ender) in &record.facts {
        keys.insert(fact.id, take_fact(db, scope, fact, *ender)?);
    }
    for event in &record.events {
        let Some(fact) = keys.get(&event.fact) else { continue };
        let undo = event.undo.map(|id| key_of_undo(db, scope, id)).transpose()?.flatten();
        let sql =
            "INSERT INTO fact_event (fact, at, what, status, cause, message, undo) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let (at, what, status) = (event.at.as_microsecond(), event.what.as_str(), event.status.as_str());
        let message = bytes(event.message.as_ref().map(MessageId::as_uuid));
        send(db, sql, params![*fact, at, what, status, event.cause, message, undo])?;
    }
    Ok(())
}

fn take_fact(db: &Connection, scope: &Scope, fact: &Fact, ender: Option<FactId>) -> Result<i64, StoreError> {
    let sql = "SELECT key FROM fact_statement WHERE tenant = ?1 AND user = ?2 AND id = ?3";
    let key_of = |id: FactId| {
        let who = params![scope.tenant().as_str(), scope.user().as_str(), id.as_uuid().as_bytes()];
        db.query_row(sql, who, |row| row.get::<_, u64>(0)).optional().map_err(|error| meaning(&error))
    };
    keep_fact(db, scope, fact, ender.map(key_of).transpose()?.flatten())
}
