//! Undoing: statements lose their say, and get it back.

use std::collections::BTreeSet;

use jiff::Timestamp;
use uuid::Uuid;

use super::super::connect::meaning;
use super::super::session::send;
use super::super::sql::{self, Connection, OptionalExtension, params};
use super::row::{Family, KeptFact, all, find};
use super::settle::{Because, settle};
use crate::fact::{Change, Fact, Status};
use crate::id::{FactId, MessageId, UndoId};
use crate::scope::Scope;
use crate::store::{Cause, StoreError, Undo, Undone};

/// Undoes something.
pub(in super::super) fn undo(
    db: &Connection,
    scope: &Scope,
    what: Undo,
    id: UndoId,
    now: Timestamp,
) -> Result<Undone, StoreError> {
    let undoing = Undoing { db, scope, id, now };
    match what {
        Undo::Fact(fact) => match find(db, scope, fact)? {
            Some(kept) => undoing.fact(&kept),
            None => Ok(Undone::Unknown),
        },
        Undo::Message(message) => undoing.message(message),
        Undo::Range { from, to } => {
            let sql = "SELECT id FROM fact_statement WHERE tenant = ?1 AND user = ?2 AND learned_at >= ?3 AND learned_at < ?4";
            undoing.set_aside(&undoing.ids(sql, &[&from.as_microsecond(), &to.as_microsecond()])?)
        }
        Undo::Undo(id) => match undoing.look_up(id)? {
            Some((key, in_force)) => undoing.turn_over(key, id, !in_force),
            None => Ok(Undone::Unknown),
        },
    }
}

struct Undoing<'a> {
    db: &'a Connection,
    scope: &'a Scope,
    id: UndoId,
    now: Timestamp,
}

