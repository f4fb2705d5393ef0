//! Our nouns as clients see them. Wire types stay here; the rooms' nouns are free to change.

mod clarification;
mod document;
mod fact;
mod topic;

pub(super) use clarification::{ChosenView, ClarificationView};
pub(super) use document::{CitationView, DocumentView};
pub(super) use fact::{FactEventView, FactEvidenceView, FactView};
pub(super) use topic::{TopicMessageView, TopicSeen, TopicStatsView};

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::id::{SessionId, TopicId};
use crate::live::LiveKey;
use crate::message::{Message, Role};
use crate::period::{Period, Ttl};
use crate::recall::{AsideSource, Considered, Ranked, Reminder};
use crate::review::StoredMessage;
use crate::scope::Scope;
use crate::session::{Revision, Session, SessionKind, Turn, TurnStatus, as_plain_answer, last_answer};
use crate::store::live::Seen;

/// A conversation.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SessionView {
    id: String,
    tenant_id: String,
    user_id: String,
    /// `durable` or `ephemeral`.
    kind: &'static str,
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
    /// The session's own time to live or its tenant's, or null when the server's setting rules.
    ttl: Option<String>,
    /// How many turns it holds.
    turns: u64,
    created_at: String,
    updated_at: String,
    last_accessed: String,
    /// When somebody last said that it is over, or null.
    ended_at: Option<String>,
    /// When it will be removed if nobody comes back, or null.
    expires_at: Option<String>,
    /// Of a visitor's session: how many messages were said in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    message_count: Option<u64>,
    /// Of a visitor's session: how many of them are kept as they were said.
    #[serde(skip_serializing_if = "Option::is_none")]
    messages_held: Option<usize>,
    /// Of a visitor's session: how many summaries tell of the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    summaries: Option<usize>,
    /// Of a visitor's session: what it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<usize>,
}

impl SessionView {
    pub(super) fn of(session: Session, scope: &Scope, server_ttl: Ttl) -> Self {
        Self {
            id: session.id.to_string(),
            tenant_id: scope.tenant().to_string(),
            user_id: scope.user().to_string(),
            kind: session.kind.as_str(),
            ttl: session.ttl.map(|ttl| ttl.to_string()),
            turns: session.turns,
            created_at: time(session.created_at),
            updated_at: time(session.updated_at),
            last_accessed: time(session.last_accessed),
            ended_at: session.ended_at.map(time),
            expires_at: session.expires_at(server_ttl).map(time),
            metadata: session.metadata,
            message_count: None,
            messages_held: None,
            summaries: None,
            bytes: None,
        }
    }

    pub(super) fn of_live(seen: &Seen, until: Timestamp) -> Self {
        let Seen { key, session, lease, last_accessed } = seen;
        Self {
            id: key.to_string(),
            tenant_id: key.tenant.to_string(),
            user_id: format!("~{}", key.id()),
            kind: SessionKind::Ephemeral.as_str(),
            metadata: session.metadata(),
            ttl: Some(Period::seconds(lease.ttl.as_secs()).to_string()),
            turns: session.turn_count(),
            created_at: time(session.created_at),
            updated_at: time(session.updated_at),
            last_accessed: time(*last_accessed),
            expires_at: Some(time(until)),
            ended_at: None,
            message_count: Some(session.message_count()),
            messages_held: Some(session.messages_held()),
            summaries: Some(session.summaries().count()),
            bytes: Some(session.bytes()),
        }
    }
}

/// A question and its answer.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TurnView {
    id: String,
    session_id: String,
    user_id: String,
    /// Counted from 1. Gapless within the session, but for a history that was not taken in.
    turn_number: u64,
    query_text: String,
    /// Null while there is no answer. Where a forced tool call is the answer, its arguments.
    response_text: Option<String>,
    /// `pending`, `complete`, `partial` or `failed`.
    status: &'static str,
    created_at: String,
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
    /// The topic it belongs to. Null while it waits for one, where an edit replaced it, in a visitor's session, and in what is
    /// answered when turns are added.
    topic_id: Option<String>,
    /// Whether an edit replaced it; not there when it is visible.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    superseded: bool,
}

