//! Topics in memory: as many users' as fit, the least recently used go first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::RunningTopic;
use crate::id::{TopicId, TurnId};
use crate::scope::Scope;
use crate::store::Stamp;
use crate::topic::{Known, Sketch};

/// Topics in memory, all users together: about fifteen kilobytes each.
const TOPICS_HELD_MAX: usize = 4_096;

/// A topic in memory.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HeldTopic {
    pub(super) id: TopicId,
    /// The state it is in.
    pub(super) version: u64,
    pub(super) title: String,
    /// The stored sketch and what is beyond it.
    pub(super) sketch: Sketch,
    /// The state of the stored one.
    pub(super) sketch_state: u64,
    /// The turns that are beyond it, oldest first.
    pub(super) beyond: Vec<(TurnId, Stamp)>,
    pub(super) last: Vec<TurnId>,
}

/// A user's topics, the last used first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TopicShelf {
    topics: Vec<Arc<HeldTopic>>,
    /// Where each of them is: the store's list is compared with this one before each question.
    places: HashMap<TopicId, usize>,
}

impl TopicShelf {
    fn of(topics: Vec<Arc<HeldTopic>>) -> Self {
        let places = topics.iter().enumerate().map(|(at, topic)| (topic.id, at)).collect();
        Self { topics, places }
    }

    /// The topics as placement and merging take them.
    pub fn known(&self) -> Vec<Known<'_>> {
        self.topics.iter().map(|topic| Known { id: topic.id, sketch: &topic.sketch }).collect()
    }

    /// The state that a topic is in.
    pub fn version(&self, id: TopicId) -> Option<u64> {
        self.topic(id).map(|topic| topic.version)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.topics.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    pub(super) fn running(&self, id: TopicId) -> Option<RunningTopic> {
        self.topic(id).map(|topic| RunningTopic { title: topic.title.clone(), last: topic.last.clone() })
    }

    /// Those of the topics that are not held in the state they are in.
    pub(super) fn changed(&self, outline: &[(TopicId, u64)]) -> Vec<TopicId> {
        let is_changed = |(id, version): &&(TopicId, u64)| self.version(*id) != Some(*version);
        outline.iter().filter(is_changed).map(|(id, _)| *id).collect()
    }

    /// The shelf with what was read anew, in the order of the outline. A topic that went meanwhile is left out.
    pub(super) fn with(&self, outline: &[(TopicId, u64)], read: Vec<Arc<HeldTopic>>) -> Self {
        let find = |(id, _): &(TopicId, u64)| {
            let anew = read.iter().find(|topic| topic.id == *id);
            anew.or_else(|| self.topic(*id)).cloned()
        };
        Self::of(outline.iter().filter_map(find).collect())
    }

    /// The turns that are in these topics' sketches beyond those that are stored.
    pub(super) fn beyond(&self, ids: &[TopicId]) -> Vec<(TurnId, Stamp)> {
        ids.iter().filter_map(|id| self.topic(*id)).flat_map(|topic| topic.beyond.iter().copied()).collect()
    }

    pub(super) fn topic(&self, id: TopicId) -> Option<&Arc<HeldTopic>> {
        self.places.get(&id).map(|at| &self.topics[*at])
    }
}

/// The users whose topics are in memory.
#[derive(Default)]
pub(super) struct Shelves {
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    /// Each with when it was used, counted.
    scopes: HashMap<Scope, (u64, Arc<TopicShelf>)>,
    topics: usize,
    clock: u64,
}

impl Shelves {
    /// A user's topics; none if they are not in memory.
    pub(super) fn get(&self, scope: &Scope) -> Arc<TopicShelf> {
        let mut held = self.lock();
        held.clock += 1;
        let now = held.clock;
        held.scopes.get_mut(scope).map_or_else(Arc::default, |(used, shelf)| {
            *used = now;
            Arc::clone(shelf)
        })
    }

    /// Keeps a user's topics, and lets others go for them.
    pub(super) fn put(&self, scope: &Scope, shelf: Arc<TopicShelf>) {
        let mut held = self.lock();
        held.clock += 1;
        let now = held.clock;
        held.topics += shelf.len();
        if let Some((_, before)) = held.scopes.insert(scope.clone(), (now, shelf)) {
            held.topics -= before.len();
        }
        while held.topics > TOPICS_HELD_MAX {
            let others = held.scopes.iter().filter(|(other, _)| *other != scope);
            let Some(oldest) = others.min_by_key(|(_, (used, _))| *used).map(|(oldest, _)| oldest.clone()) else {
                break;
            };
            held.topics -= held.scopes.remove(&oldest).map_or(0, |(_, shelf)| shelf.len());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::id::{CountedIds, Ids};
    use crate::scope::{Tenant, User};

    fn scope(name: &str) -> Scope {
        Scope::new(Tenant::default(), User::parse(name).expect("a name"))
    }

    fn held(ids: &CountedIds, version: u64) -> Arc<HeldTopic> {
        let id = ids.topic(Timestamp::UNIX_EPOCH);
        Arc::new(HeldTopic {
            id,
            version,
            title: String::new(),
            sketch: Sketch::default(),
            sketch_state: 0,
            beyond: Vec::new(),
            last: Vec::new(),
        })
    }

    #[test]
    fn only_what_changed_is_read_again() {
        let ids = CountedIds::default();
        let (a, b, c) = (held(&ids, 1), held(&ids, 1), held(&ids, 7));
        let shelf = TopicShelf::of(vec![Arc::clone(&a), Arc::clone(&b)]);
        assert!(shelf.changed(&[(a.id, 1), (b.id, 1)]).is_empty());
        let outline = [(c.id, 7), (a.id, 2)];
        assert_eq!(shelf.changed(&outline), [c.id, a.id]);
        let a_now = Arc::new(HeldTopic { version: 2, ..(*a).clone() });
        let now = shelf.with(&outline, vec![a_now, Arc::clone(&c)]);
        assert_eq!((now.len(), now.version(a.id), now.version(b.id)), (2, Some(2), None));
        assert_eq!(now.topics[0].id, c.id, "the last used comes first");
    }

    #[test]
    fn the_least_recently_used_goes() {
        let (ids, shelves) = (CountedIds::default(), Shelves::default());
        let many = |n: usize| Arc::new(TopicShelf::of((0..n).map(|_| held(&ids, 0)).collect()));
        shelves.put(&scope("ann"), many(10));
        shelves.put(&scope("bob"), many(10));
        shelves.get(&scope("ann"));
        shelves.put(&scope("cyd"), many(TOPICS_HELD_MAX - 15));
        assert_eq!((shelves.get(&scope("ann")).len(), shelves.get(&scope("bob")).len()), (10, 0));
    }
}
