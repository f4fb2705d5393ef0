//! Jobs: work that follows a turn, written down beside it and done when nobody waits.
//!
//! A job is claimed for a while, done, and then gone. One that fails is tried again later and later; after
//! [`ATTEMPTS_MAX`] tries it is dead: kept with its last error until a person tries it again.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use crate::id::{JobId, SessionId};

/// Tries before a job is given up.
pub const ATTEMPTS_MAX: u32 = 5;
/// The pause after the first failure; each further one is so many times as long.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const PAUSE_GROWTH: u32 = 5;
/// Longest error that is kept of a failed try, in bytes.
const ERROR_BYTES_MAX: usize = 1_000;

/// What is to be done. Kinds are known by name, so that a store keeps those it does not know.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JobKind(Cow<'static, str>);

impl JobKind {
    /// Turns that left the window become episodes.
    pub const CONSOLIDATE: Self = Self(Cow::Borrowed("consolidate"));

    /// What was said in a topic before its last messages becomes its summary.
    pub const SUMMARISE: Self = Self(Cow::Borrowed("summarise"));

    /// A kind by its name.
    pub fn named(name: impl Into<String>) -> Self {
        Self(Cow::Owned(name.into()))
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for JobKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How far a job has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobState {
    /// It waits for its time.
    Queued,
    /// Somebody does it.
    Running,
    /// It failed too often and waits for a person.
    Dead,
}

impl JobState {
    /// The word used on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Dead => "dead",
        }
    }

    /// Reads the word written by [`JobState::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Queued, Self::Running, Self::Dead].into_iter().find(|state| state.as_str() == word)
    }
}

/// Work for later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its name.
    pub id: JobId,
    /// What is to be done.
    pub kind: JobKind,
    /// The conversation it is about.
    pub session: SessionId,
    /// How far it has come.
    pub state: JobState,
    /// Tries so far, the present one included.
    pub attempts: u32,
    /// When it may be tried, or when whoever does it is given up; `None` is at once.
    pub run_at: Option<Timestamp>,
    /// Why the last try failed.
    pub last_error: Option<String>,
    /// When it was asked for.
    pub created_at: Timestamp,
}

/// How long to wait before the next try after so many; `None` when that was the last. `random` in `0.0..1.0` spreads
/// jobs that failed together: half of the pause is certain.
pub fn next_try(attempts: u32, random: f64) -> Option<Duration> {
    if attempts >= ATTEMPTS_MAX {
        return None;
    }
    let pause = FIRST_PAUSE * PAUSE_GROWTH.pow(attempts.saturating_sub(1));
    Some(pause.mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0))
}

/// A number in `0.0..1.0` for a try: chance that is the same on each run and differs between jobs.
pub fn dice(job: JobId, attempts: u32) -> f64 {
    let mut seed = job.as_uuid().as_bytes().to_vec();
    seed.extend(attempts.to_le_bytes());
    (xxhash_rust::xxh3::xxh3_64(&seed) >> 11) as f64 / (1_u64 << 53) as f64
}

/// The part of an error that is kept.
pub fn told(error: &str) -> &str {
    let mut end = error.len().min(ERROR_BYTES_MAX);
    while !error.is_char_boundary(end) {
        end -= 1;
    }
    &error[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pauses_grow_whatever_the_dice_say(attempts in 1..ATTEMPTS_MAX - 1, one in 0.0..1.0, other in 0.0..1.0) {
            let sooner = next_try(attempts, one).expect("not the last");
            let later = next_try(attempts + 1, other).expect("not the last");
            prop_assert!(sooner < later, "{sooner:?} before {later:?}");
        }

        #[test]
        fn a_pause_is_between_half_of_it_and_all(attempts in 0..ATTEMPTS_MAX, random in -1.0..2.0) {
            let pause = next_try(attempts, random).expect("not the last");
            let whole = next_try(attempts, 1.0).expect("not the last");
            prop_assert!(whole / 2 <= pause && pause <= whole);
        }

        #[test]
        fn after_the_last_try_there_is_none(more in 0..1000_u32, random in 0.0..1.0) {
            prop_assert_eq!(next_try(ATTEMPTS_MAX + more, random), None);
        }

        #[test]
        fn dice_stay_on_the_table(key in 0..1_u64 << 40, attempts in 0..10_u32) {
            let job = JobId::kept_as(key, Timestamp::UNIX_EPOCH);
            prop_assert!((0.0..1.0).contains(&dice(job, attempts)));
            prop_assert_eq!(dice(job, attempts), dice(job, attempts));
        }

        #[test]
        fn what_is_told_of_an_error_is_its_beginning(error in ".{0,600}") {
            prop_assert!(error.starts_with(told(&error)) && told(&error).len() <= ERROR_BYTES_MAX);
        }
    }

    #[test]
    fn a_job_is_given_up_within_a_quarter_of_an_hour() {
        let pauses: Vec<u64> = (1..ATTEMPTS_MAX).map(|n| next_try(n, 1.0).expect("a pause").as_secs()).collect();
        assert_eq!(pauses, [5, 25, 125, 625]);
    }

    #[test]
    fn words_are_read_as_written() {
        for state in [JobState::Queued, JobState::Running, JobState::Dead] {
            assert_eq!(JobState::parse(state.as_str()), Some(state));
        }
        assert_eq!(JobKind::named("consolidate"), JobKind::CONSOLIDATE);
    }
}