impl TurnView {
    pub(super) fn of_live(turn: Turn, key: &LiveKey) -> Self {
        let mut view = Self::of(turn, &key.scope());
        view.session_id = key.to_string();
        view
    }

    pub(super) fn of(turn: Turn, scope: &Scope) -> Self {
        Self {
            id: turn.id.to_string(),
            session_id: turn.session.to_string(),
            user_id: scope.user().to_string(),
            turn_number: turn.number,
            query_text: turn.question().text.clone(),
            response_text: match turn.status {
                // Results of a forced call may stand behind it.
                TurnStatus::Complete => last_answer(&turn.messages).map(|answer| as_plain_answer(answer).text),
                _ => turn.answer().map(|answer| answer.text.clone()),
            },
            status: turn.status.as_str(),
            created_at: time(turn.created_at),
            topic_id: None,
            superseded: turn.superseded,
            metadata: turn.metadata,
        }
    }

    pub(super) fn in_topic(self, topic: Option<TopicId>) -> Self {
        Self { topic_id: topic.map(|topic| topic.to_string()), ..self }
    }
}

/// Another answer to a turn's question.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RevisionView {
    /// Which try it was.
    attempt: u32,
    status: &'static str,
    /// Null when there was no answer.
    response_text: Option<String>,
    /// When it gave way to another.
    created_at: String,
}

impl From<Revision> for RevisionView {
    fn from(revision: Revision) -> Self {
        let answer = revision.messages.iter().rev().find(|message| message.role == Role::Assistant);
        Self {
            attempt: revision.attempt,
            status: revision.status.as_str(),
            response_text: answer.map(|answer| answer.text.clone()),
            created_at: time(revision.created_at),
        }
    }
}

/// One message.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct MessageView {
    id: String,
    session_id: String,
    turn_id: String,
    /// `user`, `assistant`, `system` or `tool`.
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Text, or the parts as they were sent.
    #[schema(value_type = Object)]
    content: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    tool_calls: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
    created_at: String,
}

impl MessageView {
    pub(super) fn of(stored: StoredMessage, session: &str) -> Self {
        let message = stored.message;
        let raw = |field: &str| message.raw.as_ref().and_then(|raw| raw.get(field)).cloned();
        Self {
            id: stored.id.to_string(),
            session_id: session.to_owned(),
            turn_id: stored.turn.to_string(),
            role: message.role.as_str(),
            content: raw("content").unwrap_or_else(|| message.text.as_str().into()),
            tool_calls: raw("tool_calls"),
            tool_call_id: raw("tool_call_id").and_then(|id| id.as_str().map(str::to_owned)),
            name: message.name,
            metadata: message.metadata,
            created_at: time(message.created_at),
        }
    }
}

/// What the model was reminded of: a message, or the part of it that matters.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ReminderView {
    message_id: String,
    turn_id: String,
    session_id: String,
    /// `user`, `assistant`, `system` or `tool`.
    role: &'static str,
    /// The speaker's name, or null.
    name: Option<String>,
    text: String,
    /// Whether `text` is only a part of the message.
    excerpt: bool,
    /// What holds now, where the message says what is no longer so; else null.
    note: Option<String>,
    said_at: String,
    /// Comparable within one answer only.
    score: f64,
    /// `hit`, `reply` (to a hit) or `neighbour` (of one).
    reason: &'static str,
}

impl From<Reminder> for ReminderView {
    fn from(reminder: Reminder) -> Self {
        Self {
            message_id: reminder.message.to_string(),
            turn_id: reminder.message.turn().to_string(),
            session_id: reminder.session.to_string(),
            role: reminder.role.as_str(),
            name: reminder.name,
            text: reminder.text,
            excerpt: reminder.excerpt,
            note: reminder.note,
            said_at: time(reminder.said_at),
            score: thousandths(reminder.score.into()),
            reason: reminder.reason.as_str(),
        }
    }
}

