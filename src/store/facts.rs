//! What a store keeps of facts: what was said, what follows from it, what happened to it, and what was undone.
//!
//! Statements go in, facts follow: whichever statements come, go, are hidden or undone, the facts of their names are
//! brought up to date in the same transaction ([`crate::fact::timeline`], [`crate::fact::reconcile`]). So nothing that
//! was read can be out of date when it is written, and taking something back undoes exactly what followed from it.

use jiff::Timestamp;

use super::{Page, PageRequest, Stamp, StoreFuture};
use crate::fact::{Change, Evidence, Fact, Maker, Statement, Status, What};
use crate::id::{FactId, MessageId, SessionId, TurnId, UndoId};
use crate::scope::Scope;
use crate::session::Turn;

/// Facts of one user that are held at the same time; a new key beyond them is not learned.
pub const FACTS_MAX: usize = 2_000;
/// Statements about one key that are kept; older ones that only repeat are counted instead.
pub const STATEMENTS_MAX: usize = 1_000;
/// The last statements of a fact that keep their words, beside the first.
pub const QUOTES_LAST: usize = 8;

/// Where facts are kept. Every call about somebody's facts takes their scope; a foreign fact is as good as unknown.
pub trait Facts: Send + Sync {
    /// Turns of any scope whose words are to be understood, or to be left out, oldest first.
    fn fact_todo(&self, limit: usize) -> StoreFuture<'_, Vec<DueFacts>>;

    /// Takes what somebody understood of turns in place of what they understood before; doing so twice is doing it
    /// once. A turn that changed meanwhile is passed over and stays on the list, and so does one that ended facts to
    /// have them forgotten, until those are erased.
    fn learn(&self, understood: Vec<Understood>) -> StoreFuture<'_, Learned>;

    /// Turns of a session that no memory model has read yet, oldest first, up to the first that is being answered.
    /// `None` when there is no such session.
    fn unread(&self, scope: &Scope, session: SessionId, limit: usize) -> StoreFuture<'_, Option<Unread>>;

    /// Adds what a person writes down by hand.
    fn say(&self, scope: &Scope, statements: Vec<Statement>) -> StoreFuture<'_, Vec<Change>>;

    /// A user's facts in the order they were first learned.
    fn facts_kept(&self, scope: &Scope, which: WhichFacts) -> StoreFuture<'_, Page<Fact>>;

    /// Looks a fact up.
    fn fact_kept(&self, scope: &Scope, id: FactId) -> StoreFuture<'_, Option<Fact>>;

    /// What happened to a fact's key, and who says the fact. `None` when there is no such fact.
    fn fact_history(&self, scope: &Scope, id: FactId) -> StoreFuture<'_, Option<FactHistory>>;

    /// What holds at this time, the most important first, then by key.
    fn facts_known(&self, scope: &Scope, now: Timestamp) -> StoreFuture<'_, Known>;

    /// What these messages state that is no longer so.
    fn outdated(&self, scope: &Scope, messages: &[MessageId], now: Timestamp) -> StoreFuture<'_, Vec<Outdated>>;

    /// Those of some messages that said something that was erased: they are not told again.
    fn unsaid(&self, scope: &Scope, messages: &[MessageId]) -> StoreFuture<'_, Vec<MessageId>>;

    /// What was stated in a conversation between two times, both included, and is no longer so.
    fn outdated_between(
        &self,
        scope: &Scope,
        session: SessionId,
        from: Timestamp,
        to: Timestamp,
        now: Timestamp,
    ) -> StoreFuture<'_, Vec<Outdated>>;

    /// Undoes something, or an undoing.
    fn undo(&self, scope: &Scope, what: Undo, id: UndoId) -> StoreFuture<'_, Undone>;

    /// Notes that the time of facts is over. Answers how many there were.
    fn expire_facts(&self, now: Timestamp, limit: usize) -> StoreFuture<'_, u64>;

    /// Puts every turn of a user, or of everybody, on the list again. Answers how many are on it.
    fn facts_again(&self, scope: Option<&Scope>) -> StoreFuture<'_, u64>;

    /// Notes what understands messages. If that changed, all are to be understood anew; answers how many.
    fn facts_made_with(&self, made_with: &str) -> StoreFuture<'_, u64>;

    /// Counts what a user has.
    fn fact_counts(&self, scope: &Scope) -> StoreFuture<'_, FactCounts>;
}

/// A turn to be understood.
#[derive(Debug, Clone, PartialEq)]
pub struct DueFacts {
    /// Whose it is.
    pub scope: Scope,
    /// The turn.
    pub turn: Turn,
    /// As it is now.
    pub stamp: Stamp,
    /// What the model said in the turns before it, newest last: whoever repeats it has not said it.
    pub before: Vec<String>,
}

