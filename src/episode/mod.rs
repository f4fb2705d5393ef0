//! Episodes: stretches of a conversation that left its window, as summary, vector and range of turns.
//!
//! Stretches roll up: those that began in one hour are told together, and the hours that lie further back than a day are one
//! summary of the session. Everything here is derived from turns and can be made again from them.
//!
//! Reading order: the nouns here, `window` (which turns go, and how they are cut), `tier` (which hours, and what of
//! the session, are to be told anew).
//!
//! **Invariant:** this room never touches the store or a model. It is handed numbers and episodes and hands back plans.

mod tier;
mod window;

pub use tier::{Tier, aged, hour_of, tiers};
pub use window::{Cut, Leaving, Open, Window, cut};

use std::time::Duration;

use jiff::Timestamp;

use crate::id::{EpisodeId, SessionId};

/// How much of a conversation an episode tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// Turns that follow each other.
    Stretch,
    /// The stretches that began in one hour.
    Hour,
    /// The hours that lie further back than a day.
    Session,
}

impl Level {
    /// All of them, the closest first.
    pub const ALL: [Self; 3] = [Self::Stretch, Self::Hour, Self::Session];

    /// The word used on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stretch => "stretch",
            Self::Hour => "hour",
            Self::Session => "session",
        }
    }

    /// Reads the word written by [`Level::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == word)
    }
}

/// A stretch of a conversation, summarised.
#[derive(Debug, Clone, PartialEq)]
pub struct Episode {
    /// Its name; the same when it is made again.
    pub id: EpisodeId,
    /// The conversation.
    pub session: SessionId,
    /// How much of it this tells.
    pub level: Level,
    /// The number of the first turn it tells.
    pub first: u64,
    /// The number of the last.
    pub last: u64,
    /// How much was said, in the measure of the session's window.
    pub weight: usize,
    /// When the first turn was opened.
    pub from: Timestamp,
    /// When the last was.
    pub to: Timestamp,
    /// What was said.
    pub summary: String,
    /// What the summary means; `None` when the embedder did not answer.
    pub vector: Option<Meaning>,
    /// Who summarised.
    pub made_by: String,
    /// How often it was made.
    pub version: u32,
}

/// A vector, and the id of the embedder that made it.
#[derive(Debug, Clone, PartialEq)]
pub struct Meaning {
    /// Vectors of different embedders are never compared.
    pub embedder: String,
    /// The vector.
    pub values: Vec<f32>,
}

/// How conversations are compressed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EpisodeSettings {
    /// When turns of a durable session go, counted in turns.
    pub durable: Window,
    /// When turns of an ephemeral session go, counted in messages.
    pub ephemeral: Window,
    /// When messages of a topic go into its summary, counted in messages.
    pub topic: Window,
    /// Most tokens of a stretch's summary; an hour's and a topic's have half as many again, a session's twice
    /// as many.
    pub summary_tokens: usize,
    /// How far back hours are told one by one, counted from the last turn that was summarised.
    pub hours_kept: Duration,
}

impl EpisodeSettings {
    /// Most tokens of a summary at a level.
    pub fn tokens_max(&self, level: Level) -> usize {
        match level {
            Level::Stretch => self.summary_tokens,
            Level::Hour => self.summary_tokens * 3 / 2,
            Level::Session => self.summary_tokens * 2,
        }
    }
}

impl Default for EpisodeSettings {
    fn default() -> Self {
        Self {
            durable: Window { at: 20, keep: 10, stretch: 20 },
            ephemeral: Window { at: 31, keep: 11, stretch: 40 },
            topic: Window { at: 13, keep: 4, stretch: 9 },
            summary_tokens: 160,
            hours_kept: Duration::from_secs(24 * 3600),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_written() {
        for level in Level::ALL {
            assert_eq!(Level::parse(level.as_str()), Some(level));
        }
    }
}
