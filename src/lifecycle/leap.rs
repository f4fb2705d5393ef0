//! Whether the wall clock can be believed. A clock that leaps must not delete a year of memory.

use crate::clock::{LeapWatch, Reading};

/// What to think of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It goes as it should.
    Steady,
    /// It was set by this much since the watch began; nothing may expire by it.
    Leapt {
        /// Forward when positive.
        seconds: i64,
    },
}

/// Compares the wall clock with the steady one from the moment the process started. The verdict stays
/// `Leapt` until the wall clock is set right again, or the process is restarted by somebody who
/// believes the new time.
#[derive(Debug)]
pub struct ClockWatch(LeapWatch);

impl ClockWatch {
    /// Believes the clock as it is now.
    pub fn starting(now: Reading) -> Self {
        Self(LeapWatch::starting(now))
    }

    /// What to think of the clock now.
    pub fn judge(&self, now: Reading) -> Verdict {
        match self.0.leap_micros(now) {
            Some(leap) => Verdict::Leapt { seconds: leap / 1_000_000 },
            None => Verdict::Steady,
        }
    }
}

/// What a person is told.
pub(super) fn explain(seconds: i64) -> String {
    let direction = if seconds > 0 { "forward" } else { "back" };
    format!(
        "the wall clock leapt {direction} by {} minutes; nothing was deleted. \
         Set the clock right, or restart recalld if the new time is the true one",
        seconds.abs() / 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, ManualClock};
    use jiff::{SignedDuration, Timestamp};

    fn hours(n: i64) -> SignedDuration {
        SignedDuration::from_hours(n)
    }

    #[test]
    fn time_that_passes_is_no_leap() {
        let clock = ManualClock::at(Timestamp::UNIX_EPOCH);
        let watch = ClockWatch::starting(clock.reading());
        clock.advance(hours(1_000));
        assert_eq!(watch.judge(clock.reading()), Verdict::Steady);
    }

    #[test]
    fn a_leap_stays_a_leap_until_it_is_set_right() {
        let clock = ManualClock::at(Timestamp::UNIX_EPOCH);
        let watch = ClockWatch::starting(clock.reading());
        clock.leap(hours(30 * 24));
        assert_eq!(watch.judge(clock.reading()), Verdict::Leapt { seconds: 30 * 24 * 3600 });
        clock.advance(hours(48));
        assert!(matches!(watch.judge(clock.reading()), Verdict::Leapt { .. }));
        clock.leap(hours(-30 * 24));
        assert_eq!(watch.judge(clock.reading()), Verdict::Steady);
        clock.leap(hours(-2));
        assert!(matches!(watch.judge(clock.reading()), Verdict::Leapt { seconds: -7200 }));
    }

    #[test]
    fn drift_is_taken_up() {
        let clock = ManualClock::at(Timestamp::UNIX_EPOCH);
        let watch = ClockWatch::starting(clock.reading());
        for _ in 0..100 {
            clock.advance(hours(6));
            clock.leap(SignedDuration::from_mins(50));
            assert_eq!(watch.judge(clock.reading()), Verdict::Steady);
        }
    }
}
