//! Topics in SQL: `read` (what is kept of them), `keep` (what people and the background make of them) and `tell` (their
//! summaries).

mod keep;
mod read;
pub(super) mod tell;

#[cfg(test)]
pub(super) use read::{CURRENT, LIVE, list_sql, turns_sql};

use jiff::Timestamp;

use super::sql::Connection;
use super::{Backend, made, recall};
use crate::id::{TopicId, TurnId};
use crate::scope::Scope;
use crate::session::Turn;
use crate::store::whose::Whose;
use crate::store::{
    DerivedTopic, DueTurn, Faded, KeptTopic, Moment, Page, PageRequest, PlacedTurn, SketchedTopic, Stamp, StoreError,
    StoreFuture, TopicMerge, TopicOutline, TopicPatch, Topics, Untold, WhichTopics,
};

/// Forgets what follows from the turns of topics, of one user's or of everybody's, so that it is made again. What people said of topics stays, and
/// so do turns in theirs.
pub(super) fn make_again(db: &Connection, scope: Option<&Scope>, due: u64) -> Result<(), StoreError> {
    keep::again(db, scope)?;
    tell::make_again(db, scope, due)
}

/// What topics are called where it is noted what they are made with.
const MADE: &str = "topic";

impl Backend {
    /// What it takes to see that a topic is due to be told.
    fn telling(&self) -> keep::Telling {
        keep::Telling { due: self.due.topic, notes: self.notes() }
    }
}

impl Topics for Backend {
    fn topic_outline(&self, scope: &Scope, at: Option<Moment>) -> StoreFuture<'_, TopicOutline> {
        self.read_here(scope, move |db, scope| read::outline(db, scope, at))
    }

    fn topic_sketches(
        &self,
        scope: &Scope,
        ids: &[TopicId],
        known: &[(TurnId, Stamp)],
    ) -> StoreFuture<'_, Vec<SketchedTopic>> {
        let (ids, known) = (ids.to_vec(), known.iter().copied().collect());
        self.look_up(scope, ids.len(), move |db, scope| read::sketches(db, scope, &ids, &known))
    }

    fn topics_kept(&self, scope: &Scope, which: WhichTopics) -> StoreFuture<'_, Page<KeptTopic>> {
        self.read(scope, move |db, scope| read::list(db, scope, &which))
    }

    fn topic_kept(&self, scope: &Scope, id: TopicId) -> StoreFuture<'_, Option<KeptTopic>> {
        self.read(scope, move |db, scope| read::find(db, scope, id))
    }

    fn change_topic(&self, scope: &Scope, id: TopicId, patch: TopicPatch) -> StoreFuture<'_, Option<KeptTopic>> {
        self.write(scope, move |db, scope| keep::change(db, scope, id, &patch))
    }

    fn topic_turns(
        &self,
        scope: &Scope,
        id: TopicId,
        archived: bool,
        page: PageRequest,
    ) -> StoreFuture<'_, Option<Page<(u64, Turn)>>> {
        self.read(scope, move |db, scope| read::turns(db, scope, id, archived, page))
    }

    fn archived_messages(&self, scope: &Scope, id: TopicId) -> StoreFuture<'_, u64> {
        self.read(scope, move |db, scope| read::archived_messages(db, scope, id))
    }

    fn last_topic_turns(&self, scope: &Scope, id: TopicId, turns_max: usize) -> StoreFuture<'_, Option<Vec<Turn>>> {
        self.read(scope, move |db, scope| read::last_turns(db, scope, id, turns_max))
    }

    fn topics_of(&self, scope: &Scope, turns: &[TurnId]) -> StoreFuture<'_, Vec<(TurnId, TopicId)>> {
        let turns = turns.to_vec();
        self.read(scope, move |db, scope| read::of_turns(db, scope, &turns))
    }

    fn topic_todo(&self, limit: usize) -> StoreFuture<'_, Vec<DueTurn>> {
        self.read_each("topic_todo", limit, |db, limit| recall::due(db, &recall::due_sql("topic_todo"), limit))
    }

    fn place_turns(&self, turns: Vec<PlacedTurn>) -> StoreFuture<'_, ()> {
        let placed = self.write_groups(turns, |turn| Whose::from(&turn.scope), keep::place);
        Box::pin(async move { placed.await.map(drop) })
    }

    fn topics_due(&self, limit: usize) -> StoreFuture<'_, Vec<(Scope, TopicId)>> {
        self.read_each("topic", limit, read::due)
    }

    fn remake_topic(&self, scope: &Scope, id: TopicId) -> StoreFuture<'_, bool> {
        self.write(scope, move |db, scope| keep::remake(db, scope, id))
    }

    fn keep_topic(&self, scope: &Scope, derived: DerivedTopic) -> StoreFuture<'_, bool> {
        let told = self.telling();
        self.write(scope, move |db, scope| keep::keep(db, scope, &derived, told))
    }

    fn merge_topics(&self, scope: &Scope, merge: TopicMerge) -> StoreFuture<'_, bool> {
        let told = self.telling();
        self.write(scope, move |db, scope| keep::merge(db, scope, &merge, told))
    }

    fn forget_topics(&self, scope: &Scope, faded: &[Faded], at: Timestamp) -> StoreFuture<'_, Vec<TopicId>> {
        let faded = faded.to_vec();
        self.write(scope, move |db, scope| keep::forget(db, scope, &faded, at.as_microsecond()))
    }

    fn crowded_scopes(&self, topics_max: usize, limit: usize) -> StoreFuture<'_, Vec<Scope>> {
        self.read_each("topic", limit, move |db, limit| read::crowded(db, topics_max, limit))
    }

    fn topic_to_tell(&self, scope: &Scope, turns_max: usize) -> StoreFuture<'_, Option<Untold>> {
        self.read(scope, move |db, scope| tell::first(db, scope, turns_max))
    }

    fn topics_made_with(&self, made_with: &str) -> StoreFuture<'_, u64> {
        let made_with = made_with.to_owned();
        Box::pin(async move {
            let before = self.read_for(Whose::Ours, |db| made::with(db, MADE)).await?;
            if before.as_deref() == Some(&*made_with) {
                return Ok(0);
            }
            // Noted last: what is interrupted is done again.
            let again = self.write_each(|db| keep::again(db, None)).await?;
            self.write_for(Whose::Ours, move |db| made::note(db, MADE, &made_with)).await?;
            Ok(again.into_iter().sum())
        })
    }
}
