//! Sessions: conversations, and the turns they are made of.
//!
//! A turn is what the user said and what was answered. It opens when the question is on disk and
//! closes with the answer; its number is never used again, and gapless within the session but for a history that its
//! client may still bring.
//!
//! Reading order: the nouns here, `exchange` (a client's list as a conversation), `align` (where it belongs in
//! what is held; `results`: whose results it brings; `fingerprint` recognises repeated messages), `group` (loose
//! messages to turns), `for_prompt` (a turn in a form that a model takes), `window` (which messages it is shown), `fit`
//! (what of them fits its token limit), `template` (the same as text), `intent`, `end` (what is told when it is over);
//! `task` and `unwrap` (text in a client's request that is not the user's).
//!
//! **Invariant:** this room never touches the store. It is handed turns and hands back decisions.

mod align;
mod end;
mod exchange;
mod fingerprint;
mod fit;
mod for_prompt;
mod group;
mod intent;
mod preset;
mod results;
mod task;
mod template;
mod text;
mod unwrap;
mod window;

pub use align::{Alignment, ClientIds, Held, HistoryMode, Outline, Step, align, said_before};
pub use end::{EndReason, EndedMessage, EndedSummary, HookFuture, SessionEnd, SessionEndHook};
pub use exchange::{Asked, Exchange, Tail, chained};
pub use fingerprint::Fingerprint;
pub use fit::{DoesNotFit, Fitted, fit};
pub use for_prompt::{as_plain_answer, for_prompt};
pub use group::{Grouped, group};
pub use intent::{Intent, Saying, read_intent};
pub use preset::{PRESET, SessionPreset};
pub use results::{LateResults, late_results, with_results};
pub use task::{RequestShape, Task, recognise_task};
pub use template::{Template, TemplateError, TemplatePatch, Templates};
pub use text::{TextError, check_text};
pub use unwrap::unwrap_message;
pub(crate) use window::newest;
pub use window::window;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::id::{MessageId, SessionId, TopicId, TurnId};
use crate::message::{Message, Role};
use crate::period::Ttl;

/// Whether a session outlives its visitors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionKind {
    /// Kept in the database.
    #[default]
    Durable,
    /// Kept for a while, apart from everything durable.
    Ephemeral,
}

impl SessionKind {
    /// The word used on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Durable => "durable",
            Self::Ephemeral => "ephemeral",
        }
    }
}

/// A conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// Its name.
    pub id: SessionId,
    /// Whether it outlives its visitors.
    pub kind: SessionKind,
    /// How it came, and what clients noted about it.
    pub metadata: Map<String, Value>,
    /// Its own time to live; `None` follows the server's setting.
    pub ttl: Option<Ttl>,
    /// How many turns it holds.
    pub turns: u64,
    /// When it began.
    pub created_at: Timestamp,
    /// When something was last said or changed.
    pub updated_at: Timestamp,
    /// When somebody last looked.
    pub last_accessed: Timestamp,
    /// When somebody last said that it is over.
    pub ended_at: Option<Timestamp>,
}

impl Session {
    /// When it will be removed if nobody comes back, by its own TTL or the server's.
    pub fn expires_at(&self, server: Ttl) -> Option<Timestamp> {
        let period = self.ttl.unwrap_or(server).0?;
        self.last_accessed.checked_add(period.duration()).ok()
    }
}

/// How a session is to be made if it does not exist yet.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SessionSeed {
    /// How it came: `created_via`, `user_agent`, `language`, the client's own conversation id.
    pub metadata: Map<String, Value>,
    /// Its own time to live.
    pub ttl: Option<Ttl>,
    /// Whether it outlives its visitors.
    pub kind: SessionKind,
}

/// What may be changed about a session afterwards.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SessionPatch {
    /// Keys to set; a `null` removes its key.
    pub metadata: Map<String, Value>,
    /// A new time to live of its own.
    pub ttl: Option<Ttl>,
}

impl SessionPatch {
    /// A session's metadata after the change.
    pub fn applied_to(&self, metadata: &Map<String, Value>) -> Map<String, Value> {
        let mut changed = metadata.clone();
        for (name, value) in &self.metadata {
            match value {
                Value::Null => changed.shift_remove(name),
                value => changed.insert(name.clone(), value.clone()),
            };
        }
        changed
    }
}

