//! What happens in a chat request, top to bottom.
//!
//! Reading order: [`Memory::take_turn`] (checks, then hands the work to a task of its own), `run` (the
//! path of a turn), `once` (one that came before), `clarify` (what it answers, and what its answer asks), `remind` (what is recalled for it, in time or not at all), `compose` (what the model is shown),
//! `inject` (how memory is laid before it), `trace` (why it was that); `proxy` is the same for requests in OpenAI's
//! format.
//!
//! **Invariant:** no future that touches the store lives in a task a client can cancel. A client that
//! leaves costs its answer, never half a turn.

mod clarify;
mod compose;
pub mod inject;
mod once;
pub mod proxy;
mod remind;
mod run;
mod trace;

pub use remind::{Explained, Reminded};
pub use trace::SearchResults;

use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::mpsc;

use crate::clarify::Chosen;
use crate::id::{SessionId, TurnId};
use crate::knowledge::Citation;
use crate::memory::Memory;
use crate::model::ModelError;
use crate::recall::Reminder;
use crate::scope::Scope;
use crate::session::{DoesNotFit, Intent, RequestMark, SessionSeed, TextError, check_text};
use crate::store::live::LiveError;
use crate::store::{RequestError, StoreError};
use crate::tenant::OverLimit;

/// Most events of a turn that wait for a slow reader before the model is made to wait.
const EVENTS_MAX: usize = 64;

/// How often, and how many times, a running answer is looked for by a request that repeats its question.
const JOIN_EVERY: Duration = Duration::from_millis(50);
const JOIN_TRIES: usize = 2_400;

/// What somebody asks.
#[derive(Debug, Clone, Default)]
pub struct TurnRequest {
    /// The conversation; `None` begins a new one.
    pub session: Option<SessionId>,
    /// How the conversation came, if it is new.
    pub seed: SessionSeed,
    /// The question.
    pub query: String,
    /// In which role the person asks, for the templates.
    pub role: Option<String>,
    /// Whether the answer is wanted piece by piece.
    pub stream: bool,
    /// Whether the model is shown nothing but the conversation itself.
    pub alone: bool,
    /// The request that asks it, if it has a key by which it is known when it comes again.
    pub request: Option<RequestMark>,
}

/// A turn under way. Dropping it cancels the answer; what has come so far is kept.
#[derive(Debug)]
pub struct RunningTurn {
    /// The conversation.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    events: mpsc::Receiver<TurnEvent>,
}

/// What comes of a turn, in order: what was recalled, pieces, then one ending.
#[derive(Debug)]
pub enum TurnEvent {
    /// It is this turn: the request came before.
    IsTurn(SessionId, TurnId),
    /// What the model was reminded of, before it is asked.
    Reminded(Shown),
    /// More of the answer.
    Piece(String),
    /// The answer is complete, and on disk unless it says otherwise.
    Done(Box<Answer>),
    /// There is no (whole) answer.
    Failed(TurnError),
}

/// How much of what is remembered the model was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shown {
    /// Remembered messages and summaries: the end of the conversation, and what was recalled.
    pub items: usize,
    /// Tokens of what was recalled.
    pub tokens: usize,
    /// How long recall took.
    pub recall_time: Duration,
}

/// A complete answer and how it came about.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// What was answered.
    pub text: String,
    /// The turn's number; `None` while it waits for the disk.
    pub number: Option<u64>,
    /// Which model answered.
    pub model: String,
    /// Tokens of question and answer, if the model counted.
    pub tokens_used: Option<u64>,
    /// How many earlier messages the model was shown.
    pub messages_in_context: usize,
    /// How the question was read.
    pub intent: Intent,
    /// What the question chose, if it answered a clarification.
    pub clarification: Option<Chosen>,
    /// Whether everything went as it should.
    pub health: Health,
    /// What the model was reminded of, oldest first.
    pub reminders: Vec<Reminder>,
    /// What the model was told of that the tenant knows.
    pub citations: Vec<Citation>,
    /// How the memory was searched; `None` where recall was late, failed or switched off.
    pub searched: Option<SearchResults>,
    /// How much the model was shown.
    pub shown: Shown,
    /// How long the store took.
    pub store_time: Duration,
}

/// Whether a turn went as it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// Yes, and it is on disk.
    Ok,
    /// It was answered, but part of the memory was missing or it still waits for the disk.
    Degraded,
}

impl Health {
    /// Degraded when either is.
    pub fn and(self, other: Self) -> Self {
        if self == Self::Ok { other } else { self }
    }

    /// The word in headers and metadata.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
        }
    }
}

/// Why a turn could not be taken.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TurnError {
    /// The question is not one.
    #[error("query {0}")]
    Query(#[from] TextError),
    /// The role is not one.
    #[error("role {0}")]
    Role(TextError),
    /// The question alone is over the model's limit.
    #[error("the question is too long for the model: {0}")]
    DoesNotFit(#[from] DoesNotFit),
    /// The model did not answer.
    #[error("the model did not answer")]
    Model(#[from] ModelError),
    /// The answer had no end.
    #[error("the model's answer is longer than {0} characters and was cut off")]
    Endless(usize),
    /// Nothing more can be stored, not even for later.
    #[error("the turn cannot be stored")]
    Store(#[from] StoreError),
    /// The tenant has had enough.
    #[error(transparent)]
    OverLimit(#[from] OverLimit),
    /// The visitor's session cannot take it.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// The same key came with another question, or what it made is gone.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The task that answers is gone.
    #[error("the server is shutting down")]
    Stopping,
}

impl RunningTurn {
    /// What comes next; `None` after the ending.
    pub async fn next(&mut self) -> Option<TurnEvent> {
        let event = self.events.recv().await;
        if let Some(TurnEvent::IsTurn(session, turn)) = event {
            (self.session, self.turn) = (session, turn);
        }
        event
    }

    /// Waits for the ending.
    pub async fn answer(&mut self) -> Result<Answer, TurnError> {
        while let Some(event) = self.next().await {
            match event {
                TurnEvent::IsTurn(..) | TurnEvent::Reminded(_) | TurnEvent::Piece(_) => {}
                TurnEvent::Done(answer) => return Ok(*answer),
                TurnEvent::Failed(error) => return Err(error),
            }
        }
        Err(TurnError::Stopping)
    }
}

/// Longest role, in characters.
const ROLE_CHARS_MAX: usize = 128;

impl Memory {
    /// Answers a question with the help of what the conversation holds, and remembers the exchange.
    ///
    /// Must be called within a Tokio runtime: the turn runs in a task of its own, so that it ends
    /// properly even when the caller does not wait for it.
    pub fn take_turn(&self, scope: &Scope, request: TurnRequest) -> Result<RunningTurn, TurnError> {
        let memory = self.of(scope.tenant());
        check_text(&request.query, memory.settings.query_chars_max)?;
        if let Some(role) = &request.role {
            check_text(role, ROLE_CHARS_MAX).map_err(TurnError::Role)?;
        }
        let session = request.session.unwrap_or_else(|| self.parts.ids.session());
        let turn = self.parts.ids.turn(self.parts.clock.now());
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let run = run::Run { memory, scope: scope.clone(), session, turn, attempt: 0, events: sender };
        tokio::spawn(run.go(request));
        Ok(RunningTurn { session, turn, events })
    }
}

/// Metadata from pairs, without those that have no value.
fn notes<const N: usize>(pairs: [(&str, Value); N]) -> Map<String, Value> {
    let kept = pairs.into_iter().filter(|(_, value)| !value.is_null());
    kept.map(|(key, value)| (key.to_owned(), value)).collect()
}
