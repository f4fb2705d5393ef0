//! What went wrong with an answer, and whether it helps to wait.

use std::time::Duration;

use jiff::Timestamp;

use crate::model::ModelError;

/// Longest time that a server's word to come back later is followed.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// What went wrong.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Failure {
    /// There is no answer.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The answer was cut off by the token limit, twice.
    #[error(
        "the model's answer was cut off by the token limit; does it think aloud, or is `memory_model_tokens_max` small?"
    )]
    Truncated,
    /// The answer is not what was asked for, twice.
    #[error("the model's answer is not what was asked for: {0}")]
    Unusable(String),
    /// It failed before and is left alone for a while.
    #[error("the model is left alone until {until} because it failed: {kind}")]
    Resting {
        /// How long.
        until: Timestamp,
        /// How it failed.
        kind: FailureKind,
    },
}

/// What went wrong, in a word, for meters and for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// Nobody listens, or the connection broke.
    Unreachable,
    /// It did not answer in time.
    Timeout,
    /// It said that it has too much to do.
    Busy,
    /// It refused, or failed itself.
    Refused,
    /// What it said is not what was asked for.
    Garbage,
    /// Its answer was cut off.
    Truncated,
}

impl FailureKind {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Unreachable, Self::Timeout, Self::Busy, Self::Refused, Self::Garbage, Self::Truncated];

    /// The word used on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Timeout => "timeout",
            Self::Busy => "busy",
            Self::Refused => "refused",
            Self::Garbage => "garbage",
            Self::Truncated => "truncated",
        }
    }

    /// Reads the word written by [`FailureKind::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

impl std::fmt::Display for FailureKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Failure {
    /// What went wrong, in a word.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Model(ModelError::Unreachable { .. } | ModelError::BrokeOff(_)) => FailureKind::Unreachable,
            Self::Model(ModelError::Silent(_)) => FailureKind::Timeout,
            Self::Model(ModelError::Refused { status: 429, .. }) => FailureKind::Busy,
            Self::Model(ModelError::Refused { .. }) => FailureKind::Refused,
            Self::Model(ModelError::Unreadable(_)) | Self::Unusable(_) => FailureKind::Garbage,
            Self::Truncated => FailureKind::Truncated,
            Self::Resting { kind, .. } => *kind,
        }
    }

    /// Whether the same question may be answered later. A wrong key or model is mended by a person, who has no reason to
    /// hurry: until then the built-in does it.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Model(ModelError::Refused { status, .. }) => matches!(status, 408 | 409 | 425 | 429 | 500..),
            Self::Model(ModelError::Unreadable(_)) | Self::Truncated | Self::Unusable(_) => false,
            Self::Model(_) | Self::Resting { .. } => true,
        }
    }

    /// When it may be asked again, as far as it said: seconds or a date, and never more than an hour.
    pub fn retry_after(&self, now: Timestamp) -> Option<Duration> {
        let words = match self {
            Self::Resting { until, .. } => return Some(between(now, *until)),
            Self::Model(ModelError::Refused { retry_after: Some(words), .. }) => words.trim(),
            _ => return None,
        };
        let seconds = words.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let date = || jiff::fmt::rfc2822::parse(words).ok().map(|date| between(now, date.timestamp()));
        seconds.or_else(date).map(|pause| pause.min(RETRY_AFTER_MAX))
    }
}

fn between(now: Timestamp, then: Timestamp) -> Duration {
    then.duration_since(now).try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, retry_after: Option<&str>) -> Failure {
        let retry_after = retry_after.map(str::to_owned);
        Failure::Model(ModelError::Refused { status, message: String::new(), retry_after })
    }

    #[test]
    fn what_passes_is_waited_for() {
        for status in [408, 429, 500, 503, 529] {
            assert!(refused(status, None).may_pass(), "{status}");
        }
        for status in [400, 401, 403, 404, 422] {
            assert!(!refused(status, None).may_pass(), "{status}");
        }
        assert!(Failure::Model(ModelError::Silent(Duration::ZERO)).may_pass());
        assert!(!Failure::Truncated.may_pass() && !Failure::Unusable(String::new()).may_pass());
    }

    #[track_caller]
    fn check(words: Option<&str>, expected: Option<u64>) {
        let now: Timestamp = "2026-10-21T07:28:00Z".parse().expect("a time");
        assert_eq!(refused(429, words).retry_after(now), expected.map(Duration::from_secs));
    }

    #[test]
    fn a_server_says_when_to_come_back() {
        check(None, None);
        check(Some("20"), Some(20));
        check(Some(" 1e9 "), Some(3600));
        check(Some("Wed, 21 Oct 2026 07:30:00 GMT"), Some(120));
        check(Some("Wed, 21 Oct 2020 07:30:00 GMT"), Some(0));
        check(Some("-3"), None);
        check(Some("soon"), None);
    }

    #[test]
    fn words_are_read_as_written() {
        for kind in FailureKind::ALL {
            assert_eq!(FailureKind::parse(kind.as_str()), Some(kind));
        }
    }
}
