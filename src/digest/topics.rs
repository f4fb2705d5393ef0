//! Topics put in order: turns that have none get theirs, sketches learn what was said, what faded is forgotten and what
//! grew together becomes one.
//!
//! Placement does not depend on this: what a sketch does not know yet is told beside it.

use std::collections::HashMap;

use tracing::info;

use crate::id::{SessionId, TopicId};
use crate::memory::Memory;
use crate::scope::Scope;
use crate::session::{InTopic, Turn};
use crate::store::{
    DerivedTopic, DueTurn, Faded, KeptTopic, Moment, PlacedTurn, SketchedTopic, StoreError, TOPICS_PLACED_MAX,
    TopicMerge, WhichTopics,
};
use crate::topic::{Known, Placement, Sketch, Topic, place, title_of, to_forget, to_merge};

/// Turns that are placed in one transaction.
const TURNS: usize = 64;
/// Topics that are looked at in one go.
const TOPICS: usize = 16;
/// Topics that are compared with each other, the last used: what nobody uses does not grow.
const COMPARED_MAX: usize = 32;
/// Users whose topics one clean-up looks at. Users beyond have theirs looked at when they speak.
const CROWDED_MAX: usize = 100_000;

/// What was put in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tended {
    /// Turns that have a topic now.
    pub placed: usize,
    /// Topics whose sketch was brought up to date.
    pub sketched: usize,
    /// Topics that were forgotten.
    pub forgotten: u64,
    /// Topics that became part of another.
    pub merged: u64,
}

impl Tended {
    /// Whether there was anything to do.
    pub fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

/// A user's topics while several turns are placed among them.
struct Growing {
    topics: Vec<(TopicId, Sketch)>,
    current: HashMap<SessionId, Option<TopicId>>,
}

impl Memory {
    /// Has all sketches made anew when they have another form now.
    pub async fn check_topics(&self) -> Result<(), StoreError> {
        let made_with = self.topics.made_with();
        let again = self.parts.store.topics().topics_made_with(&made_with).await?;
        if again > 0 {
            info!(topics = again, "{again} topics get new sketches: `{made_with}` is new");
        }
        Ok(())
    }

    /// Puts a part of the topics in order. To be called again until there is nothing to do.
    pub async fn tend_topics(&self) -> Result<Tended, StoreError> {
        let mut tended = Tended { placed: self.place_the_unplaced().await?, ..Tended::default() };
        let mut scopes: Vec<Scope> = Vec::new();
        for (scope, topic) in self.parts.store.topics().topics_due(TOPICS).await? {
            tended.sketched += usize::from(self.sketch(&scope, topic).await?);
            if !scopes.contains(&scope) {
                scopes.push(scope);
            }
        }
        for scope in &scopes {
            tended.merged += self.merge_topics(scope).await?;
            tended.forgotten += self.forget_topics(scope).await?;
        }
        Ok(tended)
    }

    /// Places the oldest turns that belong to no topic.
    async fn place_the_unplaced(&self) -> Result<usize, StoreError> {
        let due = self.parts.store.topics().topic_todo(TURNS).await?;
        let (mut growing, mut placed): (HashMap<Scope, Growing>, Vec<PlacedTurn>) = Default::default();
        for due in due {
            if !growing.contains_key(&due.scope) {
                growing.insert(due.scope.clone(), self.growing(&due.scope).await?);
            }
            if let Some(topics) = growing.get_mut(&due.scope) {
                placed.push(self.place_among(topics, due).await?);
            }
        }
        let turns = placed.len();
        if turns > 0 {
            self.parts.store.topics().place_turns(placed).await?;
        }
        Ok(turns)
    }

    async fn growing(&self, scope: &Scope) -> Result<Growing, StoreError> {
        let (shelf, _) = self.topics.shelf(scope, None).await?;
        let topics = shelf.known().into_iter().map(|topic| (topic.id, topic.sketch.clone())).collect();
        Ok(Growing { topics, current: HashMap::new() })
    }

    async fn place_among(&self, growing: &mut Growing, due: DueTurn) -> Result<PlacedTurn, StoreError> {
        let DueTurn { scope, turn, stamp } = due;
        let current = match growing.current.get(&turn.session) {
            Some(current) => *current,
            None => {
                let at = Moment { session: turn.session, before: Some(turn.number) };
                self.parts.store.topics().topic_outline(&scope, Some(at)).await?.current
            }
        };
        let topic = self.choose(growing, current, &turn);
        growing.current.insert(turn.session, Some(topic.id));
        Ok(PlacedTurn { scope, turn: turn.id, stamp, topic })
    }

    fn choose(&self, growing: &mut Growing, current: Option<TopicId>, turn: &Turn) -> InTopic {
        let question = &turn.question().text;
        let known: Vec<Known<'_>> = growing.topics.iter().map(|(id, sketch)| Known { id: *id, sketch }).collect();
        let placed = place(&known, current, &self.topics.remark(question), self.topics.thresholds());
        let topic = match placed.placement {
            Placement::Stay(id) | Placement::Return(id) => InTopic { id, begins: None },
            Placement::New => {
                let id = self.parts.ids.topic(turn.created_at);
                growing.topics.push((id, Sketch::default()));
                InTopic { id, begins: Some(title_of(question)) }
            }
        };
        if let Some((_, sketch)) = growing.topics.iter_mut().find(|(id, _)| *id == topic.id) {
            self.topics.take_in(sketch, turn);
        }
        topic
    }

