//! Erasing for good, and the book of what was erased.
//!
//! Whatever a person asks to forget goes from every table, index, block and log of the store, in one way: [`Erasures::erase`]. It
//! is written down first, without content and without names ([`Marks`]), in a book that lies outside of the data: who puts
//! back an older copy of the data brings back what was erased since, and the book says what that is ([`Erasures::reapply`]).
//!
//! Reading order: the nouns here, `mark` (how something is named in the book), `waited` (what of it a turn may not bring back), then `sqlite/book.rs` (the file) and
//! `sqlite/erase` (what goes).
//!
//! **Invariant:** an erasure is in the book, on disk, before the first row of it goes. The data say how far of the book they
//! follow, in the transaction in which the last row goes.

mod kept;
mod mark;
mod waited;

pub use kept::TenantKept;
pub use mark::{Mark, Marks};
pub(super) use waited::{Meanwhile, Waited};

use jiff::Timestamp;
use serde::Serialize;

use super::StoreFuture;
use crate::id::{DocumentId, FactId, SessionId, TurnId};
use crate::scope::{Scope, Tenant, TenantScope};

/// Where it is noted in a turn's metadata what was laid before the model for it: words that were said elsewhere.
pub(super) const INJECTED: &str = "injected";

/// The part of a store that erases for good.
pub trait Erasures: Send + Sync {
    /// Erases something with everything that follows from it. `None` when there is no such thing; then nothing is written down
    /// either, unless turns of it may wait on the disk of another instance, which has to find the line.
    fn erase(&self, what: Erasure) -> StoreFuture<'_, Option<Receipt>>;

    /// Erases once more what the book names and the data do not follow yet: an older copy was put back, or a process ended
    /// half-way. Costs a look when there is nothing to do.
    fn reapply(&self) -> StoreFuture<'_, Reapplied>;

    /// What is kept, by tenant.
    fn kept(&self) -> StoreFuture<'_, Vec<TenantKept>>;

    /// What the book has.
    fn book(&self) -> StoreFuture<'_, BookState>;
}

/// What is to be erased.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Erasure {
    /// Everything of a tenant, its keys and settings included.
    Tenant(Tenant),
    /// Everything of a user.
    User(Scope),
    /// A conversation and what followed from it.
    Session(Scope, SessionId),
    /// An exchange and what followed from it.
    Turn(Scope, TurnId),
    /// A document that a tenant knows.
    Document(TenantScope, DocumentId),
    /// A fact, and every statement of its words.
    Fact(Scope, FactId),
}

/// What kind of thing was erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErasureKind {
    /// A tenant.
    Tenant,
    /// A user.
    User,
    /// A session.
    Session,
    /// An exchange.
    Turn,
    /// A document.
    Document,
    /// A fact.
    Fact,
}

impl ErasureKind {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Tenant, Self::User, Self::Session, Self::Turn, Self::Document, Self::Fact];

    /// Its word in the book.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::User => "user",
            Self::Session => "session",
            Self::Turn => "turn",
            Self::Document => "document",
            Self::Fact => "fact",
        }
    }

    /// Reads its word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

impl Erasure {
    /// Its kind.
    pub fn kind(&self) -> ErasureKind {
        match self {
            Self::Tenant(_) => ErasureKind::Tenant,
            Self::User(_) => ErasureKind::User,
            Self::Session(..) => ErasureKind::Session,
            Self::Turn(..) => ErasureKind::Turn,
            Self::Document(..) => ErasureKind::Document,
            Self::Fact(..) => ErasureKind::Fact,
        }
    }

    /// Whether turns go with it that may not have reached the store yet.
    pub(super) fn takes_turns(&self) -> bool {
        !matches!(self, Self::Document(..) | Self::Fact(..))
    }

    /// The tenant it is of.
    pub fn tenant(&self) -> &Tenant {
        match self {
            Self::Tenant(tenant) => tenant,
            Self::Document(tenant, _) => tenant.tenant(),
            Self::User(scope) | Self::Session(scope, _) | Self::Turn(scope, _) | Self::Fact(scope, _) => scope.tenant(),
        }
    }

    /// The user it is of, if it is of one.
    pub fn scope(&self) -> Option<&Scope> {
        match self {
            Self::Tenant(_) | Self::Document(..) => None,
            Self::User(scope) | Self::Session(scope, _) | Self::Turn(scope, _) | Self::Fact(scope, _) => Some(scope),
        }
    }
}

/// A line of the book.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Its number; they grow.
    pub id: u64,
    /// When it was asked for.
    pub at: Timestamp,
    /// What kind of thing went.
    pub kind: ErasureKind,
    /// Which one.
    pub mark: Mark,
}

/// What was erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// Its number in the book.
    pub ledger_id: u64,
    /// When it was asked for.
    pub erased_at: Timestamp,
    /// What went.
    pub counts: Counts,
    /// Whether it is gone from the log of the data file as well. Somebody who reads for long can be in the way; then it goes as
    /// soon as they are done.
    pub log_emptied: bool,
}

impl Receipt {
    /// For what had not reached the disk and is gone without a trace; nothing need be written down.
    pub(super) fn of_waiting(waiting: u64, at: Timestamp) -> Self {
        Self { ledger_id: 0, erased_at: at, counts: Counts { waiting, ..Counts::default() }, log_emptied: true }
    }

    /// Exchanges that went, those that waited for the disk included.
    pub fn turns(&self) -> u64 {
        self.counts.turns + self.counts.waiting
    }

    /// The same, with what waited for the disk.
    pub(super) fn with_waiting(mut self, waiting: u64) -> Self {
        self.counts.waiting += waiting;
        self
    }
}

/// What was erased once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reapplied {
    /// Lines of the book that the data did not follow.
    pub entries: u64,
    /// Things that they name and that were there.
    pub found: u64,
    /// What went.
    pub counts: Counts,
}

/// What a book has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BookState {
    /// Lines in it.
    pub entries: u64,
    /// When the last one was written.
    pub last_at: Option<Timestamp>,
    /// Lines that the data do not follow yet.
    pub not_applied: u64,
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// How much went, by kind.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl std::ops::AddAssign for Counts {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
            }
        }

        impl Counts {
            /// Each kind by its name.
            pub fn by_kind(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

counts! {
    /// Conversations.
    sessions,
    /// Exchanges in them.
    turns,
    /// Other answers to the same questions.
    revisions,
    /// Explanations of what was recalled.
    traces,
    /// Rows and vectors that recall derived.
    recall_rows,
    /// Archive blocks that were removed or written anew.
    blocks,
    /// Summaries that were removed, or emptied to be told anew.
    episodes,
    /// Topics that were left empty.
    topics,
    /// Facts.
    facts,
    /// Statements that they followed from.
    statements,
    /// Documents.
    documents,
    /// Passages of them.
    passages,
    /// Webhooks that had not been delivered.
    webhooks,
    /// Jobs that waited.
    jobs,
    /// Answers of the memory model that could not be used.
    model_answers,
    /// Keys that were the user's or the tenant's.
    keys,
    /// Other exchanges that had been shown it.
    mentions,
    /// Exchanges that waited for the disk.
    waiting,
}

impl Counts {
    /// Everything together.
    pub fn total(&self) -> u64 {
        self.by_kind().iter().map(|(_, count)| count).sum()
    }
}
