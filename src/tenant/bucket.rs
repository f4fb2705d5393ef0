//! Token buckets: how often is too often. Time is handed in, so a day of it takes a microsecond.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// So much in such a time; also what may come all at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// How much.
    pub amount: u64,
    /// In what time.
    pub per: Duration,
}

impl Rate {
    /// So much a minute.
    pub const fn a_minute(amount: u64) -> Self {
        Self { amount, per: Duration::from_secs(60) }
    }

    /// So much a day.
    pub const fn a_day(amount: u64) -> Self {
        Self { amount, per: Duration::from_secs(86_400) }
    }

    fn bound(self) -> f64 {
        self.amount as f64
    }

    /// How much comes in a time.
    fn over(self, time: Duration) -> f64 {
        self.bound() * time.as_secs_f64() / self.per.as_secs_f64()
    }

    /// How long so much takes to come.
    fn time_for(self, amount: f64) -> Duration {
        if self.amount == 0 {
            return self.per;
        }
        Duration::try_from_secs_f64(amount / self.bound() * self.per.as_secs_f64()).unwrap_or(self.per)
    }
}

/// Fills at a steady rate up to its bound. What is charged afterwards may leave it in debt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    rate: Rate,
    level: f64,
    /// When the level was right.
    at: Duration,
}

impl Bucket {
    /// A full one.
    pub fn full(rate: Rate, now: Duration) -> Self {
        Self { rate, level: rate.bound(), at: now }
    }

    /// Takes one, or says how long to wait for it.
    pub fn take(&mut self, now: Duration) -> Result<(), Duration> {
        self.fill(now);
        if self.level >= 1.0 {
            self.level -= 1.0;
            return Ok(());
        }
        Err(self.rate.time_for(1.0 - self.level))
    }

    /// Whether there is anything in it, or how long to wait.
    pub fn any(&mut self, now: Duration) -> Result<(), Duration> {
        self.fill(now);
        if self.level > 0.0 { Ok(()) } else { Err(self.rate.time_for(1.0 - self.level)) }
    }

    /// Takes what was used already, however much that was. A debt is never more than a whole bucket.
    pub fn charge(&mut self, amount: u64, now: Duration) {
        self.fill(now);
        self.level = (self.level - amount as f64).max(-self.rate.bound());
    }

    /// Follows a rate that somebody changed.
    fn follow(&mut self, rate: Rate, now: Duration) {
        self.fill(now);
        self.rate = rate;
        self.level = self.level.min(rate.bound());
    }

    fn fill(&mut self, now: Duration) {
        // A clock that steps back gives nothing.
        let gone = now.saturating_sub(self.at);
        self.level = (self.level + self.rate.over(gone)).min(self.rate.bound());
        self.at = self.at.max(now);
    }

    fn is_full(&self, now: Duration) -> bool {
        let mut seen = *self;
        seen.fill(now);
        seen.level >= seen.rate.bound()
    }

    /// How full it is, from 0 on; less than nothing is debt.
    fn share(&self) -> f64 {
        self.level / self.rate.bound().max(1.0)
    }
}

/// A bucket for each of many. Who has a full one again need not be remembered; beyond the bound, whoever used least is
/// forgotten first.
#[derive(Debug)]
pub struct Buckets<K> {
    held: Mutex<HashMap<K, Bucket>>,
    most: usize,
}

impl<K: Eq + Hash + Clone> Buckets<K> {
    /// Remembers so many.
    pub fn new(most: usize) -> Self {
        Self { held: Mutex::default(), most }
    }

    /// Does something with somebody's bucket, which follows the rate.
    pub fn with<T>(&self, key: &K, rate: Rate, now: Duration, work: impl FnOnce(&mut Bucket) -> T) -> T {
        let mut held = self.lock();
        if !held.contains_key(key) {
            make_room(&mut held, self.most, now);
        }
        let bucket = held.entry(key.clone()).or_insert_with(|| Bucket::full(rate, now));
        if bucket.rate != rate {
            bucket.follow(rate, now);
        }
        work(bucket)
    }

    /// Looks at somebody's bucket without remembering anybody new.
    pub fn look(&self, key: &K, now: Duration) -> Result<(), Duration> {
        match self.lock().get_mut(key) {
            Some(bucket) => {
                bucket.fill(now);
                if bucket.level >= 1.0 { Ok(()) } else { Err(bucket.rate.time_for(1.0 - bucket.level)) }
            }
            None => Ok(()),
        }
    }

