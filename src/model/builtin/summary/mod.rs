//! The built-in summariser: the sentences that carry a stretch of talk, as they were said and by whom.
//!
//! It writes nothing of its own. Sentences are weighed by what they state (names, numbers, dates, decisions) and by how many
//! telling words of the stretch they bring together; the best that fit are shown in the order they were said, and what
//! another sentence has told already is not told again. The same stretch always has the same summary.
//!
//! Reading order: the nouns here, `sentence` (text to sentences and clauses), `state` (what a sentence states), `weigh`
//! (what that is worth), `choose` (the best that fit), `line` (chosen sentences to text and back).
//!
//! **Invariant:** a summary never has more tokens than its bound, and each of its sentences is in what was summarised.

mod choose;
mod line;
mod sentence;
mod state;
mod weigh;

pub use line::{Line, Summary};
pub(crate) use sentence::sentences;

use jiff::Timestamp;

/// What made a summary, for whoever keeps one.
pub const NAME: &str = "builtin-summary-1";

/// Something that was said.
#[derive(Debug, Clone, Copy)]
pub struct Said<'a> {
    /// By whom: a name, or a role.
    pub speaker: &'a str,
    /// What.
    pub text: &'a str,
    /// When, if that is known. A summary of several days says on which day each line was said.
    pub at: Option<Timestamp>,
}

/// How long a summary may be.
#[derive(Debug, Clone, Copy)]
pub struct SummaryBounds {
    /// Most tokens of the whole text, attributions included.
    pub tokens_max: usize,
}

/// Summarises a stretch of talk, in the order it was said.
///
/// ```
/// use recalld::model::builtin::summary::{Said, SummaryBounds, summarise};
///
/// let said = [
///     Said { speaker: "Anna", text: "Hey! We signed for the flat in Porto on 3 May.", at: None },
///     Said { speaker: "Bo", text: "Wow, great!", at: None },
/// ];
/// let summary = summarise(&said, SummaryBounds { tokens_max: 40 });
/// assert_eq!(summary.text(), "Anna: We signed for the flat in Porto on 3 May.");
/// ```
pub fn summarise(stretch: &[Said<'_>], bounds: SummaryBounds) -> Summary {
    extend(&Summary::default(), stretch, bounds)
}

/// Summarises what a summary told so far and what was said since, so that the best of both is kept. This is how a topic's
/// summary grows, and how summaries of hours become one of a session.
pub fn extend(previous: &Summary, stretch: &[Said<'_>], bounds: SummaryBounds) -> Summary {
    let told = previous.lines.iter().map(|line| Said { speaker: &line.speaker, text: &line.text, at: line.at });
    let all: Vec<Said<'_>> = told.chain(stretch.iter().copied()).collect();
    let pieces = weigh::weigh(&all, previous.lines.len());
    choose::choose(&all, &pieces, bounds.tokens_max)
}

#[cfg(test)]
mod tests;
