//! What a store keeps for recall: rows and vectors derived from turns, and the list of those to be made.
//!
//! The turn stays the truth. What is derived is written later, in the background, and may be missing at any
//! time; then the turn itself is answered, so that the reader derives it. The bytes mean nothing to the store.

use crate::id::{SessionId, TurnId};
use crate::scope::Scope;
use crate::session::Turn;

/// Longest explanation of what was recalled for a turn, in bytes; a longer one is not kept.
pub const TRACE_BYTES_MAX: usize = 64 * 1024;

/// A turn that may be recalled (complete or partial, and not superseded), as recall keeps it.
#[derive(Debug, Clone, PartialEq)]
pub struct RecallEntry {
    /// Where the store put it: later turns have higher numbers.
    pub order: i64,
    /// Which turn.
    pub turn: TurnId,
    /// The conversation it belongs to.
    pub session: SessionId,
    /// Its place in the conversation.
    pub number: u64,
    /// What there is of it.
    pub kept: RecallKept,
}

/// What a store has of a turn that may be recalled.
#[derive(Debug, Clone, PartialEq)]
pub enum RecallKept {
    /// What was derived from the turn as it is now.
    Row {
        /// What recall made of it.
        row: Vec<u8>,
        /// Its vectors, by the embedder that was asked for.
        vectors: Option<Vec<u8>>,
    },
    /// There is no fresh row yet: it is to be derived from the turn.
    Turn(Box<Turn>),
}

/// A part of a scope's entries.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RecallPage {
    /// In the order of sessions and numbers. There may be fewer than asked for, even none, before the end.
    pub entries: Vec<RecallEntry>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<RecallCursor>,
    /// Turns without a row that are damaged, and left out.
    pub damaged: u64,
}

/// A place among a scope's entries, to go on from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecallCursor {
    pub(super) session: i64,
    pub(super) number: u64,
}

/// A moment in the changes of a store. Later ones are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChangeMark(pub(super) u64);

/// What became of a scope's entries since a mark. A row that was written is no change by itself: it is what
/// the reader derived from the turn. Vectors are.
#[derive(Debug, Clone, PartialEq)]
pub enum Changes {
    /// Nothing.
    None(ChangeMark),
    /// These turns were touched. They are told as they are now, so that applying them twice is harmless.
    Turns {
        /// The moment this is as of.
        mark: ChangeMark,
        /// Turns that may be recalled.
        entries: Vec<RecallEntry>,
        /// Turns that may not be recalled any more, or never could.
        gone: Vec<TurnId>,
    },
    /// Too much, or nobody watched: all entries are to be read again, after this answer.
    Reload {
        /// The moment to ask from next time.
        mark: ChangeMark,
    },
}

/// What can be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Todo {
    /// The row.
    Row,
    /// The vectors.
    Vector,
}

impl Todo {
    /// What it is called where it is noted what these are made with.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Row => "row",
            Self::Vector => "vector",
        }
    }
}

/// A turn for which something is to be derived.
#[derive(Debug, Clone, PartialEq)]
pub struct DueTurn {
    /// Whose it is.
    pub scope: Scope,
    /// What to derive from.
    pub turn: Turn,
    /// Which state of the turn this is, to be handed back.
    pub stamp: Stamp,
}

/// A state of a turn: whatever changes what it says changes its stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stamp(pub(super) i64);

/// What was derived from a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct DerivedRow {
    /// Whose it is.
    pub scope: Scope,
    /// The turn it was derived from.
    pub turn: TurnId,
    /// As it was then.
    pub stamp: Stamp,
    /// A new row, which strikes the turn off the list of rows.
    pub row: Option<Vec<u8>>,
    /// The embedder and its vectors, which strike the turn off the list of vectors and replace those of any
    /// other embedder. With neither row nor vectors the turn is struck off that list, too: there is nothing to make.
    pub vectors: Option<(String, Vec<u8>)>,
    /// What is still to come. Vectors are listed only for a turn that has none.
    pub then: Option<Todo>,
}
