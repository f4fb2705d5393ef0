//! Which topic a message belongs to, found while somebody waits.
//!
//! A user's topics lie in memory (`shelf`), each with the sketch that the store keeps and the turns that this does not know
//! yet. Before each look the store is asked which of them are in another state now; nearly always that is the one that was
//! used last, or none.
//!
//! **Invariant:** nothing is written here, and what is in memory is what the store would answer.

mod shelf;

pub use shelf::TopicShelf;

use std::sync::Arc;

use self::shelf::{HeldTopic, Shelves};
use crate::id::{TopicId, TurnId};
use crate::language::Tongue;
use crate::message::Role;
use crate::model::embed::{Builtin, Embedder};
use crate::scope::Scope;
use crate::session::{InTopic, Turn};
use crate::store::{Moment, SketchedTopic, Stamp, Store, StoreError};
use crate::topic::{Meaning, Placed, Placement, Remark, Sketch, Speaker, Thresholds, place, title_of};

/// The topics of whoever asks.
pub struct TopicDesk {
    store: Arc<dyn Store>,
    embedder: Arc<dyn Embedder>,
    thresholds: Thresholds,
    shelves: Shelves,
}

/// Where a question belongs.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacedQuestion {
    /// Its topic, for whoever writes the turn.
    pub topic: InTopic,
    /// That topic as it was before; `None` for a new one.
    pub running: Option<RunningTopic>,
    /// Why.
    pub placed: Placed,
}

/// A topic that a question goes on with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningTopic {
    /// What it is called.
    pub title: String,
    /// Its last turns, oldest first.
    pub last: Vec<TurnId>,
}

impl TopicDesk {
    /// A desk over a store. An embedder that takes its time is not waited for: the built-in one is as good here.
    pub fn new(store: Arc<dyn Store>, embedder: Arc<dyn Embedder>) -> Self {
        let at_once = embedder.at_once("a").is_some();
        let embedder = if at_once { embedder } else { Arc::new(Builtin::default()) };
        let thresholds = Thresholds::of(embedder.id(), embedder.near());
        Self { store, embedder, thresholds, shelves: Shelves::default() }
    }

    /// Finds the topic that a question belongs to; `new_id` names one that begins.
    pub async fn place(
        &self,
        scope: &Scope,
        at: Moment,
        question: &str,
        new_id: impl FnOnce() -> TopicId,
    ) -> Result<PlacedQuestion, StoreError> {
        let (shelf, current) = self.shelf(scope, Some(at)).await?;
        let placed = place(&shelf.known(), current, &self.remark(question), &self.thresholds);
        let (topic, running) = match placed.placement {
            Placement::New => (InTopic { id: new_id(), begins: Some(title_of(question)) }, None),
            Placement::Stay(id) | Placement::Return(id) => (InTopic { id, begins: None }, shelf.running(id)),
        };
        Ok(PlacedQuestion { topic, running, placed })
    }

    /// A user's topics as the store has them now, and the one that a conversation is in.
    pub async fn shelf(
        &self,
        scope: &Scope,
        at: Option<Moment>,
    ) -> Result<(Arc<TopicShelf>, Option<TopicId>), StoreError> {
        let outline = self.store.topics().topic_outline(scope, at).await?;
        let held = self.shelves.get(scope);
        let changed = held.changed(&outline.topics);
        if changed.is_empty() && held.len() == outline.topics.len() {
            return Ok((held, outline.current));
        }
        let read = self.read(scope, &held, &changed).await?;
        let shelf = Arc::new(held.with(&outline.topics, read));
        self.shelves.put(scope, Arc::clone(&shelf));
        Ok((shelf, outline.current))
    }

    /// Lets a user's topics go; the next question reads them anew.
    pub fn let_go(&self, scope: &Scope) {
        self.shelves.put(scope, Arc::default());
    }

    /// Topics as the store has them now. What was said in them since they were last read is added to what is in memory; where the
    /// stored sketch is another one now, all is read that it does not know.
    async fn read(&self, scope: &Scope, held: &TopicShelf, ids: &[TopicId]) -> Result<Vec<Arc<HeldTopic>>, StoreError> {
        let known = held.beyond(ids);
        let read = self.store.topics().topic_sketches(scope, ids, &known).await?;
        let (mut topics, mut others) = (Vec::with_capacity(read.len()), Vec::new());
        for topic in read {
            let (id, before) = (topic.id, held.topic(topic.id));
            match self.held(topic, before, &known) {
                Some(topic) => topics.push(Arc::new(topic)),
                None => others.push(id),
            }
        }
        if !others.is_empty() {
            let whole = self.store.topics().topic_sketches(scope, &others, &[]).await?;
            topics.extend(whole.into_iter().filter_map(|topic| self.held(topic, None, &[])).map(Arc::new));
        }
        Ok(topics)
    }

    /// A topic with all that was said in it; nothing where it takes words that were not read because they are known.
    fn held(
        &self,
        topic: SketchedTopic,
        before: Option<&Arc<HeldTopic>>,
        known: &[(TurnId, Stamp)],
    ) -> Option<HeldTopic> {
        let SketchedTopic { id, version, title, sketch, sketch_state, untaken, last, .. } = topic;
        let beyond: Vec<(TurnId, Stamp)> = untaken.iter().map(|turn| (turn.id, turn.stamp)).collect();
        let grown = before.filter(|before| before.sketch_state == sketch_state && beyond.starts_with(&before.beyond));
        let (mut sketch, taken) = grown.map_or((sketch, 0), |grown| (grown.sketch.clone(), grown.beyond.len()));
        if beyond[taken..].iter().any(|turn| known.contains(turn)) {
            return None;
        }
        for turn in untaken[taken..].iter().filter_map(|untaken| untaken.turn.as_ref()) {
            self.take_in(&mut sketch, turn);
        }
        sketch.share_name(self.embedder.id());
        Some(HeldTopic { id, version, title, sketch, sketch_state, beyond, last })
    }

    /// Adds to a sketch what was said in a turn.
    pub fn take_in(&self, sketch: &mut Sketch, turn: &Turn) {
        for message in turn.messages.iter().filter(|message| !message.text.trim().is_empty()) {
            let speaker = match message.role {
                Role::User => Speaker::User,
                Role::Assistant => Speaker::Assistant,
                Role::System | Role::Tool => continue,
            };
            sketch.take_in(&self.remark(&message.text), speaker);
        }
    }

    /// What placement reads of a message.
    pub fn remark(&self, text: &str) -> Remark {
        let meaning = self.embedder.at_once(text).map(|vector| Meaning::new(self.embedder.id().clone(), vector));
        Remark::read(text, Tongue::English).meaning(meaning)
    }

    /// How sure placement must be.
    pub fn thresholds(&self) -> &Thresholds {
        &self.thresholds
    }

    /// What sketches are made with.
    pub fn made_with(&self) -> String {
        format!("sketch-{} {}", Sketch::FORM, self.embedder.id())
    }
}

#[cfg(test)]
mod tests;
