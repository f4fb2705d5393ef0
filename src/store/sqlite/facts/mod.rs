//! Facts in SQL: `row` (statements and facts as rows), `learn` (statements come and go), `settle` (facts follow), `undo` (and
//! back), `read` (what is kept).

mod learn;
mod read;
mod row;
mod settle;
mod undo;

pub(super) use learn::forget;
#[cfg(test)]
pub(super) use read::{BY_MESSAGE, BY_SESSION, HELD, SOME_OUTDATED, outdated_sql};

use std::sync::Arc;

use jiff::Timestamp;
use rusqlite::Connection;

use super::Sqlite;
use crate::fact::{Change, Fact, Statement};
use crate::id::{FactId, MessageId, SessionId, UndoId};
use crate::scope::Scope;
use crate::store::{
    DueFacts, FactCounts, FactHistory, Facts, Known, Learned, Outdated, Page, StoreFuture, Understood, Undo, Undone,
    WhichFacts,
};

impl Facts for Sqlite {
    fn fact_todo(&self, limit: usize) -> StoreFuture<'_, Vec<DueFacts>> {
        self.read(move |db| read::due(db, limit))
    }

    fn learn(&self, understood: Vec<Understood>) -> StoreFuture<'_, Learned> {
        let clock = Arc::clone(&self.clock);
        self.write(move |db| learn::learn(db, &understood, clock.now()))
    }

    fn say(&self, scope: &Scope, statements: Vec<Statement>) -> StoreFuture<'_, Vec<Change>> {
        let (scope, clock) = (scope.clone(), Arc::clone(&self.clock));
        self.write(move |db| learn::say(db, &scope, &statements, clock.now()))
    }

    fn facts_kept(&self, scope: &Scope, which: WhichFacts) -> StoreFuture<'_, Page<Fact>> {
        let scope = scope.clone();
        self.read(move |db| read::list(db, &scope, &which))
    }

    fn fact_kept(&self, scope: &Scope, id: FactId) -> StoreFuture<'_, Option<Fact>> {
        let scope = scope.clone();
        self.read(move |db| Ok(row::find(db, &scope, id)?.map(|kept| kept.fact)))
    }

    fn fact_history(&self, scope: &Scope, id: FactId) -> StoreFuture<'_, Option<FactHistory>> {
        let scope = scope.clone();
        self.read(move |db| read::history(db, &scope, id))
    }

    fn facts_known(&self, scope: &Scope, now: Timestamp) -> StoreFuture<'_, Known> {
        let scope = scope.clone();
        Box::pin(async move { self.readers.read_here(|db| read::known(db, &scope, now)).await })
    }

    fn outdated(&self, scope: &Scope, messages: &[MessageId], now: Timestamp) -> StoreFuture<'_, Vec<Outdated>> {
        let (scope, messages) = (scope.clone(), messages.to_vec());
        // No text is read but that of facts, so many are few.
        Box::pin(async move { self.readers.read_here(|db| read::outdated(db, &scope, &messages, now)).await })
    }

    fn outdated_between(
        &self,
        scope: &Scope,
        session: SessionId,
        from: Timestamp,
        to: Timestamp,
        now: Timestamp,
    ) -> StoreFuture<'_, Vec<Outdated>> {
        let scope = scope.clone();
        let read = move |db: &Connection| read::outdated_between(db, &scope, session, (from, to), now);
        Box::pin(async move { self.readers.read_here(read).await })
    }

    fn undo(&self, scope: &Scope, what: Undo, id: UndoId) -> StoreFuture<'_, Undone> {
        let (scope, clock) = (scope.clone(), Arc::clone(&self.clock));
        self.write(move |db| undo::undo(db, &scope, what, id, clock.now()))
    }

    fn expire_facts(&self, now: Timestamp, limit: usize) -> StoreFuture<'_, u64> {
        self.write(move |db| settle::time_passes(db, now, limit))
    }

    fn facts_again(&self, scope: Option<&Scope>) -> StoreFuture<'_, u64> {
        let scope = scope.cloned();
        self.write(move |db| learn::again(db, scope.as_ref()))
    }

    fn facts_made_with(&self, made_with: &str) -> StoreFuture<'_, u64> {
        let made_with = made_with.to_owned();
        self.write(move |db| learn::made_with(db, &made_with))
    }

    fn fact_counts(&self, scope: &Scope) -> StoreFuture<'_, FactCounts> {
        let scope = scope.clone();
        self.read(move |db| read::counts(db, &scope))
    }
}
