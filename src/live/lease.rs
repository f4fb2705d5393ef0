//! How long a session lives: its time to live counts from the last access, its cap from its beginning.

use std::time::Duration;

use crate::session::EndReason;

/// No session lives longer, however often somebody comes back.
pub const AGE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// When a session began, when somebody was last there, and how long it waits for them; by the steady clock, so that a
/// wall clock that leaps ends nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// When it began.
    pub born: Duration,
    /// When somebody last came.
    pub seen: Duration,
    /// How long it waits.
    pub ttl: Duration,
}

impl Lease {
    /// A lease that begins now.
    pub fn begin(now: Duration, ttl: Duration) -> Self {
        Self { born: now, seen: now, ttl }
    }

    /// Somebody came.
    pub fn refresh(&mut self, now: Duration) {
        self.seen = self.seen.max(now);
    }

    /// When it ends if nobody comes back.
    pub fn ends(&self) -> Duration {
        self.seen.saturating_add(self.ttl).min(self.born.saturating_add(AGE_MAX))
    }

    /// Why it is over, if it is.
    pub fn is_over(&self, now: Duration) -> Option<EndReason> {
        if now < self.ends() {
            return None;
        }
        let of_age = self.born.saturating_add(AGE_MAX) <= self.seen.saturating_add(self.ttl);
        Some(if of_age { EndReason::Cap } else { EndReason::Ttl })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[track_caller]
    fn check(ttl_hours: u32, visits: &[u32], now: u32, expected: Option<EndReason>) {
        let mut lease = Lease::begin(Duration::ZERO, HOUR * ttl_hours);
        for visit in visits {
            lease.refresh(HOUR * *visit);
        }
        assert_eq!(lease.is_over(HOUR * now), expected);
    }

    /// A5.
    #[test]
    fn a_visit_refreshes_the_lease_until_the_cap() {
        check(24, &[], 23, None);
        check(24, &[], 24, Some(EndReason::Ttl));
        check(24, &[23], 46, None);
        check(24, &[23], 47, Some(EndReason::Ttl));
        check(24, &[160], 167, None);
        check(24, &[160], 168, Some(EndReason::Cap));
        check(24 * 365, &[], 168, Some(EndReason::Cap));
    }

    proptest! {
        /// No refresh ends a session earlier, none keeps it beyond the cap, and it is over exactly from its end on.
        #[test]
        fn a_lease_only_grows_and_never_beyond_the_cap(
            born in 0u64..1 << 40, ttl in 1u64..1 << 40, visits in prop::collection::vec(0u64..1 << 40, 0..8), now in 0u64..1 << 41,
        ) {
            let mut lease = Lease::begin(Duration::from_micros(born), Duration::from_micros(ttl));
            for visit in visits {
                let before = lease.ends();
                lease.refresh(Duration::from_micros(visit));
                prop_assert!(lease.ends() >= before);
            }
            prop_assert!(lease.ends() <= lease.born + AGE_MAX);
            let now = Duration::from_micros(now);
            prop_assert_eq!(lease.is_over(now).is_some(), now >= lease.ends());
        }
    }
}
