//! Leaving a server in trouble alone, so that a hundred jobs do not each find out by themselves.

use std::time::Duration;

use jiff::Timestamp;

use super::{Failure, FailureKind};

/// The rest after the first failure in a row; each further one doubles it.
const FIRST: Duration = Duration::from_secs(15);
const LONGEST: Duration = Duration::from_secs(600);

/// Whether a server is left alone, and until when.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rest {
    failures: u32,
    until: Option<(Timestamp, FailureKind)>,
}

impl Rest {
    /// Why it is not to be asked now, if so.
    pub fn refuses(&self, now: Timestamp) -> Option<Failure> {
        let (until, kind) = self.until.filter(|(until, _)| now < *until)?;
        Some(Failure::Resting { until, kind })
    }

    /// It answered, whatever it said.
    pub fn answered(&mut self) {
        *self = Self::default();
    }

    /// It failed in a way that passes: its own word counts, else the rest grows.
    pub fn failed(&mut self, failure: &Failure, now: Timestamp) {
        let grown = FIRST.saturating_mul(2_u32.saturating_pow(self.failures)).min(LONGEST);
        let pause = failure.retry_after(now).unwrap_or(grown);
        self.failures += 1;
        self.until = Some((now.saturating_add(pause).unwrap_or(Timestamp::MAX), failure.kind()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ModelError;
    use jiff::SignedDuration;

    fn at(second: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
    }

    fn refused(retry_after: Option<&str>) -> Failure {
        let retry_after = retry_after.map(str::to_owned);
        Failure::Model(ModelError::Refused { status: 429, message: String::new(), retry_after })
    }

    #[test]
    fn rests_grow_until_there_is_an_answer() {
        let mut rest = Rest::default();
        assert_eq!(rest.refuses(at(0)), None);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            rest.failed(&refused(None), at(0));
            let until = (0..=600).find(|second| rest.refuses(at(*second)).is_none());
            pauses.push(until.expect("it ends"));
        }
        assert_eq!(pauses, [15, 30, 60, 120, 240, 480, 600, 600]);
        rest.answered();
        assert_eq!(rest.refuses(at(0)), None);
        rest.failed(&refused(Some("40")), at(0));
        assert_eq!(rest.refuses(at(39)), Some(Failure::Resting { until: at(40), kind: FailureKind::Busy }));
        assert_eq!(rest.refuses(at(40)), None);
    }
}
