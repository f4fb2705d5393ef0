//! A chat request in OpenAI's format, passed on to the model and remembered exactly once.
//!
//! Reading order: the nouns here and [`Memory::proxy`], `plan` (what is to be done), `run` (the path of a request),
//! `keep` (where its turns are kept), `prompt` (what is laid before the model), `visit` (the same for a visitor),
//! `ending` (what was said, as a turn), `replay` (an answer given again).
//!
//! **Invariant:** what the client said is what is stored, and what is sent on but for the block. Fields
//! nobody knows pass through.

mod ending;
mod keep;
mod plan;
mod prompt;
mod replay;
mod run;
mod visit;

use std::time::Duration;

use bytes::Bytes;
use hyper::{HeaderMap, StatusCode};
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};

use super::{Health, Shown, TurnError};
use crate::id::{SessionId, TurnId};
use crate::live::LiveKey;
use crate::memory::{InjectInto, Memory};
use crate::mode::Mode;
use crate::model::relay::Passed;
use crate::scope::Scope;
use crate::session::{ClientIds, SessionSeed};

/// Most pieces of an answer that wait for a slow reader before the upstream is made to wait.
const PIECES_MAX: usize = 64;

/// A client's request.
#[derive(Clone)]
pub struct ProxyRequest {
    /// The conversation, if the client names one; else it is found by what was said in it.
    pub session: Option<SessionId>,
    /// The visitor's session, for a conversation that is kept apart from everything durable.
    pub live: Option<LiveKey>,
    /// The id of the conversation if a new one begins.
    pub new_session: SessionId,
    /// Whether the user is known by nothing but the session.
    pub alone: bool,
    /// Whether the client is one that always resends its whole history.
    pub resends_history: bool,
    /// How the conversation came, if it is new.
    pub seed: SessionSeed,
    /// The body as the client sent it.
    pub body: Map<String, Value>,
    /// What the client calls its parts.
    pub ids: ClientIds,
    /// Whether the client says that it asks again.
    pub marked_as_retry: bool,
    /// How much of the memory it uses.
    pub mode: Mode,
    /// Where it goes; its body is filled in.
    pub passed: Passed,
}

impl ProxyRequest {
    /// Whether nothing in its body is for us alone.
    pub fn is_plain(&self) -> bool {
        prompt::OUR_FIELDS.iter().all(|field| !self.body.contains_key(*field))
    }

    /// Its body without what is for us alone.
    pub fn onward(&self) -> Bytes {
        prompt::onward(self.body.clone(), &prompt::Laid::default(), InjectInto::User)
    }
}

/// An answer on its way back: its head, then its bytes.
pub struct ProxiedTurn {
    /// What is known before the first byte.
    pub head: Head,
    /// The bytes. The channel closes after the last one; dropping it cancels the answer.
    pub body: mpsc::Receiver<Bytes>,
}

/// What is known before the first byte.
#[derive(Debug, Clone)]
pub struct Head {
    /// The upstream's status.
    pub status: StatusCode,
    /// The upstream's headers that may pass.
    pub headers: HeaderMap,
    /// The conversation, if it is remembered.
    pub session: Option<SessionId>,
    /// The turn, if it is remembered.
    pub turn: Option<TurnId>,
    /// Whether everything went as it should so far; `None` when nothing is remembered.
    pub health: Option<Health>,
    /// How much of what is remembered the model is shown.
    pub shown: Shown,
    /// How long the store took so far.
    pub store_time: Duration,
}

impl Memory {
    /// Passes a chat request on and remembers the exchange. Must be called within a Tokio runtime: the turn runs
    /// in a task of its own, so that it ends properly even when the client leaves.
    pub async fn proxy(&self, scope: &Scope, request: ProxyRequest) -> Result<ProxiedTurn, TurnError> {
        let (sender, body) = mpsc::channel(PIECES_MAX);
        let (head_sender, head) = oneshot::channel();
        let run = run::Run::new(self.of(scope.tenant()), scope.clone(), request.live.clone(), sender);
        tokio::spawn(run.go(request, head_sender));
        let head = head.await.map_err(|_| TurnError::Stopping)??;
        Ok(ProxiedTurn { head, body })
    }
}
