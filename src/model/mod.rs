//! Models: whoever answers.
//!
//! A [`ChatModel`] is asked with messages in the wire format of chat models and answers in pieces.
//! `openai` speaks to any OpenAI-compatible server, `builtin` answers in process when there is none,
//! `scripted` says what a test told it to. `relay` passes a client's own request on to any of them.
//! `embed` turns texts into vectors that can be compared, `summarise` says briefly what was said, `memory` asks a model of the
//! background for answers of a given shape.
//!
//! **Invariant:** a model proposes text. It never sees the store and decides nothing.

pub mod builtin;
pub mod embed;
pub(crate) mod http;
pub mod memory;
pub mod openai;
pub mod relay;
pub mod scripted;
pub(crate) mod sse;
pub mod summarise;

use std::pin::Pin;
use std::time::Duration;

use futures_util::Stream;
use serde_json::Value;

/// An answer on its way: pieces of text, then its end.
pub type Pieces = Pin<Box<dyn Stream<Item = Result<Piece, ModelError>> + Send>>;

/// What [`ChatModel::ask`] answers with once the model has begun to speak.
pub type ModelFuture<'a> = Pin<Box<dyn Future<Output = Result<Pieces, ModelError>> + Send + 'a>>;

/// Whoever answers.
pub trait ChatModel: Send + Sync + 'static {
    /// What it is called, for people and for message metadata.
    fn name(&self) -> &str;

    /// Asks for an answer. Dropping the future or the pieces cancels the question.
    fn ask(&self, prompt: Prompt) -> ModelFuture<'_>;
}

/// What the model is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// Messages in wire format: a system prompt, the conversation, the question.
    pub messages: Vec<Value>,
    /// Whether the answer is wanted piece by piece as it comes.
    pub stream: bool,
    /// The model to ask for, where it is not the usual one.
    pub model: Option<String>,
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// More text.
    Text(String),
    /// The answer is complete.
    End(Ending),
}

/// What is known at the end of an answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ending {
    /// The model that answered, by its own word.
    pub model: Option<String>,
    /// Tokens of question and answer together, by the model's count.
    pub tokens_used: Option<u64>,
    /// Why it ended: `stop`, `length`, …
    pub finish_reason: Option<String>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// Nobody listens, or the connection broke before an answer began.
    #[error("cannot reach the model at {url}: {reason}")]
    Unreachable {
        /// Where it was looked for.
        url: String,
        /// What the connection said.
        reason: String,
    },
    /// It listens and says nothing.
    #[error("the model said nothing for {}s", .0.as_secs())]
    Silent(Duration),
    /// It answered with an error of its own.
    #[error("the model answered with status {status}: {message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// Its words, shortened.
        message: String,
        /// When it may be asked again, as it said.
        retry_after: Option<String>,
    },
    /// What came is not an answer.
    #[error("the model's answer cannot be read: {0}")]
    Unreadable(String),
    /// The answer broke off.
    #[error("the model's answer broke off: {0}")]
    BrokeOff(String),
}
