//! Summaries: whoever says briefly what was said.
//!
//! [`Extractive`] is built in and picks the sentences that carry a stretch. A memory model can take its place; what it wrote
//! remembers who made it.

use std::pin::Pin;

use jiff::Timestamp;

use super::ModelError;
use super::builtin::summary::{self, Said, Summary, SummaryBounds};

/// What [`Summariser::summarise`] answers with.
pub type SummaryFuture<'a> = Pin<Box<dyn Future<Output = Result<String, ModelError>> + Send + 'a>>;

/// Whoever summarises.
pub trait Summariser: Send + Sync + 'static {
    /// Who it is, for whoever keeps what it wrote.
    fn name(&self) -> &str;

    /// Says briefly what was said. Dropping the future cancels it.
    fn summarise(&self, talk: Talk) -> SummaryFuture<'_>;
}

/// What is to be summarised.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Talk {
    /// What was told so far, to be told on.
    pub before: Option<String>,
    /// What was said, in order.
    pub said: Vec<Told>,
    /// Most tokens of the summary.
    pub tokens_max: usize,
}

/// Something that was said.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    /// By whom: a name, or a role.
    pub speaker: String,
    /// What.
    pub text: String,
    /// When.
    pub at: Timestamp,
}

/// Reads a summary as things that were said at `at`, so that summaries can be summarised.
pub fn told_by(summary: &str, at: Timestamp) -> Vec<Told> {
    let lines = Summary::read(summary, Some(at)).lines;
    lines.into_iter().map(|line| Told { speaker: line.speaker, text: line.text, at: line.at.unwrap_or(at) }).collect()
}

/// The built-in summariser.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extractive;

impl Summariser for Extractive {
    fn name(&self) -> &str {
        summary::NAME
    }

    fn summarise(&self, talk: Talk) -> SummaryFuture<'_> {
        Box::pin(async move {
            // Milliseconds of computing, and more the first time: not on a thread that answers requests.
            let summary = tokio::task::spawn_blocking(move || extract(&talk)).await;
            summary.map_err(|error| ModelError::BrokeOff(error.to_string()))
        })
    }
}

fn extract(talk: &Talk) -> String {
    let first = talk.said.first().map(|told| told.at);
    let before = talk.before.as_deref().map(|before| Summary::read(before, first)).unwrap_or_default();
    let said: Vec<Said<'_>> =
        talk.said.iter().map(|told| Said { speaker: &told.speaker, text: &told.text, at: Some(told.at) }).collect();
    summary::extend(&before, &said, SummaryBounds { tokens_max: talk.tokens_max }).text()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(speaker: &str, text: &str) -> Told {
        Told { speaker: speaker.into(), text: text.into(), at: Timestamp::UNIX_EPOCH }
    }

    #[tokio::test]
    async fn what_is_stated_is_kept_and_told_on() {
        let said = vec![told("user", "I moved to Porto on 3 March 2026."), told("assistant", "I see!")];
        let first = Extractive.summarise(Talk { before: None, said, tokens_max: 24 }).await.expect("a summary");
        assert!(first.contains("Porto"), "{first}");
        let said = vec![told("user", "My sister Ines visits me on Friday.")];
        let next = Extractive.summarise(Talk { before: Some(first), said, tokens_max: 60 }).await.expect("a summary");
        assert!(next.contains("Porto") && next.contains("Ines"), "{next}");
        let again = told_by(&next, Timestamp::UNIX_EPOCH);
        assert!(again.iter().all(|told| told.speaker == "user"), "{again:?}");
    }
}
