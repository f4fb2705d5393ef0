//! What a store keeps of topics: who they are, which turns belong to them, and what is to be derived.
//!
//! A turn is placed with the transaction that closes it ([`ClosedTurn::topic`](crate::session::ClosedTurn)), or later
//! ([`Topics::topic_todo`], [`Topics::place_turns`]). The sketch follows in the background: a turn that its topic's sketch
//! does not know yet is told beside it, so that nothing waits and nothing is taken in twice. Counts are what the turns say.

use jiff::Timestamp;

use super::{DueTurn, Page, PageRequest, Stamp, StoreFuture};
use crate::id::{SessionId, TopicId, TurnId};
use crate::scope::Scope;
use crate::session::{InTopic, Turn};
use crate::topic::{Feedback, Sketch, Topic};

/// Topics of one user that messages are placed among: the last used.
pub const TOPICS_PLACED_MAX: usize = 256;

/// Where topics are kept. Every call about somebody's topics takes their scope; a foreign topic is as good as unknown.
pub trait Topics: Send + Sync {
    /// The topics that a message may join, and the one that a conversation is in.
    fn topic_outline(&self, scope: &Scope, at: Option<Moment>) -> StoreFuture<'_, TopicOutline>;

    /// Some of them as placement needs them. Those that are gone are left out. The words of turns that are known in the state
    /// they are in are not read again.
    fn topic_sketches(
        &self,
        scope: &Scope,
        ids: &[TopicId],
        known: &[(TurnId, Stamp)],
    ) -> StoreFuture<'_, Vec<SketchedTopic>>;

    /// A user's topics, oldest first.
    fn topics_kept(&self, scope: &Scope, which: WhichTopics) -> StoreFuture<'_, Page<KeptTopic>>;

    /// Looks a topic up. One that became part of another is found there.
    fn topic_kept(&self, scope: &Scope, id: TopicId) -> StoreFuture<'_, Option<KeptTopic>>;

    /// Changes what people say about a topic. `None` when there is no such topic.
    fn change_topic(&self, scope: &Scope, id: TopicId, patch: TopicPatch) -> StoreFuture<'_, Option<KeptTopic>>;

    /// The turns of a topic in the order in which they were stored, each with its cursor; without `archived`, only those
    /// whose text is not in a block. `None` when there is no such topic.
    fn topic_turns(
        &self,
        scope: &Scope,
        id: TopicId,
        archived: bool,
        page: PageRequest,
    ) -> StoreFuture<'_, Option<Page<(u64, Turn)>>>;

    /// How many messages of a topic are in blocks.
    fn archived_messages(&self, scope: &Scope, id: TopicId) -> StoreFuture<'_, u64>;

    /// Its last turns, oldest first.
    fn last_topic_turns(&self, scope: &Scope, id: TopicId, turns_max: usize) -> StoreFuture<'_, Option<Vec<Turn>>>;

    /// Which topics turns belong to; those that belong to none are left out.
    fn topics_of(&self, scope: &Scope, turns: &[TurnId]) -> StoreFuture<'_, Vec<(TurnId, TopicId)>>;

    /// Turns of any scope that belong to no topic yet, oldest first.
    fn topic_todo(&self, limit: usize) -> StoreFuture<'_, Vec<DueTurn>>;

    /// Places turns. One that changed meanwhile, went, or has its topic already is passed over.
    fn place_turns(&self, turns: Vec<PlacedTurn>) -> StoreFuture<'_, ()>;

    /// Topics of any scope whose sketch does not know all their turns.
    fn topics_due(&self, limit: usize) -> StoreFuture<'_, Vec<(Scope, TopicId)>>;

    /// Begins a topic anew from its turns, as after one left: its sketch knows none of them, and it has a title again.
    fn remake_topic(&self, scope: &Scope, id: TopicId) -> StoreFuture<'_, bool>;

    /// Writes what was derived of a topic, unless it changed meanwhile. Answers whether it was written.
    fn keep_topic(&self, scope: &Scope, derived: DerivedTopic) -> StoreFuture<'_, bool>;

    /// Makes one topic of two, unless either changed meanwhile. Answers whether that was done.
    fn merge_topics(&self, scope: &Scope, merge: TopicMerge) -> StoreFuture<'_, bool>;

    /// Forgets topics: nothing joins them any more, their turns stay. One that was used since it was found to have faded is
    /// passed over. Answers which were forgotten.
    fn forget_topics(&self, scope: &Scope, faded: &[Faded], at: Timestamp) -> StoreFuture<'_, Vec<TopicId>>;

    /// Users who have more than `topics_max` topics that were not forgotten.
    fn crowded_scopes(&self, topics_max: usize, limit: usize) -> StoreFuture<'_, Vec<Scope>>;

    /// The first of a user's topics of which more was said than its summary tells, with the oldest turns that it does not
    /// tell.
    fn topic_to_tell(&self, scope: &Scope, turns_max: usize) -> StoreFuture<'_, Option<Untold>>;

