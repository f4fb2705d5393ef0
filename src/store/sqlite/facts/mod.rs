//! Facts in SQL: `row` (statements and facts as rows), `learn` (statements come and go), `settle` (facts follow),
//! `undo` (and back), `read` (what is kept), `carry` (as records, and back).

mod carry;
mod erase;
mod learn;
mod read;
mod row;
mod settle;
mod undo;

pub(super) use carry::{is_new, records, take_in};
pub(super) use erase::{erase, is_there, said_erased};
pub(super) use learn::{SaidIn, forget, note, say};
#[cfg(test)]
pub(super) use read::{BY_MESSAGE, BY_SESSION, HELD, SOME_OUTDATED, outdated_sql};
pub(super) use undo::undo as undo_facts;

use std::sync::{Arc, OnceLock};

use jiff::Timestamp;

use super::{Backend, made};
use crate::fact::{Change, Fact, Statement};
use crate::id::{FactId, MessageId, SessionId, UndoId};
use crate::scope::Scope;
use crate::store::whose::Whose;
use crate::store::{
    DueFacts, FactCounts, FactHistory, Facts, Known, Learned, Outdated, Page, StoreFuture, Understood, Undo, Undone,
    Unread, WhichFacts,
};

/// What facts are called where it is noted what they are made with.
const MADE: &str = "facts";

impl Facts for Backend {
    fn fact_todo(&self, limit: usize) -> StoreFuture<'_, Vec<DueFacts>> {
        self.read_each("fact_todo", limit, read::due)
    }

    fn learn(&self, understood: Vec<Understood>) -> StoreFuture<'_, Learned> {
        // One time for all of it, taken when the first of it is written.
        let (clock, time) = (Arc::clone(&self.clock), Arc::new(OnceLock::new()));
        let learned = self.write_groups(
            understood,
            |one| Whose::from(&one.scope),
            move |db, understood| learn::learn(db, understood, *time.get_or_init(|| clock.now())),
        );
        Box::pin(async move { Ok(learned.await?.into_iter().fold(Learned::default(), Learned::and)) })
    }

    fn unread(&self, scope: &Scope, session: SessionId, limit: usize) -> StoreFuture<'_, Option<Unread>> {
        self.read(scope, move |db, scope| read::unread(db, scope, session, limit))
    }

    fn say(&self, scope: &Scope, statements: Vec<Statement>) -> StoreFuture<'_, Vec<Change>> {
        let clock = Arc::clone(&self.clock);
        self.write(scope, move |db, scope| learn::say(db, scope, &statements, clock.now()))
    }

    fn facts_kept(&self, scope: &Scope, which: WhichFacts) -> StoreFuture<'_, Page<Fact>> {
        self.read(scope, move |db, scope| read::list(db, scope, &which))
    }

    fn fact_kept(&self, scope: &Scope, id: FactId) -> StoreFuture<'_, Option<Fact>> {
        self.read(scope, move |db, scope| Ok(row::find(db, scope, id)?.map(|kept| kept.fact)))
    }

    fn fact_history(&self, scope: &Scope, id: FactId) -> StoreFuture<'_, Option<FactHistory>> {
        self.read(scope, move |db, scope| read::history(db, scope, id))
    }

    fn facts_known(&self, scope: &Scope, now: Timestamp) -> StoreFuture<'_, Known> {
        self.read_here(scope, move |db, scope| read::known(db, scope, now))
    }

    fn outdated(&self, scope: &Scope, messages: &[MessageId], now: Timestamp) -> StoreFuture<'_, Vec<Outdated>> {
        let messages = messages.to_vec();
        // No text is read but that of facts, so many are few.
        self.read_here(scope, move |db, scope| read::outdated(db, scope, &messages, now))
    }

    fn unsaid(&self, scope: &Scope, messages: &[MessageId]) -> StoreFuture<'_, Vec<MessageId>> {
        let messages = messages.to_vec();
        self.read_here(scope, move |db, scope| erase::unsaid(db, scope, &messages))
    }

    fn outdated_between(
        &self,
        scope: &Scope,
        session: SessionId,
        from: Timestamp,
        to: Timestamp,
        now: Timestamp,
    ) -> StoreFuture<'_, Vec<Outdated>> {
        self.read_here(scope, move |db, scope| read::outdated_between(db, scope, session, (from, to), now))
    }

    fn undo(&self, scope: &Scope, what: Undo, id: UndoId) -> StoreFuture<'_, Undone> {
        let clock = Arc::clone(&self.clock);
        self.write(scope, move |db, scope| undo::undo(db, scope, what, id, clock.now()))
    }

    fn expire_facts(&self, now: Timestamp, limit: usize) -> StoreFuture<'_, u64> {
        let over = self.write_each(move |db| settle::time_passes(db, now, limit));
        Box::pin(async move { Ok(over.await?.into_iter().sum()) })
    }

    fn facts_again(&self, scope: Option<&Scope>) -> StoreFuture<'_, u64> {
        match scope {
            Some(scope) => self.write(scope, |db, scope| learn::again(db, Some(scope))),
            None => {
                let again = self.write_each(|db| learn::again(db, None));
                Box::pin(async move { Ok(again.await?.into_iter().sum()) })
            }
        }
    }

    fn facts_made_with(&self, made_with: &str) -> StoreFuture<'_, u64> {
        let made_with = made_with.to_owned();
        Box::pin(async move {
            let before = self.read_for(Whose::Ours, |db| made::with(db, MADE)).await?;
            if before.as_deref() == Some(&*made_with) {
                return Ok(0);
            }
            // Noted last: what is interrupted is done again.
            let again = if before.is_some() { self.facts_again(None).await? } else { 0 };
            self.write_for(Whose::Ours, move |db| made::note(db, MADE, &made_with)).await?;
            Ok(again)
        })
    }

    fn fact_counts(&self, scope: &Scope) -> StoreFuture<'_, FactCounts> {
        self.read(scope, read::counts)
    }
}
