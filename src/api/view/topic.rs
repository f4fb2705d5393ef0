//! Topics as clients see them.

use serde::Serialize;
use utoipa::ToSchema;

use super::{thousandths, time};
use crate::review::{TopicMessage, TopicView};
use crate::topic::{Topic, TopicStats, half_life, memory_type};

/// A topic.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct TopicSeen {
    id: String,
    title: String,
    /// What was said in it before its last messages, or null.
    summary: Option<String>,
    tags: Vec<String>,
    /// What is left of its importance now.
    priority: f64,
    /// From feedback: 1 before anybody says otherwise, 0.25 to 4.
    importance: f64,
    /// How often somebody came back to it.
    accesses: u64,
    /// `short-term`, `transitioning` or `long-term`.
    #[schema(value_type = String)]
    memory_type: crate::topic::MemoryType,
    /// The time in which half of it fades.
    half_life_days: f64,
    messages: u64,
    created_at: String,
    last_used: String,
    /// When it was forgotten, or null.
    forgotten_at: Option<String>,
}

impl From<TopicView> for TopicSeen {
    fn from(view: TopicView) -> Self {
        let topic = view.kept.topic;
        Self {
            id: topic.id.to_string(),
            title: topic.title,
            summary: topic.summary,
            tags: topic.tags,
            priority: (view.priority * 1e6).round() / 1e6,
            importance: topic.importance,
            accesses: topic.accesses,
            memory_type: memory_type(topic.accesses),
            half_life_days: half_life(topic.accesses).as_secs_f64() / 86_400.0,
            messages: topic.messages,
            created_at: time(topic.created_at),
            last_used: time(topic.last_used),
            forgotten_at: view.kept.forgotten_at.map(time),
        }
    }
}

/// What is told about a topic, with its summary and tags.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct TopicStatsView {
    topic_id: String,
    topic_title: String,
    /// Messages that are at hand.
    active_messages: u64,
    /// Messages that are archived.
    compressed_messages: u64,
    total_messages: u64,
    has_summary: bool,
    importance_score: f64,
    access_count: u64,
    /// `short-term`, `transitioning` or `long-term`.
    #[schema(value_type = String)]
    memory_type: crate::topic::MemoryType,
    half_life_days: f64,
    age_seconds: u64,
    inactive_seconds: u64,
    /// What was said in it before its last messages, or null.
    summary: Option<String>,
    tags: Vec<String>,
}

impl TopicStatsView {
    pub(in crate::api) fn of(topic: Topic, stats: TopicStats) -> Self {
        Self {
            topic_id: stats.topic_id.to_string(),
            topic_title: stats.topic_title,
            active_messages: stats.active_messages,
            compressed_messages: stats.compressed_messages,
            total_messages: stats.total_messages,
            has_summary: stats.has_summary,
            importance_score: stats.importance_score,
            access_count: stats.access_count,
            memory_type: stats.memory_type,
            half_life_days: stats.half_life_days,
            age_seconds: stats.age_seconds,
            inactive_seconds: stats.inactive_seconds,
            summary: topic.summary,
            tags: topic.tags,
        }
    }
}

/// A message by which a topic was found.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct TopicMessageView {
    message_id: String,
    turn_id: String,
    session_id: String,
    /// `user`, `assistant`, `system` or `tool`.
    role: &'static str,
    text: String,
    said_at: String,
    /// Comparable within one answer only.
    score: f64,
}

impl TopicMessageView {
    pub(in crate::api) fn of(found: TopicMessage, score: f32) -> Self {
        let stored = found.stored;
        Self {
            message_id: stored.id.to_string(),
            turn_id: stored.turn.to_string(),
            session_id: found.session.to_string(),
            role: stored.message.role.as_str(),
            said_at: time(stored.message.created_at),
            text: stored.message.text,
            score: thousandths(score.into()),
        }
    }
}
