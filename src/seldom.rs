//! Saying in the log what happens often: once when it begins, then now and again with how often it was.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long nothing is said after something was.
const PAUSE: Duration = Duration::from_secs(60);

/// Something that is said seldom.
#[derive(Debug, Default)]
pub(crate) struct Seldom(Mutex<Said>);

#[derive(Debug, Default)]
struct Said {
    /// When, by the steady clock.
    last: Option<Duration>,
    unsaid: u64,
}

impl Seldom {
    /// It happened. If it is time to say so: how often it happened since that was said last, unsaid so far.
    pub(crate) fn happened(&self, now: Duration) -> Option<u64> {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if said.last.is_some_and(|last| now.saturating_sub(last) < PAUSE) {
            said.unsaid += 1;
            return None;
        }
        said.last = Some(now);
        Some(std::mem::take(&mut said.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_said_and_then_one_a_minute_with_the_others() {
        let seldom = Seldom::default();
        let at = |seconds: u64| seldom.happened(Duration::from_secs(seconds));
        assert_eq!([at(100), at(100), at(130), at(159)], [Some(0), None, None, None]);
        assert_eq!([at(160), at(161), at(500)], [Some(3), None, Some(1)]);
    }
}
