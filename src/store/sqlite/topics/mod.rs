//! Topics in SQL: `read` (what is kept of them), `keep` (what people and the background make of them) and `tell` (their
//! summaries).

mod keep;
mod read;
pub(super) mod tell;

#[cfg(test)]
pub(super) use read::{CURRENT, LIVE, list_sql, turns_sql};

use jiff::Timestamp;

use super::{Sqlite, recall};
use crate::id::{TopicId, TurnId};
use crate::scope::Scope;
use crate::session::Turn;
use crate::store::{
    DerivedTopic, DueTurn, KeptTopic, Moment, Page, PageRequest, PlacedTurn, SketchedTopic, StoreFuture, TopicMerge,
    TopicOutline, TopicPatch, Topics, Untold, WhichTopics,
};

impl Sqlite {
    /// What it takes to see that a topic is due to be told.
    fn telling(&self) -> keep::Telling {
        keep::Telling { due: self.due.topic, notes: self.writer.notes() }
    }
}

impl Topics for Sqlite {
    fn topic_outline(&self, scope: &Scope, at: Option<Moment>) -> StoreFuture<'_, TopicOutline> {
        let scope = scope.clone();
        Box::pin(async move { self.readers.read_here(|db| read::outline(db, &scope, at)).await })
    }

    fn topic_sketches(&self, scope: &Scope, ids: &[TopicId]) -> StoreFuture<'_, Vec<SketchedTopic>> {
        let (scope, ids) = (scope.clone(), ids.to_vec());
        self.look_up(ids.len(), move |db| read::sketches(db, &scope, &ids))
    }

    fn topics_kept(&self, scope: &Scope, which: WhichTopics) -> StoreFuture<'_, Page<KeptTopic>> {
        let scope = scope.clone();
        self.read(move |db| read::list(db, &scope, &which))
    }

    fn topic_kept(&self, scope: &Scope, id: TopicId) -> StoreFuture<'_, Option<KeptTopic>> {
        let scope = scope.clone();
        self.read(move |db| read::find(db, &scope, id))
    }

    fn change_topic(&self, scope: &Scope, id: TopicId, patch: TopicPatch) -> StoreFuture<'_, Option<KeptTopic>> {
        let scope = scope.clone();
        self.write(move |db| keep::change(db, &scope, id, &patch))
    }

    fn topic_turns(
        &self,
        scope: &Scope,
        id: TopicId,
        archived: bool,
        page: PageRequest,
    ) -> StoreFuture<'_, Option<Page<(u64, Turn)>>> {
        let scope = scope.clone();
        self.read(move |db| read::turns(db, &scope, id, archived, page))
    }

    fn archived_messages(&self, scope: &Scope, id: TopicId) -> StoreFuture<'_, u64> {
        let scope = scope.clone();
        self.read(move |db| read::archived_messages(db, &scope, id))
    }

    fn last_topic_turns(&self, scope: &Scope, id: TopicId, turns_max: usize) -> StoreFuture<'_, Option<Vec<Turn>>> {
        let scope = scope.clone();
        self.read(move |db| read::last_turns(db, &scope, id, turns_max))
    }

    fn topics_of(&self, scope: &Scope, turns: &[TurnId]) -> StoreFuture<'_, Vec<(TurnId, TopicId)>> {
        let (scope, turns) = (scope.clone(), turns.to_vec());
        self.read(move |db| read::of_turns(db, &scope, &turns))
    }

    fn topic_todo(&self, limit: usize) -> StoreFuture<'_, Vec<DueTurn>> {
        self.read(move |db| recall::due(db, &recall::due_sql("topic_todo"), limit))
    }

    fn place_turns(&self, turns: Vec<PlacedTurn>) -> StoreFuture<'_, ()> {
        self.write(move |db| keep::place(db, &turns))
    }

    fn topics_due(&self, limit: usize) -> StoreFuture<'_, Vec<(Scope, TopicId)>> {
        self.read(move |db| read::due(db, limit))
    }

    fn remake_topic(&self, scope: &Scope, id: TopicId) -> StoreFuture<'_, bool> {
        let scope = scope.clone();
        self.write(move |db| keep::remake(db, &scope, id))
    }

    fn keep_topic(&self, scope: &Scope, derived: DerivedTopic) -> StoreFuture<'_, bool> {
        let scope = scope.clone();
        let told = self.telling();
        self.write(move |db| keep::keep(db, &scope, &derived, told))
    }

    fn merge_topics(&self, scope: &Scope, merge: TopicMerge) -> StoreFuture<'_, bool> {
        let scope = scope.clone();
        let told = self.telling();
        self.write(move |db| keep::merge(db, &scope, &merge, told))
    }

    fn forget_topics(&self, scope: &Scope, ids: &[TopicId], at: Timestamp) -> StoreFuture<'_, u64> {
        let (scope, ids) = (scope.clone(), ids.to_vec());
        self.write(move |db| keep::forget(db, &scope, &ids, at.as_microsecond()))
    }

    fn topic_to_tell(&self, scope: &Scope, turns_max: usize) -> StoreFuture<'_, Option<Untold>> {
        let scope = scope.clone();
        self.read(move |db| tell::first(db, &scope, turns_max))
    }

    fn topics_made_with(&self, made_with: &str) -> StoreFuture<'_, u64> {
        let made_with = made_with.to_owned();
        self.write(move |db| keep::made_with(db, &made_with))
    }
}
