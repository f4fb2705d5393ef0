//! A fact is erased: its words go, from whoever said them, and the messages that said them are not understood so again.

use std::collections::BTreeSet;

use jiff::Timestamp;
use xxhash_rust::xxh3::xxh3_64;

use super::super::connect::meaning;
use super::super::session::execute;
use super::super::sql::{Connection, params};
use super::learn::{Unsaid, keep};
use super::row::{Family, KeptFact, STATEMENT, all, find, read_statement};
use super::settle::{Because, settle};
use crate::fact::{Act, Fact, Key, Statement};
use crate::id::{FactId, MessageId, TurnId};
use crate::scope::Scope;
use crate::store::{Cause, StoreError};

/// Whether there is such a fact.
pub(in super::super) fn is_there(db: &Connection, scope: &Scope, id: FactId) -> Result<bool, StoreError> {
    Ok(find(db, scope, id)?.is_some())
}

/// Removes a fact, and all that was said of its value under its key, the word that ended it included. What it had taken the place of
/// does not come back: a word without words says that it ended. Answers what went, and the turns whose messages said it.
pub(in super::super) fn erase(
    db: &Connection,
    scope: &Scope,
    id: FactId,
    now: Timestamp,
) -> Result<(Unsaid, BTreeSet<TurnId>), StoreError> {
    let Some(KeptFact { fact, .. }) = find(db, scope, id)? else { return Ok(Default::default()) };
    let said = about(db, scope, &fact)?;
    for statement in &said {
        if let Some(message) = &statement.evidence.message {
            keep_out(db, scope, message, &statement.key)?;
        }
        execute(db, "DELETE FROM fact_statement WHERE key = ?1", [statement.order])?;
    }
    if let Some(last) =
        said.iter().max_by_key(|said| (said.evidence.said_at, said.order)).filter(|last| last.key.item.is_none())
    {
        let at = last.evidence.said_at;
        keep(db, scope, &Statement::by_hand(id, fact.key.clone(), "", Act::End, fact.importance, at))?;
    }
    let families = BTreeSet::from([Family::of(&fact.key)]);
    settle(db, scope, &families, Because::of(Cause::Removal, now))?;
    let gone = "DELETE FROM fact WHERE tenant = ?1 AND user = ?2 AND category = ?3 AND path = ?4
                AND (id = ?5 OR (value = ?6 AND confirmations = 0))";
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let (category, path) = (fact.key.category.as_str(), fact.key.path());
    let values = params![tenant, user, category, path, id.as_uuid().as_bytes(), fact.value];
    let facts = execute(db, gone, values)? as u64;
    let turns = said.iter().filter_map(|said| Some(said.evidence.message?.turn())).collect();
    Ok((Unsaid { statements: said.len() as u64, facts }, turns))
}

/// Statements about a fact's key that speak for it, say its value, or name its item: all that repeat its words.
fn about(db: &Connection, scope: &Scope, fact: &Fact) -> Result<Vec<Statement>, StoreError> {
    let sql = format!(
        "SELECT {STATEMENT} FROM fact_statement AS said WHERE tenant = ?1 AND user = ?2 AND category = ?3 AND name = ?4"
    );
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let values = params![tenant, user, fact.key.category.as_str(), fact.key.name];
    let said = all(db, &sql, values, |row| Ok(read_statement(row)?.statement))?;
    Ok(said.into_iter().filter(|said| said.key == fact.key && said.says(&fact.value)).collect())
}

/// Notes that a message is not understood to say anything about a key any more.
fn keep_out(db: &Connection, scope: &Scope, message: &MessageId, key: &Key) -> Result<(), StoreError> {
    let sql = "INSERT OR IGNORE INTO fact_erased (tenant, user, message, about) VALUES (?1, ?2, ?3, ?4)";
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    execute(db, sql, params![tenant, user, message.as_uuid().as_bytes(), hash(key)]).map(drop)
}

/// Those of some messages that said something that was erased.
pub(super) fn unsaid(db: &Connection, scope: &Scope, messages: &[MessageId]) -> Result<Vec<MessageId>, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM fact_erased WHERE tenant = ?1 AND user = ?2 AND message = ?3)";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let mut unsaid = Vec::new();
    for message in messages {
        let values = params![tenant, user, message.as_uuid().as_bytes()];
        if statement.query_row(values, |row| row.get(0)).map_err(|error| meaning(&error))? {
            unsaid.push(*message);
        }
    }
    Ok(unsaid)
}

/// Whether a turn said something that was erased.
pub(in super::super) fn said_erased(db: &Connection, scope: &Scope, turn: TurnId) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM fact_erased WHERE tenant = ?1 AND user = ?2 AND message BETWEEN ?3 AND ?4)";
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let (first, last) = (turn.message(0), turn.message(u16::MAX - 1));
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let values = params![tenant, user, first.as_uuid().as_bytes(), last.as_uuid().as_bytes()];
    statement.query_row(values, |row| row.get(0)).map_err(|error| meaning(&error))
}

/// Whether a statement was erased before.
pub(super) fn is_kept_out(db: &Connection, scope: &Scope, said: &Statement) -> Result<bool, StoreError> {
    let Some(message) = &said.evidence.message else { return Ok(false) };
    let sql =
        "SELECT EXISTS (SELECT 1 FROM fact_erased WHERE tenant = ?1 AND user = ?2 AND message = ?3 AND about = ?4)";
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let values = params![tenant, user, message.as_uuid().as_bytes(), hash(&said.key)];
    statement.query_row(values, |row| row.get(0)).map_err(|error| meaning(&error))
}

fn hash(key: &Key) -> i64 {
    xxh3_64(format!("{}/{}", key.category.as_str(), key.path()).as_bytes()) as i64
}
