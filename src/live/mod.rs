//! Live sessions: conversations of visitors that last for a while and leave nothing behind.
//!
//! A live session is a value: what is said changes it, what is old is told in brief, and what it weighs is known to the
//! byte. Recent messages are kept as they were said; those before them are told hour by hour; what lies further back
//! than a day is one summary. Where such values are kept is the store's business (`store/live`), so that several
//! servers can share them.
//!
//! Reading order: the nouns here, `name`, `lease` (how long it lives), `talk` (what is said in it), `tiers` (what is
//! told in brief), `weigh` (what it takes), `merge` (its own lines before its tenant's), `shared` (a session as text, for
//! stores elsewhere).
//!
//! **Invariant:** this room never touches a store, a model or a clock. It is handed turns and hands back sessions.

mod lease;
mod merge;
mod name;
mod shared;
mod talk;
mod tiers;
mod weigh;

pub use lease::{AGE_MAX, Lease};
pub use merge::{Merged, merge};
pub use name::{LiveKey, LiveName, NAME_CHARS_MAX, NameError};
pub use talk::NoSuchTurn;
pub use tiers::{HourToTell, Leaving, PastToTell, Retold, leaves};
pub use weigh::weigh;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::episode::Level;
use crate::id::TurnId;
use crate::message::{Message, Role};
use crate::period::Ttl;
use crate::session::{
    ClientIds, EndReason, EndedMessage, EndedSummary, Fingerprint, HistoryMode, SessionEnd, SessionPatch, SessionSeed,
    TurnStatus,
};

/// Most messages that `session_max_messages` may allow.
pub const MESSAGES_MAX: usize = 1_000;

/// Most hours that a session may wait for its visitor: as long as any lives.
pub const HOURS_MAX: usize = AGE_MAX.as_secs() as usize / 3600;

/// Bytes of a megabyte, as settings count them.
pub const MEGABYTE: f64 = 1_000_000.0;

/// Whether a session may take so many megabytes. With less there would be no room for what is told of it.
pub fn check_megabytes(megabytes: f64) -> Result<(), String> {
    match (0.1..=1_000.0).contains(&megabytes) {
        true => Ok(()),
        false => Err(format!("is {megabytes}, it must be from 0.1 to 1000")),
    }
}

/// How live sessions behave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LiveSettings {
    /// Whether there are any.
    pub enabled: bool,
    /// How long one waits for its visitor to come back.
    pub ttl: Duration,
    /// Most messages that are kept as they were said.
    pub messages_max: usize,
    /// From more messages than this on, two thirds of them are told in brief.
    pub summarize_after: usize,
    /// Most bytes of one session.
    pub bytes_max: usize,
    /// Most sessions of a tenant at one time.
    pub sessions_max: usize,
}

impl Default for LiveSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            ttl: Duration::from_secs(24 * 3600),
            messages_max: 100,
            summarize_after: 30,
            bytes_max: 10_000_000,
            sessions_max: 100,
        }
    }
}

/// An ephemeral conversation. Cheap to clone: its turns are shared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveSession {
    /// When it began.
    pub created_at: Timestamp,
    /// When something was last said or changed.
    pub updated_at: Timestamp,
    /// Its own time to live, if it has one.
    pub ttl: Option<Ttl>,
    /// Tokens of questions and answers, as far as models counted them.
    pub tokens_used: u64,
    metadata: Notes,
    mode: HistoryMode,
    last_number: u64,
    /// Messages that are only told of any more.
    told_messages: u64,
    /// How often something was told in brief.
    tellings: u64,
    /// Turns that are only told of any more, so that a client that resends them is understood.
    gone: Vec<Stub>,
    #[serde(with = "shared")]
    turns: Vec<Arc<LiveTurn>>,
    hours: Vec<Summary>,
    past: Option<Summary>,
    #[serde(skip)]
    bytes: usize,
}

/// What is told of a part of the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// How much of it this tells: an hour, or what lies further back.
    pub level: Level,
    /// When the first of it was said.
    pub from: Timestamp,
    /// When the last.
    pub to: Timestamp,
    /// The number of its first turn.
    pub first: u64,
    /// The number of its last.
    pub last: u64,
    /// What was said.
    pub text: Box<str>,
}

/// A JSON object as text, nothing for an empty one: compact, and its bytes are known.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Notes(Option<Box<str>>);

impl Notes {
    fn of(map: &Map<String, Value>) -> Self {
        Self((!map.is_empty()).then(|| serde_json::to_string(map).unwrap_or_default().into()))
    }

    fn map(&self) -> Map<String, Value> {
        self.0.as_ref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }
}

/// A turn that is kept as it was said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct LiveTurn {
    id: TurnId,
    number: u64,
    parent: u64,
    superseded: bool,
    status: TurnStatus,
    attempt: u32,
    created_at: Timestamp,
    question: Fingerprint,
    answer: Option<Fingerprint>,
    ids: ClientIds,
    messages: Vec<LiveMessage>,
    metadata: Notes,
    revisions: Vec<LiveRevision>,
    trace: Option<Box<str>>,
}

