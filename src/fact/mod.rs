//! Facts: short statements about the user and their world, each with its source.
//!
//! A fact is never edited. A newer one supersedes an older one and both stay, so that "what did we believe in March?" has an
//! answer. A model may propose; what becomes of a proposal is decided here.
//!
//! Reading order: the nouns here, `key` (what a fact is about) and `canon` (its names), `proposal` (what was understood of a
//! message), `extract` (how the built-in understands one), `admit` (what of it may become a fact) with
//! `own` and `document` (whose words are whose), `fold` and `directive` (what pretends to be something else), `secret` (what is never kept);
//! then `statement` (a proposal as it is kept), `timeline` (what follows from all statements), `reconcile` (that against what is
//! held, to `change`s).
//!
//! **Invariant:** this room never touches the store. It is handed facts and hands back changes.

mod admit;
mod canon;
mod change;
mod directive;
mod document;
mod extract;
mod fold;
mod key;
mod own;
#[cfg(test)]
mod poison;
mod proposal;
mod reconcile;
mod refusal;
mod secret;
mod statement;
mod timeline;

#[cfg(test)]
mod tests;

pub use admit::{ACTIVE_CONFIDENCE_MIN, Verdict, admit};
pub use canon::{CanonicalKey, canonical, canonical_keys, importance, is_many};
pub use change::{Change, What};
pub use extract::{Extracted, Heard, Refused, extract};
pub use key::{Category, Key};
pub use proposal::{Act, Proposal};
pub use reconcile::reconcile;
pub use refusal::Refusal;
pub use secret::{MASK, masked};
pub use statement::{Maker, Statement, same_value};
pub use timeline::{Version, timeline};

use jiff::Timestamp;

use crate::id::{FactId, MessageId, SessionId};

/// Bytes of a fact's value.
pub const VALUE_BYTES_MAX: usize = 400;

/// Bytes of the words that a fact was read from.
pub const QUOTE_BYTES_MAX: usize = 600;

/// How sure one must be of a fact to keep it.
pub const CONFIDENCE_MIN: f64 = 0.4;

/// How much a fact must matter to be kept.
pub const IMPORTANCE_MIN: f64 = 0.2;

/// How much a fact must matter to be told with every question.
pub const PROFILE_IMPORTANCE_MIN: f64 = 0.5;

/// Something that is known about the user.
#[derive(Debug, Clone, PartialEq)]
pub struct Fact {
    /// Its id.
    pub id: FactId,
    /// What it is about.
    pub key: Key,
    /// What is known.
    pub value: String,
    /// How sure that is, from 0 to 1.
    pub confidence: f64,
    /// How much it matters, from 0 to 1.
    pub importance: f64,
    /// Whether it holds.
    pub status: Status,
    /// Since when it is true.
    pub valid_from: Timestamp,
    /// Until when it is or was true.
    pub valid_to: Option<Timestamp>,
    /// When its time is over, where somebody said so.
    pub until: Option<Timestamp>,
    /// When it was learned.
    pub learned_at: Timestamp,
    /// Where it was said first.
    pub evidence: Evidence,
    /// When it was said last.
    pub last_said_at: Timestamp,
    /// How many messages say it; none when it was withdrawn.
    pub confirmations: u64,
    /// The message that ended it.
    pub ended_by: Option<MessageId>,
}

/// Where a fact was said.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// The message, unless a person wrote the fact down by hand.
    pub message: Option<MessageId>,
    /// Its conversation.
    pub session: Option<SessionId>,
    /// When it was said.
    pub said_at: Timestamp,
    /// The words.
    pub quote: String,
}

/// Whether a fact holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// Proposed, not decided.
    Candidate,
    /// Kept from every prompt until somebody looked at it.
    Quarantined,
    /// Held, but not sure enough to contradict anything.
    Provisional,
    /// Held.
    Active,
    /// A newer fact took its place.
    Superseded,
    /// Taken back.
    Retracted,
    /// Its time is over.
    Expired,
}

impl Status {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Candidate,
        Self::Quarantined,
        Self::Provisional,
        Self::Active,
        Self::Superseded,
        Self::Retracted,
        Self::Expired,
    ];

    /// The word used on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Candidate => "candidate",
            Self::Quarantined => "quarantined",
            Self::Provisional => "provisional",
            Self::Active => "active",
            Self::Superseded => "superseded",
            Self::Retracted => "retracted",
            Self::Expired => "expired",
        }
    }

    /// Reads the word written by [`Status::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }
}
