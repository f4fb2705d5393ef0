//! What should become of the facts that are kept.

use super::Fact;

/// A change of a fact.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// What happens to it.
    pub what: What,
    /// The fact as it is afterwards.
    pub fact: Fact,
}

/// What happens to a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum What {
    /// It is new.
    Add,
    /// It was said again, or something beside its status changed.
    Confirm,
    /// A newer one takes its place.
    Supersede,
    /// It is taken back, by whoever said it or by hand.
    Retract,
    /// Its time is over.
    Expire,
    /// It is held, but no longer sure enough to be told.
    Doubt,
    /// Nothing that is kept says it any more: its message is hidden, or was undone.
    Withdraw,
    /// It holds again.
    Restore,
}

impl What {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Add,
        Self::Confirm,
        Self::Supersede,
        Self::Retract,
        Self::Expire,
        Self::Doubt,
        Self::Withdraw,
        Self::Restore,
    ];

    /// The word used on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Confirm => "confirm",
            Self::Supersede => "supersede",
            Self::Retract => "retract",
            Self::Expire => "expire",
            Self::Doubt => "doubt",
            Self::Withdraw => "withdraw",
            Self::Restore => "restore",
        }
    }

    /// Reads the word written by [`What::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|what| what.as_str() == word)
    }
}
