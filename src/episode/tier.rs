//! Tiers: hours told together, and what lies further back than a day told as one.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::Episode;

const HOUR_SECONDS: i64 = 3600;

/// The beginning of the hour in which something was said.
pub fn hour_of(at: Timestamp) -> Timestamp {
    let begun = at.as_second().div_euclid(HOUR_SECONDS) * HOUR_SECONDS;
    Timestamp::from_second(begun).unwrap_or(Timestamp::MIN)
}

/// An hour to be told: the stretches that began in it, or nothing any more.
#[derive(Debug, Clone, PartialEq)]
pub struct Tier<'a> {
    /// When the hour began.
    pub hour: Timestamp,
    /// The stretches, in order.
    pub stretches: Vec<&'a Episode>,
}

/// The stretches of each of these hours.
pub fn tiers<'a>(hours: &[Timestamp], stretches: &'a [Episode]) -> Vec<Tier<'a>> {
    let told_in = |hour: Timestamp| {
        let mut told: Vec<&Episode> = stretches.iter().filter(|stretch| hour_of(stretch.from) == hour).collect();
        told.sort_by_key(|stretch| stretch.first);
        Tier { hour, stretches: told }
    };
    let mut hours = hours.to_vec();
    hours.sort();
    hours.dedup();
    hours.into_iter().map(told_in).collect()
}

/// The hours that have become part of the session's summary: over before `kept` ago, seen from the end of the last stretch.
/// Counted so, and not from now, the same turns always give the same summaries. The hour in which that stretch began stays, however
/// long the stretch has lasted: it may still become longer, and the hour with it.
pub fn aged(hours: &[Episode], last: &Episode, kept: Duration) -> usize {
    let kept = SignedDuration::try_from(kept).unwrap_or(SignedDuration::MAX);
    let since = last.to.saturating_sub(kept).unwrap_or(Timestamp::MIN);
    let is_over = |begun: Timestamp| begun.saturating_add(SignedDuration::from_hours(1)).is_ok_and(|end| end <= since);
    let has_aged = |hour: &&Episode| is_over(hour_of(hour.from)) && hour_of(hour.from) != hour_of(last.from);
    hours.iter().take_while(has_aged).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::episode::Level;
    use crate::id::{EpisodeId, SessionId};

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + minutes * 60).expect("within this age")
    }

    fn told(first: u64, minutes: i64) -> Episode {
        let session = SessionId::named("acme", "talk");
        let level = Level::Stretch;
        Episode {
            id: EpisodeId::beginning(session, level.as_str(), first, at(minutes)),
            session,
            level,
            first,
            last: first + 9,
            weight: 10,
            from: at(minutes),
            to: at(minutes + 1),
            summary: String::new(),
            vector: None,
            made_by: "test".into(),
            version: 1,
        }
    }

    #[test]
    fn stretches_belong_to_the_hour_they_began_in() {
        let stretches = [told(21, 59), told(1, 0), told(31, 60)];
        let told = tiers(&[at(60), at(0), at(60), at(120)], &stretches);
        let firsts = |tier: &Tier<'_>| tier.stretches.iter().map(|stretch| stretch.first).collect::<Vec<_>>();
        assert_eq!(told.iter().map(firsts).collect::<Vec<_>>(), [vec![1, 21], vec![31], vec![]]);
    }

    #[test]
    fn hours_age_by_the_conversations_own_time() {
        let hours = [told(1, 5), told(11, 65), told(21, 26 * 60)];
        let day = Duration::from_secs(24 * 3600);
        let until = |minutes: i64| Episode { to: at(minutes), ..told(31, minutes) };
        assert_eq!(aged(&hours, &until(24 * 60), day), 0);
        assert_eq!(aged(&hours, &until(25 * 60), day), 1);
        assert_eq!(aged(&hours, &until(26 * 60 + 30), day), 2);
        assert_eq!(aged(&hours, &until(26 * 60), Duration::MAX), 0);
    }

    #[test]
    fn the_hour_of_the_last_stretch_does_not_age() {
        let day = Duration::from_secs(24 * 3600);
        let slow = |first: u64, minutes: i64| Episode { to: at(minutes + 54 * 60), ..told(first, minutes) };
        assert_eq!(aged(&[slow(1, 5)], &slow(1, 5), day), 0, "it may become longer");
        assert_eq!(aged(&[slow(1, 5), slow(11, 60 * 60)], &slow(11, 60 * 60), day), 1);
    }
}
