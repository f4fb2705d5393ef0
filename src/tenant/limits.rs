//! How much is too much: rates and quotas of a tenant. Zero is no limit.

use std::fmt;
use std::time::Duration;

use crate::scope::Tenant;

/// A tenant's limits; zero is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Requests a minute; as many may come at once.
    pub requests_per_minute: u64,
    /// Tokens of questions and answers a day.
    pub tokens_per_day: u64,
    /// Conversations.
    pub sessions_max: u64,
    /// Turns in them.
    pub turns_max: u64,
    /// Bytes of what was said, and of what is known.
    pub storage_bytes_max: u64,
}

/// What a tenant has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Conversations.
    pub sessions: u64,
    /// Turns in them.
    pub turns: u64,
    /// Bytes of what was said, as it is kept, and of documents.
    pub bytes: u64,
}

/// Which limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// `requests_per_minute`.
    Requests,
    /// `tokens_per_day`.
    Tokens,
    /// `sessions_max`.
    Sessions,
    /// `turns_max`.
    Turns,
    /// `storage_bytes_max`.
    Bytes,
}

impl Limit {
    /// Whether waiting is enough; else something has to go.
    pub fn passes(self) -> bool {
        matches!(self, Self::Requests | Self::Tokens)
    }
}

/// Somebody asks for more than their tenant may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverLimit {
    /// Who.
    pub tenant: Tenant,
    /// What of.
    pub limit: Limit,
    /// How much is allowed.
    pub most: u64,
    /// When to try again.
    pub wait: Duration,
}

impl fmt::Display for OverLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tenant, limit, most, .. } = self;
        let seconds = self.seconds();
        match limit {
            Limit::Requests => {
                write!(f, "tenant `{tenant}` may send {most} requests a minute; try again in {seconds} s")
            }
            Limit::Tokens => write!(f, "tenant `{tenant}` may use {most} tokens a day; try again in {seconds} s"),
            Limit::Sessions => write!(
                f,
                "tenant `{tenant}` may have {most} sessions; go on in one there is, delete some, or raise `sessions_max`"
            ),
            Limit::Turns => write!(f, "tenant `{tenant}` may have {most} turns; delete sessions, or raise `turns_max`"),
            Limit::Bytes => {
                write!(
                    f,
                    "tenant `{tenant}` may store {most} bytes; delete sessions or documents, or raise `storage_bytes_max`"
                )
            }
        }
    }
}

impl std::error::Error for OverLimit {}

impl OverLimit {
    /// Whole seconds to wait, at least one.
    pub fn seconds(&self) -> u64 {
        (self.wait.as_secs() + u64::from(self.wait.subsec_nanos() > 0)).max(1)
    }
}

impl Limits {
    /// Whether anything has to be counted in the store.
    pub fn count(&self) -> bool {
        (self.sessions_max, self.turns_max, self.storage_bytes_max) != (0, 0, 0)
    }

    /// The first limit that so many more turns would break; `begins` says whether they begin a session.
    pub fn broken_by(&self, used: Usage, begins: bool, turns: u64) -> Option<(Limit, u64)> {
        let over = |most: u64, used: u64| most != 0 && used > most;
        [
            (Limit::Sessions, self.sessions_max, begins && over(self.sessions_max, used.sessions + 1)),
            (Limit::Turns, self.turns_max, over(self.turns_max, used.turns + turns)),
            (Limit::Bytes, self.storage_bytes_max, over(self.storage_bytes_max, used.bytes + turns)),
        ]
        .into_iter()
        .find_map(|(limit, most, broken)| broken.then_some((limit, most)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(limits: Limits, used: (u64, u64, u64), begins: bool, expected: Option<Limit>) {
        let (sessions, turns, bytes) = used;
        let found = limits.broken_by(Usage { sessions, turns, bytes }, begins, 1);
        assert_eq!(found.map(|(limit, _)| limit), expected, "{used:?}");
    }

    #[test]
    fn zero_is_no_limit_and_the_bound_is_the_most() {
        let limits = Limits { sessions_max: 2, turns_max: 5, storage_bytes_max: 100, ..Limits::default() };
        check(Limits::default(), (9, 9, 9), true, None);
        check(limits, (1, 4, 99), true, None);
        check(limits, (2, 4, 99), true, Some(Limit::Sessions));
        check(limits, (2, 4, 99), false, None);
        check(limits, (1, 5, 99), false, Some(Limit::Turns));
        check(limits, (1, 4, 100), false, Some(Limit::Bytes));
    }

    #[test]
    fn a_wait_is_told_in_whole_seconds() {
        let over = |millis| OverLimit {
            tenant: Tenant::default(),
            limit: Limit::Requests,
            most: 60,
            wait: Duration::from_millis(millis),
        };
        assert_eq!([0, 1, 1_000, 1_001].map(|millis| over(millis).seconds()), [1, 1, 1, 2]);
        assert!(over(2_500).to_string().ends_with("60 requests a minute; try again in 3 s"));
    }
}