/// Another answer to a turn's question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct LiveRevision {
    attempt: u32,
    status: TurnStatus,
    answer: Option<Fingerprint>,
    messages: Vec<LiveMessage>,
    created_at: Timestamp,
}

/// A message, as compact as it gets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct LiveMessage {
    role: Role,
    name: Option<Box<str>>,
    text: Box<str>,
    raw: Option<Box<str>>,
    metadata: Notes,
    created_at: Timestamp,
}

/// Where a turn stood that is only told of any more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Stub {
    id: TurnId,
    number: u64,
    parent: u64,
    superseded: bool,
    question: Fingerprint,
    answer: Option<Fingerprint>,
}

impl From<Message> for LiveMessage {
    fn from(message: Message) -> Self {
        let Message { role, name, text, raw, metadata, created_at } = message;
        Self {
            role,
            name: name.map(String::into_boxed_str),
            text: text.into_boxed_str(),
            raw: raw.map(|raw| raw.to_string().into_boxed_str()),
            metadata: Notes::of(&metadata),
            created_at,
        }
    }
}

impl From<&LiveMessage> for Message {
    fn from(kept: &LiveMessage) -> Self {
        Self {
            role: kept.role,
            name: kept.name.as_deref().map(str::to_owned),
            text: kept.text.to_string(),
            raw: kept.raw.as_ref().and_then(|raw| serde_json::from_str(raw).ok()),
            metadata: kept.metadata.map(),
            created_at: kept.created_at,
        }
    }
}

impl LiveMessage {
    fn is_spoken(&self) -> bool {
        matches!(self.role, Role::User | Role::Assistant)
    }
}

impl LiveSession {
    /// A session that begins now.
    pub fn begin(seed: &SessionSeed, now: Timestamp) -> Self {
        let mut session = Self {
            created_at: now,
            updated_at: now,
            ttl: seed.ttl,
            tokens_used: 0,
            metadata: Notes::of(&seed.metadata),
            mode: HistoryMode::default(),
            last_number: 0,
            told_messages: 0,
            tellings: 0,
            gone: Vec::new(),
            turns: Vec::new(),
            hours: Vec::new(),
            past: None,
            bytes: 0,
        };
        session.bytes = weigh(&session);
        session
    }

    /// What clients noted about it.
    pub fn metadata(&self) -> Map<String, Value> {
        self.metadata.map()
    }

    /// What it takes, to the byte: see [`weigh`].
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many turns were taken in it.
    pub fn turn_count(&self) -> u64 {
        self.last_number
    }

    /// How many messages users and models said in it.
    pub fn message_count(&self) -> u64 {
        self.told_messages + self.messages_held() as u64
    }

    /// How many of those are kept as they were said.
    pub fn messages_held(&self) -> usize {
        self.turns.iter().map(|turn| turn.spoken()).sum()
    }

    /// What is told of what is not kept as it was said: the session's summary, then hour by hour.
    pub fn summaries(&self) -> impl Iterator<Item = &Summary> {
        self.past.iter().chain(&self.hours)
    }

    /// Changes its metadata or time to live.
    pub fn patch(&mut self, patch: &SessionPatch, now: Timestamp) {
        let metadata = Notes::of(&patch.applied_to(&self.metadata()));
        self.bytes = self.bytes + metadata.bytes() - self.metadata.bytes();
        self.metadata = metadata;
        self.ttl = patch.ttl.or(self.ttl);
        self.updated_at = self.updated_at.max(now);
    }

    /// How long it waits for its visitor, where its own TTL says nothing as long as `usual`.
    pub fn waits_for(&self, usual: Duration) -> Duration {
        match self.ttl {
            Some(Ttl(period)) => period.map_or(AGE_MAX, |period| period.duration()),
            None => usual,
        }
    }

    /// The session as whoever waits for its end is told.
    pub fn end(&self, key: &LiveKey, reason: EndReason, last_accessed: Timestamp) -> SessionEnd {
        let shown = self.turns.iter().filter(|turn| !turn.superseded);
        let message = |message: &LiveMessage| EndedMessage {
            role: message.role,
            name: message.name.as_deref().map(str::to_owned),
            content: message.text.to_string(),
            created_at: message.created_at,
        };
        let summary = |told: &Summary| EndedSummary { from: told.from, to: told.to, text: told.text.to_string() };
        SessionEnd {
            tenant: key.tenant.clone(),
            user: None,
            session: key.name.as_str().to_owned(),
            reason,
            created_at: self.created_at,
            last_accessed,
            message_count: self.message_count(),
            messages: shown.flat_map(|turn| turn.messages.iter().map(message)).collect(),
            summaries: self.summaries().map(summary).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