/// What was understood of a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Understood {
    /// Whose it is.
    pub scope: Scope,
    /// The turn.
    pub turn: TurnId,
    /// As it was when it was read.
    pub stamp: Stamp,
    /// Who understood it.
    pub maker: Maker,
    /// What it states.
    pub statements: Vec<Statement>,
    /// Messages of it that ask for facts to be forgotten, not only ended.
    pub forgets: Vec<MessageId>,
    /// How often something was no fact, by reason.
    pub refused: Vec<(&'static str, u64)>,
}

/// What of a session no memory model has read.
#[derive(Debug, Clone, PartialEq)]
pub struct Unread {
    /// How far it was read: the number of a turn.
    pub from: u64,
    /// Shown turns after that.
    pub turns: Vec<DueFacts>,
    /// Whether there are more.
    pub more: bool,
}

/// What a memory model noted in a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Noted {
    /// How far the session was read: it must still be so.
    pub from: u64,
    /// How far it is read now.
    pub to: u64,
    /// What was understood of each turn.
    pub understood: Vec<Understood>,
    /// Whether there is more to read.
    pub more: bool,
}

/// What learning came to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Learned {
    /// Whose turns are done, one by one.
    pub turns: Vec<Scope>,
    /// What changed.
    pub changes: Vec<(Scope, Change)>,
    /// Facts that are to be erased before their turns are done.
    pub forgets: Vec<(Scope, FactId)>,
}

impl Learned {
    /// Both together.
    pub(super) fn and(mut self, other: Self) -> Self {
        self.turns.extend(other.turns);
        self.changes.extend(other.changes);
        self.forgets.extend(other.forgets);
        self
    }
}

/// Which part of a user's facts.
#[derive(Debug, Clone, PartialEq)]
pub struct WhichFacts {
    /// Which page.
    pub page: PageRequest,
    /// Those with this status; `None` is any.
    pub status: Option<Status>,
    /// What time it is.
    pub now: Timestamp,
    /// What was held at this time, instead of now.
    pub as_of: Option<Timestamp>,
}

/// What happened to a key.
#[derive(Debug, Clone, PartialEq)]
pub struct FactHistory {
    /// The fact.
    pub fact: Fact,
    /// What happened to it and to others of its key, oldest first.
    pub events: Vec<FactEvent>,
    /// Who says it, oldest first; where there are many, the first and the last.
    pub evidence: Vec<Evidence>,
}

/// Something that happened to a fact.
#[derive(Debug, Clone, PartialEq)]
pub struct FactEvent {
    /// Which fact.
    pub fact: FactId,
    /// Its value.
    pub value: String,
    /// When.
    pub at: Timestamp,
    /// What.
    pub what: What,
    /// What it was afterwards.
    pub status: Status,
    /// Why.
    pub cause: Cause,
    /// The message that said so.
    pub message: Option<MessageId>,
    /// What was undone.
    pub undo: Option<UndoId>,
}

/// Why something happened to a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Something was said, shown or hidden in a conversation.
    Conversation,
    /// A person wrote it down.
    Person,
    /// A person undid something.
    Undo,
    /// Its time was over.
    Time,
    /// Its conversation was removed.
    Removal,
}

impl Cause {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Conversation, Self::Person, Self::Undo, Self::Time, Self::Removal];

    /// The word used on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Conversation => "conversation",
            Self::Person => "person",
            Self::Undo => "undo",
            Self::Time => "time",
            Self::Removal => "removal",
        }
    }

    /// Reads the word written by [`Cause::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.as_str() == word)
    }
}

/// What is known about a user at a time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Known {
    /// What holds, the most important first, then by key.
    pub facts: Vec<Fact>,
    /// Whether there is anything that held once and does not any more, or was erased.
    pub some_outdated: bool,
}

/// A message that states what is no longer so.
#[derive(Debug, Clone, PartialEq)]
pub struct Outdated {
    /// The message.
    pub message: MessageId,
    /// What it states.
    pub was: Fact,
    /// What holds instead, if anything does.
    pub is: Option<String>,
}

/// What to undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undo {
    /// The last thing that happened to a fact.
    Fact(FactId),
    /// Whatever was learned from a message.
    Message(MessageId),
    /// Whatever was learned from a time on, up to another.
    Range {
        /// The first moment.
        from: Timestamp,
        /// The moment after the last.
        to: Timestamp,
    },
    /// An undoing, or the undoing of an undoing.
    Undo(UndoId),
}

/// What undoing came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Undone {
    /// There is no such thing.
    Unknown,
    /// There is nothing to undo about it.
    Nothing,
    /// It is done.
    Done {
        /// By which name it can be undone.
        id: UndoId,
        /// What changed.
        changes: Vec<Change>,
    },
}

/// What a user has.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FactCounts {
    /// Facts by status.
    pub by_status: Vec<(Status, u64)>,
    /// What was no fact, by reason.
    pub refused: Vec<(String, u64)>,
    /// Turns of everybody that are yet to be understood.
    pub waiting: u64,
}

impl FactCounts {
    /// How many have this status.
    pub fn with_status(&self, status: Status) -> u64 {
        self.by_status.iter().filter(|(known, _)| *known == status).map(|(_, count)| count).sum()
    }
}