/// How far a turn has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TurnStatus {
    /// The question is on disk, the answer is awaited.
    Pending,
    /// Question and answer.
    Complete,
    /// The answer broke off, or was never asked for.
    Partial,
    /// There is no answer.
    Failed,
}

impl TurnStatus {
    /// The word used on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Complete => "complete",
            Self::Partial => "partial",
            Self::Failed => "failed",
        }
    }

    /// Reads the word written by [`TurnStatus::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Pending, Self::Complete, Self::Partial, Self::Failed].into_iter().find(|status| status.as_str() == word)
    }

    /// Whether the model is shown such turns, over as they are. See [`Turn::enters_context`].
    pub fn enters_context(self) -> bool {
        matches!(self, Self::Complete | Self::Partial)
    }
}

/// What the user said and what was answered, tool rounds included.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// Its name.
    pub id: TurnId,
    /// The conversation it belongs to.
    pub session: SessionId,
    /// Its place in the conversation, counted from 1.
    pub number: u64,
    /// How far it has come.
    pub status: TurnStatus,
    /// What was said, in order; the first message opened the turn.
    pub messages: Vec<Message>,
    /// What is known about the exchange: intent, reason of a failure, the caller's role.
    pub metadata: Map<String, Value>,
    /// When it was opened.
    pub created_at: Timestamp,
    /// Whether an edit replaced it.
    pub superseded: bool,
}

impl Turn {
    /// The message that opened the turn.
    pub fn question(&self) -> &Message {
        self.messages.first().expect("a turn opens with a message: drafts and rows without one are refused")
    }

    /// The model's answer, once there is one.
    pub fn answer(&self) -> Option<&Message> {
        answer_of(&self.messages)
    }

    /// How many of its messages are the user's or the model's.
    pub fn spoken(&self) -> usize {
        self.messages.iter().filter(|message| message.is_spoken()).count()
    }

    /// Tool calls in it that have no result.
    pub fn open_calls(&self) -> Vec<String> {
        let answered: Vec<&str> = self.messages.iter().filter_map(Message::answers_call).collect();
        let called = self.messages.iter().flat_map(Message::call_ids);
        called.filter(|call| !answered.contains(call)).map(str::to_owned).collect()
    }

    /// Whether the model is shown it, and the user's words count. A turn that waits for its tools is one, because the
    /// model has spoken; one whose first answer is still to come is not.
    pub fn enters_context(&self) -> bool {
        let has_spoken = || last_answer(&self.messages).is_some();
        self.status.enters_context() || (self.status == TurnStatus::Pending && has_spoken())
    }

    /// The messages with their ids.
    pub fn identified(&self) -> impl Iterator<Item = (MessageId, &Message)> {
        self.messages.iter().enumerate().map(|(n, message)| (self.id.message(n as u16), message))
    }
}

/// Most messages in one turn; more tool rounds than this are a loop.
pub const TURN_MESSAGES_MAX: usize = 1_000;

/// The answer among a turn's messages: the last one, if the model said it.
pub(crate) fn answer_of(messages: &[Message]) -> Option<&Message> {
    messages.iter().skip(1).last().filter(|message| message.role == Role::Assistant)
}

/// What the model said last among a turn's messages, whether results of tools followed or not.
pub(crate) fn last_answer(messages: &[Message]) -> Option<&Message> {
    messages.iter().skip(1).rev().find(|message| message.role == Role::Assistant)
}

/// A turn that somebody else completed: imported, or added by a client with its own model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnDraft {
    /// Its name.
    pub id: TurnId,
    /// What was said, in order.
    pub messages: Vec<Message>,
    /// What is known about the exchange.
    pub metadata: Map<String, Value>,
    /// When it happened, if the caller knows; else when it is stored.
    pub created_at: Option<Timestamp>,
}

impl TurnDraft {
    /// Complete with an answer, partial without one.
    pub fn status(&self) -> TurnStatus {
        match answer_of(&self.messages) {
            Some(answer) if answer.says_something() => TurnStatus::Complete,
            _ => TurnStatus::Partial,
        }
    }
}

/// A loose message on its way into the store.
#[derive(Debug, Clone, PartialEq)]
pub struct AddedMessage {
    /// What was said.
    pub message: Message,
    /// Whether the caller knew when; else it is said when it is stored.
    pub dated: bool,
}

