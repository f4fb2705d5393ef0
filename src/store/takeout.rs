//! A memory as records: what a store hands out for a file, and takes in from one.
//!
//! Reading leaves no trace, not even that somebody looked. Taking in writes what came as it was, with its numbers, dates and
//! branches, and leaves alone what is here already: the same records again change nothing.

use jiff::Timestamp;

use super::{KnowledgeBounds, StoreFuture};
use crate::id::{DocumentId, EpisodeId, SessionId, TopicId};
use crate::scope::{Scope, Tenant, TenantScope, User};
use crate::takeout::{DocumentRecord, EpisodeRecord, FactRecord, SessionRecord, TopicRecord, TurnRecord, UnsaidRecord};

/// The part of a store that exports and imports. A cursor whose record is gone meanwhile is answered with `None`.
pub trait Takeout: Send + Sync {
    /// The user of a tenant that has anything here and comes after this one, by name.
    fn next_user(&self, tenant: &Tenant, after: Option<&User>) -> StoreFuture<'_, Option<Scope>>;

    /// A user's topics, those that became part of others last.
    fn topic_records(&self, scope: &Scope, which: TopicsAfter) -> StoreFuture<'_, Option<Vec<TopicRecord>>>;

    /// What is known of a user, a part at a time: what was undone, what is not to be understood any more, then name by name.
    fn fact_records(
        &self,
        scope: &Scope,
        from: FactsFrom,
        since: Option<Timestamp>,
        limit: usize,
    ) -> StoreFuture<'_, FactsRecords>;

    /// A user's conversations, oldest first.
    fn session_records(&self, scope: &Scope, which: SessionsAfter) -> StoreFuture<'_, Option<Vec<SessionRecord>>>;

    /// A user's episodes, in the order they were first made.
    fn episode_records(&self, scope: &Scope, which: EpisodesAfter) -> StoreFuture<'_, Option<Vec<EpisodeRecord>>>;

    /// A conversation's turns after a number, in every state.
    fn turn_records(&self, scope: &Scope, session: SessionId, which: TurnsAfter) -> StoreFuture<'_, TurnRecords>;

    /// Takes in a conversation, or a part of it. With `dry` nothing is written; what is answered is the same.
    fn take_in(&self, scope: &Scope, arrival: Arrival, dry: bool) -> StoreFuture<'_, TakenIn>;

    /// Takes in topics that are not here. Answers how many.
    fn take_in_topics(&self, scope: &Scope, topics: Vec<TopicRecord>, dry: bool) -> StoreFuture<'_, u64>;

    /// Takes in episodes that outlived their conversations. Answers how many.
    fn take_in_gone(&self, scope: &Scope, episodes: Vec<EpisodeRecord>, dry: bool) -> StoreFuture<'_, u64>;

    /// Takes in what is known of a user. What was erased here does not come back. Answers under how many names something is new.
    fn take_in_facts(&self, scope: &Scope, facts: Vec<FactRecord>, dry: bool) -> StoreFuture<'_, u64>;

    /// Takes in a document whose name is not here, by another id where its own is taken. Answers whether it is new.
    fn take_in_document(&self, tenant: &TenantScope, arrival: DocumentArrival, dry: bool) -> StoreFuture<'_, bool>;
}

/// Which topics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TopicsAfter {
    /// Those after this one.
    pub after: Option<TopicId>,
    /// Those that turns of this conversation belong to.
    pub session: Option<SessionId>,
    /// Those that were used since.
    pub since: Option<Timestamp>,
    /// Most of them.
    pub limit: usize,
}

/// Which conversations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionsAfter {
    /// This one alone.
    pub only: Option<SessionId>,
    /// Those after this one.
    pub after: Option<SessionId>,
    /// Those in which something was said or changed since.
    pub since: Option<Timestamp>,
    /// Whether ephemeral ones are among them.
    pub live: bool,
    /// Most of them.
    pub limit: usize,
}

/// Where the next part of what is known of a user begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FactsFrom {
    /// With what was undone, behind this place.
    Undos(i64),
    /// With what is not to be understood any more, behind this.
    Unsaid(Option<UnsaidRecord>),
    /// With what is known, behind this category and name.
    Names(Option<(String, String)>),
}

impl FactsFrom {
    /// The beginning.
    pub const START: Self = Self::Undos(0);
}

/// A part of what is known of a user.
#[derive(Debug, Clone, PartialEq)]
pub struct FactsRecords {
    /// What is in it.
    pub records: Vec<FactRecord>,
    /// Where the next part begins; `None` at the end.
    pub next: Option<FactsFrom>,
}

/// A document that arrives.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentArrival {
    /// The document.
    pub record: DocumentRecord,
    /// Its id, where its own is another's.
    pub else_id: DocumentId,
    /// How much the tenant may have.
    pub most: KnowledgeBounds,
}

/// Which episodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EpisodesAfter {
    /// Those of this conversation; `None` are those that outlived theirs.
    pub session: Option<SessionId>,
    /// Those after this one.
    pub after: Option<EpisodeId>,
    /// Those that tell of something since.
    pub since: Option<Timestamp>,
    /// Most of them.
    pub limit: usize,
}

/// Which turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TurnsAfter {
    /// Those after this number.
    pub after: u64,
    /// Those that were opened since.
    pub since: Option<Timestamp>,
    /// Most of them.
    pub limit: usize,
    /// The page ends behind the turn that reaches so many bytes.
    pub bytes: usize,
}

/// A turn, or the number of one that is damaged and in what way.
pub type TurnOrDamage = Result<TurnRecord, (u64, String)>;

/// A part of a conversation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TurnRecords {
    /// Its turns by number; those that are damaged are told of, with their numbers.
    pub turns: Vec<TurnOrDamage>,
    /// Where the next part begins; `None` at the end.
    pub next: Option<u64>,
}

/// A conversation that arrives.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrival {
    /// The conversation.
    pub session: SessionRecord,
    /// Its episodes; those that tell of what is told here already are left out.
    pub episodes: Vec<EpisodeRecord>,
    /// Turns of it.
    pub turns: Vec<TurnRecord>,
}

/// What was taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TakenIn {
    /// Whether the conversation is new here.
    pub new: bool,
    /// Turns that are new.
    pub turns: u64,
    /// Messages in them.
    pub messages: u64,
    /// Turns that were here without an answer and got it.
    pub completed: u64,
    /// Turns that were here already.
    pub known: u64,
    /// Episodes that are new.
    pub episodes: u64,
}

impl TakenIn {
    /// Counts a turn that is new.
    pub(super) fn count(&mut self, record: &TurnRecord) {
        self.turns += 1;
        self.messages += record.messages.len() as u64;
    }
}