impl Undoing<'_> {
    /// The last thing that happened to a fact: it was learned, it was ended, or it was undone.
    fn fact(&self, kept: &KeptFact) -> Result<Undone, StoreError> {
        let KeptFact { key, fact, ender } = kept;
        match (fact.status, ender) {
            _ if fact.is_withdrawn() => self.back(fact),
            (Status::Superseded | Status::Retracted, Some(ender)) => self.ended(fact.id, *ender),
            (Status::Active | Status::Provisional | Status::Quarantined, _) => self.set_aside(
                &self.ids("SELECT id FROM fact_statement WHERE fact = ?3 AND tenant = ?1 AND user = ?2", &[key])?,
            ),
            _ => Ok(Undone::Nothing),
        }
    }

    /// A fact that was undone comes back.
    fn back(&self, fact: &Fact) -> Result<Undone, StoreError> {
        let sql =
            "SELECT undo.key, undo.id FROM fact_undo AS undo CROSS JOIN fact_undone AS undone ON undone.undo = undo.key
                   WHERE undo.tenant = ?1 AND undo.user = ?2 AND undo.in_force = 1
                     AND undone.what IN (?3, (SELECT message FROM fact_statement
                                              WHERE tenant = ?1 AND user = ?2 AND id = ?3))
                   ORDER BY undo.key DESC LIMIT 1";
        let (tenant, user) = (self.scope.tenant().as_str(), self.scope.user().as_str());
        let values = params![tenant, user, fact.id.as_uuid().as_bytes()];
        match all(self.db, sql, values, |row| Ok((row.get(0)?, Uuid::from_bytes(row.get(1)?))))?.pop() {
            Some((key, id)) => self.turn_over(key, UndoId::from_uuid(id), false),
            None => Ok(Undone::Nothing),
        }
    }

    /// What ended a fact loses its say: the fact that took its place, or the word that took it back, however often that was
    /// said.
    fn ended(&self, fact: FactId, ender: i64) -> Result<Undone, StoreError> {
        let sql = "SELECT id FROM fact_statement WHERE tenant = ?1 AND user = ?2
                   AND (key = ?3 OR fact = (SELECT fact FROM fact_statement WHERE key = ?3))";
        let mut undone = self.set_aside(&self.ids(sql, &[&ender])?)?;
        while let Undone::Done { changes, .. } = &mut undone {
            let again = match find(self.db, self.scope, fact)? {
                Some(KeptFact { fact, ender: Some(ender), .. }) if fact.status == Status::Retracted => ender,
                _ => break,
            };
            let more =
                self.ids("SELECT id FROM fact_statement WHERE tenant = ?1 AND user = ?2 AND key = ?3", &[&again])?;
            match self.set_aside(&more)? {
                Undone::Done { changes: more, .. } => changes.extend(more),
                _ => break,
            }
        }
        Ok(undone)
    }

    fn message(&self, message: MessageId) -> Result<Undone, StoreError> {
        let sql = "SELECT message FROM fact_statement WHERE tenant = ?1 AND user = ?2 AND message = ?3 LIMIT 1";
        match self.ids(sql, &[message.as_uuid().as_bytes()])? {
            found if found.is_empty() => Ok(Undone::Unknown),
            found => self.set_aside(&found),
        }
    }

    /// Ids that a query finds; `?1` and `?2` are whose.
    fn ids(&self, sql: &str, values: &[&dyn sql::ToSql]) -> Result<Vec<Uuid>, StoreError> {
        let (tenant, user) = (self.scope.tenant().as_str(), self.scope.user().as_str());
        let mut all_values: Vec<&dyn sql::ToSql> = vec![&tenant, &user];
        all_values.extend(values);
        all(self.db, sql, &all_values, |row| Ok(Uuid::from_bytes(row.get(0)?)))
    }

    fn look_up(&self, id: UndoId) -> Result<Option<(i64, bool)>, StoreError> {
        let sql = "SELECT key, in_force FROM fact_undo WHERE tenant = ?1 AND user = ?2 AND id = ?3";
        let who = params![self.scope.tenant().as_str(), self.scope.user().as_str(), id.as_uuid().as_bytes()];
        let found = self.db.query_row(sql, who, |row| Ok((row.get(0)?, row.get(1)?))).optional();
        found.map_err(|error| meaning(&error))
    }

    /// Takes statements, or those of messages, out of force.
    fn set_aside(&self, what: &[Uuid]) -> Result<Undone, StoreError> {
        if what.is_empty() {
            return Ok(Undone::Nothing);
        }
        let sql = "INSERT INTO fact_undo (tenant, user, id, at, in_force) VALUES (?1, ?2, ?3, ?4, 1)
                   ON CONFLICT (tenant, user, id) DO NOTHING";
        let (tenant, user) = (self.scope.tenant().as_str(), self.scope.user().as_str());
        send(self.db, sql, params![tenant, user, self.id.as_uuid().as_bytes(), self.now.as_microsecond()])?;
        let Some((key, _)) = self.look_up(self.id)? else { return Ok(Undone::Nothing) };
        for id in what {
            let sql = "INSERT OR IGNORE INTO fact_undone (undo, what) VALUES (?1, ?2)";
            send(self.db, sql, params![key, id.as_bytes()])?;
        }
        self.settled(key, self.id)
    }

    fn turn_over(&self, key: i64, id: UndoId, in_force: bool) -> Result<Undone, StoreError> {
        send(self.db, "UPDATE fact_undo SET in_force = ?2 WHERE key = ?1", params![key, in_force])?;
        self.settled(key, id)
    }

    /// Brings the facts up to date that an undoing is about.
    fn settled(&self, key: i64, id: UndoId) -> Result<Undone, StoreError> {
        let sql = "SELECT category, name FROM fact_undone CROSS JOIN fact_statement ON tenant = ?1 AND user = ?2 AND id = what
                   WHERE undo = ?3
                   UNION SELECT category, name FROM fact_undone CROSS JOIN fact_statement
                       ON tenant = ?1 AND user = ?2 AND message = what WHERE undo = ?3";
        let who = params![self.scope.tenant().as_str(), self.scope.user().as_str(), key];
        let families: BTreeSet<Family> = all(self.db, sql, who, |row| Family::read(row, 0))?.into_iter().collect();
        let because = Because { undo: Some(key), ..Because::of(Cause::Undo, self.now) };
        let changes: Vec<Change> = settle(self.db, self.scope, &families, because)?;
        Ok(Undone::Done { id, changes })
    }
}
