//! The memory model: whoever is asked in the background for an answer of a given shape.
//!
//! Any OpenAI-compatible server. A [`Task`] says what is asked and how the answer is read; its prompt is a file beside its
//! parser. Another task is another pair of those.
//!
//! Reading order: the nouns here, `ask` (a task, asked once more with its mistake), `request` (what goes out), `read`
//! (finding the object in what came back), `failure` (what went wrong, and whether it passes), `rest` (leaving a server in
//! trouble alone), `talk` (what was said, as a model reads it), `heard` (whether it can have been said), then the tasks: `summary`,
//! `topic`, `facts`.
//!
//! **Invariant:** what comes back is a proposal, read strictly. It is never followed, and never more than its bounds.

mod ask;
mod facts;
mod failure;
mod heard;
mod read;
mod request;
mod rest;
mod summary;
mod talk;
mod topic;

pub use facts::{FactsTask, NotedFact, Utterance};
pub use failure::{Failure, FailureKind};
pub use rest::Rest;
pub use summary::SummaryTask;
pub use topic::{TopicAnswer, TopicTask};

use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::Value;

use self::request::Dialect;
use super::openai::{OpenAi, OpenAiError, OpenAiSettings};

/// Something a memory model can be asked for.
pub trait Task: Send + Sync {
    /// What a good answer comes to.
    type Answer: Send;

    /// What it is called, with the version of its prompt: whatever it makes remembers it.
    fn name(&self) -> &'static str;

    /// What is to be done, and in which shape. The word JSON must be in it: some servers insist.
    fn prompt(&self) -> &'static str;

    /// What it is to be done with, in at most so many bytes.
    fn input(&self, bytes_max: usize) -> String;

    /// The shape of the answer, as a JSON schema in the strict form: every property required, no others allowed.
    fn schema(&self) -> Value;

    /// Reads an object. `Err` tells the model its mistake, in words that help to mend it.
    fn parse(&self, answer: &Value) -> Result<Self::Answer, String>;
}

/// What asking has cost, answered or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// Requests.
    pub calls: u64,
    /// Tokens of questions and answers, by the server's count, or by ours when it does not say.
    pub tokens: u64,
}

/// Something that was proposed.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal<T> {
    /// What.
    pub value: T,
    /// What it cost.
    pub spent: Spent,
}

impl<T> Proposal<T> {
    /// A proposal that cost nothing.
    pub fn free(value: T) -> Self {
        Self { value, spent: Spent::default() }
    }
}

/// Why nothing was proposed.
#[derive(Debug, Clone, PartialEq)]
pub struct NoProposal {
    /// What went wrong.
    pub why: Failure,
    /// What it cost all the same.
    pub spent: Spent,
    /// What was answered, where there was an answer: for a person to look at.
    pub raw: Option<String>,
}

impl From<Failure> for NoProposal {
    fn from(why: Failure) -> Self {
        Self { why, spent: Spent::default(), raw: None }
    }
}

/// Which server, which model, how much patience.
#[derive(Clone)]
pub struct MemoryModelSettings {
    /// Where it is, version included: `http://localhost:11434/v1`.
    pub url: String,
    /// The model's name, as the server knows it.
    pub model: String,
    /// Sent as a bearer token; local servers need none.
    pub key: Option<String>,
    /// How long a request may take as a whole.
    pub timeout: Duration,
    /// The model's token limit: question and answer together.
    pub tokens_max: usize,
}

impl fmt::Debug for MemoryModelSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryModelSettings")
            .field("url", &self.url)
            .field("model", &self.model)
            .field("key", &self.key.as_ref().map(|_| "…"))
            .field("timeout", &self.timeout)
            .field("tokens_max", &self.tokens_max)
            .finish()
    }
}

impl MemoryModelSettings {
    /// The settings of the connection. The whole request is timed by whoever asks, and asking again is a job's affair.
    fn connection(&self) -> OpenAiSettings {
        OpenAiSettings {
            base_url: self.url.clone(),
            key: self.key.clone(),
            model: self.model.clone(),
            connect_timeout: CONNECT_TIMEOUT.min(self.timeout),
            first_byte_timeout: self.timeout,
            idle_timeout: self.timeout,
            retries_max: 0,
        }
    }
}

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The memory model.
#[derive(Debug)]
pub struct MemoryModel {
    settings: MemoryModelSettings,
    server: OpenAi,
    /// What this server was found to understand, until the process ends.
    dialect: Mutex<Dialect>,
}

impl MemoryModel {
    /// Checks the settings. Nobody is called before the first task.
    pub fn new(settings: MemoryModelSettings) -> Result<Self, OpenAiError> {
        let server = OpenAi::new(settings.connection())?;
        Ok(Self { settings, server, dialect: Mutex::default() })
    }

    /// The model's name.
    pub fn name(&self) -> &str {
        &self.settings.model
    }
}

#[cfg(test)]
mod tests;
