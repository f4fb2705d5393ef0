//! What is kept of a tenant, counted: for whoever has to say what is kept, where and for how long.

use serde::Serialize;

/// What is kept of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct TenantKept {
    /// Whose.
    pub tenant: String,
    /// People that anything names.
    pub users: u64,
    /// Conversations.
    pub sessions: u64,
    /// Exchanges in them.
    pub turns: u64,
    /// Of those, exchanges whose text is in archive blocks.
    pub archived: u64,
    /// Other answers to the same questions.
    pub revisions: u64,
    /// Explanations of what was recalled.
    pub traces: u64,
    /// Summaries.
    pub episodes: u64,
    /// Topics.
    pub topics: u64,
    /// Facts, those that no longer hold included.
    pub facts: u64,
    /// Statements that they follow from.
    pub statements: u64,
    /// Documents.
    pub documents: u64,
    /// Passages of them.
    pub passages: u64,
    /// Jobs that wait.
    pub jobs: u64,
    /// Webhooks that are yet to be delivered, or were given up.
    pub webhooks: u64,
    /// Answers of the memory model that could not be used.
    pub model_answers: u64,
    /// Keys.
    pub keys: u64,
    /// When the oldest exchange was said, in microseconds since 1970.
    pub oldest_turn: Option<i64>,
}