impl AddedMessage {
    pub(crate) fn stamped(mut self, now: impl Fn() -> Timestamp) -> Message {
        if !self.dated {
            self.message.created_at = now();
        }
        self.message
    }
}

/// A question on its way into the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenTurn {
    /// Its name.
    pub id: TurnId,
    /// The conversation; made if it does not exist.
    pub session: SessionId,
    /// How to make the conversation.
    pub seed: SessionSeed,
    /// What the user said.
    pub question: Message,
    /// What is known about the exchange so far.
    pub metadata: Map<String, Value>,
    /// When it was asked, if that was before it reaches the store; else when it is stored.
    pub asked_at: Option<Timestamp>,
    /// Where it belongs.
    pub place: Placement,
}

/// A request that its client gave an `Idempotency-Key`, as hashes: nothing of the key or of what was asked can be read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestMark {
    /// Of the key and whose it is.
    pub key: [u8; 32],
    /// Of the key, the route and what was asked.
    pub content: [u8; 32],
}

/// Where a new question belongs, as [`align`] decided. The default appends it to the visible branch.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Placement {
    /// The number of the turn before it; `None` is the visible branch's last.
    pub parent: Option<u64>,
    /// Exchanges before it that are new to us.
    pub imported: Vec<TurnDraft>,
    /// How many numbers to keep free before the first turn of a new session, for a history that the client mentioned and
    /// that is not taken in.
    pub kept_free: u64,
    /// Exchanges that were said before the session's first turn: they get the numbers that were kept free. The oldest are
    /// left out where there are more, and all of them where they were taken in before.
    pub earlier: Vec<TurnDraft>,
    /// What followed the question already: tool rounds that took place elsewhere.
    pub then: Vec<Message>,
    /// What else changes with it.
    pub shift: Shift,
    /// What the client calls its parts.
    pub ids: ClientIds,
    /// The chain of what was said before, as the client told it; `None` continues the parent's.
    pub before: Option<Fingerprint>,
    /// The request that asks it, to be done once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestMark>,
}

/// What changes in a session when a client moves about in its history.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Shift {
    /// Turns that are superseded from now on.
    pub hide: Vec<u64>,
    /// Turns that are visible again.
    pub show: Vec<u64>,
    /// Answers to be shown in place of the current ones.
    pub activate: Vec<(u64, u32)>,
    /// Who keeps the history from now on.
    pub mode: Option<HistoryMode>,
}

/// Another try at a turn's answer, on its way into the store.
#[derive(Debug, Clone, PartialEq)]
pub struct ReviseTurn {
    /// The turn.
    pub id: TurnId,
    /// Its session.
    pub session: SessionId,
    /// What the client calls the parts of this try.
    pub ids: ClientIds,
    /// What followed the question already: tool rounds of an earlier try.
    pub then: Vec<Message>,
    /// What else changes with it.
    pub shift: Shift,
}

/// Another answer to a turn's question.
#[derive(Debug, Clone, PartialEq)]
pub struct Revision {
    /// Which try it was.
    pub attempt: u32,
    /// How it ended.
    pub status: TurnStatus,
    /// What followed the question.
    pub messages: Vec<Message>,
    /// When it was put aside.
    pub created_at: Timestamp,
}

/// How a turn ended, on its way into the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClosedTurn {
    /// Its name.
    pub id: TurnId,
    /// The conversation it belongs to.
    pub session: SessionId,
    /// How it ended; `pending` when it waits for the results of tools.
    pub status: TurnStatus,
    /// What followed the question: tool rounds, then the answer.
    pub messages: Vec<Message>,
    /// Keys to set in the turn's metadata.
    pub metadata: Map<String, Value>,
    /// Which try this is the ending of; one that another try has overtaken becomes a revision.
    pub attempt: u32,
    /// Other answers that came with it.
    pub others: Vec<Message>,
    /// What was recalled for it and why, as JSON.
    pub trace: Option<String>,
    /// The topic it belongs to; `None` leaves that for later.
    pub topic: Option<InTopic>,
    /// Since when it waits, if it could not be written at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_since: Option<Timestamp>,
}

/// The topic that a turn belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InTopic {
    /// Which.
    pub id: TopicId,
    /// The title of one that begins with this turn.
    pub begins: Option<String>,
}
