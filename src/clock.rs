//! Time: the wall clock people read, and a steady one that shows when the wall clock leapt.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// Both clocks, read together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// What the calendar says.
    pub wall: Timestamp,
    /// How long the machine has been on, sleep included; nobody sets this clock.
    pub steady: Duration,
}

/// Where time comes from.
pub trait Clock: Send + Sync + 'static {
    /// The time of day. Two calls never answer the same instant. A wall clock that is set back by more than an hour
    /// is not followed: what is dated then would expire at once when the clock is set right.
    fn now(&self) -> Timestamp;
    /// Both clocks at once, as they are.
    fn reading(&self) -> Reading;
}

/// A larger difference between the two clocks means that the wall clock was set.
const LEAP_MICROS: i64 = 3_600_000_000;

/// Notices when the wall clock was set, by comparing it with the steady one.
#[derive(Debug)]
pub struct LeapWatch {
    /// Both clocks when they last agreed.
    agreed: Mutex<Reading>,
}

impl LeapWatch {
    /// Believes the clocks as they are now.
    pub fn starting(now: Reading) -> Self {
        Self { agreed: Mutex::new(now) }
    }

    /// By how many microseconds the wall clock was set since the watch began, forward when positive; `None` when it goes
    /// as it should. Small differences are taken up: clocks drift and are corrected.
    pub fn leap_micros(&self, now: Reading) -> Option<i64> {
        let mut agreed = self.agreed.lock().unwrap_or_else(PoisonError::into_inner);
        let wall = now.wall.as_microsecond() - agreed.wall.as_microsecond();
        let steady = now.steady.saturating_sub(agreed.steady).as_micros() as i64;
        let leap = wall.saturating_sub(steady);
        if leap.abs() <= LEAP_MICROS {
            *agreed = now;
            return None;
        }
        Some(leap)
    }
}

/// A step back smaller than this is smoothed over.
const SMOOTHED_MICROS: i64 = 1_000_000;

/// Makes the times that are given out from readings of the clocks.
#[derive(Debug)]
struct Times {
    watch: LeapWatch,
    last: AtomicI64,
}

impl Times {
    fn starting(now: Reading) -> Self {
        Self { watch: LeapWatch::starting(now), last: AtomicI64::new(i64::MIN) }
    }

    fn next(&self, reading: Reading) -> Timestamp {
        let set_back = self.watch.leap_micros(reading).map_or(0, |leap| leap.min(0));
        let now = reading.wall.as_microsecond() - set_back;
        let distinct = |last: i64| if now <= last && last - now < SMOOTHED_MICROS { last + 1 } else { now };
        let next = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(distinct(last)));
        from_micros(next.map_or(now, distinct))
    }
}

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock {
    times: Times,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { times: Times::starting(Reading { wall: Timestamp::now(), steady: steady() }) }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        self.times.next(self.reading())
    }

    fn reading(&self) -> Reading {
        Reading { wall: Timestamp::now(), steady: steady() }
    }
}

/// Time since the machine started. The boot clock counts sleep, so a laptop that was closed for a
/// night has not leapt.
#[cfg(target_os = "linux")]
fn steady() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

#[cfg(not(target_os = "linux"))]
fn steady() -> Duration {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed()
}

/// A clock that moves when told to, and by one microsecond at each look.
#[derive(Debug)]
pub struct ManualClock {
    wall: AtomicI64,
    steady: AtomicI64,
    times: Times,
}

impl ManualClock {
    /// Starts at this time.
    pub fn at(start: Timestamp) -> Self {
        let times = Times::starting(Reading { wall: start, steady: Duration::ZERO });
        Self { wall: AtomicI64::new(start.as_microsecond()), steady: AtomicI64::new(0), times }
    }

    /// Time passes.
    pub fn advance(&self, by: SignedDuration) {
        self.leap(by);
        self.steady.fetch_add(by.as_micros() as i64, Ordering::Relaxed);
    }

    /// Somebody sets the wall clock; no time passes.
    pub fn leap(&self, by: SignedDuration) {
        self.wall.fetch_add(by.as_micros() as i64, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        let wall = from_micros(self.wall.fetch_add(1, Ordering::Relaxed));
        self.times.next(Reading { wall, steady: self.reading().steady })
    }

    fn reading(&self) -> Reading {
        Reading {
            wall: from_micros(self.wall.load(Ordering::Relaxed)),
            steady: Duration::from_micros(self.steady.load(Ordering::Relaxed).unsigned_abs()),
        }
    }
}

/// A time as stored: microseconds since 1970. Times outside jiff's range are held at its ends.
pub fn from_micros(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(micros).unwrap_or(if micros < 0 { Timestamp::MIN } else { Timestamp::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_looks_never_show_the_same_time() {
        let clock = SystemClock::default();
        let times: Vec<_> = (0..10_000).map(|_| clock.now()).collect();
        assert!(times.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn a_wall_clock_that_is_set_back_is_not_followed() {
        let hours = SignedDuration::from_hours;
        let clock = ManualClock::at(Timestamp::UNIX_EPOCH + hours(24 * 365));
        let before = clock.now();
        clock.leap(hours(-48));
        let times = [clock.now(), clock.now()];
        assert!(before < times[0] && times[0] < times[1], "{before} {times:?}");
        clock.advance(hours(5));
        assert!(clock.now().duration_since(before).as_hours() == 5);
        assert!(clock.reading().wall < before, "a reading shows the wall clock as it is");
        clock.leap(hours(48));
        assert!(clock.now().duration_since(before).as_hours() == 5);
    }

    #[test]
    fn a_wall_clock_that_was_ahead_is_followed_back() {
        let hours = SignedDuration::from_hours;
        let clock = ManualClock::at(Timestamp::UNIX_EPOCH);
        clock.leap(hours(48));
        assert_eq!(clock.now().duration_since(Timestamp::UNIX_EPOCH).as_hours(), 48);
        clock.leap(hours(-48));
        assert_eq!(clock.now().duration_since(Timestamp::UNIX_EPOCH).as_hours(), 0);
    }
}