/// A message that was found, and what was made of it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CandidateView {
    message_id: String,
    turn_id: String,
    /// Null when the message could not be read; so are the others.
    session_id: Option<String>,
    role: Option<&'static str>,
    name: Option<String>,
    text: Option<String>,
    said_at: Option<String>,
    /// Comparable within one answer only.
    score: f64,
    /// `kept`, `shown anyway`, `duplicate`, `over budget` or `unreadable`.
    fate: &'static str,
    /// What each signal contributed.
    #[schema(value_type = Object)]
    signals: Map<String, Value>,
}

impl CandidateView {
    pub(super) fn of(ranked: &Ranked, found: Option<&(SessionId, Message)>) -> Self {
        let message = found.map(|(_, message)| message);
        Self {
            message_id: ranked.message.to_string(),
            turn_id: ranked.message.turn().to_string(),
            session_id: found.map(|(session, _)| session.to_string()),
            role: message.map(|message| message.role.as_str()),
            name: message.and_then(|message| message.name.clone()),
            text: message.map(|message| message.text.clone()),
            said_at: message.map(|message| time(message.created_at)),
            score: thousandths(ranked.score.into()),
            fate: ranked.fate.as_str(),
            signals: ranked.signals.iter().map(|(name, part)| part_of(name, *part)).collect(),
        }
    }
}

/// Something beside messages that was considered for a context, and what was made of it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AsideView {
    /// `profile`, `clarification`, `summary` (of the running conversation), `facts`, `episodes` or `passages`.
    layer: &'static str,
    /// The episode, or whatever it is from.
    id: String,
    /// The conversation that a summary tells of; null for what is no summary, and so are the others.
    session_id: Option<String>,
    /// `stretch`, `hour` or `session`.
    level: Option<&'static str>,
    turn_first: Option<u64>,
    turn_last: Option<u64>,
    from: Option<String>,
    to: Option<String>,
    /// The name and title of the document that a passage is from, and how near the passage is; null for what is no passage.
    source: Option<String>,
    document_title: Option<String>,
    similarity: Option<f64>,
    text: String,
    /// Comparable within a layer only.
    score: f64,
    /// `kept`, `shown anyway`, `unrelated`, `duplicate`, `not among the best` or `over budget`.
    fate: &'static str,
    /// What each signal contributed.
    #[schema(value_type = Object)]
    signals: Map<String, Value>,
}

impl From<Considered> for AsideView {
    fn from(considered: Considered) -> Self {
        let Considered { aside, fate, .. } = considered;
        let mut view = Self {
            layer: aside.layer.as_str(),
            id: String::new(),
            session_id: None,
            level: None,
            turn_first: None,
            turn_last: None,
            from: None,
            to: None,
            source: None,
            document_title: None,
            similarity: None,
            text: aside.text.to_string(),
            score: thousandths(aside.score.into()),
            fate: fate.as_str(),
            signals: aside.signals.iter().map(|(name, part)| part_of(name, *part)).collect(),
        };
        match aside.source {
            AsideSource::Episode { id, session, level, first, last, from, to } => {
                (view.id, view.session_id) = (id.to_string(), Some(session.to_string()));
                (view.level, view.turn_first, view.turn_last) = (Some(level.as_str()), Some(first), Some(last));
                (view.from, view.to) = (Some(time(from)), Some(time(to)));
            }
            AsideSource::Passage(citation) => {
                view.id = citation.passage.to_string();
                (view.source, view.document_title) = (Some(citation.source), Some(citation.title));
                view.similarity = Some(thousandths(citation.similarity.into()));
            }
            AsideSource::Other(id) => view.id = id,
        }
        view
    }
}

pub(super) fn part_of(name: &str, part: f32) -> (String, Value) {
    (name.to_owned(), thousandths(part.into()).into())
}

/// A duration in milliseconds, to the microsecond.
pub(super) fn millis(took: Duration) -> f64 {
    thousandths(took.as_secs_f64() * 1e3)
}

pub(super) fn thousandths(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}

/// RFC 3339 in UTC, always with microseconds, so that texts sort as times do.
pub(super) fn time(at: Timestamp) -> String {
    format!("{at:.6}")
}
