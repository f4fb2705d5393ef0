//! Facts as clients see them.

use serde::Serialize;
use utoipa::ToSchema;

use super::time;
use crate::fact::{Evidence, Fact};
use crate::store::FactEvent;

/// Something that is known about a user.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct FactView {
    id: String,
    /// `identity`, `preference`, `constraint` or `instruction`.
    category: &'static str,
    /// What it is about: `location`, or `pet/rex` where there may be several.
    key: String,
    value: String,
    /// How sure that is, from 0 to 1.
    confidence: f64,
    /// How much it matters, from 0 to 1; from 0.5 it is told with every question.
    importance: f64,
    /// `quarantined`, `provisional`, `active`, `superseded`, `retracted` or `expired`.
    status: &'static str,
    /// When it was true, as far as is known.
    valid_from: String,
    valid_to: Option<String>,
    /// When it was learned.
    learned_at: String,
    /// The message that ended it, or null.
    ended_by: Option<String>,
    evidence: FactEvidenceView,
}

/// Where a fact was said first, and how often since.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct FactEvidenceView {
    /// Null when a person wrote the fact down by hand.
    message_id: Option<String>,
    session_id: Option<String>,
    said_at: String,
    /// The words.
    quote: String,
    /// How many messages say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    confirmations: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_said_at: Option<String>,
}

impl From<Fact> for FactView {
    fn from(fact: Fact) -> Self {
        let evidence = FactEvidenceView {
            confirmations: Some(fact.confirmations),
            last_said_at: Some(time(fact.last_said_at)),
            ..fact.evidence.into()
        };
        Self {
            id: fact.id.to_string(),
            category: fact.key.category.as_str(),
            key: fact.key.path(),
            value: fact.value,
            confidence: fact.confidence,
            importance: fact.importance,
            status: fact.status.as_str(),
            valid_from: time(fact.valid_from),
            valid_to: fact.valid_to.map(time),
            learned_at: time(fact.learned_at),
            ended_by: fact.ended_by.map(|message| message.to_string()),
            evidence,
        }
    }
}

impl From<Evidence> for FactEvidenceView {
    fn from(evidence: Evidence) -> Self {
        Self {
            message_id: evidence.message.map(|message| message.to_string()),
            session_id: evidence.session.map(|session| session.to_string()),
            said_at: time(evidence.said_at),
            quote: evidence.quote,
            confirmations: None,
            last_said_at: None,
        }
    }
}

/// Something that happened to a fact.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct FactEventView {
    at: String,
    /// `add`, `supersede`, `retract`, `expire`, `doubt`, `withdraw` or `restore`.
    event: &'static str,
    /// Which fact of the key.
    fact_id: String,
    value: String,
    /// What it was afterwards.
    status: &'static str,
    /// `conversation`, `person`, `undo`, `time` or `removal`.
    cause: &'static str,
    /// The message that said so, or null.
    message_id: Option<String>,
    /// What was undone, or null; undo that to have it back.
    undo_id: Option<String>,
}

impl From<FactEvent> for FactEventView {
    fn from(event: FactEvent) -> Self {
        Self {
            at: time(event.at),
            event: event.what.as_str(),
            fact_id: event.fact.to_string(),
            value: event.value,
            status: event.status.as_str(),
            cause: event.cause.as_str(),
            message_id: event.message.map(|message| message.to_string()),
            undo_id: event.undo.map(|undo| undo.to_string()),
        }
    }
}
