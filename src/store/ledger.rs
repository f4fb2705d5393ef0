//! What a store keeps of the memory model: what it costs a tenant by the day, and answers that could not be used.
//!
//! Costs are kept so that a restart does not forget the day's. Answers are few, the newest of each user, and go with what was
//! said: with their session, and with every turn that leaves their topic.

use jiff::Timestamp;

use super::{Claim, Page, PageRequest, StoreFuture};
use crate::id::{SessionId, TopicId};
use crate::scope::Scope;

/// Answers that are kept of each user.
pub const UNUSED_ANSWERS_MAX: usize = 20;

/// The part of a store that keeps what the memory model costs.
pub trait Ledger: Send + Sync {
    /// What the tenant of a scope has spent on a day, counted in days since 1970.
    fn spent_on(&self, scope: &Scope, day: i64) -> StoreFuture<'_, DaySpent>;

    /// Adds to what the tenant of a scope has spent on a day. Days that are long gone are forgotten.
    fn spend(&self, scope: &Scope, day: i64, more: DaySpent) -> StoreFuture<'_, ()>;

    /// Keeps an answer that could not be used, while whoever asked holds the claim. What was erased meanwhile has taken that, and may
    /// be in the answer.
    fn keep_unused(&self, claim: &Claim, answer: UnusedAnswer) -> StoreFuture<'_, ()>;

    /// A user's answers that could not be used, oldest first.
    fn unused(&self, scope: &Scope, page: PageRequest) -> StoreFuture<'_, Page<UnusedAnswer>>;
}

/// The day of a moment, counted from 1970.
pub fn day_of(at: Timestamp) -> i64 {
    const DAY_SECONDS: i64 = 86_400;
    at.as_second().div_euclid(DAY_SECONDS)
}

/// What the memory model cost a tenant on a day, and how often it was of no use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DaySpent {
    /// Requests.
    pub calls: u64,
    /// Tokens.
    pub tokens: u64,
    /// Tasks that came to nothing.
    pub failures: u64,
    /// What the built-in did in its place.
    pub fallbacks: u64,
    /// Of those, because the day's bound was reached.
    pub capped: u64,
    /// How the last failure was, in a word.
    pub last_failure: Option<String>,
}

/// An answer that could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusedAnswer {
    /// The conversation whose job asked.
    pub session: SessionId,
    /// The topic it was about, if it was about one.
    pub topic: Option<TopicId>,
    /// What went wrong, in a word.
    pub kind: String,
    /// And in a sentence.
    pub reason: String,
    /// The answer, or its beginning.
    pub answer: String,
    /// When it was given.
    pub at: Timestamp,
}
