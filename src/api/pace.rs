//! A lower bound on the speed of a peer, in both directions.
//!
//! A timeout between two bytes lets a trickle of one byte per timeout hold a connection for ever; a timeout for the whole
//! transfer cuts an honest slow line. So waiting uses patience up, and bytes earn it back.

use std::time::Duration;

use tokio::time::Instant;

/// Bytes that earn back one second. A peer that is slower than that uses its patience up.
const BYTES_PER_SECOND_MIN: f64 = 4096.0;

/// How much longer a peer may keep a transfer waiting.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    patience_max: Duration,
    patience: Duration,
    waiting_since: Option<Instant>,
}

impl Pace {
    pub(super) fn new(patience_max: Duration) -> Self {
        Self { patience_max, patience: patience_max, waiting_since: None }
    }

    /// The transfer now waits for the peer, unless it did already.
    pub(super) fn wait(&mut self, now: Instant) {
        self.waiting_since.get_or_insert(now);
    }

    /// Bytes moved, and the transfer does not wait any more.
    pub(super) fn advance(&mut self, bytes: usize, now: Instant) {
        let waited = self.waiting_since.take().map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let earned = Duration::from_secs_f64(bytes as f64 / BYTES_PER_SECOND_MIN);
        self.patience = self.patience.saturating_sub(waited).saturating_add(earned).min(self.patience_max);
    }

    /// When the patience ends; `None` while the transfer does not wait for the peer.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.waiting_since.map(|since| since + self.patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);
    const DAY: u64 = 86_400;

    /// For how many seconds a transfer lasts that moves `bytes` every `seconds`, up to a day.
    fn lasts(bytes: usize, seconds: u64) -> u64 {
        let start = Instant::now();
        let (mut pace, mut now) = (Pace::new(PATIENCE), start);
        loop {
            pace.wait(now);
            let deadline = pace.deadline().expect("it waits");
            now += Duration::from_secs(seconds);
            let lasted = now.min(deadline) - start;
            if now > deadline || lasted.as_secs() >= DAY {
                return lasted.as_secs();
            }
            pace.advance(bytes, now);
        }
    }

    #[test]
    fn a_trickle_ends_whatever_its_pauses() {
        assert_eq!(lasts(1, 1), 30);
        assert_eq!(lasts(1, 29), 30);
        assert_eq!(lasts(2_048, 1), 59, "half the pace lasts twice as long");
    }

    #[test]
    fn the_slowest_pace_that_is_allowed_goes_on() {
        assert!(lasts(4_096, 1) >= DAY);
        assert!(lasts(29 * 4_096, 29) >= DAY);
    }

    #[test]
    fn a_fast_beginning_buys_no_long_pause() {
        assert_eq!(lasts(100 << 20, 31), 30);
    }

    #[test]
    fn time_in_which_nobody_waits_for_the_peer_is_free() {
        let start = Instant::now();
        let mut pace = Pace::new(PATIENCE);
        pace.wait(start);
        pace.advance(1, start);
        assert_eq!(pace.deadline(), None);
        let later = start + Duration::from_secs(3_600);
        pace.wait(later);
        pace.wait(later + Duration::from_secs(1));
        assert_eq!(pace.deadline(), Some(later + PATIENCE));
    }
}
