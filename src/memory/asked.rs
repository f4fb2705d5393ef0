//! What a memory model costs and how it fails, counted alike whoever asks it.

use super::Memory;
use crate::model::memory::{FailureKind, Spent};
use crate::store::DaySpent;

impl Memory {
    /// Counts what was asked for and what the built-in did in its place. Answers all of it together, for the tenant's day.
    pub(crate) fn count_asked(&self, spent: Spent, more: DaySpent) -> DaySpent {
        let meters = &self.parts.meters.memory;
        meters.calls.many(spent.calls);
        meters.tokens.many(spent.tokens);
        meters.fallbacks.many(more.fallbacks);
        meters.capped.many(more.capped);
        DaySpent { calls: spent.calls, tokens: spent.tokens, ..more }
    }

    /// Counts a failure, and tells it for the tenant's day.
    pub(crate) fn count_failure(&self, kind: FailureKind) -> DaySpent {
        let meters = &self.parts.meters.memory;
        match kind {
            FailureKind::Unreachable => meters.unreachable.one(),
            FailureKind::Timeout => meters.timeouts.one(),
            FailureKind::Busy => meters.busy.one(),
            FailureKind::Refused => meters.refused.one(),
            FailureKind::Garbage => meters.garbage.one(),
            FailureKind::Truncated => meters.truncated.one(),
        }
        DaySpent { failures: 1, last_failure: Some(kind.to_string()), ..DaySpent::default() }
    }
}
