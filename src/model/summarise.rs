//! Summaries: whoever says briefly what was said.
//!
//! [`Extractive`] is built in and picks the sentences that carry a stretch. A [`MemoryModel`] can take its place; what it
//! wrote remembers who made it, and what it cannot do the built-in does.

use std::pin::Pin;
use std::time::Duration;

use jiff::Timestamp;

use super::ModelError;
use super::builtin::summary::{self, Said, Summary, SummaryBounds};
use super::memory::{
    FactsTask, Failure, MemoryModel, NoProposal, NotedFact, Proposal, SummaryTask, Task, TopicTask, Utterance,
};

/// What [`Summariser::summarise`] answers with.
pub type SummaryFuture<'a> = Pin<Box<dyn Future<Output = Result<Proposal<Telling>, NoProposal>> + Send + 'a>>;

/// What [`Summariser::note_facts`] answers with.
pub type NotedFuture<'a> = Pin<Box<dyn Future<Output = Result<Proposal<Vec<NotedFact>>, NoProposal>> + Send + 'a>>;

/// Whoever summarises.
pub trait Summariser: Send + Sync + 'static {
    /// Who it is, for people.
    fn name(&self) -> &str;

    /// Whether asking costs something: then it is asked sparingly, and what it costs is counted and bounded.
    fn is_metered(&self) -> bool {
        false
    }

    /// How long a question may take at most; no time to speak of where nobody outside is asked.
    fn patience(&self) -> Duration {
        Duration::ZERO
    }

    /// Says briefly what was said. Dropping the future cancels it.
    fn summarise(&self, talk: Talk) -> SummaryFuture<'_>;

    /// Notes what a user stated about themselves in these messages, oldest first. `None` from whoever cannot: then patterns
    /// have to do.
    fn note_facts(&self, said: Vec<Utterance>) -> Option<NotedFuture<'_>> {
        let _ = said;
        None
    }
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
    /// Whether it is a topic, which wants a title as well.
    pub is_topic: bool,
}

/// What was said, in brief.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Telling {
    /// The summary: a line for each speaker.
    pub text: String,
    /// What to call it, where a title was wanted and one was found.
    pub title: Option<String>,
    /// Who made it, and with which version of what.
    pub made_by: String,
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
            let text = tokio::task::spawn_blocking(move || extract(&talk)).await;
            let text = text.map_err(|error| Failure::Model(ModelError::BrokeOff(error.to_string())))?;
            Ok(Proposal::free(Telling { text, title: None, made_by: summary::NAME.to_owned() }))
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

impl Summariser for MemoryModel {
    fn name(&self) -> &str {
        MemoryModel::name(self)
    }

    fn is_metered(&self) -> bool {
        true
    }

    fn patience(&self) -> Duration {
        MemoryModel::patience(self)
    }

    fn note_facts(&self, said: Vec<Utterance>) -> Option<NotedFuture<'_>> {
        Some(Box::pin(async move { self.ask(&FactsTask { said: &said }).await }))
    }

    fn summarise(&self, talk: Talk) -> SummaryFuture<'_> {
        Box::pin(async move {
            if talk.is_topic {
                let task = TopicTask { talk: &talk };
                let Proposal { value, spent } = self.ask(&task).await?;
                let telling = Telling { text: value.summary, title: Some(value.title), made_by: made_by(self, &task) };
                return Ok(Proposal { value: telling, spent });
            }
            let task = SummaryTask { talk: &talk };
            let Proposal { value: text, spent } = self.ask(&task).await?;
            Ok(Proposal { value: Telling { text, title: None, made_by: made_by(self, &task) }, spent })
        })
    }
}

/// A model and the prompt it was given: `qwen3:4b/summary-1`.
fn made_by<T: Task>(model: &MemoryModel, task: &T) -> String {
    format!("{}/{}", model.name(), task.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(speaker: &str, text: &str) -> Told {
        Told { speaker: speaker.into(), text: text.into(), at: Timestamp::UNIX_EPOCH }
    }

    async fn told_in(tokens_max: usize, before: Option<String>, said: Vec<Told>) -> String {
        let talk = Talk { before, said, tokens_max, is_topic: false };
        Extractive.summarise(talk).await.expect("a summary").value.text
    }

    #[tokio::test]
    async fn what_is_stated_is_kept_and_told_on() {
        let said = vec![told("user", "I moved to Porto on 3 March 2026."), told("assistant", "I see!")];
        let first = told_in(24, None, said).await;
        assert!(first.contains("Porto"), "{first}");
        let said = vec![told("user", "My sister Ines visits me on Friday.")];
        let next = told_in(60, Some(first), said).await;
        assert!(next.contains("Porto") && next.contains("Ines"), "{next}");
        let again = told_by(&next, Timestamp::UNIX_EPOCH);
        assert!(again.iter().all(|told| told.speaker == "user"), "{again:?}");
    }
}
