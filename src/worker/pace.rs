//! How fast work in the background goes on: as fast as it can while nobody asks anything, else in small pieces with rests
//! between them, so that whoever asks has the machine. While turns are written that waited for the store it rests.

use std::time::{Duration, Instant};

use crate::memory::Memory;

/// While somebody asks, a rest is this many times as long as the piece of work before it.
const REST_TIMES: u32 = 3;
/// A rest is never longer: a piece may have waited for a model.
const REST_MAX: Duration = Duration::from_millis(500);
/// How often it is looked whether what waited is written, and how long it has the store to itself at most.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const CATCHING_UP_MAX: Duration = Duration::from_secs(30);

/// Pieces of work and the rests between them.
pub(super) struct Pace {
    memory: Memory,
    requests_before: u64,
    worked: Duration,
}

impl Pace {
    pub(super) fn new(memory: &Memory) -> Self {
        Self { memory: memory.clone(), requests_before: memory.meters().requests.get(), worked: Duration::ZERO }
    }

    /// Does a piece of work and remembers how long it took.
    pub(super) async fn piece<T>(&mut self, work: impl Future<Output = T>) -> T {
        let began = Instant::now();
        let done = work.await;
        self.worked = began.elapsed();
        done
    }

    /// Rests after a piece if anybody asked something since the last rest, and while what waited is written.
    pub(super) async fn rest(&mut self) {
        let began = Instant::now();
        while self.memory.parts.store.is_catching_up() && began.elapsed() < CATCHING_UP_MAX {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let requests = self.memory.meters().requests.get();
        let asked = requests != self.requests_before;
        self.requests_before = requests;
        match rest_after(self.worked, asked) {
            Duration::ZERO => tokio::task::yield_now().await,
            rest => tokio::time::sleep(rest).await,
        }
    }
}

fn rest_after(worked: Duration, asked: bool) -> Duration {
    if asked { (worked * REST_TIMES).min(REST_MAX) } else { Duration::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_rests_only_while_somebody_asks() {
        let worked = Duration::from_millis(20);
        assert_eq!(rest_after(worked, false), Duration::ZERO);
        assert_eq!(rest_after(worked, true), Duration::from_millis(60));
        assert_eq!(rest_after(Duration::from_secs(60), true), REST_MAX);
    }
}
