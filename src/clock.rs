//! Time: the wall clock people read, and a steady one that shows when the wall clock leapt.

use std::sync::atomic::{AtomicI64, Ordering};
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
    /// The time of day. Two calls never answer the same instant.
    fn now(&self) -> Timestamp;
    /// Both clocks at once.
    fn reading(&self) -> Reading;
}

/// A step back smaller than this is smoothed over; a larger one is believed.
const SMOOTHED_MICROS: i64 = 1_000_000;

/// The machine's clocks.
#[derive(Debug, Default)]
pub struct SystemClock {
    last: AtomicI64,
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let wall = Timestamp::now().as_microsecond();
        let distinct = |last: i64| Some(if wall <= last && last - wall < SMOOTHED_MICROS { last + 1 } else { wall });
        let last = self
            .last
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, distinct)
            .expect("the closure never answers None");
        from_micros(distinct(last).unwrap_or(wall))
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
}

impl ManualClock {
    /// Starts at this time.
    pub fn at(start: Timestamp) -> Self {
        Self { wall: AtomicI64::new(start.as_microsecond()), steady: AtomicI64::new(0) }
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
        from_micros(self.wall.fetch_add(1, Ordering::Relaxed))
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
}
