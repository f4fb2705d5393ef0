//! What was understood of a message: a fact that somebody may have stated, and how.

use jiff::Timestamp;

use super::Key;

/// What somebody did with a fact by saying it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Act {
    /// Stated it.
    State,
    /// Set right what was held: "no, my name is …", "I moved to …".
    Correct,
    /// Ended it: "I no longer …", "forget that …". An empty value ends whatever is held under the key.
    End,
}

impl Act {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::State, Self::Correct, Self::End];

    /// The word used on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Correct => "correct",
            Self::End => "end",
        }
    }

    /// Reads the word written by [`Act::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|act| act.as_str() == word)
    }
}

/// A fact that a message may have stated.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// What it is about.
    pub key: Key,
    /// What was said of it.
    pub value: String,
    /// How it was said.
    pub act: Act,
    /// How sure that is, from 0 to 1.
    pub confidence: f64,
    /// How much it matters, from 0 to 1.
    pub importance: f64,
    /// Since when it is true, where the words name a time.
    pub from: Option<Timestamp>,
    /// Until when it is true, where the words name a time.
    pub until: Option<Timestamp>,
    /// The words it was read from.
    pub quote: String,
    /// Whether it was asked to be forgotten ("forget that …", "delete my …"), rather than told that it is over.
    pub forgets: bool,
}