    /// Brings a topic's sketch up to date, a step at a time. Answers whether there was anything to write.
    async fn sketch(&self, scope: &Scope, id: TopicId) -> Result<bool, StoreError> {
        let Some(topic) = self.parts.store.topics().topic_sketches(scope, &[id], &[]).await?.pop() else {
            return Ok(false);
        };
        if topic.stale {
            return self.parts.store.topics().remake_topic(scope, id).await;
        }
        match self.taken_in(topic) {
            Some(derived) => self.parts.store.topics().keep_topic(scope, derived).await,
            None => Ok(false),
        }
    }

    fn taken_in(&self, topic: SketchedTopic) -> Option<DerivedTopic> {
        let SketchedTopic { id, version, mut sketch, untaken, .. } = topic;
        for turn in untaken.iter().filter_map(|untaken| untaken.turn.as_ref()) {
            self.topics.take_in(&mut sketch, turn);
        }
        let taken: Vec<_> = untaken.into_iter().map(|untaken| untaken.id).collect();
        (!taken.is_empty()).then_some(DerivedTopic { id, version, sketch, taken })
    }

    /// Makes one of two topics that grew together, if there are any.
    async fn merge_topics(&self, scope: &Scope) -> Result<u64, StoreError> {
        let (shelf, _) = self.topics.shelf(scope, None).await?;
        let mut known = shelf.known();
        known.truncate(COMPARED_MAX);
        let Some((into, from)) = to_merge(&known, self.topics.thresholds()) else { return Ok(0) };
        let sketch = |id: TopicId| known.iter().find(|topic| topic.id == id).map(|topic| topic.sketch);
        let (Some(into_version), Some(from_version)) = (shelf.version(into), shelf.version(from)) else { return Ok(0) };
        let (Some(earlier), Some(later)) = (sketch(into), sketch(from)) else { return Ok(0) };
        let sketch = Sketch::merge(earlier, later);
        let merge = TopicMerge { into: (into, into_version), from: (from, from_version), sketch };
        let merged = u64::from(self.parts.store.topics().merge_topics(scope, merge).await?);
        self.meters().topics_merged.many(merged);
        if merged > 0 {
            info!(tenant.id = %scope.tenant(), user.id = %scope.user(), topic.id = %into, topic.merged = %from,
                  "Topic `{from}` became part of `{into}`");
        }
        Ok(merged)
    }

    /// Topics of a user that the next clean-up forgets, the lowest priority first.
    pub(crate) async fn fading_topics(&self, scope: &Scope) -> Result<Vec<KeptTopic>, StoreError> {
        let mut kept: Vec<KeptTopic> = Vec::new();
        let mut which = WhichTopics { limit: TOPICS_PLACED_MAX, ..WhichTopics::default() };
        loop {
            let page = self.parts.store.topics().topics_kept(scope, which.clone()).await?;
            kept.extend(page.items);
            which.after = page.next;
            if which.after.is_none() {
                break;
            }
        }
        let topics: Vec<Topic> = kept.iter().map(|kept| kept.topic.clone()).collect();
        // The one that was used last is the one that is talked about.
        let active = topics.iter().max_by_key(|topic| (topic.last_used, topic.id)).map(|topic| topic.id);
        let due = to_forget(&topics, self.parts.clock.now(), self.settings.topics_max, active);
        let found = due.iter().filter_map(|id| kept.iter().find(|kept| kept.topic.id == *id).cloned());
        Ok(found.collect())
    }

    /// Forgets the topics of a user that faded.
    async fn forget_topics(&self, scope: &Scope) -> Result<u64, StoreError> {
        let faded = self.fading_topics(scope).await?;
        if faded.is_empty() {
            return Ok(0);
        }
        let faded: Vec<Faded> =
            faded.iter().map(|kept| Faded { id: kept.topic.id, last_used: kept.topic.last_used }).collect();
        let forgotten = self.parts.store.topics().forget_topics(scope, &faded, self.parts.clock.now()).await?;
        self.meters().topics_forgotten.many(forgotten.len() as u64);
        for topic in &forgotten {
            info!(tenant.id = %scope.tenant(), user.id = %scope.user(), topic.id = %topic, "Topic `{topic}` faded");
        }
        Ok(forgotten.len() as u64)
    }

    /// Forgets what faded of every user who has more topics than the limit, whether they speak or not.
    pub(crate) async fn forget_faded_topics(&self) -> Result<u64, StoreError> {
        let mut forgotten = 0;
        for scope in self.parts.store.topics().crowded_scopes(self.settings.topics_max, CROWDED_MAX).await? {
            forgotten += self.forget_topics(&scope).await?;
        }
        Ok(forgotten)
    }
}