    /// How many are remembered.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether nobody is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, Bucket>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn make_room<K: Eq + Hash + Clone>(held: &mut HashMap<K, Bucket>, most: usize, now: Duration) {
    if held.len() < most {
        return;
    }
    held.retain(|_, bucket| !bucket.is_full(now));
    if held.len() >= most {
        let least = held.iter().max_by(|a, b| a.1.share().total_cmp(&b.1.share())).map(|(key, _)| key.clone());
        if let Some(key) = least {
            held.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_minutes_worth_may_come_at_once_and_then_one_by_one() {
        let mut bucket = Bucket::full(Rate::a_minute(3), ms(0));
        let taken: Vec<bool> = (0..4).map(|_| bucket.take(ms(0)).is_ok()).collect();
        assert_eq!(taken, [true, true, true, false]);
        assert_eq!(bucket.take(ms(0)), Err(ms(20_000)));
        assert_eq!(bucket.take(ms(19_000)), Err(ms(1_000)));
        assert_eq!(bucket.take(ms(20_000)), Ok(()));
    }

    #[test]
    fn what_is_charged_afterwards_is_paid_back() {
        let mut bucket = Bucket::full(Rate::a_day(86_400), ms(0));
        bucket.charge(86_400 + 99, ms(0));
        assert_eq!(bucket.any(ms(0)), Err(ms(100_000)));
        assert_eq!(bucket.any(ms(100_000)), Ok(()));
        bucket.charge(u64::MAX, ms(100_000));
        assert_eq!(bucket.any(ms(100_000)), Err(ms(86_401_000)), "a day later all is forgiven");
    }

    #[test]
    fn a_rate_of_nothing_lets_nothing_through() {
        let mut bucket = Bucket::full(Rate::a_minute(0), ms(0));
        assert_eq!(bucket.take(ms(3_600_000)), Err(ms(60_000)));
    }

    #[test]
    fn a_new_rate_counts_at_once() {
        let buckets = Buckets::new(4);
        let take = |amount, now| buckets.with(&"acme", Rate::a_minute(amount), ms(now), |bucket| bucket.take(ms(now)));
        assert_eq!(take(1, 0), Ok(()));
        assert!(take(1, 0).is_err());
        assert!(take(60, 500).is_err(), "a larger rate fills faster, it does not fill at once");
        assert_eq!(take(60, 1_500), Ok(()));
        assert!(buckets.look(&"nobody", ms(0)).is_ok());
        assert_eq!(buckets.len(), 1);
    }

    #[test]
    fn who_used_least_is_forgotten_first() {
        let buckets = Buckets::new(2);
        let take =
            |who: &'static str, now| buckets.with(&who, Rate::a_minute(10), ms(now), |bucket| bucket.take(ms(now)));
        (0..10).for_each(|_| assert!(take("greedy", 0).is_ok()));
        assert!(take("modest", 0).is_ok());
        assert!(take("new", 0).is_ok());
        assert_eq!(buckets.len(), 2);
        assert!(take("greedy", 0).is_err(), "whoever is refused is not forgotten by others coming");
    }

    proptest! {
        /// In any stretch of time no more is taken than the bound and what flowed in; and whoever waits as long as they are told
        /// gets one.
        #[test]
        fn no_more_is_taken_than_flowed_in(
            amount in 1_u64..200,
            steps in proptest::collection::vec(0_u64..5_000, 1..300),
        ) {
            let rate = Rate::a_minute(amount);
            let mut bucket = Bucket::full(rate, ms(0));
            let (mut now, mut taken) = (0, 0_u64);
            for step in steps {
                now += step;
                match bucket.take(ms(now)) {
                    Ok(()) => taken += 1,
                    Err(wait) => {
                        let mut later = bucket;
                        prop_assert!(later.take(ms(now) + wait + ms(1)).is_ok());
                    }
                }
                let flowed = rate.over(ms(now));
                prop_assert!(taken as f64 <= amount as f64 + flowed + 1e-6);
            }
        }

        /// However many come, no more are remembered than the bound, and nobody gets more for it than a full bucket.
        #[test]
        fn many_are_bounded(who in proptest::collection::vec(0_u32..50, 1..300)) {
            let buckets = Buckets::new(8);
            for (n, key) in who.iter().enumerate() {
                let now = ms(n as u64);
                let _ = buckets.with(key, Rate::a_minute(5), now, |bucket| bucket.take(now));
                prop_assert!(buckets.len() <= 8);
            }
        }
    }
}