    /// Notes what sketches are made with. If that changed, all are to be made anew; answers how many.
    fn topics_made_with(&self, made_with: &str) -> StoreFuture<'_, u64>;
}

/// A place in a conversation: before this turn, or at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The conversation.
    pub session: SessionId,
    /// The number of the turn that comes next; `None` is one that is yet to come.
    pub before: Option<u64>,
}

/// Which topics there are for a message.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TopicOutline {
    /// Those that it may join, and the state each is in.
    pub topics: Vec<(TopicId, u64)>,
    /// The one that the conversation is in.
    pub current: Option<TopicId>,
}

/// A topic as placement needs it.
#[derive(Debug, Clone, PartialEq)]
pub struct SketchedTopic {
    /// Which.
    pub id: TopicId,
    /// The state it is in; whatever changes it changes this.
    pub version: u64,
    /// What it is called.
    pub title: String,
    /// Its sketch; the empty one where it is yet to be made.
    pub sketch: Sketch,
    /// The state that is in; whatever changes it changes this.
    pub sketch_state: u64,
    /// Whether it is to be made anew from its turns.
    pub stale: bool,
    /// Turns that the sketch does not know yet, oldest first.
    pub untaken: Vec<UntakenTurn>,
    /// Its last turns, oldest first.
    pub last: Vec<TurnId>,
}

/// A turn that a topic's sketch does not know yet.
#[derive(Debug, Clone, PartialEq)]
pub struct UntakenTurn {
    /// Which.
    pub id: TurnId,
    /// The state it is in.
    pub stamp: Stamp,
    /// Its words, unless they are damaged or known to whoever asked.
    pub turn: Option<Turn>,
}

/// Which part of a user's topics.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WhichTopics {
    /// Most of them.
    pub limit: usize,
    /// The cursor of the last one seen.
    pub after: Option<u64>,
    /// Whether forgotten ones are listed too.
    pub forgotten: bool,
    /// Only those with this tag.
    pub tag: Option<String>,
}

/// A topic, and whether it was forgotten.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptTopic {
    /// The topic, its messages counted.
    pub topic: Topic,
    /// When it was forgotten, if it was.
    pub forgotten_at: Option<Timestamp>,
    /// How many of its messages its summary does not tell: the last ones.
    pub untold: u64,
}

/// What a topic's summary does not tell yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Untold {
    /// Which topic.
    pub id: TopicId,
    /// Its summary.
    pub summary: Option<String>,
    /// How far that tells: to this turn, by its cursor.
    pub told: u64,
    /// When the topic was last used.
    pub last_used: Timestamp,
    /// How many messages are not told in all.
    pub messages: u64,
    /// The oldest turns that are not, in the order they were stored.
    pub turns: Vec<UntoldTurn>,
}

/// A turn that its topic's summary does not tell.
#[derive(Debug, Clone, PartialEq)]
pub struct UntoldTurn {
    /// Its place among the turns of the topic.
    pub cursor: u64,
    /// How many messages of the user or the model it has.
    pub messages: usize,
    /// What it is like.
    pub stamp: Stamp,
    /// The turn; `None` when it is damaged.
    pub turn: Option<Turn>,
}

/// A topic that was told on.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicTold {
    /// Which.
    pub id: TopicId,
    /// How far its summary told: it must still.
    pub from: u64,
    /// The turns that it tells now as well: they must be as they were, and no others between them. None are told when
    /// there turned out to be too few.
    pub read: Vec<(u64, Stamp)>,
    /// Its summary now.
    pub summary: Option<String>,
    /// What to call it, unless people gave it a name.
    pub title: Option<String>,
    /// Who told it.
    pub told_by: String,
}

/// What people say about a topic.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TopicPatch {
    /// A name.
    pub title: Option<String>,
    /// Its tags from now on.
    pub tags: Option<Vec<String>>,
    /// Whether it was useful.
    pub feedback: Option<Feedback>,
}

/// A turn and its topic.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacedTurn {
    /// Whose it is.
    pub scope: Scope,
    /// Which turn.
    pub turn: TurnId,
    /// As it was when it was placed.
    pub stamp: Stamp,
    /// Where it belongs.
    pub topic: InTopic,
}

/// What was derived of a topic.
#[derive(Debug, Clone, PartialEq)]
pub struct DerivedTopic {
    /// Which.
    pub id: TopicId,
    /// The state it was derived from.
    pub version: u64,
    /// Its sketch.
    pub sketch: Sketch,
    /// Turns that it knows now and did not know before.
    pub taken: Vec<TurnId>,
}

/// A topic that faded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Faded {
    /// Which.
    pub id: TopicId,
    /// When it was last used: it must still.
    pub last_used: Timestamp,
}

/// Two topics that grew together.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicMerge {
    /// The one that stays, and its state.
    pub into: (TopicId, u64),
    /// The one that becomes part of it.
    pub from: (TopicId, u64),
    /// What they are together.
    pub sketch: Sketch,
}
